"""The ``/proc`` and control-group files of the simulated machine at one moment, as the kernel writes them.

Formats: proc(5) and the kernel's "Control Group v2". A tree is two maps, of files and of symbolic links, both by path under the
mount point; who writes it to a folder need only write what changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from llmvitals.simulator import node
from llmvitals.simulator.host_families import Meter
from llmvitals.simulator.node import Task
from llmvitals.simulator.setup import Gateway
from llmvitals.simulator.world import World

TICKS = 100
"""Clock ticks a second (USER_HZ), which Linux has fixed at 100 for user space."""
PAGE = 4096
KERNEL_THREAD = 2_129_984
"""Flags of a thread of the kernel's own, PF_KTHREAD among them."""
BOOTED = 40 * 86_400.0
"""How long before simulated time 0 the machine was booted (seconds)."""
FIRST_PORT = 32_768
PERIOD_SECONDS = 0.1
"""The kernel's default period of a CPU quota."""
NET_NS, ALL_CPUS = "net:[4026531840]", f"0-{node.CPUS - 1}"

ESTABLISHED, TIME_WAIT, CLOSE_WAIT, LISTEN = "01", "06", "08", "0A"
"""States as ``/proc/net/tcp`` has them (include/net/tcp_states.h)."""

TCP_HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


@dataclass(frozen=True, slots=True)
class Tree:
    """``files``: text by path; ``links``: target by path. Paths are relative, ``123/stat``."""

    files: Mapping[str, str]
    links: Mapping[str, str]


def trees(world: World, meter: Meter, origin: float, tasks: tuple[Task, ...]) -> tuple[Tree, Tree]:
    """``/proc`` and ``/sys/fs/cgroup`` now; ``origin``: unix time of simulated time 0."""
    files = dict(_machine(world, origin))
    links: dict[str, str] = {}
    table, inodes = _sockets(world, tasks)
    files["1/net/tcp"], files["1/net/tcp6"] = table, TCP_HEAD
    links["self"] = str(node.EXPORTER_PID)
    for task in tasks:
        files |= _process(task, origin)
        links |= _links(task, inodes.get(task.pid, ()))
    return Tree(files, links), Tree(dict(_groups(world, meter, tasks)), {})


# -- the machine ------------------------------------------------------------------------------------------------------
def _machine(world: World, origin: float) -> Iterator[tuple[str, str]]:
    last = FIRST_PORT + (world.setup.gateway or Gateway()).ephemeral_ports - 1
    cpus = "".join(f"cpu{number} 0 0 0 0 0 0 0 0 0 0\n" for number in range(node.CPUS))
    yield "stat", f"cpu  0 0 0 0 0 0 0 0 0 0\n{cpus}btime {_booted(origin)}\nprocesses 90000\n"
    yield "sys/net/ipv4/ip_local_port_range", f"{FIRST_PORT}\t{last}\n"
    yield "sys/net/ipv4/ip_local_reserved_ports", "\n"


def _booted(origin: float) -> int:
    return math.floor(origin - BOOTED)


