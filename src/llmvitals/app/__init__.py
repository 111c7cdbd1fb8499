"""What the pages in ``app/`` show: answers of a source, choices, and runbooks. The pages only lay it out."""
