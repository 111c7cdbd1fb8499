"""``python -m llmvitals`` is the command ``llmvitals``."""

from llmvitals.cli import main

if __name__ == "__main__":
    main()
