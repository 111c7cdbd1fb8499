"""The named signals: one row each. ``expr`` compiles to PromQL and is evaluated in memory; ``derive`` computes what
the algebra cannot say. The id is the panel's, the evidence's, the gauge's (``llm_<id>``) and the rule's
(``llm:<id>:<window>``) name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from llmvitals.gaps import Gap, GapKind
from llmvitals.schema import Layer
from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.signals.algebra import (
    Agg,
    Binary,
    Const,
    Expr,
    Gauge,
    Increase,
    Op,
    OverTime,
    Quantile,
    Rate,
    Stat,
    mean,
    ratio,
)
from llmvitals.signals.context import Context
from llmvitals.signals.derived import (
    alive,
    coverage,
    gateway,
    gpu,
    gpu_links,
    gpu_memory,
    host,
    kv,
    probe,
    queue,
    requests,
    tenants,
    user,
    work,
)
from llmvitals.signals.evaluate import evaluate
from llmvitals.signals.reading import Reading, Standing

Derive = Callable[[Context], Reading]


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal. ``unit``: base unit, '' for a count. Exactly one of ``expr`` and ``derive`` is set.

    ``standing``: how far its number may be trusted at best. ``by``: labels that a rule keeps.
    """

    id: str
    title: str
    unit: str
    layer: Layer
    expr: Expr | None = None
    derive: Derive | None = None
    standing: Standing = Standing.EXACT
    by: tuple[str, ...] = ("instance", "model")

    @property
    def help(self) -> str:
        """A sentence for people: the derivation's own docstring, or the title."""
        doc = (self.derive.__doc__ or "").strip() if self.derive else ""
        return " ".join(doc.split()) or self.title


U, Q, E, M = Layer.USER, Layer.QUEUE, Layer.ENGINE, Layer.META
TTFT, ITL, TPOT = "llm_request_ttft_seconds", "llm_request_inter_token_seconds", "llm_request_tpot_seconds"
E2E, QUEUE = "llm_request_e2e_seconds", "llm_request_queue_seconds"
PREFILL, DECODE, INFERENCE = (f"llm_request_{x}_seconds" for x in ("prefill", "decode", "inference"))
PROBE_TTFT = "llm_probe_ttft_seconds"
SPAN_QUEUE, SPAN_PREFILL, SPAN_DECODE, SPAN_FRONT = (
    f"llm_span_{x}_seconds" for x in ("queue", "prefill", "decode", "frontend")
)
SEEN, LOW, UP = Standing.ESTIMATE, Standing.LOWER, Standing.UPPER


def _x(id: str, title: str, unit: str, layer: Layer, expr: Expr, standing: Standing = Standing.EXACT) -> Signal:
    return Signal(id, title, unit, layer, expr=expr, standing=standing)


def _card(id: str, title: str, unit: str, expr: Expr) -> Signal:
    """What a GPU shows of itself: it belongs to a target, whatever models that serves, so its series name none."""
    return Signal(id, title, unit, E, expr=expr, by=("instance",))


def _d(id: str, title: str, unit: str, layer: Layer, derive: Derive, standing: Standing = Standing.EXACT) -> Signal:
    return Signal(id, title, unit, layer, derive=derive, standing=standing)


