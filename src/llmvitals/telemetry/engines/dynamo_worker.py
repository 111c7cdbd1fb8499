"""A Dynamo worker whose engine shows nothing of its own: only what Dynamo's handler around it counts.

That is one time per request and what the engine told the router of its KV pool. Requests in the handler's hands may run or
wait, so neither can be said. Where vLLM's, SGLang's or TensorRT-LLM's series stand beside, they are read instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.series import Series
from llmvitals.telemetry.companions import GENERATE, component_rows, roles
from llmvitals.telemetry.companions import UNUSED as COMPANIONS
from llmvitals.telemetry.mapping import Derived, Parts, Row, Unused, Whose
from llmvitals.telemetry.simple import source

KIND = "dynamo-worker"

E2E, ENDED = "llm_request_e2e_seconds", "llm_requests_finished_total"
_TELLS = "an engine that tells Dynamo of its KV pool"

ROWS: tuple[Row, ...] = (
    Row(
        "dynamo_component_request_duration_seconds",
        E2E,
        only=(GENERATE,),
        add=True,
        note="from the handler taking a request in to its last piece",
    ),
    Row("dynamo_component_gpu_cache_usage_percent", "llm_kv_usage_ratio", needs=_TELLS, note="0-1 despite its name"),
    Row(
        "dynamo_component_kvstats_gpu_cache_usage_percent",
        "llm_kv_usage_ratio",
        needs=_TELLS,
        fallback=True,
        note="the older name, 0-1",
    ),
    Row("dynamo_component_total_blocks", "llm_kv_blocks", needs=_TELLS, nothing=0.0, add=True),
    Row("dynamo_component_kvstats_total_blocks", "llm_kv_blocks", needs=_TELLS, nothing=0.0, fallback=True),
    Row(
        "dynamo_component_kvstats_gpu_prefix_cache_hit_rate",
        "llm_prefix_cache_reported_hit_ratio",
        needs=_TELLS,
        fallback=True,
    ),
    *component_rows(),
)

_HANDLER = "the handler counts requests in hand, whether they run or wait; the engine shows nothing itself"
_OWN = "the engine shows nothing itself, and Dynamo's handler does not time it"
CANNOT: Mapping[str, str] = {
    "llm_requests_running": _HANDLER,
    "llm_requests_waiting": _HANDLER,
    "llm_request_ttft_seconds": f"{_OWN}; the front end does",
    "llm_request_inter_token_seconds": f"{_OWN}; the front end does",
    "llm_request_tpot_seconds": _OWN,
    "llm_request_queue_seconds": _OWN,
    "llm_generation_tokens_total": "tokens are counted by the front end, not here",
    "llm_prompt_tokens_total": "tokens are counted by the front end, not here",
}


def _identity(labels: Mapping[str, str]) -> Whose:
    """The model, and the data-parallel rank where the engine tells of its pools rank by rank."""
    named = {"model": labels["model"]} if labels.get("model") else {}
    return Whose({"engine": KIND, "rank": labels.get("dp_rank") or "0", **named})


def _derive(parts: Parts) -> None:
    """Requests that have ended: as many as were timed."""
    roles(parts)
    for series in [s for s in parts.samples if s.name == f"{E2E}_count"]:
        parts.samples[Series(ENDED, series.labels)] = parts.samples[series]


def _unused() -> tuple[Unused, ...]:
    mine = {row.source.removesuffix("_total") for row in ROWS}
    return tuple(entry for entry in COMPANIONS if entry.name not in mine)


ADAPTER = source(
    KIND,
    "NVIDIA Dynamo worker",
    ROWS,
    claims=(b"dynamo_component_",),
    versions="0.8-1.6",
    none_found="Set DYN_SYSTEM_PORT on the worker and point at that port.",
    identity=_identity,
    derive=_derive,
    derived=(Derived(ENDED, "dynamo_component_request_duration_seconds", "", "its count; no reason is known"),),
    cannot=CANNOT,
    unused=_unused(),
    rank=60,
)
