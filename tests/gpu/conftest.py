"""These tests load a GPU, so they run only when they are asked for: `make test-gpu`."""

import os

collect_ignore_glob = [] if os.environ.get("LLMVITALS_GPU") else ["test_*.py"]
