"""AIBrix's gateway plugin: calls, how they ended, tokens and calls in hand.

Times and lengths are plain counters by a range in words (``bucket="1-2ms"``): not cumulative and without a sum of times, so
that no histogram can be made of them, and none is. A success is counted once for a call; a failure once for each stage that
saw it, so that 499, which a failed call's closing stream adds to its real status, is left out.
"""

from __future__ import annotations

from llmvitals.schema import Origin
from llmvitals.series import Series
from llmvitals.telemetry import simple
from llmvitals.telemetry.mapping import Derived, Entry, Parts, Row, Unused

KIND = "aibrix"

_CLOSED = "499"
_CODES = frozenset(str(code) for code in range(200, 600)) - {_CLOSED}
_OTHERS = frozenset(str(code) for code in range(0, 100)) | {""}
_CALLS, _RUNNING, _TOKENS = "llm_gateway_requests_total", "llm_gateway_calls_running", "llm_gateway_tokens_total"
_PROMPT = "llm_gateway_prompt_tokens_total"
_STAGES = (
    "failures by stage: a call that fails may count in more than one; a call that the proxy cancels counts as a success"
)


def _ended(source: str) -> tuple[Row, ...]:
    labels = (("status", "status_code"),)
    return (
        Row(source, _CALLS, labels=labels, only=(("status_code", _CODES),), late=True, note=_STAGES),
        Row(source, _CALLS, fixed=(("status", "error"),), only=(("status_code", _OTHERS),), late=True),
    )


ROWS: tuple[Row, ...] = simple.added(
    (
        Row("gateway_request", "llm_gateway_calls_total", late=True, note="before the model is known"),
        *_ended("gateway_request_model_success"),
        *_ended("gateway_request_model_fail"),
        Row("gateway_model_in_flight_requests", _RUNNING, special="model"),
        Row("gateway_in_flight_requests", _RUNNING, special="all"),
        Row("gateway_input_tokens", _TOKENS, special="input", late=True, note="0 of an answer without usage"),
        Row("gateway_output_tokens", _TOKENS, late=True),
    )
)


def _derive(parts: Parts) -> None:
    by: dict[str, list[tuple[Entry, float]]] = {}
    for entry, value in simple.sound(parts):
        by.setdefault(entry.row.special, []).append((entry, value))
    for entry, value in by.get("model") or by.get("all", []):  # the second counts the same calls without their model
        _add(parts, entry.series, value)
    for entry, value in by.get("input", []):
        _add(parts, entry.series, value)
        _add(parts, Series(_PROMPT, entry.series.labels), value)


def _add(parts: Parts, series: Series, value: float) -> None:
    parts.samples[series] = parts.samples.get(series, 0.0) + value


_RANGES = "it is counted by ranges in words, not cumulative and without a sum: no histogram"
_PROXY = "the Envoy that asks the plugin shows it, on its own page"
CANNOT: dict[str, str] = {
    "llm_gateway_ttft_seconds": _RANGES,
    "llm_gateway_tpot_seconds": _RANGES,
    "llm_gateway_request_seconds": _RANGES,
    "llm_gateway_overhead_seconds": _RANGES,
    "llm_gateway_disconnects_total": "499 also stands for failed calls whose stream was closed",
    "llm_gateway_retries_total": _PROXY,
    "llm_gateway_connections": _PROXY,
    "llm_gateway_connect_errors_total": _PROXY,
    "llm_gateway_streams_cut_total": _PROXY,
    "llm_gateway_queue_waiting": "the plugin has no queue: limits on requests and tokens refuse at once",
    "llm_gateway_queue_dropped_total": "the plugin has no queue: limits on requests and tokens refuse at once",
    "llm_gateway_queue_seconds": "the plugin has no queue: limits on requests and tokens refuse at once",
}

_ENGINE = "the engine's own page says it"
ADAPTER = simple.source(
    KIND,
    "AIBrix gateway",
    ROWS,
    claims=tuple(
        name.encode()
        for name in (
            "gateway_request_model_",
            "gateway_in_flight_requests",
            "gateway_model_in_flight_",
            "gateway_ttft_bucket",
        )
    ),
    versions="0.4-0.6",
    none_found="Point at the gateway plugin's metrics port.",
    origin=Origin.GATEWAY,
    identity=simple.gateway(KIND, model="model"),
    derive=_derive,
    derived=(Derived(_PROMPT, "gateway_input_tokens_total", "", "the prompt's part of the tokens"),),
    cannot=CANNOT,
    unused=(
        Unused("gateway_*_bucket", "counts by a range in words: not cumulative and without a sum"),
        Unused("gateway_request_success", "the same by no model"),
        Unused("gateway_request_fail", "the same by no model"),
        Unused("gateway_requests_with_usage", "answers that told their tokens"),
        Unused("gateway_first_token_delay_over_1s", "one limit for all, and the request's id in its labels"),
        Unused("gateway_e2e_duration_seconds*", "not filled by releases that count ranges"),
        Unused("gateway_decode_routing_latency_seconds*", "counts by a range in words"),
        Unused("gateway_prefill_*", "calls that the plugin itself sends for prefill"),
        Unused("gateway_decode_*", "calls that the plugin itself sends for decode"),
        Unused("gateway_active_prefill_requests", "calls that the plugin itself sends for prefill"),
        Unused("gateway_kv_*", "of the latest call alone"),
        Unused("gateway_pd_*", "prefill and decode apart: the plugin's own aborts"),
        Unused("pd_selected_*", "choices of a pod, not answers"),
        Unused("aibrix_*", "the controllers' own"),
        Unused("num_requests_*", _ENGINE),
        Unused("*cache_usage_perc", _ENGINE),
        Unused("*_seconds_p[59][09]", _ENGINE),
        Unused("time_to_first_token_seconds*", _ENGINE),
        Unused("time_per_output_token_seconds*", _ENGINE),
        Unused("request_*_time_seconds*", _ENGINE),
        Unused("e2e_request_latency_seconds*", _ENGINE),
        Unused("avg_*", _ENGINE),
    ),
)
