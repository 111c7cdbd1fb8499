"""Names of the endpoint picker by generation, and what is made of them in ``epp.py``.

``inference_model_`` to 1.0, ``inference_objective_`` from 1.1 on, ``llm_d_router_epp_`` and then ``llm_d_epp_`` since the
picker moved to llm-d; ``inference_pool_`` and ``inference_extension_`` stayed beside the first two.
"""

from __future__ import annotations

from llmvitals.telemetry.mapping import Derived, Row, Unused

GENERATIONS = (
    "llm_d_epp_",
    "llm_d_router_epp_",
    "inference_objective_",
    "inference_pool_",
    "inference_extension_",
    "inference_model_",
)
"""Prefixes, the newest first."""

_NEW = GENERATIONS[:2]
_OBJECTIVE = ("inference_objective_", "inference_model_")
_EXTENSION = ("inference_extension_",)
_POOL = ("inference_pool_",)

FLOW = "flow control (the flowControl feature gate)"
_PREDICTED = "the latency predictor"
_TENANT = (("tenant", "fairness_id"),)


def _rows(
    family: str,
    use: str,
    *named: tuple[tuple[str, ...], str],
    needs: str = "",
    note: str = "",
    labels: tuple[tuple[str, str], ...] = (),
    late: bool = True,
) -> tuple[Row, ...]:
    """One thing under all its names: (prefixes, name)."""
    return tuple(
        Row(f"{prefix}{name}", family, special=use, needs=needs, note=note, labels=labels, late=late)
        for prefixes, name in named
        for prefix in prefixes
    )


ROWS: tuple[Row, ...] = (
    *_rows("llm_gateway_calls_total", "sent", (_NEW, "request"), (_OBJECTIVE, "request")),
    *_rows(
        "llm_gateway_requests_total",
        "error",
        (_NEW, "request_error"),
        (_OBJECTIVE, "request_error"),
        labels=_TENANT,
        note="answered: by a model server, whatever the status; the picker's own refusals by status",
    ),
    *_rows(
        "llm_gateway_request_seconds",
        "duration",
        (_NEW, "request_duration_seconds"),
        (_OBJECTIVE, "request_duration_seconds"),
        labels=_TENANT,
    ),
    *_rows(
        "llm_gateway_ttft_seconds",
        "add",
        (_NEW, "request_ttft_seconds"),
        (_OBJECTIVE, "request_ttft_seconds"),
        needs=_PREDICTED,
    ),
    *_rows(
        "llm_gateway_tpot_seconds",
        "add",
        (_NEW, "request_tpot_seconds"),
        (_OBJECTIVE, "request_tpot_seconds"),
        needs=_PREDICTED,
    ),
    *_rows(
        "llm_gateway_calls_running",
        "add",
        (_NEW[:1], "request_running"),
        (_NEW, "running_requests"),
        (_OBJECTIVE, "running_requests"),
    ),
    *(
        row
        for use in ("input", "output")
        for row in _rows(
            "llm_gateway_tokens_total",
            use,
            (_NEW[:1], f"request_{use}_tokens_sum"),
            (_NEW, f"{use}_tokens_sum"),
            (_OBJECTIVE, f"{use}_tokens_sum"),
            labels=_TENANT,
            note="from the usage in answers",
        )
    ),
    *_rows(
        "llm_gateway_queue_seconds",
        "queue",
        (_NEW, "flow_control_request_queue_duration_seconds"),
        (_EXTENSION, "flow_control_request_queue_duration_seconds"),
        labels=_TENANT,
        needs=FLOW,
        note="calls that were given up included",
    ),
    *_rows(
        "llm_gateway_queue_waiting",
        "add",
        (_NEW, "flow_control_queue_size"),
        (_EXTENSION, "flow_control_queue_size"),
        needs=FLOW,
    ),
    *_rows(
        "llm_gateway_overhead_seconds",
        "add",
        (_NEW, "scheduler_e2e_duration_seconds"),
        (_EXTENSION, "scheduler_e2e_duration_seconds"),
        note="choosing a pod",
    ),
    *_rows(
        "llm_gateway_upstream_up",
        "ready",
        (_NEW, "ready_endpoints"),
        (_POOL, "ready_pods"),
        labels=(("upstream", "name"),),
        late=False,
        note="1 while the pool has a ready pod",
    ),
)

