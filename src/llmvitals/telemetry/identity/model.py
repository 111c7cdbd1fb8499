"""What is known of this machine at one moment, as values: processes, pods, devices, and where one engine was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Join(StrEnum):
    """How GPUs or processes were matched to an engine; the value is the label ``join``, strongest first."""

    CONFIGURED = "configured"  # the settings, or an annotation of its pod, name the GPUs
    POD_LABELS = "pod-labels"  # the GPU exporter's series carry its pod
    POD_RESOURCES = "pod-resources"  # the kubelet gave its container these devices
    PROCESS_IDS = "process-ids"  # the driver shows its processes on these GPUs


@dataclass(frozen=True, slots=True)
class Process:
    """One process as the host numbers it. ``started``: unix seconds; ``container``, ``pod``: from its cgroup, '' for none."""

    pid: int
    parent: int
    started: float
    name: str
    command: tuple[str, ...] = ()
    container: str = ""  # the runtime's id, 64 hex digits as a rule
    pod: str = ""  # the pod's uid, with dashes


@dataclass(frozen=True, slots=True)
class Listener:
    """A process that holds a TCP socket listening on ``port``; ``address`` as text, '' for every address.

    ``near``: it is reached in the reader's own network namespace, or nobody knows; in others the same port may be open again.
    """

    port: int
    pid: int
    address: str = ""
    near: bool = True


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of this host. ``why``: what could not be read of them, '' for nothing.

    ``host``: they are the whole host's, numbered as its kernel does, and so are the ones that a driver names; otherwise the
    table is a container's own, in which the same number may be another process.
    """

    table: Mapping[int, Process] = field(default_factory=dict)
    listeners: tuple[Listener, ...] = ()
    why: str = ""
    host: bool = False


@dataclass(frozen=True, slots=True)
class Restarted:
    """Why a container ended last: ``reason`` as the schema's label (oom, error, probe, rollout, unknown)."""

    reason: str
    exit_code: int | None = None
    at: float | None = None  # unix seconds


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod. ``started``: unix seconds of the present run, None while it waits."""

    name: str
    id: str = ""
    ready: bool = False
    started: float | None = None
    restarts: int = 0
    last: Restarted | None = None
    ports: tuple[tuple[str, int], ...] = ()  # name ('' for none) and number
    command: tuple[str, ...] = ()  # command and args of its spec, where it has any
    environ: tuple[tuple[str, str], ...] = ()  # of its spec's environment what says how it is parallel, and no more


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of this node. Times in unix seconds; ``owner``: its controller's kind and name, ``ReplicaSet/chat-5f``."""

    namespace: str
    name: str
    uid: str
    ip: str = ""
    phase: str = ""
    ready: bool = False
    ready_since: float | None = None
    leaving: bool = False  # it has been asked to end
    host_network: bool = False
    owner: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    containers: tuple[Container, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether it is over for good: its address may belong to another pod by now."""
        return self.phase in {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class Held:
    """Devices that the kubelet gave one container: GPU UUIDs, ``MIG-`` ids, or ``GPU-uuid::n`` of a shared card."""

    namespace: str
    pod: str
    container: str
    resource: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The engine that is looked for: its target's name, address and what the settings say of it."""

    instance: str
    host: str
    port: int
    gpus: tuple[str, ...] = ()
    pod: tuple[str, str] | None = None  # namespace, name
    container: str = ""  # the container's name, where a pod has several


@dataclass(frozen=True, slots=True)
class Found:
    """Where an engine is. ``api``: pids that listen on its port; ``engine``: the others of it, workers included.

    ``how``: port (this host's listener), pod (its pod's containers) or '' where nothing was found, with the reason in ``why``.
    In a pod that is known, processes may still be out of sight: then ``how`` is pod and ``why`` says what hides them.
    """

    api: tuple[int, ...] = ()
    engine: tuple[int, ...] = ()
    pod: Pod | None = None
    container: Container | None = None
    how: str = ""
    why: str = ""

    @property
    def pids(self) -> frozenset[int]:
        """All its processes."""
        return frozenset((*self.api, *self.engine))

    @property
    def elsewhere(self) -> bool:
        """Whether it is not on this machine, as far as its address tells: nothing is missing here, so nothing is said."""
        return not self.how and not self.why


@dataclass(frozen=True, slots=True)
class Match:
    """The GPUs of an engine: values of the label ``gpu``, how they were found, or why there are none."""

    gpus: tuple[str, ...] = ()
    join: Join | None = None
    why: str = ""
