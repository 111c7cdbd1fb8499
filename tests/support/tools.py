"""Where the programs are that some tests drive."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def tool(name: str) -> str | None:
    """The path of a program: in the environment that runs the tests, else on the PATH; None where it is in neither."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def needed(name: str) -> str:
    """As :func:`tool`, for a test that is marked to need it."""
    found = tool(name)
    assert found is not None, f"{name} is absent; the marker of this test should have left it out"
    return found
