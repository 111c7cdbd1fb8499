"""Any gateway that shows ``llm_gateway_*`` itself, as docs/gateway-contract.md says.

Names are the canonical ones, in the spellings that client libraries make of them: counters with or without ``_total``,
gauges to which OpenTelemetry's exporter adds ``_ratio`` for the unit ``1``, and durations that are kept in milliseconds
under a name that says so. Labels that are not the contract's are dropped and what they told apart is put together: most
things are added; of states and peaks the highest counts; what can be neither is withheld when it differs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llmvitals.gaps import GapKind
from llmvitals.schema import BY_NAME, FAMILIES, Family, Kind, Origin, origin_of
from llmvitals.series import Series
from llmvitals.telemetry import simple
from llmvitals.telemetry.mapping import FamilyGap, Parts, Row, Unused, Whose

KIND = "gateway"
CONTRACT: tuple[Family, ...] = tuple(family for family in FAMILIES if origin_of(family.name) is Origin.GATEWAY)

_QUEUE = "a queue of its own"
_TENANTS = "tenants"
_SESSIONS = "sessions"
_CACHE = "a response cache"
_SEMANTIC = "a semantic cache"
_CONTENT = "an eye on what calls ask"
_TOKENS = "a budget of tokens"
_UPSTREAMS = "statistics by upstream"

NEEDS: Mapping[str, str] = {
    "llm_gateway_user_requests_total": "knowledge of which calls serve one request of a user",
    "llm_gateway_planned_calls": "knowledge of how many calls a request was planned to make",
    "llm_gateway_retries_total": "a way to tell that a call repeats a failed one",
    "llm_gateway_disconnects_total": "notice of clients that leave",
    "llm_gateway_queue_waiting": _QUEUE,
    "llm_gateway_queue_limit": f"{_QUEUE} that is bounded",
    "llm_gateway_queue_dropped_total": _QUEUE,
    "llm_gateway_queue_seconds": _QUEUE,
    "llm_gateway_ttft_seconds": "a look into streams",
    "llm_gateway_tpot_seconds": "a look into streams",
    "llm_gateway_tokens_total": "counts of tokens",
    "llm_gateway_prompt_tokens_total": "counts of tokens",
    "llm_gateway_tenant_weight": f"{_TENANTS} with shares",
    "llm_gateway_tenant_sequences": _TENANTS,
    "llm_gateway_breaker_open": "a circuit breaker",
    "llm_gateway_exact_repeats_total": _CONTENT,
    "llm_gateway_shared_prefix_tokens_total": _CONTENT,
    "llm_gateway_cache_hits_total": _CACHE,
    "llm_gateway_semantic_cache_hits_total": _SEMANTIC,
    "llm_gateway_semantic_cache_checked_total": f"{_SEMANTIC} whose answers are checked",
    "llm_gateway_semantic_cache_wrong_total": f"{_SEMANTIC} whose answers are checked",
    "llm_gateway_small_model_calls_total": "a choice between a small and a large model",
    "llm_gateway_session_calls_peak": _SESSIONS,
    "llm_gateway_session_calls_median": _SESSIONS,
    "llm_gateway_session_repeats_peak": f"{_SESSIONS} and a look at their tool calls",
    "llm_gateway_connect_errors_total": "connections of its own to the engines",
    "llm_gateway_streams_cut_total": "timeouts of its own",
    "llm_gateway_connections": "a view of its connections",
    "llm_gateway_connection_limit": "a limit on its connections",
    "llm_gateway_overhead_seconds": "a clock around its own work",
    "llm_gateway_upstream_seconds": _UPSTREAMS,
    "llm_gateway_upstream_up": f"{_UPSTREAMS} and a view of their health",
    "llm_gateway_upstream_requests_total": _UPSTREAMS,
    "llm_gateway_concurrency_limit": "a limit on calls that run at once",
    "llm_gateway_reserved_tokens": _TOKENS,
    "llm_gateway_token_limit": _TOKENS,
}
"""What a gateway must have before it can show a family; those that are not here are asked of every gateway."""

_MOST = frozenset(
    f"llm_gateway_{name}" for name in ("breaker_open", "upstream_up", "session_calls_peak", "session_repeats_peak")
)
_ALIKE = frozenset(f"llm_gateway_{name}" for name in ("tenant_weight", "session_calls_median", "planned_calls"))

_GAPS = frozenset(kind.value for kind in GapKind)
_ALIASES = {"status": ("http_response_status_code",)}
"""Labels as OpenTelemetry's conventions name them."""


@dataclass(frozen=True, slots=True)
class _Spelling:
    source: str
    scale: float = 1.0


