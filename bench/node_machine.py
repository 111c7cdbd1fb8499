"""The machine under 8 engines, made on disk: a /proc of 2,000 processes, control groups, and a driver of 8 GPUs.

Trees and driver are made of what the tests have for it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pynvml

from bench.node_pages import GPUS, uuid

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support.nvml.double import COMPILERS, H200, LOADED, Double, build
from support.procfs import Tree, files, stat_line

PROCESSES = 2000
KERNEL_THREADS = 1200
THREADS = {"api": 60, "engine": 120}  # of one engine on a host of many cores
BUSY_THREADS = 8
DESCRIPTORS = 150
SOCKETS = 1500
FIRST_PID = 20_000
_GIB = 1 << 30


class Host:
    """``/proc`` and ``/sys/fs/cgroup`` under ``root``; an engine is an API process and a child on a GPU, in a container."""

    def __init__(self, root: Path, ports: Sequence[int]) -> None:
        self.tree = Tree(root / "proc")
        self.cgroups = root / "cgroup"
        self.pids = [(FIRST_PID + 1000 * n, FIRST_PID + 1000 * n + 500) for n in range(GPUS)]
        self._ticks = 0
        self._rest = list(range(100_000, 100_000 + PROCESSES - KERNEL_THREADS - 2 * GPUS))
        rows = [("listen", "0.0.0.0", port) for port in ports]
        rows += [(("established", "time_wait")[n % 2], "127.0.0.1", 33_000 + n % 900) for n in range(SOCKETS)]
        self.tree.net("net:[4026531840]", rows)
        for pid in range(2, 2 + KERNEL_THREADS):
            if pid != self.tree.own:
                self.tree.process(pid, f"kworker/{pid}", parent=0 if pid == 2 else 2, flags=0x00208040)
        for pid in self._rest:
            self._bystander(pid)
        files(self.cgroups, {"cgroup.controllers": "cpu memory\n"})
        for number, (api, engine) in enumerate(self.pids):
            self._engine(number, api, engine, ports[number])

    def _bystander(self, pid: int) -> None:
        group = f"0::/system.slice/service-{pid % 40}.service\n"
        self.tree.process(
            pid, "worker", command=("/usr/bin/worker", f"--number={pid}"), cgroup=group, fds=["/dev/null"]
        )

    def _engine(self, number: int, api: int, engine: int, port: int) -> None:
        group = f"/system.slice/docker-{number:064x}.scope"
        limits = {"cpu.max": "max 100000\n", "cpu.stat": "usage_usec 1\nnr_throttled 0\nthrottled_usec 0\n"}
        memory = {
            "memory.current": f"{48 * _GIB}\n",
            "memory.max": f"{128 * _GIB}\n",
            "memory.stat": "".join(
                f"{name} 4096\n" for name in ("anon", "file", "kernel", "inactive_file", "active_file")
            ),
            "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
        }
        files(self.cgroups / group[1:], {**limits, **memory})
        own = {"cgroup": f"0::{group}\n", "pages": 1_000_000, "files": 65_536}
        sockets = [f"socket:[{5000 + number}]", *(f"anon_inode:[eventfd{n}]" for n in range(DESCRIPTORS))]
        command = ("/usr/bin/python3", "/usr/local/bin/vllm", "serve", "made/model", "--port", str(port))
        threads = {kind: self._threads(pid, kind) for kind, pid in (("api", api), ("engine", engine))}
        self.tree.process(api, "vllm", command=command, fds=sockets, threads=threads["api"], **own)
        title = ("VLLM::EngineCore",)
        self.tree.process(
            engine, "VLLM::EngineCor", parent=api, command=title, fds=sockets[1:], threads=threads["engine"], **own
        )

    def _threads(self, pid: int, kind: str) -> dict[int, tuple[str, int]]:
        return {pid + n: ("python3", 0) for n in range(THREADS[kind])}

    def pass_time(self, seconds: float) -> None:
        """Engines work, and of the other processes one ends and one begins."""
        self._ticks += int(seconds * 50)
        for pair in self.pids:
            for pid, name, parent in ((pair[0], "vllm", 1), (pair[1], "VLLM::EngineCor", pair[0])):
                folder, own = self.tree.root / str(pid), {"start": 1000, "cpu": (self._ticks, 0)}
                (folder / "stat").write_text(stat_line(pid, name, parent=parent, **own))
                for tid in range(pid, pid + BUSY_THREADS):
                    (folder / "task" / str(tid) / "stat").write_text(stat_line(tid, "python3", **own))
        self.tree.end(self._rest.pop(0))
        self._rest.append(self._rest[-1] + 1)
        self._bystander(self._rest[-1])


def missing() -> str:
    """What the driver's double needs and this machine lacks; '' for nothing."""
    return "" if any(map(shutil.which, COMPILERS)) else "the driver's double needs a C compiler (Debian: g++)"


class Driver:
    """8 busy cards behind the real pynvml, the n-th engine's second process on the n-th of them. Compiled into ``folder``."""

    def __init__(self, folder: Path, pids: Sequence[int]) -> None:
        self.double = Double(build(folder))
        pynvml.nvmlLib = self.double.library
        self.double.cards(*({**H200, **LOADED, "uuid": uuid(index)} for index in range(GPUS)))
        for index, pid in enumerate(pids):
            self.double.put(index, {"memory.used": 129_600 * 2.0**20})
            self.double.processes(index, "compute", [(pid, 129_500 * 2.0**20)])

    def pass_time(self, seconds: float) -> None:
        """Counters run on, power and clocks move."""
        self.double.pass_time(seconds)
        step = self.double.moment // seconds % 7
        for index in range(GPUS):
            self.double.put(index, {"power": 600_000 + 5_000 * step, "clock.sm": 1700 + 15 * step})

    def twice(self) -> dict[str, int]:
        """Calls that were made more than once with the same arguments since the last time this was asked."""
        made_for_each = ("nvmlEventSetCreate", "nvmlGpmSampleAlloc")  # they take no card
        return {c: n for c, n in self.double.calls().items() if n > 1 and not c.startswith(made_for_each)}
