"""A /proc and a cgroup tree on disk, written as the kernel shows them, for readers that take the folder as an argument."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

BOOT = 1_700_000_000
TICKS = 100  # clock ticks per second, what every Linux on our machines has
HOST_NET = "net:[4026531840]"

_STATES = {"established": "01", "time_wait": "06", "close_wait": "08", "listen": "0A"}


def stat_line(pid: int, name: str, *, state="S", parent=1, flags=0x400000, cpu=(0, 0), start=0, threads=1) -> str:
    """One line of ``/proc/PID/stat``: 52 fields, those that nobody here reads being 0."""
    fields = ["0"] * 50
    fields[0], fields[1], fields[6] = state, str(parent), str(flags)
    fields[11], fields[12], fields[17], fields[19] = str(cpu[0]), str(cpu[1]), str(threads), str(start)
    return f"{pid} ({name}) {' '.join(fields)}\n"


def limits(files: int | str = 1024) -> str:
    """``/proc/PID/limits`` with this soft limit on open files."""
    head = "Limit                     Soft Limit           Hard Limit           Units     \n"
    rows = (("Max cpu time", "unlimited", "unlimited", "seconds"), ("Max open files", files, 1048576, "files"))
    return head + "".join(f"{name:<25} {soft!s:<20} {hard!s:<20} {unit:<10}\n" for name, soft, hard, unit in rows)


def hex4(address: str, port: int) -> str:
    """Address and port as ``/proc/net/tcp`` has them on a little-endian machine."""
    return "".join(f"{int(part):02X}" for part in reversed(address.split("."))) + f":{port:04X}"


def tcp(rows: Iterable[tuple[str, str, int]] = (), *, first_inode: int = 5000) -> str:
    """``/proc/net/tcp`` of rows (state, local address, local port); the inodes count up, TIME_WAIT has none."""
    lines = ["  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"]
    for i, (state, address, port) in enumerate(rows):
        peer = "00000000:0000" if state == "listen" else hex4("10.0.0.9", 443)
        inode = 0 if state == "time_wait" else first_inode + i
        lines.append(
            f"{i:4d}: {hex4(address, port)} {peer} {_STATES[state]} 00000000:00000000 00:00000000 00000000"
            f"     0        0 {inode} 1 0000000000000000 100 0 0 10 0"
        )
    return "\n".join(lines) + "\n"


@dataclass
class Tree:
    """``root`` becomes a /proc; the exporter itself is process ``own``."""

    root: Path
    own: int = 77
    nets: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.host()
        self.net(HOST_NET)
        self.process(self.own, "llmvitals")
        (self.root / "self").symlink_to(str(self.own))
        self.ports()

    def host(self, *, cpus: int = 8, boot: int = BOOT) -> None:
        """What ``/proc/stat`` says of the machine."""
        rows = "".join(f"cpu{i} 1 2 3 4 5 6 7 0 0 0\n" for i in range(cpus))
        (self.root / "stat").write_text(f"cpu  1 2 3 4 5 6 7 0 0 0\n{rows}intr 1\nbtime {boot}\nprocesses 9\n")

    def ports(self, first: int = 32768, last: int = 60999, reserved: str = "") -> None:
        """The range of ephemeral ports in the exporter's own network namespace."""
        folder = self.root / "sys/net/ipv4"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ip_local_port_range").write_text(f"{first}\t{last}\n")
        (folder / "ip_local_reserved_ports").write_text(f"{reserved}\n")

    def net(self, space: str, rows: Iterable[tuple[str, str, int]] = (), *, first_inode=5000, tcp6="", fib="") -> None:
        """A network namespace: its TCP sockets (state, address, port), its ``tcp6`` and ``fib_trie`` as they are."""
        folder = self.nets.setdefault(space, self.root / "nets" / str(len(self.nets)))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tcp").write_text(tcp(rows, first_inode=first_inode))
        (folder / "tcp6").write_text(tcp6 or tcp())
        (folder / "fib_trie").write_text(fib)

    def process(
        self,
        pid: int,
        name: str,
        *,
        parent: int = 1,
        command: Iterable[str] = (),
        start: int = 1000,
        cpu: tuple[int, int] = (0, 0),
        threads: Mapping[int, tuple[str, int]] | None = None,
        cgroup: str = "0::/\n",
        fds: Iterable[str] = (),
        net: str = HOST_NET,
        files: int | str = 1024,
        cpus: str = "0-7",
        pages: int = 1000,
        state: str = "S",
        flags: int = 0x400000,
    ) -> None:
        """Write a process; one that is there with the same number goes first. ``cpu``, ``start``: ticks; ``pages``: 4 KiB."""
        folder = self.root / str(pid)
        if folder.exists():
            shutil.rmtree(folder)
        (folder / "fd").mkdir(parents=True)
        (folder / "ns").mkdir()
        for i, target in enumerate(fds):
            (folder / "fd" / str(i)).symlink_to(target)
        (folder / "ns/net").symlink_to(net)
        (folder / "net").symlink_to(self.nets[net])
        (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))
        (folder / "cgroup").write_text(cgroup)
        (folder / "limits").write_text(limits(files))
        (folder / "status").write_text(f"Name:\t{name}\nCpus_allowed:\tff\nCpus_allowed_list:\t{cpus}\n")
        (folder / "statm").write_text(f"{2 * pages} {pages} 0 0 0 0 0\n")
        self.times(pid, name, parent=parent, start=start, cpu=cpu, threads=threads, state=state, flags=flags)

    def times(self, pid: int, name: str, *, cpu=(0, 0), threads=None, start=1000, parent=1, state="S", flags=0) -> None:
        """What a process and its threads (number to name and ticks) have used; those that are not named are gone."""
        folder = self.root / str(pid)
        own = threads if threads is not None else {pid: (name, sum(cpu))}
        line = stat_line(pid, name, parent=parent, cpu=cpu, start=start, threads=len(own), state=state, flags=flags)
        (folder / "stat").write_text(line)
        shutil.rmtree(folder / "task", ignore_errors=True)
        for tid, (called, ticks) in own.items():
            (folder / "task" / str(tid)).mkdir(parents=True)
            (folder / "task" / str(tid) / "stat").write_text(stat_line(tid, called, cpu=(ticks, 0), start=start))

    def kernel_thread(self, pid: int = 2) -> None:
        """A thread of the kernel, which only a view of the whole host shows."""
        self.process(pid, "kthreadd", parent=0, flags=0x00208040, start=0)

    def end(self, pid: int) -> None:
        """The process has gone."""
        shutil.rmtree(self.root / str(pid))


def files(root: Path, content: Mapping[str, str]) -> None:
    """Write small files under ``root``, as a cgroup tree: path to content."""
    for path, text in content.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
