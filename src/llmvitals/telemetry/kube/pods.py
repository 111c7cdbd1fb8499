"""The API server's list of pods as values: only the fields that are used are read, the rest is skipped unseen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from llmvitals.telemetry.identity.arguments import VARIABLES
from llmvitals.telemetry.identity.model import Container, Pod, Restarted
from llmvitals.telemetry.kube.reasons import reason_of


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """Base of what is read: Go's empty lists and maps may be absent or null."""


class _Owner(_Part, frozen=True):
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class _Metadata(_Part, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    owner_references: list[_Owner] | None = None


class _Port(_Part, frozen=True):
    container_port: int
    name: str = ""
    protocol: str = "TCP"


class _Variable(_Part, frozen=True):
    name: str
    value: str | None = None


class _Spec(_Part, frozen=True):
    name: str
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Variable] | None = None
    ports: list[_Port] | None = None


class _PodSpec(_Part, frozen=True):
    node_name: str = ""
    host_network: bool | None = None
    containers: list[_Spec] | None = None


class _Running(_Part, frozen=True):
    started_at: datetime | None = None


class _Terminated(_Part, frozen=True):
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    finished_at: datetime | None = None


class _State(_Part, frozen=True):
    running: _Running | None = None
    terminated: _Terminated | None = None


class _Status(_Part, frozen=True):
    name: str
    ready: bool = False
    restart_count: int = 0
    container_id: str = msgspec.field(default="", name="containerID")
    state: _State | None = None
    last_state: _State | None = None


class _Condition(_Part, frozen=True):
    type: str
    status: str = ""
    last_transition_time: datetime | None = None


class _PodStatus(_Part, frozen=True):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: list[_Condition] | None = None
    container_statuses: list[_Status] | None = None


class _Pod(_Part, frozen=True):
    metadata: _Metadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _ListMetadata(_Part, frozen=True):
    next: str = msgspec.field(default="", name="continue")


class _List(_Part, frozen=True):
    kind: str = ""
    metadata: _ListMetadata = _ListMetadata()
    items: list[_Pod] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of a list call. ``following``: where the next one goes on, '' at the end; ``size``: pods in the answer."""

    pods: tuple[Pod, ...]
    following: str = ""
    size: int = 0


def read(body: bytes, node: str) -> Page:
    """The pods of ``node`` in one answer; those of other nodes, which a proxy may let through, are left out.

    Raises ``ValueError`` for what is no list of pods.
    """
    try:
        listed: _List = msgspec.json.decode(body, type=_List)  # its errors are ValueErrors
    except RecursionError:
        raise ValueError("it is nested without end") from None
    if listed.kind != "PodList":
        raise ValueError(f"its kind is '{listed.kind[:60]}', not 'PodList'")
    items = listed.items or []
    return Page(tuple(_pod(p) for p in items if p.spec.node_name == node), listed.metadata.next, len(items))


def _pod(pod: _Pod) -> Pod:
    meta, spec, status = pod.metadata, pod.spec, pod.status
    owner = next((o for o in meta.owner_references or () if o.controller), None)
    ready = next((c for c in status.conditions or () if c.type == "Ready"), None)
    is_ready = ready is not None and ready.status == "True"
    states = {one.name: one for one in status.container_statuses or ()}
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        ip=status.pod_ip,
        phase=status.phase,
        ready=is_ready,
        ready_since=_seconds(ready.last_transition_time) if ready is not None and is_ready else None,
        leaving=meta.deletion_timestamp is not None,
        host_network=bool(spec.host_network),
        owner=f"{owner.kind}/{owner.name}" if owner else "",
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        containers=tuple(_container(one, states.get(one.name)) for one in spec.containers or ()),
    )


def _container(spec: _Spec, status: _Status | None) -> Container:
    environ = _environ(spec.env or ())
    running = status.state.running if status and status.state else None
    last = status.last_state.terminated if status and status.last_state else None
    return Container(
        name=spec.name,
        id=status.container_id.rpartition("://")[2] if status else "",
        ready=bool(status and status.ready),
        started=_seconds(running.started_at) if running else None,
        restarts=status.restart_count if status else 0,
        last=_restarted(last) if last else None,
        ports=tuple((p.name, p.container_port) for p in spec.ports or () if p.protocol == "TCP"),
        command=tuple(_expanded(word, environ) for word in (*(spec.command or ()), *(spec.args or ()))),
        environ=tuple((name, environ[name]) for name in VARIABLES if name in environ),
    )


def _restarted(ended: _Terminated) -> Restarted:
    code = ended.exit_code
    if not code and ended.signal:
        code = 128 + ended.signal  # as a shell writes it
    return Restarted(reason_of(ended.reason, code), code, _seconds(ended.finished_at))


def _seconds(when: datetime | None) -> float | None:
    """Unix seconds; the runtime writes 1970 where it does not know."""
    return when.timestamp() if when is not None and when.timestamp() > 0 else None


_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    """The text as the kubelet hands it on: ``$(NAME)`` filled in where it is known, ``$$`` a single ``$``."""
    return _REFERENCE.sub(lambda m: "$" if m[0] == "$$" else environ.get(m[1], m[0]), text)


def _environ(variables: Sequence[_Variable]) -> dict[str, str]:
    """Those whose value stands in the spec; what comes from a secret or a config map is not asked for."""
    found: dict[str, str] = {}
    for one in variables:
        if one.value is not None:
            found[one.name] = _expanded(one.value, found)
    return found
