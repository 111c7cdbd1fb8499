"""The host under the engines: who runs and listens, and what the processes of an engine use of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from llmvitals.gaps import GapKind, family_gap
from llmvitals.series import Series, series
from llmvitals.telemetry.host import proc, shown
from llmvitals.telemetry.host.cgroups import Cgroups, oom_kills
from llmvitals.telemetry.host.facts import Facts
from llmvitals.telemetry.host.facts import Processes as Reading
from llmvitals.telemetry.host.files import AS_ROOT, HOST_PROCESSES, text_of
from llmvitals.telemetry.host.holders import Holders
from llmvitals.telemetry.host.restarts import Restarts
from llmvitals.telemetry.host.spaces import Spaces
from llmvitals.telemetry.host.table import Table
from llmvitals.telemetry.identity.model import Found, Listener, Processes


class HostReader:
    """Reads ``procfs`` and ``cgroups``: the host's own, or where they are mounted into a container.

    In another mount of /proc all numbers of processes are that mount's. One thread at a time may use a reader; a read can hang
    as long as the kernel lets it (a process that waits for a broken device), so it belongs in a flight with a deadline.
    ``clock`` (unix seconds) and ``steady`` (monotonic seconds) say when what is remembered has to be looked at again.
    """

    def __init__(
        self,
        procfs: Path | str = "/proc",
        cgroups: Path | str = "/sys/fs/cgroup",
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = str(procfs)
        self._table = Table(self._root, clock)
        self._spaces = Spaces(self._root)
        self._holders = Holders(self._root, self._spaces, steady)
        self._reading = Reading(self._root, self._table, self._spaces)
        self._cgroups = Cgroups(str(cgroups), text_of(f"{self._root}/self/cgroup"))
        self._restarts = Restarts(oom_kills)
        self._listeners: tuple[Listener, ...] = ()
        self._t: float | None = None
        self._online: frozenset[int] | None = None  # of one cycle: a line per CPU and interrupt, for all engines once

    def processes(self, ports: frozenset[int]) -> Processes:
        """The processes that may be an engine's (our own, the kernel's and the dead are none), and who listens on ``ports``.

        Of several that listen on one port, those in the reader's own network namespace come first. Raises
        :class:`~llmvitals.errors.LlmvitalsError` when ``procfs`` holds no processes of Linux.
        """
        self._begin()
        self._t = None
        table = self._table.scan()
        holders = self._holders.of(ports, table)
        own = self._spaces.of("self")
        found = (Listener(h.port, h.process.pid, h.address, near=own in {h.space, ""}) for h in holders)
        self._listeners = tuple(dict.fromkeys(found))
        self._table.refresh(frozenset(h.process.pid for h in holders))
        return Processes(table, self._listeners, "; ".join(self._unseen(ports)), host=self._table.host)

    def samples(self, found: Found, t: float, *, engine: str = "", restarts: bool = True) -> dict[Series, float]:
        """``llm_host_*`` of one engine at ``t`` (unix seconds), and an ``llm_family_gap`` for what cannot be said of it.

        Rates are those since the call with the ``t`` before. ``engine`` names it from call to call, so that processes that were
        replaced count as a restart; without it its container does, else its port. ``restarts`` False leaves these counts
        out, for whoever has better ones.
        """
        if self._t is not None and t != self._t:
            self._begin()
        self._t = t
        kinds = (("api", found.api), ("engine", found.engine))
        facts = {kind: [f for pid in pids if (f := self._reading.of(pid, t)) is not None] for kind, pids in kinds}
        self._table.refresh(found.pids)
        samples = dict(self._shown(facts))
        if found.pids and not any(facts.values()):
            samples[family_gap("llm_host_*", GapKind.MISSING, "its processes ended before they were read")] = 1.0
        if restarts:
            # an engine whose API process has just ended is not another one because its workers live a moment longer
            counts = self._counts(found, facts["api" if found.api else "engine"], t, engine)
            samples |= {series("llm_host_restarts_total", reason=why): float(n) for why, n in counts.items()}
        return samples

    def _begin(self) -> None:
        """What was read belongs to a cycle that is over."""
        self._spaces.forget()
        self._online = None

    def _shown(self, facts: dict[str, list[Facts]]) -> Iterator[tuple[Series, float]]:
        everything = [f for of_kind in facts.values() for f in of_kind]
        if not everything:
            return
        if self._online is None:
            self._online = proc.online_cpus(text_of(f"{self._root}/stat"))
        for kind, of_kind in facts.items():
            if of_kind:
                yield from shown.of_processes(kind, of_kind, self._cgroups, self._online)
        yield from shown.of_container(self._cgroups.group(everything[0].cgroup))
        yield from shown.of_network(everything, self._spaces, self._spaces.of("self"))

    def _counts(self, found: Found, main: list[Facts], t: float, engine: str) -> dict[str, int]:
        name = engine or self._name(found)
        if not name:
            return {}
        levels = self._cgroups.group(main[0].cgroup).memory if main else ()
        # Above its container only its pod is nobody else's; a pod's count outlives the container that was killed.
        of_pod = len(levels) > 1 and (found.pod is not None or "pod" in levels[1].rpartition("/")[2])
        self._restarts.forget(t)
        return self._restarts.seen(name, frozenset((f.pid, f.start) for f in main), levels[: 1 + of_pod], t)

    def _name(self, found: Found) -> str:
        if found.pod is not None:
            return f"{found.pod.uid}/{found.container.name if found.container else ''}"
        ports = [listener.port for listener in self._listeners if listener.pid in found.api]
        return f"port {min(ports)}" if ports else ""

    def _unseen(self, ports: frozenset[int]) -> Iterator[str]:
        """What could not be seen, and what would show it; only what matters to a port that nobody was found on."""
        yield from self._holders.why
        left = ports - {listener.port for listener in self._listeners} - self._holders.unheld
        if not left:
            return
        if self._holders.hidden:
            number = self._holders.hidden
            yield f"{number} processes do not let their sockets be seen: {AS_ROOT}"
        if not self._table.host:
            yield f"only the processes of the exporter's own container can be seen: {HOST_PROCESSES}"