DERIVED: tuple[Derived, ...] = (
    Derived(
        "llm_gateway_queue_dropped_total",
        "flow_control_request_queue_duration_seconds_count",
        "",
        "outcomes: RejectedCapacity full, EvictedTTL ttl, EvictedContextCancelled left",
    ),
    Derived("llm_gateway_prompt_tokens_total", "input_tokens_sum", "", "from the usage in answers"),
    Derived(
        "llm_gateway_upstream_requests_total", "request_error_total", "", "ModelServerError: answers other than 200"
    ),
)

_PROXY = "the proxy that asks the picker sees it"
_CONTENT = "the picker does not compare what calls ask"
CANNOT: dict[str, str] = {
    "llm_gateway_disconnects_total": "clients that leave are counted only while their calls wait",
    "llm_gateway_retries_total": _PROXY,
    "llm_gateway_connections": _PROXY,
    "llm_gateway_connection_limit": _PROXY,
    "llm_gateway_connect_errors_total": _PROXY,
    "llm_gateway_streams_cut_total": _PROXY,
    "llm_gateway_upstream_seconds": "the time of a call is not told apart by pod",
    "llm_gateway_queue_limit": "limits are bytes per priority band in the configuration",
    "llm_gateway_exact_repeats_total": _CONTENT,
    "llm_gateway_shared_prefix_tokens_total": "the prefix index counts bytes and is an estimate",
}

_MEAN = "a mean over pods, no sum: the engines' own pages say it"
_ENGINE = "the engine's own page says it"
_BY_PREFIX: tuple[tuple[str, str], ...] = (
    ("average_*", _MEAN),
    ("std_dev_*", _MEAN),
    ("per_pod_queue_size", _ENGINE),
    ("per_endpoint_*", _ENGINE),
    ("*prompt_cached_tokens", _ENGINE),
    ("*input_tokens", "its sum is taken"),
    ("*output_tokens", "its sum is taken"),
    ("*normalized_time_per_output_token_seconds", "the whole time over the tokens, queue and prefill included"),
    ("*ntpot_seconds", "the whole time over the tokens, queue and prefill included"),
    ("*predicted_*", "predictions, not measurements"),
    ("*prediction_duration_seconds", "the predictor's own time"),
    ("*slo_violation", "against the picker's own predicted limits"),
    ("inference_request_metric", "last values by type"),
    ("*request_sizes", "bytes"),
    ("*response_sizes", "bytes"),
    ("*size_bytes", "bytes"),
    ("*processing_duration_seconds", "the filter's own time, the wait for flow control included"),
    ("prefix_indexer_*", "an estimate of the picker's own; the engines count real hits"),
    ("prefix_cache_*", "an estimate of the picker's own; the engines count real hits"),
    ("scheduler_attempts", "choices of a pod, not answers"),
    ("flow_control_*", "flow control's own work and its saturation estimate"),
    ("plugin_*", "a plugin's own"),
    ("datalayer_*", "how the picker reads the engines' pages"),
    ("model_rewrite_decisions", "which target a model's name was rewritten to"),
    ("disagg_decision", "whether prefill was sent elsewhere"),
    ("pd_decision", "whether prefill was sent elsewhere"),
    ("info", "the build"),
    ("config_*", "the configuration's reloads"),
    ("grpc_*", "the stream to the proxy"),
    ("tool*", "tool calls in answers"),
    ("thunder_agent_*", "a plugin's own"),
    ("inflight_*", "the picker's estimate of load"),
)
UNUSED: tuple[Unused, ...] = (
    *(
        Unused(f"{prefix}{name}", why)
        for prefix in (*GENERATIONS, "llm_d_inference_scheduler_")
        for name, why in _BY_PREFIX
    ),
    Unused("iinference_*", "a name that was misspelt for a while"),
)
