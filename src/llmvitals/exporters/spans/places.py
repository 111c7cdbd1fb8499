"""What is known of each target, for whoever has to find the processes that send its traces."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from llmvitals.schema import Origin, origin_of
from llmvitals.series import Snapshot
from llmvitals.settings import Target
from llmvitals.sources.node import Seen
from llmvitals.sources.place import base_url
from llmvitals.telemetry.identity.model import Found
from llmvitals.telemetry.spans.model import Place

INFO = "llm_target_info"
_PORTS = {"http": 80, "https": 443}
_NOT_ITS_PAGE = frozenset({Origin.PROBE, Origin.SPANS})
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
        models=_models(newest),
        labels=labels,
    )


def _labels(newest: Snapshot | None) -> Mapping[str, str]:
    info = next((key for key in newest.samples if key.name == INFO), None) if newest is not None else None
    return {name: value for name, value in info.labels if name not in _OF_ONE} if info is not None else {}


def _models(newest: Snapshot | None) -> tuple[str, ...]:
    samples = newest.samples if newest is not None else ()
    # a histogram's model is on its count too, and buckets are most of a page
    named = (key for key in samples if not key.name.endswith("_bucket") and origin_of(key.name) not in _NOT_ITS_PAGE)
    return tuple(sorted({key.label("model") for key in named} - {""}))
