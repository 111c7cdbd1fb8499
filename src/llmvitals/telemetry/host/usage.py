"""CPU of a process and of its threads over the last interval, from two readings."""

from __future__ import annotations

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
        if before is not None and t <= before.t:
            return before.used
        called, threads = self._threads(pid)
        used = None
        if before is not None:
            ticks = (t - before.t) * _TICKS
            grown = {tid: max(0, cpu - before.threads.get(tid, 0)) for tid, cpu in threads.items()}
            first = sorted(grown, key=lambda tid: (-grown[tid], tid))[:BUSIEST]
            # A thread runs on one CPU at a time: what is above comes of the time between two reads of the table.
            shown = tuple((f"{called[tid]}/{tid}", min(1.0, grown[tid] / ticks)) for tid in first)
            used = Used(max(0, now.cpu - before.cpu) / ticks, shown)
        self._last[key] = _Reading(t, now.cpu, threads, used)
        return used

    def forget(self, t: float) -> None:
        """Drop what was not read for an hour."""
        self._last = {key: last for key, last in self._last.items() if t - last.t < FORGET_SECONDS}

    def _threads(self, pid: int) -> tuple[dict[int, str], dict[int, int]]:
        """Name and CPU in ticks of each thread. psutil reads the same files, at three times the cost and without names."""
        called: dict[int, str] = {}
        ticks: dict[int, int] = {}
        folder = f"{self._root}/{pid}/task"
        for name in names(folder):
            try:
                told = proc.stat(glance(f"{folder}/{name}/stat"))
            except OSError:  # it ended meanwhile
                continue
            if told is not None and name.isascii() and name.isdigit():
                called[int(name)], ticks[int(name)] = told.name, told.cpu
        return called, ticks
