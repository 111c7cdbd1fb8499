"""The texts of control groups, v1 and v2, as values. Pure functions: no text makes one fail.

Formats: cgroups(7); the kernel's admin-guide/cgroup-v2 and cgroup-v1/memory, scheduler/sched-bwc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNLIMITED = float(2**60)
"""v1 says "no limit" with the highest number of whole pages that fits; nothing real comes near this."""


@dataclass(frozen=True, slots=True)
class Paths:
    """``/proc/PID/cgroup``. ``unified``: path in v2, '' for none; ``v1``: controller to its hierarchy's name and path."""

    unified: str = ""
    v1: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def paths(text: str) -> Paths:
    """The groups that a process is in, from lines ``id:controllers:path``."""
    unified = ""
    v1: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        number, colon, rest = line.partition(":")
        names, second, path = rest.partition(":")
        if not (number.isdigit() and colon and second and path.startswith("/")):
            continue
        if number == "0" and not names:
            unified = path
        v1 |= {name: (names, path) for name in names.split(",") if name and not name.startswith("name=")}
    return Paths(unified, v1)


def count(text: str) -> float | None:
    """A file of one number; None for ``max``, -1, v1's "no limit" and what is no number."""
    word = text.strip()
    if not (word.isascii() and word.isdigit() and len(word) < 25):
        return None
    value = float(word)
    return value if value < UNLIMITED else None


def entries(text: str) -> dict[str, float]:
    """A file of lines ``key number``, as cpu.stat, memory.stat and memory.events."""
    found = {}
    for line in text.splitlines():
        key, _, word = line.partition(" ")
        value = count(word)
        if value is not None:
            found[key] = value
    return found


def quota(text: str) -> float | None:
    """Cores of v2's ``cpu.max`` (quota and period in microseconds); None when there is no limit."""
    words = text.split()
    return cores(words[0], words[1]) if len(words) == 2 else None


def cores(quota_us: str, period_us: str) -> float | None:
    """Cores of a quota per period, as v1 keeps them in ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us``."""
    held, period = count(quota_us), count(period_us)
    return held / period if held and period else None
