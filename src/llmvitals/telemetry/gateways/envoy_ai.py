"""Envoy AI Gateway's filter: OpenTelemetry's names for generative AI, as its Prometheus exporter spells them.

The dots became underscores and units were appended; a suffix for tokens may stand there or not. ``gen_ai_client_token_usage``
is one histogram over types of tokens, of which ``cached_input`` and ``reasoning`` are parts of others: only ``input`` and
``output`` are taken. The page counts no calls as they come in and no status: a failed one has ``error_type``.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.schema import Origin
from llmvitals.series import Series
from llmvitals.telemetry import simple
from llmvitals.telemetry.mapping import Derived, Entry, Parts, Row, Unused, Whose

KIND = "envoy-ai-gateway"

_CALLS = "llm_gateway_requests_total"
_PROMPT = "llm_gateway_prompt_tokens_total"
_PROVIDER = ("gen_ai_backend", "gen_ai_provider_name", "gen_ai_system")
_MODEL = ("gen_ai_original_model", "gen_ai_request_model")
_TYPES = (("gen_ai_token_type", frozenset({"input", "output"})),)
_STREAMED = "calls that stream"


def _times(names: tuple[str, ...], family: str, special: str = "", note: str = "") -> tuple[Row, ...]:
    return tuple(
        Row(f"gen_ai_server_{name}{unit}", family, add=not special, special=special, late=True, note=note)
        for name in names
        for unit in ("_seconds", "")
    )


ROWS: tuple[Row, ...] = (
    *(
        Row(
            f"gen_ai_client_token_usage{suffix}_sum",
            "llm_gateway_tokens_total",
            only=_TYPES,
            special="tokens",
            late=True,
            note="of the types only input and output: the others are parts of these",
        )
        for suffix in ("", "_token", "_tokens")
    ),
    *_times(("request_duration",), "llm_gateway_request_seconds", special="duration"),
    *_times(("time_to_first_token",), "llm_gateway_ttft_seconds", note=_STREAMED),
    *_times(("time_per_output_token",), "llm_gateway_tpot_seconds", note=f"{_STREAMED} and went well"),
)


def _derive(parts: Parts) -> None:
    for entry, value in simple.sound(parts):
        if entry.row.special == "tokens":
            _add(parts, entry.series, value)
            if entry.source.get("gen_ai_token_type") == "input":
                _add(parts, Series(_PROMPT, entry.series.labels), value)
            continue
        _add(parts, entry.series, value)
        if entry.series.name.endswith("_count"):
            _answered(parts, entry, value)


def _answered(parts: Parts, entry: Entry, value: float) -> None:
    """Calls by what is known of their end, and by the provider that answered."""
    status = _status(entry.source.get("error_type", ""))
    provider = _first(entry.source, _PROVIDER)
    own = dict(entry.series.labels) | {"status": status}
    _add(parts, Series(_CALLS, tuple(sorted(own.items()))), value)
    if provider:
        name = "llm_gateway_upstream_requests_total"
        _add(parts, Series(name, tuple(sorted({**own, "upstream": provider}.items()))), value)


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _identity(source: Mapping[str, str]) -> Whose:
    """The gateway, and the model that was asked for: its original name where the gateway rewrote it."""
    model = _first(source, _MODEL)
    return Whose({"gateway": KIND, **({"model": model} if model else {})})


def _status(error: str) -> str:
    """``ok`` without an error type; the type itself where it is a status (OpenTelemetry allows both), else ``error``."""
    if not error:
        return "ok"
    return error if error.isdigit() and len(error) == 3 else "error"


def _add(parts: Parts, series: Series, value: float) -> None:
    parts.samples[series] = parts.samples.get(series, 0.0) + value


_PROXY = "the Envoy beside this filter shows it, on its own page"
CANNOT: dict[str, str] = {
    "llm_gateway_calls_total": f"calls are counted as they end; {_PROXY}",
    "llm_gateway_calls_running": _PROXY,
    "llm_gateway_connections": _PROXY,
    "llm_gateway_retries_total": _PROXY,
    "llm_gateway_disconnects_total": _PROXY,
    "llm_gateway_queue_waiting": _PROXY,
    "llm_gateway_queue_dropped_total": _PROXY,
    "llm_gateway_breaker_open": _PROXY,
    "llm_gateway_upstream_up": _PROXY,
    "llm_gateway_upstream_seconds": "the time of a call is not split into the filter's and the provider's",
    "llm_gateway_cache_hits_total": "cached input is a provider's prompt cache, not a cache of answers",
}

ADAPTER = simple.source(
    KIND,
    "Envoy AI Gateway",
    ROWS,
    claims=(b"gen_ai_server_", b"gen_ai_client_"),
    versions="0.3-1.1",
    none_found="Point at the external processor's admin port.",
    origin=Origin.GATEWAY,
    identity=_identity,
    derive=_derive,
    derived=(
        Derived(
            _CALLS,
            "gen_ai_server_request_duration_count",
            "",
            "by error_type: ok without one, a status where it is one",
        ),
        Derived(
            "llm_gateway_upstream_requests_total",
            "gen_ai_server_request_duration_count",
            "",
            "by provider; by error_type as above",
        ),
        Derived(_PROMPT, "gen_ai_client_token_usage_sum", "", "tokens of the type input"),
    ),
    cannot=CANNOT,
    unused=(
        Unused("gen_ai_client_token_usage*", "its sums by input and output are taken"),
        Unused("gen_ai_*", "of another convention's names"),
        Unused("mcp_*", "calls of tools through the gateway, not of models"),
        Unused("aigw_*", "the gateway's own"),
    ),
)