# -- processes --------------------------------------------------------------------------------------------------------
def _process(task: Task, origin: float) -> dict[str, str]:
    """The files of a process and of its threads."""
    began = round((origin + task.started - _booted(origin)) * TICKS)
    first = str(task.pid)
    files = {
        f"{first}/cmdline": "".join(f"{word}\0" for word in task.command),
        f"{first}/cgroup": f"0::{task.group}\n",
        f"{first}/stat": _stat(task.pid, task.name, task, task.cpu, began),
        f"{first}/statm": f"{task.resident // PAGE * 3} {task.resident // PAGE} 4000 800 0 9000 0\n",
        f"{first}/status": _status(task.pid, task.parent, task.name, len(task.threads), task.resident // 1024),
        f"{first}/limits": _limits(task.max_fds),
    }
    for number, thread in enumerate(task.threads):
        folder = f"{first}/task/{task.pid + number}"
        files[f"{folder}/stat"] = _stat(task.pid + number, thread.name, task, thread.cpu, began)
    return files


def _stat(pid: int, name: str, task: Task, cpu: float, began: int) -> str:
    """proc_pid_stat(5): 52 fields; of the CPU a tenth is the kernel's."""
    ticks = math.floor(cpu * TICKS + 1e-6)
    flags = KERNEL_THREAD if task.pid == node.KERNEL_PID else 4_194_560
    return (
        f"{pid} ({name}) S {task.parent} {task.pid} {task.pid} 0 -1 {flags} 90000 0 12 0 "
        f"{ticks - ticks // 10} {ticks // 10} 0 0 20 0 {len(task.threads)} 0 {began} "
        f"{task.resident * 3} {task.resident // PAGE} 18446744073709551615 1 1 0 0 0 0 0 16781312 134235750 0 0 0 17 3 0 0 "
        f"0 0 0 0 0 0 0 0 0 0\n"
    )


@lru_cache(maxsize=512)
def _status(pid: int, parent: int, name: str, threads: int, kilobytes: int) -> str:
    return (
        f"Name:\t{name}\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t{pid}\nNgid:\t0\nPid:\t{pid}\nPPid:\t{parent}\n"
        f"TracerPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t256\nNStgid:\t{pid}\nNSpid:\t{pid}\n"
        f"VmPeak:\t{kilobytes * 3} kB\nVmSize:\t{kilobytes * 3} kB\nVmHWM:\t{kilobytes} kB\nVmRSS:\t{kilobytes} kB\n"
        f"Threads:\t{threads}\nCpus_allowed:\t{'f' * 16}\nCpus_allowed_list:\t{ALL_CPUS}\n"
        "voluntary_ctxt_switches:\t9000\nnonvoluntary_ctxt_switches:\t40\n"
    )


@lru_cache(maxsize=64)
def _limits(fds: int) -> str:
    rows = (
        ("Limit", "Soft Limit", "Hard Limit", "Units"),
        ("Max cpu time", "unlimited", "unlimited", "seconds"),
        ("Max processes", "unlimited", "unlimited", "processes"),
        ("Max open files", str(fds), str(max(fds, 1_048_576)), "files"),
        ("Max locked memory", "unlimited", "unlimited", "bytes"),
    )
    return "".join(f"{what:<26}{soft:<21}{hard:<21}{unit:<10}\n" for what, soft, hard, unit in rows)


def _links(task: Task, sockets: tuple[int, ...]) -> dict[str, str]:
    """Descriptors, sockets last, and the namespace of the network, which all share."""
    plain = max(0, task.fds - len(sockets))
    links = {f"{task.pid}/fd/{number}": "/dev/null" for number in range(plain)}
    links |= {f"{task.pid}/fd/{plain + at}": f"socket:[{inode}]" for at, inode in enumerate(sockets)}
    links[f"{task.pid}/ns/net"] = NET_NS
    if task.pid != 1:
        links[f"{task.pid}/net"] = "../1/net"
    return links


# -- sockets ----------------------------------------------------------------------------------------------------------
LISTENER, FIRST_INODE = 700_001, 1_000_000
"""Inodes: of the socket that listens, and of the first connection."""


def _sockets(world: World, tasks: tuple[Task, ...]) -> tuple[str, dict[int, tuple[int, ...]]]:
    """The table of TCP sockets, and which inodes each process holds.

    A connection of the gateway has its two ends on this machine; without a gateway, clients are elsewhere and so are their
    ports. A descriptor that nobody closed is a socket in CLOSE_WAIT, its client being gone.
    """
    gateway, front, host = world.gateway, world.front, world.setup.host
    calls = len(front.calls)
    lines: list[str] = []
    own: list[int] = []
    if world.up:
        lines.append(_line("00000000", node.PORT, "00000000", 0, LISTEN, LISTENER))
        own.append(LISTENER)
        leaked = max(0, front.open_fds - host.fds_before - calls)
        for number in range(calls):
            peer = (_HERE, FIRST_PORT + number) if gateway is not None else (_CLIENTS, 20_000 + number)
            lines.append(_line(_HERE, node.PORT, *peer, ESTABLISHED, FIRST_INODE + number))
        lines += [
            _line(_HERE, node.PORT, _CLIENTS, 1024 + number % 60_000, CLOSE_WAIT, FIRST_INODE + calls + number)
            for number in range(leaked)
        ]
        own += range(FIRST_INODE, FIRST_INODE + calls + leaked)
    fronts = [task.pid for task in tasks if task.serves]
    held = {pid: tuple(own) if pid == fronts[0] else (LISTENER,) for pid in fronts}
    busy = gateway.ports_used - gateway.quiet_ports - gateway.foreign_ports if gateway is not None else 0
    waiting = gateway.time_wait if gateway is not None else 0
    kept = gateway.quiet_ports - waiting if gateway is not None else 0
    foreign = gateway.foreign_ports if gateway is not None else world.setup.faults.foreign_ports
    port = FIRST_PORT
    for number, state, peer_port in (
        (busy + kept, ESTABLISHED, node.PORT),
        (waiting, TIME_WAIT, node.PORT),
        (foreign, ESTABLISHED, 5432),
    ):
        lines += [_line(_HERE, at, _HERE, peer_port, state, 0) for at in range(port, port + number)]
        port += number
    return TCP_HEAD + "".join(lines), held


def _address(text: str) -> str:
    """An IPv4 address as the table has it: the word in the machine's own (little-endian) order of bytes."""
    return "".join(f"{int(part):02X}" for part in reversed(text.split(".")))


_HERE, _CLIENTS = _address(node.ADDRESS), _address("10.0.9.12")


@lru_cache(maxsize=65_536)
def _line(local: str, port: int, remote: str, remote_port: int, state: str, inode: int) -> str:
    row = (
        f"{0:4d}: {local}:{port:04X} {remote}:{remote_port:04X} {state} 00000000:00000000 00:00000000 00000000     0        0"
        f" {inode} 1 0000000000000000 20 4 30 10 -1"
    )
    return f"{row:<149}\n"


# -- control groups ---------------------------------------------------------------------------------------------------
def _groups(world: World, meter: Meter, tasks: tuple[Task, ...]) -> Iterator[tuple[str, str]]:
    """The files of the engine's container, and of the API process' own group where it has one."""
    yield "cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n"
    if not node.alive(world):
        return
    setup, where = world.setup, node.place(world)
    members = [task for task in tasks if task.pid >= node.FIRST_PID]
    whole = where.group.lstrip("/")
    cpu, resident = sum(task.cpu for task in members), sum(task.resident for task in members)
    age = world.now - members[0].started
    yield from _group(whole, cpu, setup.host.cpu_limit_cores, age, 0.0, resident)
    api = node.api_group(world, where).lstrip("/")
    if api != whole:
        fronts = [task for task in members if f"/{api}" == task.group]
        cores = setup.front.cores * setup.front.processes
        cpu, resident = sum(task.cpu for task in fronts), sum(task.resident for task in fronts)
        yield from _group(api, cpu, cores, age, meter.throttled, resident)


def _group(
    path: str, cpu: float, cores: float, age: float, throttled: float, resident: int
) -> Iterator[tuple[str, str]]:
    periods = int(age / PERIOD_SECONDS)
    held = min(periods, math.ceil(throttled / PERIOD_SECONDS))
    yield f"{path}/cpu.max", f"{round(cores * PERIOD_SECONDS * 1e6)} {round(PERIOD_SECONDS * 1e6)}\n"
    yield (
        f"{path}/cpu.stat",
        f"usage_usec {cpu * 1e6:.0f}\nuser_usec {cpu * 9e5:.0f}\nsystem_usec {cpu * 1e5:.0f}\n"
        f"nr_periods {periods}\nnr_throttled {held}\nthrottled_usec {throttled * 1e6:.0f}\nnr_bursts 0\nburst_usec 0\n",
    )
    yield f"{path}/memory.current", f"{resident + 600 * node.MIB}\n"
    yield f"{path}/memory.max", f"{64 * 1024 * node.MIB}\n"
    yield (
        f"{path}/memory.stat",
        f"anon {resident}\nfile {600 * node.MIB}\ninactive_file {600 * node.MIB}\nactive_file 0\n",
    )
    yield f"{path}/memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n"
    yield f"{path}/cpuset.cpus.effective", f"{ALL_CPUS}\n"
