"""One process at one moment: CPU, memory, descriptors, limits, and where it is accounted."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llmvitals.telemetry.host import proc
from llmvitals.telemetry.host.files import text_of
from llmvitals.telemetry.host.spaces import Spaces
from llmvitals.telemetry.host.table import Table
from llmvitals.telemetry.host.usage import Usage, Used

if TYPE_CHECKING:
    import psutil

_PROCFS = threading.Lock()


@dataclass(frozen=True, slots=True)
class Facts:
    """What one process shows; None is what may not be seen, or is not limited. ``space``: its network namespace."""

    pid: int
    start: int
    started: float | None
    used: Used | None
    resident: float | None
    open_files: float | None
    max_files: float | None
    cpus: frozenset[int]
    cgroup: str
    space: str


class Processes:
    """Reads the processes of engines. What is told of one moment is read once, however many ask."""

    def __init__(self, root: str, table: Table, spaces: Spaces) -> None:
        self._root = root
        self._table = table
        self._spaces = spaces
        self._usage = Usage(root)
        self._known: dict[tuple[int, int], psutil.Process] = {}
        self._read: dict[int, Facts | None] = {}
        self._t = float("-inf")

    def of(self, pid: int, t: float) -> Facts | None:
        """A process at ``t`` (unix seconds); None when it has gone, or its number belongs to another one by now."""
        if t != self._t:
            self._t = t
            self._known = {(f.pid, f.start): p for f in self._read.values() if f and (p := self._get(f)) is not None}
            self._read.clear()
            self._usage.forget(t)
        if pid not in self._read:
            self._read[pid] = self._facts(pid, t)
        return self._read[pid]

    def _get(self, facts: Facts) -> psutil.Process | None:
        return self._known.get((facts.pid, facts.start))

    def _facts(self, pid: int, t: float) -> Facts | None:
        now = self._table.current(pid)
        if now is None:
            return None
        folder = f"{self._root}/{pid}"
        resident, open_files = self._measured(pid, now.start)
        return Facts(
            pid,
            now.start,
            self._table.started(pid, now.start),
            self._usage.of(pid, now, t),
            resident,
            open_files,
            proc.max_files(text_of(f"{folder}/limits")),
            proc.allowed_cpus(text_of(f"{folder}/status")),
            text_of(f"{folder}/cgroup"),
            self._spaces.of(pid),
        )

    def _measured(self, pid: int, start: int) -> tuple[float | None, float | None]:
        """Resident bytes and open descriptors. What psutil asks the kernel by number (limits, affinity) is no good here:
        in another mount of /proc the numbers are not this process's own.
        """
        import psutil  # noqa: PLC0415 - a triage of a file needs none

        resident = open_files = None
        try:
            process = self._known.get((pid, start)) or self._known.setdefault((pid, start), self._open(pid))
            resident = float(process.memory_info().rss)
            open_files = float(process.num_fds())
        except (
            psutil.Error,
            OSError,
            ValueError,
            IndexError,
            OverflowError,
        ):  # it may not be seen, or is going: the rest stands
            pass
        return resident, open_files

    def _open(self, pid: int) -> psutil.Process:
        """psutil's view of a process under this root. It looks where its module says when the object is made."""
        import psutil  # noqa: PLC0415 - a triage of a file needs none

        with _PROCFS:
            before, psutil.PROCFS_PATH = psutil.PROCFS_PATH, self._root
            try:
                return psutil.Process(pid)
            finally:
                psutil.PROCFS_PATH = before
