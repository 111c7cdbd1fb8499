"""From what the processes of one engine show to the samples of the families ``llm_host_*``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from llmvitals.gaps import GapKind, family_gap
from llmvitals.series import Series, series
from llmvitals.telemetry.host import cgroups
from llmvitals.telemetry.host.cgroups import Cgroups, Group
from llmvitals.telemetry.host.facts import Facts
from llmvitals.telemetry.host.files import AS_ROOT, HOST_CGROUPS
from llmvitals.telemetry.host.sockets import Ports
from llmvitals.telemetry.host.spaces import Spaces
from llmvitals.telemetry.host.usage import BUSIEST

Sample = tuple[Series, float]

_CPU = tuple(f"llm_host_{name}_cores" for name in ("cpu", "busiest_thread", "thread"))
_PORTS = ("llm_host_ephemeral_ports", "llm_host_ephemeral_ports_used")
_UNSUPPORTED, _SHORT, _MISSING = GapKind.UNSUPPORTED, GapKind.TOO_SHORT, GapKind.MISSING

NOT_FOUND = f"the control group of its processes is not in the tree that can be seen: {HOST_CGROUPS}"
OTHER_SPACE = (
    "its processes have a network namespace of their own, and the range of its ports can be read from inside it alone: "
    "run the exporter in its pod, or with hostNetwork: true beside engines that have it"
)


def of_processes(process: str, all_of_it: Sequence[Facts], groups: Cgroups, online: frozenset[int]) -> Iterator[Sample]:
    """The numbers of the processes of one kind (``api`` or ``engine``), together."""
    yield from _cpu(process, all_of_it)
    yield from _limits(process, all_of_it, groups, online)
    yield from _files(process, all_of_it)
    yield from _sum("llm_host_resident_bytes", process, [f.resident for f in all_of_it])
    started = [f.started for f in all_of_it if f.started is not None]
    if started:  # the first of them: what was added later (a worker that was replaced) did not start the engine
        yield series("llm_host_process_start_time_seconds", process=process), min(started)


def _cpu(process: str, all_of_it: Sequence[Facts]) -> Iterator[Sample]:
    used = [f.used for f in all_of_it if f.used is not None]
    if len(used) < len(all_of_it):  # the sum of some would look like the sum of all
        yield from ((family_gap(name, _SHORT, "CPU over an interval needs a second reading"), 1.0) for name in _CPU)
        return
    yield series(_CPU[0], process=process), sum(u.cores for u in used)
    threads = sorted((thread for u in used for thread in u.threads), key=lambda thread: -thread[1])[:BUSIEST]
    if threads:
        yield series(_CPU[1], process=process), threads[0][1]
    yield from ((series(_CPU[2], process=process, thread=name), cores) for name, cores in threads)


def _limits(process: str, all_of_it: Sequence[Facts], groups: Cgroups, online: frozenset[int]) -> Iterator[Sample]:
    cpus = frozenset[int]().union(*(f.cpus for f in all_of_it))
    here = len(cpus & online or cpus)
    found = [groups.group(text) for text in dict.fromkeys(f.cgroup for f in all_of_it)]
    quotas = [quota for group in found if (quota := cgroups.cpu_quota(group)) is not None]
    if here or quotas:
        yield series("llm_host_cpu_limit_cores", process=process), min([*quotas, *([float(here)] if here else [])])
    if all(group.cpu for group in found):
        held = max(map(cgroups.throttled_seconds, found))
        yield series("llm_host_cpu_throttled_seconds_total", process=process), held
    else:
        yield family_gap("llm_host_cpu_throttled_seconds_total", _UNSUPPORTED, NOT_FOUND), 1.0


def _files(process: str, all_of_it: Sequence[Facts]) -> Iterator[Sample]:
    """Descriptors of the process that is nearest to its limit."""
    both = [(f.open_files, f.max_files) for f in all_of_it if f.open_files is not None and f.max_files]
    if both:
        used, most = max(both, key=lambda pair: pair[0] / pair[1])
        yield series("llm_host_open_fds", process=process), used
        yield series("llm_host_max_fds", process=process), most
        return
    yield family_gap("llm_host_open_fds", _UNSUPPORTED, f"its open files cannot be seen: {AS_ROOT}"), 1.0
    limits = [f.max_files for f in all_of_it if f.max_files]
    if limits:
        yield series("llm_host_max_fds", process=process), min(limits)


def _sum(family: str, process: str, values: Sequence[float | None]) -> Iterator[Sample]:
    known = [value for value in values if value is not None]
    if known and len(known) == len(values):
        yield series(family, process=process), sum(known)
    else:
        yield family_gap(family, _MISSING, "a process of it ended while it was read"), 1.0


def of_container(group: Group) -> Iterator[Sample]:
    """Memory of the group that the engine's processes are in."""
    used, limit = cgroups.memory_used(group), cgroups.memory_limit(group)
    if group.rooted and limit is None:
        reason: str | None = "its processes are in no control group of their own"
    else:
        reason = None if group.memory else NOT_FOUND
    if used is not None and reason is None:
        yield series("llm_host_memory_bytes"), used
    else:
        yield (
            family_gap("llm_host_memory_bytes", _UNSUPPORTED, reason or "its control group does not count memory"),
            1.0,
        )
    if limit is not None:
        yield series("llm_host_memory_limit_bytes"), limit
    else:
        why = reason or "no limit is set: it may take what the host has"
        yield family_gap("llm_host_memory_limit_bytes", _UNSUPPORTED, why), 1.0


def of_network(everything: Iterable[Facts], spaces: Spaces, own: str) -> Iterator[Sample]:
    """TCP sockets by state, and ephemeral ports, of the network namespace that the processes are in.

    A port is in use when a socket that does not listen has it. One local port serves connections to different peers at once, so
    that a range is used up at the earliest when all its ports are in use, for one peer.
    """
    first = {f.space: f.pid for f in everything}
    told = {space: found for space, pid in first.items() if (found := spaces.sockets(space, pid)) is not None}
    if not told:
        yield family_gap("llm_host_sockets", _UNSUPPORTED, f"its sockets cannot be seen: {AS_ROOT}"), 1.0
    else:
        for state in next(iter(told.values())).states:
            yield series("llm_host_sockets", state=state), float(sum(s.states[state] for s in told.values()))
    ports = spaces.ephemeral() if own and set(told) == {own} else Ports()
    if ports:
        yield series(_PORTS[0]), float(len(ports))
        yield series(_PORTS[1]), float(ports.used(told[own].ports))
    else:
        seen = bool(own) and "" not in first
        why = OTHER_SPACE if seen else f"its network namespace cannot be seen: {AS_ROOT}"
        yield from ((family_gap(name, _UNSUPPORTED, why), 1.0) for name in _PORTS)