def _spellings(family: Family) -> tuple[_Spelling, ...]:
    """How a family may stand on a page; ``_total`` is understood anyway."""
    name = family.name.removesuffix("_total")
    own = _Spelling(name)
    if family.kind is Kind.GAUGE:
        return own, _Spelling(f"{name}_ratio")
    if family.unit == "seconds":
        return (
            own,
            _Spelling(f"{name.removesuffix('_seconds')}_milliseconds", 1e-3),
            _Spelling(f"{name}_milliseconds", 1e-3),
        )
    return (own,)


def _rows(family: Family) -> tuple[Row, ...]:
    labels = tuple(
        (label, spelled)
        for label in family.labels
        if label != "gateway"
        for spelled in (*_ALIASES.get(label, ()), label)
    )
    special = "most" if family.name in _MOST else "alike" if family.name in _ALIKE else ""
    return tuple(
        Row(s.source, family.name, labels=labels, scale=s.scale, needs=NEEDS.get(family.name, ""), special=special)
        for s in _spellings(family)
    )


ROWS: tuple[Row, ...] = (
    *simple.added(tuple(row for family in CONTRACT for row in _rows(family))),
    Row("llm_family_gap", special="gap"),
)


def _identity(source: Mapping[str, str]) -> Whose:
    """The gateway's own name where it gives one, and the model that was asked for."""
    named = {"model": source["model"]} if source.get("model") else {}
    return Whose({"gateway": source.get("gateway") or KIND, **named})


def _alike(values: list[float]) -> float:
    return values[0] if len(set(values)) == 1 else math.nan


_STATUS = re.compile(r"([1-5]\d\d|[1-5]xx|ok|error|answered)?")


_TOGETHER: Mapping[str, Callable[[list[float]], float]] = {"most": max, "alike": _alike}


def _derive(parts: Parts) -> None:
    found: dict[tuple[str, Series], list[float]] = {}
    told: list[FamilyGap] = []
    for entry, value in simple.sound(parts):
        if entry.row.special == "gap":
            told.extend(_gap(entry.source, value))
        else:
            found.setdefault((entry.row.special, entry.series), []).append(value)
    for (how, series), values in found.items():
        value = _TOGETHER[how](values)
        if math.isfinite(value):
            parts.samples[series] = value
        else:
            why = "labels that are not the contract's tell apart values that differ and cannot be added"
            parts.gaps.append(FamilyGap(series.name, GapKind.MISSING, why))
    _known_statuses(parts)
    shown = {series.name for series in parts.samples} | {gap.family for gap in parts.gaps}
    names = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in shown}
    parts.gaps.extend(gap for gap in told if gap.family not in names)


def _known_statuses(parts: Parts) -> None:
    """Calls whose status is a word of the gateway's own say nothing about how they ended: the family is withheld."""
    odd = {
        s.name for s in parts.samples if not _STATUS.fullmatch(s.label("status")) and s.name.startswith("llm_gateway_")
    }
    for series in [series for series in parts.samples if series.name in odd]:
        del parts.samples[series]
    why = "a status there is no HTTP status, class of one, ok, error or answered"
    parts.gaps.extend(FamilyGap(name, GapKind.MISSING, why) for name in sorted(odd))


def _gap(labels: Mapping[str, str], value: float) -> list[FamilyGap]:
    """What the gateway says that it cannot give; of another kind of family, or for no known kind of reason, nothing."""
    name, kind = labels.get("family", ""), labels.get("gap", "")
    known = name in BY_NAME and origin_of(name) is Origin.GATEWAY and kind in _GAPS
    reason = labels.get("reason") or "the gateway says that it cannot give it"
    return [FamilyGap(name, GapKind(kind), reason)] if known and value > 0 else []


ADAPTER = simple.source(
    KIND,
    "Any gateway that follows the contract",
    ROWS,
    claims=(b"llm_gateway_",),
    versions="1",
    none_found="Show llm_gateway_* families, as docs/gateway-contract.md says.",
    origin=Origin.GATEWAY,
    identity=_identity,
    derive=_derive,
    unused=(
        Unused("http_*", "the web server's own"),
        Unused("kestrel_*", "the web server's own"),
        Unused("aspnetcore_*", "the web server's own"),
        Unused("yarp_*", "the proxy's own; the contract's families are taken"),
        Unused("dotnet_*", "the runtime's own"),
        Unused("prometheus_net_*", "the client library's own"),
        Unused("system_runtime_*", "the runtime's own"),
        Unused("microsoft_aspnetcore_*", "the web server's own"),
    ),
    rank=60,
)
