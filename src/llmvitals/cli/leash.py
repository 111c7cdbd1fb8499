"""Run as a script, PARENT ARGUMENT...: becomes the Python command of these arguments, which ends when its parent does.

However the parent ends: a kill leaves it no time to end its children. Linux alone can say so; elsewhere the child is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # linux/prctl.h; it holds through an exec


def main(parent: int, arguments: Sequence[str]) -> None:
    """Ask for SIGTERM at the parent's death, then become the command; nothing is started for a parent that is gone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == parent:
        os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
