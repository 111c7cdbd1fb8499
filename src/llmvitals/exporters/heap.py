"""How glibc's allocator is to treat a process that makes large values in every cycle and keeps hardly any of them.

Left alone it gives each thread a heap of its own and moves its limit for what it maps apart up to the largest block that was
freed: pages and bodies of answers then lie within the heaps, and the gaps between them stay with the process. With one heap, and
large blocks apart, what is freed goes back (``python -m bench --only soak``).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from contextlib import suppress

_BLOCK = 64 * 1024

SETTINGS: tuple[tuple[str, int, int], ...] = (
    ("MALLOC_ARENA_MAX", -8, 1),
    ("MALLOC_MMAP_THRESHOLD_", -3, _BLOCK),
    ("MALLOC_TRIM_THRESHOLD_", -1, _BLOCK),
)
"""The variable by which somebody may have set it already, mallopt's number for it (malloc.h), the value in bytes or heaps."""


GIVEN_BACK_EVERY = 12
"""Cycles (a minute by default) between two times that free pages of memory between those in use go back; it takes some ms."""


def given_back() -> None:
    """Give free pages back to the system; nothing where the C library cannot."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


def tended(environ: Mapping[str, str] = os.environ) -> bool:
    """Set what the environment does not, and give back what start-up left over; before other threads start.

    False where the C library has no such settings (musl, macOS): nothing is changed then.
    """
    try:
        library = ctypes.CDLL(None)
        change = library.mallopt
    except (OSError, AttributeError, TypeError):
        return False
    tuned = "glibc.malloc." in environ.get("GLIBC_TUNABLES", "")
    for variable, parameter, value in SETTINGS:
        if not tuned and variable not in environ:
            change(parameter, value)
    given_back()
    return True
