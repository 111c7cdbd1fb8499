"""This machine as its readers see it, once per turn: GPUs from the driver, processes from /proc, pods from Kubernetes.

Each reader has a flight of its own, so that a driver, a mount or an API server that hangs costs its own numbers and nothing
else. What was seen becomes one value, :class:`Seen`, from which every engine takes what is its own.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from llmvitals.series import Series, Snapshot
from llmvitals.settings import Node, Target
from llmvitals.sources.part import Got, Part
from llmvitals.sources.place import base_url, name_of
from llmvitals.telemetry.gpu.merge import merged
from llmvitals.telemetry.identity.find import find
from llmvitals.telemetry.identity.model import Found, Held, Pod, Processes, Wanted
from llmvitals.telemetry.identity.trees import Trees
from llmvitals.telemetry.kube.restarts import Restarts

POD_LISTS_KEPT = 240
"""Intervals for which the last list of pods stands while the API server does not answer: an outage ends no pod."""

T = TypeVar("T")

_SCHEMES = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one reader did in a turn. ``seconds``: the time it took; ``why``: what went wrong, '' for nothing."""

    name: str
    ok: bool
    seconds: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """One turn. ``found`` and ``host`` by the engine's instance; ``gpus`` None where the driver showed none.

    ``pods`` None: no list, so nothing follows from a pod that is not on it. ``gpus_why``: why the driver showed none, where it
    was to show some; ``held_why``: the same of the kubelet.
    """

    t: float
    name: str
    gpus: Snapshot | None = None
    gpus_why: str = ""
    held: tuple[Held, ...] = ()
    held_why: str = ""
    pods: tuple[Pod, ...] | None = None
    found: Mapping[str, Found] = field(default_factory=dict)
    host: Mapping[str, Mapping[Series, float]] = field(default_factory=dict)
    processes: Processes = field(default_factory=Processes)
    outcomes: tuple[Outcome, ...] = ()
    _merged: dict[int, tuple[Snapshot, Snapshot]] = field(default_factory=dict, repr=False, compare=False)

    def with_driver(self, page: Snapshot) -> Snapshot:
        """A GPU exporter's page and what the driver shows made one, once for all engines that share the page."""
        driver = self.gpus
        if driver is None and self.gpus_why:
            driver = Snapshot(self.t, {}, detail=self.gpus_why)  # what it counts must not come from the page meanwhile
        if driver is None:
            return page
        if id(page) not in self._merged:
            self._merged[id(page)] = (page, merged(page, driver))  # with the page, so that its id stays its own
        return self._merged[id(page)][1]


class HostLike(Protocol):
    """What reads the processes of this machine, see :class:`llmvitals.telemetry.host.reader.HostReader`."""

    def processes(self, ports: frozenset[int]) -> Processes:
        """The processes, and who listens on ``ports``."""

    def samples(self, found: Found, t: float, *, engine: str = "", restarts: bool = True) -> dict[Series, float]:
        """``llm_host_*`` of one engine."""


@dataclass(frozen=True, slots=True)
class Readers:
    """What makes each reader; tests bring their own. Each is called in its reader's flight."""

    gpus: Callable[[], Callable[[float], Snapshot]]
    processes: Callable[[], HostLike]
    pods: Callable[[], Callable[[], tuple[Pod, ...]]]
    held: Callable[[], Callable[[], tuple[Held, ...]]]


def node_name(node: Node) -> str:
    """This machine's name: the settings', the variable NODE_NAME's (as a DaemonSet sets it), or the host's own."""
    return node.name or os.environ.get("NODE_NAME", "") or socket.gethostname()


def wanted_of(target: Target) -> Wanted:
    """The engine behind a target, as it is looked for. Raises :class:`SettingsError` for a URL that is none."""
    parts = urlsplit(base_url(target.url))
    namespace, _, pod = target.pod.partition("/")
    return Wanted(
        instance=name_of(target),
        host=parts.hostname or "",
        port=parts.port or _SCHEMES[parts.scheme],
        gpus=target.gpus,
        pod=(namespace, pod) if pod else None,
        container=target.container,
    )


