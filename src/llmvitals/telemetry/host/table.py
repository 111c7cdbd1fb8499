"""The process table: read once per process, then only looked at, so that a host of thousands costs little."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from llmvitals.errors import LlmvitalsError
from llmvitals.telemetry.host import proc
from llmvitals.telemetry.host.files import HOST_PROCESSES, glance, link, names, read, text_of
from llmvitals.telemetry.identity.cgroup import owners
from llmvitals.telemetry.identity.model import Process

YOUNG_SECONDS = 60.0
"""A process as young as this may not be what it will be: a container's runtime still moves and replaces it."""
AGAIN_SECONDS = 60.0
"""How long what is known of a process is believed; a shell script may become an engine after a long download."""
SPREAD = 61

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one process. ``mark`` changes when its number goes to another one; ``start``: ticks since boot.

    ``process`` is None for what can be no engine: kernel threads and the dead. ``again``: when to look again, and ``whole``
    whether all of it; else its name tells whether it became another program.
    """

    mark: tuple[int, int]
    start: int
    again: float
    process: Process | None
    kernel: bool = False
    whole: bool = False


class Table:
    """The processes under ``root`` (``/proc`` or where the host's is mounted)."""

    def __init__(self, root: str, clock: Callable[[], float] = time.time) -> None:
        self.root = root
        self.host = False
        self._clock = clock
        self._boot: float | None = None
        self._entries: dict[int, Entry] = {}

    @property
    def own(self) -> int:
        """The number that this process has in the table, 0 when it is not there."""
        told = link(f"{self.root}/self")
        return int(told) if told.isascii() and told.isdigit() else 0

    def scan(self) -> dict[int, Process]:
        """All processes that may be an engine's: not the kernel's, not the dead, not our own.

        Raises :class:`LlmvitalsError` when this is no process table at all.
        """
        now, own, known = self._clock(), self.own, self._entries
        if self._boot is None:
            self._boot = proc.boot_time(text_of(f"{self.root}/stat"))
            if self._boot is None:
                raise self._no_table("does not hold the processes of a Linux host")
        self._entries = {
            pid: found for pid in _pids(names(self.root)) if (found := self._look(pid, known.get(pid), now))
        }
        self.host = any(entry.kernel for entry in self._entries.values())
        return {pid: e.process for pid, e in self._entries.items() if e.process is not None and pid != own}

    def current(self, pid: int) -> proc.Stat | None:
        """A process as it is now, None when it has gone, died, or its number belongs to another one."""
        try:
            told = proc.stat(glance(f"{self.root}/{pid}/stat"))
        except OSError:
            told = None
        if told is None or not told.alive:
            return None
        entry = self._entries.get(pid)
        return told if entry is None or entry.start == told.start else None

    def started(self, pid: int, start: int) -> float | None:
        """Unix seconds at which a process started. The host's boot is read once: it moves when the clock is set."""
        entry = self._entries.get(pid)
        if entry is not None and entry.start == start and entry.process is not None:
            return entry.process.started
        if self._boot is None:
            self._boot = proc.boot_time(text_of(f"{self.root}/stat"))
        return None if self._boot is None else self._boot + start / _TICKS

    def _look(self, pid: int, known: Entry | None, now: float) -> Entry | None:
        try:
            seen = os.stat(f"{self.root}/{pid}")  # noqa: PTH116 - pathlib takes several times as long
        except OSError:
            return None
        mark = (seen.st_ino, seen.st_mtime_ns)
        if known is not None and known.mark == mark and (known.kernel or now < known.again):
            return known
        try:
            told = proc.stat(glance(f"{self.root}/{pid}/stat"))
        except OSError:
            told = None
        if told is None:
            return None
        if told.kernel or not told.alive:
            return Entry(mark, told.start, now, None, told.kernel)
        before = known.process if known is not None and known.start == told.start else None
        again = now + AGAIN_SECONDS * (0.5 + pid % SPREAD / SPREAD)
        same = before is not None and (before.name, before.parent) == (told.name, told.parent)
        if known is not None and same and not known.whole:
            return Entry(mark, known.start, again, known.process)  # replace() takes several times as long
        started = before.started if before is not None else (self._boot or 0.0) + told.start / _TICKS
        young = now - started < YOUNG_SECONDS
        process = self._process(pid, told, started)
        return Entry(mark, told.start, now if young else again, before if before == process else process, whole=young)

    def _process(self, pid: int, told: proc.Stat, started: float) -> Process:
        try:
            command = proc.command(read(f"{self.root}/{pid}/cmdline"))
        except OSError:
            command = ()
        container, pod = owners(text_of(f"{self.root}/{pid}/cgroup"))
        return Process(pid, told.parent, started, told.name, command, container, pod)

    def refresh(self, pids: frozenset[int]) -> None:
        """Read these anew at the next scan: what an engine's process is matters more than the effort."""
        for pid in pids & self._entries.keys():
            self._entries[pid] = replace(self._entries[pid], again=0.0, whole=True)

    def _no_table(self, thing: str) -> LlmvitalsError:
        return LlmvitalsError(thing, place=self.root, remedy=f"Run on Linux; in a container, {HOST_PROCESSES}.")


def _pids(found: list[str]) -> list[int]:
    return [int(name) for name in found if name.isascii() and name.isdigit()]
