"""CPU of a process and of its threads over the last interval, from two readings."""

from __future__ import annotations

import heapq
import os
from collections.abc import Mapping
from dataclasses import dataclass

from llmvitals.telemetry.host import proc
from llmvitals.telemetry.host.files import glance, names

BUSIEST = 5
"""Threads that are shown: an API process is bound by one, and the others say what runs beside it."""
FORGET_SECONDS = 3600.0

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Used:
    """CPU in cores over an interval. ``threads``: ``name/tid`` of the busiest ones, the busiest first."""

    cores: float
    threads: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class _Reading:
    """CPU in clock ticks since the start, at ``t`` (unix seconds); ``used``: over the interval that ended there."""

    t: float
    cpu: int
    threads: Mapping[int, int]
    used: Used | None


class Usage:
    """Remembers each process' last reading. A process is told from the next one with its number by its start."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._last: dict[tuple[int, int], _Reading] = {}

    def of(self, pid: int, now: proc.Stat, t: float) -> Used | None:
        """CPU since the reading before; None at the first one. ``now``: what the process' stat says at ``t``."""
        key = (pid, now.start)
        before = self._last.get(key)
        if before is not None and t == before.t:
            return before.used
        texts = self._threads(pid)
        threads = {tid: cpu for tid, raw in texts.items() if (cpu := proc.cpu_ticks(raw)) is not None}
        used = None
        if before is not None and t > before.t:  # the clock may have been set back
            ticks = (t - before.t) * _TICKS
            grown = {tid: max(0, cpu - before.threads.get(tid, 0)) for tid, cpu in threads.items()}
            first = heapq.nsmallest(BUSIEST, grown, key=lambda tid: (-grown[tid], tid))
            # A thread runs on one CPU at a time: what is above comes of the time between two reads of the table.
            shown = tuple((f"{_name(texts[tid])}/{tid}", min(1.0, grown[tid] / ticks)) for tid in first)
            used = Used(max(0, now.cpu - before.cpu) / ticks, shown)
        self._last[key] = _Reading(t, now.cpu, threads, used)
        return used

    def forget(self, t: float) -> None:
        """Drop what was not read for an hour."""
        self._last = {key: last for key, last in self._last.items() if t - last.t < FORGET_SECONDS}

    def _threads(self, pid: int) -> dict[int, bytes]:
        """The stat of each thread. psutil reads the same files, at three times the cost and without the names."""
        found = {}
        folder = f"{self._root}/{pid}/task"
        for name in names(folder):
            try:
                found[int(name)] = glance(f"{folder}/{name}/stat")
            except (OSError, ValueError):  # it ended meanwhile
                continue
        return found


def _name(raw: bytes) -> str:
    told = proc.stat(raw)
    return told.name if told is not None else ""