SIGNALS: tuple[Signal, ...] = (
    # -- user experience ------------------------------------------------------------------------------------------
    _x("ttft_p50_seconds", "Time to first token, median", "seconds", U, Quantile(0.50, TTFT), SEEN),
    _x("ttft_p95_seconds", "Time to first token, p95", "seconds", U, Quantile(0.95, TTFT), SEEN),
    _x("ttft_p99_seconds", "Time to first token, p99", "seconds", U, Quantile(0.99, TTFT), SEEN),
    _x("ttft_mean_seconds", "Time to first token, mean", "seconds", U, mean(TTFT)),
    _x("itl_p50_seconds", "Gap between tokens, median", "seconds", U, Quantile(0.50, ITL), SEEN),
    _x("itl_p99_seconds", "Gap between tokens, p99", "seconds", U, Quantile(0.99, ITL), SEEN),
    _x("itl_mean_seconds", "Gap between tokens, mean", "seconds", U, mean(ITL)),
    _x("tpot_p50_seconds", "Time per output token of a request, median", "seconds", U, Quantile(0.50, TPOT), SEEN),
    _x("tpot_p95_seconds", "Time per output token of a request, p95", "seconds", U, Quantile(0.95, TPOT), SEEN),
    _x("tpot_mean_seconds", "Time per output token of a request, mean", "seconds", U, mean(TPOT)),
    _x("e2e_p50_seconds", "Whole request, median", "seconds", U, Quantile(0.50, E2E), SEEN),
    _x("e2e_p95_seconds", "Whole request, p95", "seconds", U, Quantile(0.95, E2E), SEEN),
    _x("e2e_mean_seconds", "Whole request, mean", "seconds", U, mean(E2E)),
    _d("ttft_breach_ratio", "Requests whose first token came too late", "ratio", U, user.ttft_breach_ratio, LOW),
    _d("tpot_breach_ratio", "Requests whose tokens came too slowly", "ratio", U, user.tpot_breach_ratio, LOW),
    _d("ttft_harm_p", "Chance that the TTFT objective is still met", "probability", U, user.ttft_harm_p),
    _d("tpot_harm_p", "Chance that the TPOT objective is still met", "probability", U, user.tpot_harm_p),
    _d("harm_p", "Chance that both objectives are still met", "probability", U, user.harm_p),
    _d("goodput_low_ratio", "Goodput, at least", "ratio", U, user.goodput_low_ratio, LOW),
    _d("goodput_high_ratio", "Goodput, at most", "ratio", U, user.goodput_high_ratio, Standing.UPPER),
    _d("error_ratio", "HTTP answers that were 5xx", "ratio", U, user.error_ratio),
    _d("client_error_ratio", "HTTP answers that were 4xx", "ratio", U, user.client_error_ratio),
    _d("server_errors", "5xx answers", "", U, user.server_errors),
    _x("completion_rate", "Finished requests per second", "requests/second", U, Rate("llm_requests_finished_total")),
    # -- requests told one by one (traces), and probes from outside -----------------------------------------------
    _d("slo_goodput_ratio", "Goodput, request by request", "ratio", U, requests.slo_goodput_ratio),
    _d("slo_worst_goodput_ratio", "Goodput of the worst class", "ratio", U, requests.slo_worst_goodput_ratio),
    _d("slo_burn_peak", "Fastest burn of a class' error budget", "", U, requests.slo_burn_peak),
    _d(
        "slo_ttft_attainment_ratio",
        "First tokens inside their class' promise",
        "ratio",
        U,
        requests.slo_ttft_attainment_ratio,
    ),
    _d(
        "slo_tpot_attainment_ratio",
        "Requests with tokens inside their class' pace",
        "ratio",
        U,
        requests.slo_tpot_attainment_ratio,
    ),
    _d("slo_harm_p", "Chance that every class keeps its promise", "probability", U, requests.slo_harm_p),
    _x("span_queue_mean_seconds", "Queue of a request, mean", "seconds", Q, mean(SPAN_QUEUE)),
    _x("span_prefill_mean_seconds", "Prefill of a request, mean", "seconds", E, mean(SPAN_PREFILL)),
    _x("span_decode_mean_seconds", "Decode of a request, mean", "seconds", E, mean(SPAN_DECODE)),
    _x("span_frontend_mean_seconds", "Around the engine, mean", "seconds", U, mean(SPAN_FRONT)),
    _x("span_frontend_p95_seconds", "Around the engine, p95", "seconds", U, Quantile(0.95, SPAN_FRONT), SEEN),
    _d(
        "span_frontend_share_ratio",
        "Share of the way to a first token that is around the engine",
        "ratio",
        U,
        requests.span_frontend_share_ratio,
    ),
    _x(
        "span_queue_share_ratio",
        "Share of queue time in a request's time in the engine",
        "ratio",
        Q,
        ratio(
            Increase(f"{SPAN_QUEUE}_sum"),
            Binary(
                Op.ADD,
                Increase(f"{SPAN_QUEUE}_sum"),
                Binary(Op.ADD, Increase(f"{SPAN_PREFILL}_sum"), Increase(f"{SPAN_DECODE}_sum")),
            ),
        ),
    ),
    _x("probe_ttft_median_seconds", "First token of a probe, median", "seconds", U, Quantile(0.50, PROBE_TTFT), SEEN),
    _d("probe_failure_ratio", "Share of probes that got no answer", "ratio", U, probe.probe_failure_ratio),
    _d("probe_silent_failures", "Failed probes while no first token came", "", U, probe.probe_silent_failures),
    _d("probe_gap_seconds", "Wait of a probe that the engine did not see", "seconds", U, probe.probe_gap_seconds, SEEN),
    # -- queue and admission --------------------------------------------------------------------------------------
    _x("queue_mean_seconds", "Queue time of finished requests, mean", "seconds", Q, mean(QUEUE)),
    _x("queue_p95_seconds", "Queue time of finished requests, p95", "seconds", Q, Quantile(0.95, QUEUE), SEEN),
    _x(
        "queue_share_ratio",
        "Share of queue time in queue + engine time",
        "ratio",
        Q,
        ratio(Increase(f"{QUEUE}_sum"), Binary(Op.ADD, Increase(f"{QUEUE}_sum"), Increase(f"{INFERENCE}_sum"))),
    ),
    _x("requests_running", "Requests running", "", Q, Gauge("llm_requests_running")),
    _x("requests_waiting", "Requests waiting", "", Q, Gauge("llm_requests_waiting")),
    _x(
        "requests_waiting_deferred",
        "Requests waiting for something other than capacity",
        "",
        Q,
        Gauge("llm_requests_waiting_by_reason", match=(("reason", "deferred"),)),
    ),
    _d("running_max", "Most requests seen running", "", Q, queue.running_max, LOW),
    _d("waiting_share_ratio", "Share of pages with waiting requests", "ratio", Q, queue.waiting_share_ratio),
    _d("waiting_last", "Requests waiting at the end", "", Q, queue.waiting_last),
    _d("preempted_waiting", "Requests waiting again after a preemption", "", Q, queue.preempted_waiting, LOW),
    _d(
        "preempted_waiting_peak",
        "Most requests waiting again after a preemption",
        "",
        Q,
        queue.preempted_waiting_peak,
        LOW,
    ),
    _d("queue_age_seconds", "Age of the oldest waiting request", "seconds", Q, queue.queue_age_seconds, LOW),
    _d("wait_ahead_seconds", "Wait ahead of a new request", "seconds", Q, queue.wait_ahead_seconds, SEEN),
    _d("waiting_tokens", "Prompt tokens in the queue", "tokens", Q, queue.waiting_tokens, SEEN),
    _d(
        "deferred_share_ratio",
        "Waiting pages on which nobody waits for capacity",
        "ratio",
        Q,
        queue.deferred_share_ratio,
    ),
    _d(
        "running_pinned_ratio",
        "Waiting pages on which running is at its maximum",
        "ratio",
        Q,
        queue.running_pinned_ratio,
    ),
    _d("turnover_ratio", "Times the running batch was replaced", "", Q, queue.turnover_ratio),
    _d("waiting_trend_z", "Trend of the queue (Mann-Kendall z)", "", Q, queue.waiting_trend_z),
    _d("waiting_growth_sigmas", "Growth of the queue over chance", "", Q, queue.waiting_growth_sigmas),
    _d("arrival_rate", "Requests per second that reached the engine", "requests/second", Q, queue.arrival_rate, SEEN),
    _x(
        "preemptions_per_minute",
        "Preemptions per minute",
        "1/minute",
        Q,
        Binary(Op.MUL, Rate("llm_preemptions_total"), Const(60.0)),
    ),
    _d("preemptions_per_completion", "Preemptions per finished request", "", Q, queue.preemptions_per_completion),
    _d("preemption_spread_ratio", "Intervals that saw a preemption", "ratio", Q, queue.preemption_spread_ratio),
    _d("rejected_requests", "Requests refused at admission", "", Q, user.rejected),
    _d("rejection_ratio", "Share of offered requests refused", "ratio", Q, user.rejection_ratio),
    _d("aborted_requests", "Requests whose clients left", "", Q, work.aborted_requests, SEEN),
    _d("aborted_ratio", "Share of ended requests whose clients had left", "ratio", Q, work.aborted_ratio, SEEN),
    # -- engine ---------------------------------------------------------------------------------------------------
    _x("prefill_mean_seconds", "Prefill time of finished requests, mean", "seconds", E, mean(PREFILL)),
    _x("decode_mean_seconds", "Decode time of finished requests, mean", "seconds", E, mean(DECODE)),
    _x("inference_mean_seconds", "Engine time of finished requests, mean", "seconds", E, mean(INFERENCE)),
    _x("kv_usage_ratio", "KV usage", "ratio", E, Gauge("llm_kv_usage_ratio", agg=Agg.MAX)),
    _x(
        "kv_usage_peak_ratio",
        "KV usage, highest seen",
        "ratio",
        E,
        OverTime(Stat.MAX, "llm_kv_usage_ratio", agg=Agg.MAX),
        LOW,
    ),
    _d("kv_usage_high_ratio", "KV usage that is reached", "ratio", E, kv.usage_high_ratio, SEEN),
    _d("kv_free_low_ratio", "KV that stays free", "ratio", E, kv.free_low_ratio, SEEN),
    _d("kv_need_ratio", "KV that one waiting request needs", "ratio", E, kv.need_ratio, SEEN),
    _d("kv_room_ratio", "KV left beyond what the next request needs", "ratio", E, kv.room_ratio, SEEN),
    _d("kv_capacity_tokens", "Tokens that fit into the KV pool", "tokens", E, kv.capacity_tokens),
    _d(
        "kv_high_while_waiting_ratio",
        "Pages on which requests wait while KV is nearly full",
        "ratio",
        E,
        kv.high_while_waiting_ratio,
    ),
    _d("kv_fill_ratio", "Share of held KV that holds tokens", "ratio", E, kv.fill_ratio, SEEN),
    _d("mean_context_tokens", "Tokens a running request holds", "tokens", E, kv.mean_context_tokens, SEEN),
    _d("full_context_tokens", "Tokens a large request holds at its end", "tokens", E, kv.full_context_tokens, SEEN),
    _d("seats", "Requests that fit at their mean size", "", E, kv.seats, SEEN),
    _d("seats_full", "Requests that fit at their longest", "", E, kv.seats_full, SEEN),
    _d("spare_seats", "Seats left in the KV pool", "", E, kv.spare_seats, SEEN),
    _d("contexts_in_pool", "Longest contexts that fit into one pool", "", E, kv.contexts_in_pool),
    _d("context_slack_ratio", "Longest accepted context over what traffic uses", "", E, kv.context_slack_ratio, SEEN),
    _d("prefix_caching_enabled", "Prefix caching is on", "", E, kv.caching_enabled),
    _x(
        "prefix_hit_ratio",
        "Prefix cache hit ratio",
        "ratio",
        E,
        ratio(Increase("llm_prefix_cache_hit_tokens_total"), Increase("llm_prefix_cache_query_tokens_total")),
    ),
    _d("prefix_hit_before_ratio", "Prefix cache hit ratio before the window", "ratio", E, kv.prefix_hit_before_ratio),
    _d(
        "prefix_turnover_seconds",
        "Time that an unused prefix can survive",
        "seconds",
        E,
        kv.prefix_turnover_seconds,
        SEEN,
    ),
    _x("prompt_tokens_rate", "Prompt tokens per second", "tokens/second", E, Rate("llm_prompt_tokens_total")),
    _x(
        "generation_tokens_rate", "Generated tokens per second", "tokens/second", E, Rate("llm_generation_tokens_total")
    ),
    _x("prompt_mean_tokens", "Prompt length, mean", "tokens", E, mean("llm_request_prompt_tokens")),
    _x("generation_mean_tokens", "Output length, mean", "tokens", E, mean("llm_request_generation_tokens")),
    _x("iteration_tokens_mean", "Tokens per engine step, mean", "tokens", E, mean("llm_iteration_tokens")),
    _d(
        "prompt_share_ratio", "Share of prompt tokens in the computed tokens", "ratio", E, work.prompt_share_ratio, SEEN
    ),
    _d("prompt_p10_tokens", "Prompt length, p10, at least", "tokens", E, work.prompt_p10_tokens, LOW),
    _d("prompt_p99_tokens", "Prompt length, p99, at least", "tokens", E, work.prompt_p99_tokens, LOW),
    _d("prompt_p95_tokens", "Prompt length, p95, at least", "tokens", E, work.prompt_p95_tokens, LOW),
    _d("prompt_spread", "Prompt lengths, p95 over median", "", E, work.prompt_spread, LOW),
    _d("prompt_length_cv", "Variation of prompt lengths", "ratio", E, work.prompt_length_cv, SEEN),
    _d("itl_median_low_seconds", "Gap between tokens, median at least", "seconds", E, work.itl_median_low_seconds, LOW),
    _d(
        "itl_median_high_seconds",
        "Gap between tokens, median at most",
        "seconds",
        E,
        work.itl_median_high_seconds,
        Standing.UPPER,
    ),
    _d("itl_p99_low_seconds", "Gap between tokens, p99 at least", "seconds", E, work.itl_p99_low_seconds, LOW),
    _d(
        "tpot_median_low_seconds",
        "Time per output token, median at least",
        "seconds",
        E,
        work.tpot_median_low_seconds,
        LOW,
    ),
    _d(
        "tpot_median_high_seconds",
        "Time per output token, median at most",
        "seconds",
        E,
        work.tpot_median_high_seconds,
        Standing.UPPER,
    ),
    _d("token_mean_seconds", "Time per output token, mean", "seconds", E, work.token_mean_seconds, SEEN),
    _d("itl_spread", "Gaps between tokens, p99 over median", "", E, work.itl_spread, LOW),
    _d("generation_spread", "Output lengths, p99 over median", "", E, work.generation_spread, LOW),
    _d("generation_p90_tokens", "Output length, p90, at most", "tokens", E, work.generation_p90_tokens, Standing.UPPER),
    _d("open_max_tokens_ratio", "Requests without a max_tokens of their own", "ratio", E, work.open_max_tokens_ratio),
    _d("open_max_tokens_requests", "Requests without a max_tokens of their own", "", E, work.open_max_tokens_requests),
    _d(
        "wasted_decode_ratio",
        "Generated tokens that nobody received",
        "ratio",
        E,
        work.wasted_decode_ratio,
        Standing.UPPER,
    ),
    _x(
        "draft_acceptance_ratio",
        "Draft tokens accepted",
        "ratio",
        E,
        ratio(Increase("llm_spec_accepted_tokens_total"), Increase("llm_spec_draft_tokens_total")),
    ),
    _d("adapters_short_ratio", "Waiting pages on which every adapter slot is taken", "ratio", E, work.adapters_short),
    _x("lora_slots", "Adapter slots", "", E, Gauge("llm_lora_slots", agg=Agg.MAX)),
    _x("kv_transfer_mean_seconds", "KV transfer, mean", "seconds", E, mean("llm_kv_transfer_seconds")),
    _x("kv_transfer_failures", "Failed KV transfers", "", E, Increase("llm_kv_transfer_failures_total")),
    _d("frontend_residual_seconds", "Time outside queue and engine", "seconds", E, work.frontend_residual_seconds),
    _d(
        "frontend_residual_late_seconds",
        "Time outside queue and engine, last third",
        "seconds",
        E,
        work.frontend_residual_late_seconds,
    ),
    _d(
        "residual_share_ratio",
        "Share of the first token's wait outside the engine",
        "ratio",
        E,
        work.residual_share_ratio,
        SEEN,
    ),
    _d("page_answer_seconds", "Answer time of the metrics page, median", "seconds", E, work.page_answer_seconds),
    _d("stalled_front_ratio", "Time in which the front end stalled", "ratio", E, work.stalled_front_ratio),
    _d("api_cpu_cores", "CPU of the API process", "cores", E, work.api_cpu_cores),
    _card("gpu_sm_active_ratio", "GPU: SMs active", "ratio", Gauge("llm_gpu_sm_active_ratio", agg=Agg.AVG)),
    _card(
        "gpu_tensor_active_ratio",
        "GPU: tensor pipe active",
        "ratio",
        Gauge("llm_gpu_tensor_active_ratio", agg=Agg.AVG),
    ),
    _card("gpu_dram_active_ratio", "GPU: memory active", "ratio", Gauge("llm_gpu_dram_active_ratio", agg=Agg.AVG)),
    _card(
        "gpu_sm_active_mean_ratio",
        "GPU: SMs active, over the window",
        "ratio",
        OverTime(Stat.AVG, "llm_gpu_sm_active_ratio", agg=Agg.AVG),
    ),
    _card(
        "gpu_memory_used_ratio",
        "GPU memory in use",
        "ratio",
        ratio(
            Gauge("llm_gpu_memory_used_bytes"),
            Binary(Op.ADD, Gauge("llm_gpu_memory_used_bytes"), Gauge("llm_gpu_memory_free_bytes")),
        ),
    ),
    _card("gpu_power_watts", "GPU power", "watts", Gauge("llm_gpu_power_watts")),
    # -- engine: what only GPUs and the host show --
    _d("gpus_per_rank", "GPUs that share one engine", "", E, gpu.gpus_per_rank),
    _card(
        "gpu_tensor_active_mean_ratio",
        "GPU: tensor pipe active, over the window",
        "ratio",
        OverTime(Stat.AVG, "llm_gpu_tensor_active_ratio", agg=Agg.AVG),
    ),
    _card(
        "gpu_dram_active_mean_ratio",
        "GPU: memory active, over the window",
        "ratio",
        OverTime(Stat.AVG, "llm_gpu_dram_active_ratio", agg=Agg.AVG),
    ),
    _card(
        "gpu_engine_active_mean_ratio",
        "GPU: time with an active engine (utilisation), over the window",
        "ratio",
        OverTime(Stat.AVG, "llm_gpu_engine_active_ratio", agg=Agg.AVG),
    ),
    _card(
        "gpu_busy_mean_ratio",
        "GPU: time with any kernel resident (utilisation), over the window",
        "ratio",
        OverTime(Stat.AVG, "llm_gpu_busy_ratio", agg=Agg.AVG),
    ),
    _d(
        "gpu_idle_while_waiting_ratio",
        "Pages on which requests wait while GPUs are under-used",
        "ratio",
        E,
        gpu.idle_while_waiting_ratio,
    ),
    _d("gpu_memory_free_low_bytes", "GPU memory that stays free, in bytes", "bytes", E, gpu_memory.free_low_bytes, UP),
    _d("gpu_memory_engine_ratio", "GPU memory of the engine's own processes", "ratio", E, gpu_memory.engine_ratio),
    _d(
        "gpu_memory_beside_pool_ratio",
        "GPU memory that the engine holds beyond its setting",
        "ratio",
        E,
        gpu_memory.beside_pool_ratio,
    ),
    _d(
        "gpu_memory_engine_growth_bytes",
        "Growth of the engine's own GPU memory",
        "bytes",
        E,
        gpu_memory.engine_growth_bytes,
    ),
    _d("gpu_memory_free_low_ratio", "GPU memory that stays free", "ratio", E, gpu.memory_free_low_ratio, UP),
    _d("gpu_memory_other_ratio", "GPU memory of other processes", "ratio", E, gpu.memory_other_ratio),
    _x(
        "memory_utilization_setting",
        "Share of GPU memory that the engine may take",
        "ratio",
        E,
        Gauge("llm_gpu_memory_utilization_setting", agg=Agg.MAX),
    ),
    _d("gpu_link_use_ratio", "GPU: use of the link to its peers", "ratio", E, gpu.link_use_ratio),
    _d("gpu_links_unknown", "GPU: links whose use cannot be told", "", E, gpu.links_unknown),
    _d("tensor_parallel_gpus", "GPUs that share each layer", "", E, gpu_links.tensor_parallel_gpus, SEEN),
    _d("gpu_peer_link_level", "GPU: worst link among those that share a layer", "", E, gpu_links.peer_link_level, SEEN),
    _d("gpu_link_error_excess", "GPU: link errors over what is normal", "", E, gpu_links.link_error_excess),
    _card(
        "gpu_memory_temperature_celsius",
        "GPU: temperature of its memory",
        "celsius",
        Gauge("llm_gpu_memory_temperature_celsius", agg=Agg.MAX),
    ),
    _d("gpu_mig_slices", "GPU: MIG slices among those joined", "", E, gpu.mig_slices),
    _d("gpu_clock_ratio", "GPU: clock while it works, over the highest", "ratio", E, gpu.clock_ratio, UP),
    _d("gpu_throttle_ratio", "GPU: clocks held down by heat or hardware", "ratio", E, gpu.throttle_ratio),
    _d("gpu_power_cap_ratio", "GPU: clocks held down by the power limit", "ratio", E, gpu.power_cap_ratio),
    _d("gpu_xid_errors", "GPU: new XID errors", "", E, gpu.xid_events, LOW),
    _d("gpu_ecc_errors", "GPU: new uncorrectable memory errors", "", E, gpu.ecc_errors),
    _d("gpu_remap_pending", "GPU: a row of memory waits to be remapped", "", E, gpu.row_remap_pending),
    _d("fd_usage_ratio", "File descriptors in use", "ratio", E, host.fd_usage_ratio),
    _d("port_usage_ratio", "Ephemeral ports in use", "ratio", E, host.port_usage_ratio, LOW),
    _d("close_wait_ratio", "Descriptors of connections that nobody closes", "ratio", E, host.close_wait_ratio, SEEN),
    _d("host_memory_ratio", "Memory of the container, of its limit", "ratio", E, host.host_memory_ratio),
    _d("gateway_connection_ratio", "Connections of the gateway in use", "ratio", Q, host.gateway_connection_ratio),
    _d("connect_errors", "Connections to the engine that failed", "", Q, host.connect_errors),
    _d("connect_error_ratio", "Calls that could not connect", "ratio", Q, host.connect_error_ratio),
    _d("streams_cut", "Streams that the proxy ended", "", Q, host.streams_cut),
    _d("streams_cut_ratio", "Calls whose stream the proxy ended", "ratio", Q, host.streams_cut_ratio),
    _d("api_cpu_full_ratio", "CPU of the API process, of what it can use", "ratio", E, host.api_cpu_full_ratio),
    _d("api_throttled_ratio", "Time in which a quota held the API process", "ratio", E, host.api_throttled_ratio),
    # -- the gateway: users ---------------------------------------------------------------------------------------
    _d(
        "call_ttft_harm_p",
        "Chance that calls still meet the TTFT objective",
        "probability",
        U,
        gateway.call_ttft_harm_p,
    ),
    _d("users_harm_p", "Chance that users still get what was promised", "probability", U, gateway.users_harm_p),
    _d(
        "small_ttft_harm_p",
        "Chance that small prompts still meet the TTFT objective",
        "probability",
        U,
        gateway.small_ttft_harm_p,
    ),
    _d("call_failure_ratio", "Calls that failed or were refused", "ratio", U, gateway.call_failure_ratio),
    _d("lost_call_ratio", "Calls that got no answer", "ratio", U, gateway.lost_call_ratio),
    # -- the gateway: demand --------------------------------------------------------------------------------------
    _d("large_call_ratio", "Calls with large prompts", "ratio", Q, gateway.large_call_ratio),
    _d("large_token_ratio", "Prompt tokens of large prompts", "ratio", Q, gateway.large_token_ratio, SEEN),
    _d("refused_calls", "Calls refused at the gateway", "", Q, gateway.refused_calls),
    _d("refused_call_ratio", "Share of calls refused at the gateway", "ratio", Q, gateway.refused_call_ratio),
    _d("retry_ratio", "Calls that repeat a failed one", "ratio", Q, gateway.retry_ratio),
    _d("first_calls_per_minute", "Calls per minute, retries left out", "1/minute", Q, gateway.first_calls_per_minute),
    _d("breaker_open_ratio", "Pages on which the circuit breaker is open", "ratio", Q, gateway.breaker_open_ratio),
    _d("calls_waiting_trend_z", "Trend of the gateway's queue (Mann-Kendall z)", "", Q, gateway.calls_waiting_trend_z),
    _d(
        "calls_waiting_growth_sigmas",
        "Growth of the gateway's queue over chance",
        "",
        Q,
        gateway.calls_waiting_growth_sigmas,
    ),
    _d("calls_wait_ahead_seconds", "Wait ahead in the gateway", "seconds", Q, gateway.calls_wait_ahead_seconds, SEEN),
    _d("calls_per_user_request", "Model calls per user request", "", Q, gateway.calls_per_user_request),
    _d("fan_out_excess", "Model calls per user request over the plan", "", Q, gateway.fan_out_excess),
    _d("planned_calls", "Model calls planned per user request", "", Q, gateway.planned_calls),
    _d("session_calls_peak", "Most calls of one session in a minute", "", Q, gateway.session_calls_peak),
    _d("session_calls_excess", "Busiest session's calls over the median", "", Q, gateway.session_calls_excess),
    _d("session_call_limit", "Calls a minute that a session needs at most", "1/minute", Q, gateway.session_call_limit),
    _d("session_call_ratio", "Busiest session's share of the calls", "ratio", Q, gateway.session_call_ratio, SEEN),
    _d("session_repeats_peak", "Most repeats of one tool call by a session", "", Q, gateway.session_repeats_peak),
    _d(
        "uncached_repeat_ratio", "Calls that repeat an earlier one, uncached", "ratio", Q, gateway.uncached_repeat_ratio
    ),
    _d(
        "response_cache_hit_ratio",
        "Repeated calls that the response cache answered",
        "ratio",
        Q,
        gateway.response_cache_hit_ratio,
    ),
    _d("shared_prefix_ratio", "Prompt tokens that earlier prompts share", "ratio", Q, gateway.shared_prefix_ratio),
    _d("ghost_calls", "Calls that went on without their clients", "", Q, gateway.ghost_calls, SEEN),
    _d(
        "ghost_call_ratio",
        "Share of calls that went on without their clients",
        "ratio",
        Q,
        gateway.ghost_call_ratio,
        SEEN,
    ),
    _d("tenant_excess", "Largest tenant's tokens per weight over the others'", "", Q, tenants.tenant_excess),
    _d("tenant_surplus_ratio", "Tokens beyond the largest tenant's weight", "ratio", Q, tenants.tenant_surplus_ratio),
    _d("tenant_share_ratio", "Largest tenant's share of tokens", "ratio", Q, tenants.tenant_share_ratio),
    _d(
        "fair_tokens_per_minute",
        "Tokens per minute by the largest tenant's weight",
        "tokens/minute",
        Q,
        tenants.fair_tokens_per_minute,
    ),
    _d(
        "others_queue_harm_p",
        "Chance that other tenants' wait is within the promise",
        "probability",
        Q,
        tenants.others_queue_harm_p,
    ),
    _d("others_refused_ratio", "Other tenants' calls that were refused", "ratio", Q, tenants.others_refused_ratio),
    _d("upstreams_down", "Upstreams that the gateway holds unfit", "", Q, gateway.upstreams_down),
    # -- the target itself ----------------------------------------------------------------------------------------
    _d("span_coverage_ratio", "Requests that traces told of", "ratio", M, coverage.span_coverage_ratio),
    _d("pages", "Readable pages in the window", "", M, alive.pages),
    _d("window_seconds", "Time covered by readable pages", "seconds", M, alive.window_seconds),
    _d("activity", "Tokens and requests seen", "", M, alive.activity),
    _x("first_tokens", "First tokens", "", M, Increase(f"{TTFT}_count")),
    _d("dead_tail_pages", "Failed scrapes at the end after good ones", "", M, alive.dead_tail_pages),
    _d("failed_scrape_ratio", "Scrapes that failed", "ratio", M, alive.failed_scrape_ratio),
    _d("stalled_seconds", "Time without any movement while work is there", "seconds", M, alive.stalled_seconds),
    _d("silent_failures", "5xx answers while no first token came", "", M, alive.silent_failures),
    _d("restarts", "Restarts of the process", "", M, alive.restarts),
    _d("oom_restarts", "Restarts for want of memory", "", M, host.oom_restarts),
    _d(
        "device_oom_restarts",
        "Restarts for want of memory, the host's not short",
        "",
        M,
        host.device_oom_restarts,
    ),
    _d("planned_restarts", "Restarts by a probe or a rollout", "", M, host.planned_restarts),
    _d("time_to_ready_seconds", "Time from the container's start to ready", "seconds", M, host.time_to_ready_seconds),
    _d("not_ready_ratio", "Pages that answer while the pod is not ready", "ratio", M, host.not_ready_ratio),
    _d("restarts_not_crashed", "Restarts that were no crash", "", M, host.restarts_not_crashed),
    _d("lost_by_restarts", "Requests inside when the process ended", "", M, alive.lost_by_restarts, LOW),
    _d("processes_behind", "Servers behind this address", "", M, alive.processes_behind, LOW),
    _d("uptime_seconds", "Age of the process as the window began", "seconds", M, alive.uptime_seconds),
    _d("late_ttft_breaches", "Late first tokens in the last third", "", M, alive.late_ttft_breaches, LOW),
    _d("contradiction", "Answers that the engine's counters do not know", "", M, alive.contradiction),
    _d("core_families_missing", "Basic families absent from the page", "", M, alive.core_families_missing),
)