class Machine:
    """All readers of one machine. One thread drives it: :meth:`begin`, then :meth:`end`."""

    def __init__(self, node: Node, *, readers: Readers | None = None) -> None:
        self.node = node
        self.name = node_name(node)
        made = readers or _readers(node, self.name)
        every = node.kubernetes.interval_seconds
        self._t = 0.0
        self._asked: tuple[tuple[Wanted, ...], tuple[Pod, ...] | None] = ((), None)
        self._gpus = Part("nvml", node.nvml, lambda: partial(self._read_gpus, made.gpus()))
        self._host = Part("processes", _on_procfs(node), lambda: partial(self._read_host, made.processes()))
        self._pods = Part("pods", _in_cluster(node), made.pods, every=every, keep=POD_LISTS_KEPT * every, retry=every)
        self._held = Part("pod-resources", _beside_kubelet(node), made.held, every=every, retry=every)
        self._restarts = Restarts()
        self._here: frozenset[str] = frozenset((self.name, socket.gethostname()))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods of this node, as last listed."""
        return self._pods.last.value or ()

    def begin(self, wanted: Sequence[Wanted], t: float) -> None:
        """Ask every reader that is due, ``t`` (unix seconds) being now. Never waits, never raises."""
        self._t, self._asked = t, (tuple(wanted), self._pods.last.value)
        for part in (self._gpus, self._host, self._pods, self._held):
            part.begin()

    def end(self, until: float) -> Seen:
        """What was seen, waiting at most until ``until`` (monotonic seconds). Never raises."""
        gpus, pods, held = self._gpus.end(until), self._pods.end(until), self._held.end(until)
        host = self._host.end(until)
        if pods.fresh and pods.value is not None:
            self._restarts = self._restarts.after(pods.value)
        seen = host.value if host.value is not None else self._without_processes(host.why)
        return Seen(
            t=self._t,
            name=self.name,
            gpus=gpus.value,
            gpus_why=gpus.why,
            held=held.value or (),
            held_why=held.why,
            pods=pods.value,
            found=seen.found,
            processes=seen.processes,
            host={name: {**seen.samples.get(name, {}), **self._restarts.samples(f)} for name, f in seen.found.items()},
            outcomes=(
                *_outcome(self._gpus.name, gpus),
                *_outcome(self._host.name, host),
                *_outcome(self._pods.name, pods),
                *_outcome(self._held.name, held),
            ),
        )

    def _without_processes(self, why: str) -> _Host:
        wanted, pods = self._asked
        unread = Processes(why=why)
        return _Host(unread, {one.instance: find(one, unread, pods, self._here) for one in wanted}, {})

    def _read_gpus(self, read: Callable[[float], Snapshot]) -> Snapshot:
        return read(self._t)

    def _read_host(self, reader: HostLike) -> _Host:
        (wanted, pods), t = self._asked, self._t
        self._here = frozenset((*_addresses(), self.name, socket.gethostname()))
        processes = reader.processes(frozenset(one.port for one in wanted))
        trees = Trees.of(processes)
        found = {one.instance: find(one, processes, pods, self._here, trees=trees) for one in wanted}
        samples = {
            name: reader.samples(one, t, engine=name, restarts=one.pod is None)
            for name, one in found.items()
            if not one.elsewhere  # one that is not found now may have been: its restarts go on counting
        }
        return _Host(processes, found, samples)


@dataclass(frozen=True, slots=True)
class _Host:
    """What the processes of one turn gave, by the engine's instance."""

    processes: Processes
    found: Mapping[str, Found]
    samples: Mapping[str, Mapping[Series, float]]


def _outcome(name: str, got: Got[T]) -> Iterator[Outcome]:
    """How the last reading went, between two as well; a reader that cannot be had here is none."""
    if got.failed or got.value is not None:
        yield Outcome(name, not got.failed, got.seconds, got.why)


def _addresses() -> Iterator[str]:
    """The addresses of this machine's own interfaces."""
    import psutil  # noqa: PLC0415  # who reads a file alone does without it

    for addresses in psutil.net_if_addrs().values():
        yield from (one.address.partition("%")[0] for one in addresses)


def discovers(node: Node) -> bool:
    """Whether pods of this node become targets."""
    return node.kubernetes.discover and _in_cluster(node) != "off"


def _on_procfs(node: Node) -> str:
    """A mount that somebody wrote down must be there."""
    return "on" if node.processes == "auto" and node.procfs != Node().procfs else node.processes


def _in_cluster(node: Node) -> str:
    """``auto`` is ``on`` in a cluster: there is an API server, so that what it refuses is worth a word."""
    kubernetes = node.kubernetes
    here = kubernetes.api_url or os.environ.get("KUBERNETES_SERVICE_HOST")
    return ("on" if here else "off") if kubernetes.enabled == "auto" else kubernetes.enabled


def _beside_kubelet(node: Node) -> str:
    """``auto`` asks where there is a socket that may be seen, ``on`` in any case; both say what is amiss with it then."""
    own = node.kubernetes
    seen = os.path.exists(own.pod_resources)  # noqa: PTH110 - pathlib raises where the folder may not be looked into
    absent = not own.pod_resources or (own.enabled == "auto" and not seen)
    return "off" if absent or own.enabled == "off" else "on"


def _readers(node: Node, name: str) -> Readers:
    """The real ones, imported in their flights."""

    def gpus() -> Callable[[float], Snapshot]:
        from llmvitals.telemetry.gpu.nvml.reader import Reader  # noqa: PLC0415 - who reads a file alone loads none

        return Reader().read

    def processes() -> HostLike:
        from llmvitals.telemetry.host.reader import HostReader  # noqa: PLC0415 - who reads a file alone loads none

        return HostReader(Path(node.procfs), Path(node.cgroups))

    def pods() -> Callable[[], tuple[Pod, ...]]:
        from llmvitals.telemetry.kube.api import PodLister  # noqa: PLC0415 - who reads a file alone loads none

        own = node.kubernetes
        return PodLister(name, url=own.api_url, namespaces=own.namespaces, selector=own.selector).pods

    def held() -> Callable[[], tuple[Held, ...]]:
        from llmvitals.telemetry.kube.resources import PodResources  # noqa: PLC0415 - who reads a file alone loads none

        return PodResources(node.kubernetes.pod_resources).held

    return Readers(gpus, processes, pods, held)
