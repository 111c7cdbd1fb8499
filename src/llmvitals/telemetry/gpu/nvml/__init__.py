"""GPUs as the driver's own library shows them, in canonical families."""