BY_ID: dict[str, Signal] = {signal.id: signal for signal in SIGNALS}


def compute(window: Window, settings: Settings, *, only: Collection[str] = ()) -> dict[str, Reading]:
    """Every signal of one scope, or ``only`` some. Never raises for what the pages hold: what cannot be said is a gap."""
    return computed(Context(window, settings), only=only)


def computed(context: Context, *, only: Collection[str] = ()) -> dict[str, Reading]:
    """:func:`compute` for who asks more of the same window."""
    wanted = [BY_ID[name] for name in only] if only else SIGNALS
    if not context.good.snapshots:
        empty = Reading(None, gap=Gap(GapKind.MISSING, "no readable page in the window", "llm_target_up"))
        return {s.id: s.derive(context) if s.derive and s.layer is M else empty for s in wanted}
    return {signal.id: _one(signal, context) for signal in wanted}


def _one(signal: Signal, context: Context) -> Reading:
    """A signal's number. Divided by next to nothing it would be infinite, and nothing that is infinite is a number."""
    try:
        reading = _read(signal, context)
    except ArithmeticError:  # it was to be rounded on the way, or an edge of a histogram to divide by is 0
        reading = Reading(math.inf)
    if reading.value is None or math.isfinite(reading.value):
        return reading
    return Reading(None, gap=Gap(GapKind.MISSING, "what the page counts is too large or too small to be divided"))


def _read(signal: Signal, context: Context) -> Reading:
    if signal.derive is not None:
        return signal.derive(context)
    assert signal.expr is not None
    reading = evaluate(signal.expr, context.good)
    if reading.known and reading.standing is Standing.EXACT and signal.standing is not Standing.EXACT:
        return replace(reading, standing=signal.standing)
    return reading
