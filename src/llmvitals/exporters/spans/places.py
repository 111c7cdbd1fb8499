"""What is known of each target, for whoever has to find the processes that send its traces."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from llmvitals.series import Snapshot
from llmvitals.settings import Target
from llmvitals.sources.node import Seen
from llmvitals.sources.place import base_url
from llmvitals.telemetry.identity.model import Found
from llmvitals.telemetry.models import models_of
from llmvitals.telemetry.spans.model import Place

INFO = "llm_target_info"
_PORTS = {"http": 80, "https": 443}
_OF_ONE = frozenset({"model", "rank", "version"})


def place_of(name: str, target: Target, newest: Snapshot | None, *, gateway: bool, seen: Seen) -> Place:
    """The place of one target. ``newest``: its newest page that could be read, if there was one."""
    parts = urlsplit(base_url(target.url))
    found = seen.found.get(name, Found())
    labels = _labels(newest) or {**target.labels, "instance": name}
    kind = labels.get("engine", "" if target.kind == "auto" else target.kind)
    pod = found.pod
    return Place(
        instance=name,
        kind=kind,
        gateway=gateway,
        attributes=target.spans,
        host=parts.hostname or "",
        port=parts.port or _PORTS[parts.scheme],
        pids=found.pids,
        pod=f"{pod.namespace}/{pod.name}" if pod is not None else target.pod,
        pod_uid=pod.uid if pod is not None else "",
        node=seen.name if found.how else "",
        models=models_of(newest) if newest is not None else (),
        labels=labels,
    )


def _labels(newest: Snapshot | None) -> Mapping[str, str]:
    info = next((key for key in newest.samples if key.name == INFO), None) if newest is not None else None
    return {name: value for name, value in info.labels if name not in _OF_ONE} if info is not None else {}
