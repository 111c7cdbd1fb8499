"""Whether the kind of telemetry that shows a family is joined to the target at all.

Where it is not, what it would show is not missing: nobody set it up, so no verdict may wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.gaps import Gap, GapKind
from llmvitals.schema import Origin, origin_of
from llmvitals.series import Window

_ABSENT: Mapping[Origin, tuple[str, str, str]] = {
    Origin.GPU: ("llm_gpu_*", "no GPU is joined", "set gpu_url, or run on the engine's machine"),
    Origin.HOST: ("llm_host_*", "no host telemetry is joined", "run on the engine's machine"),
    Origin.GATEWAY: ("llm_gateway_*", "no gateway page is joined", "name the gateway beside the engine"),
    Origin.PROBE: ("llm_probe_*", "no probes are sent", "set probe_seconds on the target"),
    Origin.SPANS: (
        "llm_span_*",
        "no traces are received",
        "let the engine or gateway send them to the exporter (spans)",
    ),
}
"""Telemetry that a target may do without: the name under which a failed join is told, what is said where there is none, and
what to do about it where none was tried.
"""

FACTS: frozenset[str] = frozenset(
    {
        "llm_tensor_parallel_size",
        "llm_gpu_info",
        "llm_gpu_pod",
        "llm_gpu_peer_link",
        "llm_host_info",
        "llm_host_ready",
        "llm_host_ready_time_seconds",
        "llm_host_started_time_seconds",
        "llm_slo_objective_ratio",
        "llm_slo_threshold_seconds",
    }
)
"""What settings or the cluster say of a target: no telemetry, and where only they are there, none is joined."""


_AS_THEY_ARE: Mapping[Origin, str] = {
    Origin.PROBE: "the probes of this target do not tell it",
    Origin.SPANS: "the traces that come do not tell it",
}
"""Telemetry that shows what it happens to have: of what it does not show nothing is missing."""


def measures(name: str, origin: Origin) -> bool:
    """Whether a family (or one of its samples) is something that this kind of telemetry measured."""
    return origin_of(name) is origin and name not in FACTS


def not_joined(window: Window, family: str) -> Gap | None:
    """The gap of a family whose kind of telemetry shows nothing in the window; None where it does, or has to.

    An engine's page has to show its own, but where a gateway stands by itself there is none.
    """
    origin = origin_of(family)
    if origin is Origin.ENGINE:
        shown = {origin_of(name) for name in window.names()}
        alone = Origin.GATEWAY in shown and not shown & {Origin.ENGINE, Origin.PROBE}
        return Gap(GapKind.UNSUPPORTED, "no engine's page is joined to this gateway's", family) if alone else None
    if origin not in _ABSENT:
        return None
    if any(measures(name, origin) for name in window.names()):
        return Gap(GapKind.UNSUPPORTED, _AS_THEY_ARE[origin], family) if origin in _AS_THEY_ARE else None
    every, absent, remedy = _ABSENT[origin]
    failed = window.tracks("llm_family_gap", {"family": every})
    return Gap(GapKind.UNSUPPORTED, f"{absent}: {failed[-1].label('reason') if failed else remedy}", every)
