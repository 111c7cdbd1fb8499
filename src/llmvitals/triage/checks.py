"""The ordered table of checks: every cause, the conditions under which it is named, and the setting to change.

Conditions were fitted on recordings of a real vLLM under known load; docs/accuracy.md says how far to trust them.
Numbers that an operator may want to move are in ``settings.Thresholds``; those written here belong to the shape of a
check.
"""

from __future__ import annotations

import math

from llmvitals.settings import Settings
from llmvitals.triage.model import Check, Limit, Number, Proof, Readings, Remedy
from llmvitals.triage.verdict import Outcome

# -- conditions used by several checks -------------------------------------------------------------------------------
TTFT_HARM = Limit("ttft_harm_p", "<", "thresholds.harm_p")
TPOT_HARM = Limit("tpot_harm_p", "<", "thresholds.harm_p")
ANY_HARM = Limit("harm_p", "<", "thresholds.harm_p")
QUEUED = Limit("waiting_share_ratio", ">=", "thresholds.waiting_share")
NOT_QUEUED = Limit("waiting_share_ratio", "<", "thresholds.waiting_share")
KV_BOUND = Limit("kv_room_ratio", "<=", 0.0)
KV_FREE = Limit("kv_room_ratio", ">", 0.0)
FOR_CAPACITY = Limit("deferred_share_ratio", "<", 0.5)

TREND_Z = 2.33
"""Mann-Kendall z from which on a rise is no chance: one in a hundred windows without a trend shows as much."""

THRASH: tuple[Limit, ...] = (
    Limit("preemptions_per_minute", ">", "thresholds.preemptions_per_minute"),
    Limit("preemption_spread_ratio", ">=", "thresholds.preemption_spread"),
    Limit("preemptions_per_completion", ">=", "thresholds.preemptions_per_completion"),
    Limit("kv_free_low_ratio", "<=", "thresholds.kv_free_floor", 4),
)
THRASHED: tuple[str, ...] = (
    "kv-cache-saturation",
    "unbounded-queue",
    "batch-too-large",
    "prefill-decode-interference",
    "prefill-bound",
    "block-fragmentation",
    "batch-too-small",
)
"""What computing work again and again brings about."""

KV_FULL: tuple[Limit, ...] = (KV_BOUND, QUEUED, FOR_CAPACITY)
"""The next request does not fit, and requests wait for that."""

# Where nobody says what requests wait for, a pool of which hardly anything stays free says it.
KV_SPENT: tuple[Limit, ...] = (KV_BOUND, QUEUED, Limit("kv_free_low_ratio", "<=", "thresholds.kv_free_floor", 4))

# Admission is capped where the pool ends: seats are not too few, the pool is.
KV_CAPPED: tuple[Limit, ...] = (
    QUEUED,
    FOR_CAPACITY,
    Limit("running_pinned_ratio", ">=", 0.75),
    Limit("turnover_ratio", ">=", 2),
    Limit("spare_seats", "<", 1),
    Limit("kv_free_low_ratio", "<=", 0.5),  # requests grow to twice what they hold on average, at most
)

STALLING = Limit("stalled_front_ratio", ">=", 0.15)

HURT: tuple[Limit, ...] = (
    ANY_HARM,
    STALLING,
    Limit("call_ttft_harm_p", "<", "thresholds.harm_p"),
    Limit("slo_harm_p", "<", "thresholds.harm_p"),
)
"""Any of these, and somebody is hurt: by what the engine measured, by a front end that stalls before it measures, by what a
gateway saw, whose queue lies before the engine's clock, or by what traces told of a class.
"""

# Equal tenants of some twenty calls a minute, of lengths that vary 1.5 times their mean, differ by less than a factor of 2
# by chance. And where a quota would free less than a fifth of the load, it is not what is missing.
NOISY: tuple[Limit, ...] = (Limit("tenant_excess", ">=", 2), Limit("tenant_surplus_ratio", ">=", 0.2))

RETRIED = Limit(
    "retry_ratio", ">=", 0.2
)  # twice the retry budget that sites keep (10 %: Google SRE, "Handling Overload")

# Ten times the median session is beyond what eager users differ by; the same tool call with the same arguments is stopped
# at its third time by an agent's own guard (the article), so at ten there is none, and a tool polled every few seconds
# belongs here too.
RUNAWAY: tuple[Limit, ...] = (Limit("session_calls_excess", ">=", 10), Limit("session_repeats_peak", ">=", 10))

# Saved by a cache, less than about a third of calls or prompt tokens brings a saturated server no rest: at two thirds of
# its load the mean wait is two service times (M/M/1).
SHARED = Limit("shared_prefix_ratio", ">=", 0.3)
NOTHING_SHARED = Limit("shared_prefix_ratio", "<", 0.1)  # no cache could reach the hit ratio that is missed

# Small prompts suffer, the large ones are fewer than they, and yet bring most of what there is to prefill: alone, the small
# ones would be served. Where all are large, or the small ones are the load, this is plain overload.
SMALL_BEHIND_LARGE: tuple[Limit, ...] = (
    Limit("small_ttft_harm_p", "<", "thresholds.harm_p"),
    Limit("large_call_ratio", "<", 0.5),
    Limit("large_token_ratio", ">=", 0.3),
)

# Every fifth call worked on for nobody: what is freed by stopping them is more than a quota would have to free.
GHOSTS: tuple[Limit, ...] = (Limit("ghost_calls", ">=", 10), Limit("ghost_call_ratio", ">=", 0.2))

LOAD: tuple[str, ...] = (
    "kv-cache-saturation",
    "batch-too-small",
    "batch-too-large",
    "prefill-bound",
    "prefill-decode-interference",
)
"""Causes that load brings about: less of it, and they are gone."""

GPU_IDLE = Limit("gpu_sm_active_mean_ratio", "<", "thresholds.gpu_active")

API_FULL = Limit("api_cpu_full_ratio", ">=", 0.95)  # a process at one core (catalogue)

# Kernels are resident, yet neither memory nor tensor pipes work: they wait. Decoding moves memory for most of its time and
# prefill computes for most of its, so with both this low about half of the time goes elsewhere.
GPU_WAITS: tuple[Limit, ...] = (
    Limit("tensor_parallel_gpus", ">", 1),  # replicas and pipeline stages exchange next to nothing
    Limit("gpu_sm_active_mean_ratio", ">=", "thresholds.gpu_active"),
    Limit("gpu_dram_active_mean_ratio", "<", 0.4),
    Limit("gpu_tensor_active_mean_ratio", "<", 0.3),
)
LINK_BUSY = Limit("gpu_link_use_ratio", ">=", 0.15)
VRAM_SHORT = Limit("gpu_memory_free_low_ratio", "<", "thresholds.vram_margin")
NEIGHBOUR = Limit("gpu_memory_other_ratio", ">=", "thresholds.vram_margin")  # it holds all that should be left free


def _signal(name: str, factor: float = 1.0) -> Number:
    """The value of a signal, times a factor, in whole units."""

    def value(readings: Readings, _: Settings) -> float | None:
        found = readings[name].value
        return None if found is None else float(max(1, round(found * factor)))

    return value


def _ceiling(readings: Readings, settings: Settings) -> float | None:
    """Queue ceiling: completions per second x the TTFT threshold, the wait that is still acceptable."""
    rate = readings["completion_rate"].value
    return None if rate is None else float(max(1, round(rate * settings.slo.ttft_seconds)))


def _more_seats(readings: Readings, _: Settings) -> float | None:
    """Seats that the KV pool allows at full length, at most four times what runs now: raise in steps and look."""
    fit, now = readings["seats_full"].value, readings["running_max"].value
    return None if fit is None or now is None else float(max(now + 1, min(fit, now * 4)))


def _fewer_seats(readings: Readings, settings: Settings) -> float | None:
    """Running x target / measured TPOT: decode steps grow about linearly with a batch that is too large."""
    now, tpot = readings["running_max"].value, readings["tpot_mean_seconds"].value
    if now is None or not tpot:
        return None
    return float(max(1, round(now * min(1.0, settings.slo.tpot_seconds / tpot))))


def _model_len(readings: Readings, _: Settings) -> float | None:
    """What traffic uses, with half as much again in reserve, in steps of 1,024."""
    used = readings["full_context_tokens"].value
    return None if used is None else float(-(-int(used * 1.5) // 1024) * 1024)


def _less_memory(readings: Readings, settings: Settings) -> float | None:
    """The setting less what is short of the margin, at least one point less, in whole percent."""
    now, free = readings["memory_utilization_setting"].value, readings["gpu_memory_free_low_ratio"].value
    if now is None or free is None:
        return None
    short = max(0.01, settings.thresholds.vram_margin - free)
    return max(0.01, math.floor(round((now - short) * 100, 6)) / 100)


CHECKS: tuple[Check, ...] = (
    # -- 0: can the numbers be trusted, is it serving --------------------------------------------------------------
    Check(
        "not-serving",
        0,
        "Up, but no tokens come out",
        "backpressure article, introduction",
        Remedy(
            "Keep the logs and this recording, then restart the engine; alert on tokens, not on /health.", "restart"
        ),
        cites=("stalled_seconds", "dead_tail_pages", "silent_failures", "probe_silent_failures"),
        when=(
            (Limit("dead_tail_pages", ">=", 3),),
            (Limit("silent_failures", ">=", 10), Limit("error_ratio", ">=", 0.5)),
            (Limit("stalled_seconds", ">=", "thresholds.stalled_seconds"),),
            # nobody asks, or no page could tell: probes get no answer, one of them by chance
            (Limit("probe_silent_failures", ">=", 3), Limit("probe_failure_ratio", ">=", 0.8)),
        ),
        explains=(
            "telemetry-broken",
            "unbounded-queue",
            "kv-cache-saturation",
            "prefill-bound",
            "batch-too-small",
            "api-server-bound",
            "cold-start",
            "prefill-decode-interference",
            "retry-storm",
        ),
        confidence=0.98,
        hazard=True,
        even_idle=True,
        at_once=True,
    ),
    # -- 7 and 1 first in rank: a broken or crowded card explains whatever the engine shows ---------------------------
    Check(
        "hardware-event",
        7,
        "A GPU reports errors, or its clocks are held down",
        "backpressure article, bottleneck 20",
        Remedy("Cordon and drain the node; errors need a reset or another card, low clocks cooling or power.", "node"),
        when=(
            (Limit("gpu_xid_errors", ">=", 1),),
            (Limit("gpu_ecc_errors", ">=", 1),),
            (Limit("gpu_remap_pending", ">=", 1),),
            # heat and hardware hold clocks down only when something is wrong
            (ANY_HARM, Limit("gpu_throttle_ratio", ">=", 0.1), Limit("gpu_clock_ratio", "<", 0.9)),
            # the power limit also does so under dense arithmetic, which is how a card works; not when tensor pipes rest
            (
                ANY_HARM,
                Limit("gpu_power_cap_ratio", ">=", 0.5),
                Limit("gpu_clock_ratio", "<", 0.85),
                Limit("gpu_tensor_active_mean_ratio", "<", 0.5),
            ),
            # dense arithmetic at a card's own power limit keeps more than this of its highest clock
            (ANY_HARM, Limit("gpu_clock_ratio", "<", 0.6)),
            # every link repeats something now and then: only more than NVIDIA's health check allows
            (ANY_HARM, Limit("gpu_link_error_excess", ">", 1)),
        ),
        cites=(
            "gpu_xid_errors",
            "gpu_ecc_errors",
            "gpu_remap_pending",
            "gpu_throttle_ratio",
            "gpu_power_cap_ratio",
            "gpu_clock_ratio",
            "gpu_link_error_excess",
            "gpu_mig_slices",
        ),
        tells=("gpu_xid_errors", "gpu_link_error_excess", "gpu_mig_slices"),
        explains=(
            "not-serving",
            "rollout-and-probes",
            "cold-start",
            "interconnect-bound",
            "batch-too-large",
            "batch-too-small",
            "prefill-bound",
            "prefill-decode-interference",
            "head-of-line-blocking",
            "kv-cache-saturation",
            "unbounded-queue",
            "prefix-cache-miss",
            "prefix-caching-off",
            "retry-storm",
        ),
        confidence=0.98,
        hazard=True,
        even_idle=True,
        at_once=True,
    ),
    Check(
        "vram-headroom",
        1,
        "No room beside the KV pool",
        "backpressure article, bottleneck 3",
        Remedy(
            "Lower gpu_memory_utilization, or move what else runs on the card; for PyTorch services expandable_segments; "
            "enforce_eager as the last resort.",
            "--gpu-memory-utilization",
            _less_memory,
        ),
        when=(
            # little room alone is by design: the engine reserves the card at its start
            (VRAM_SHORT, Limit("device_oom_restarts", ">=", 1)),
            (VRAM_SHORT, NEIGHBOUR, Limit("restarts", ">=", 1)),
            (VRAM_SHORT, NEIGHBOUR, ANY_HARM, KV_FREE),
        ),
        confirms=(Limit("device_oom_restarts", ">=", 1),),
        cites=("gpu_memory_free_low_ratio", "gpu_memory_other_ratio", "device_oom_restarts"),
        explains=("not-serving", "rollout-and-probes", "cold-start", "telemetry-broken"),
        confidence=0.97,
        note="A scrape misses short peaks of memory: the number is a first step.",
        hazard=True,
        even_idle=True,
        at_once=True,
    ),
    Check(
        "overloaded-and-shedding",
        0,
        "Load is refused, what is admitted is served",
        "backpressure article, bottleneck 8",
        Remedy("Nothing to fix in the engine: add capacity if the refused load is wanted.", "replicas"),
        when=(
            (
                Limit("rejected_requests", ">=", 10),
                Limit("rejection_ratio", ">=", 0.05),
                Limit("waiting_trend_z", "<", TREND_Z),
            ),
            # at the gateway: both queues bounded, and what is let in gets its first token in time
            (
                Limit("refused_calls", ">=", 10),
                Limit("refused_call_ratio", ">=", 0.05),
                Limit("waiting_trend_z", "<", TREND_Z),
                Limit("calls_waiting_trend_z", "<", TREND_Z),
                Limit("call_ttft_harm_p", ">=", "thresholds.harm_p"),
            ),
        ),
        leads=False,
        outcome=Outcome.SHEDDING,
        confidence=0.97,
        hazard=True,
    ),
    # -- 7 first in rank: what passes by itself ---------------------------------------------------------------------
    Check(
        "cold-start",
        7,
        "The replica has just started",
        "backpressure article, bottleneck 18",
        Remedy(
            "It passed: warm a replica up before it is ready, keep one warm, and scale on queue wait, not on GPU percent.",
            "startupProbe",
        ),
        cites=("uptime_seconds", "time_to_ready_seconds", "frontend_residual_seconds"),
        when=(
            (
                TTFT_HARM,
                Limit("stalled_front_ratio", "<", 0.15),
                Limit("uptime_seconds", "<=", "thresholds.cold_start_seconds"),
                Limit("late_ttft_breaches", "<=", 0),
                Limit("waiting_last", "<=", 0),
            ),
        ),
        explains=(
            "api-server-bound",
            "ghost-compute",
            "prefill-bound",
            "kv-cache-saturation",
            "batch-too-small",
            "retry-storm",
        ),
        confidence=0.97,
    ),
    Check(
        "rollout-and-probes",
        7,
        "The process was restarted, or its probe keeps it out of service",
        "backpressure article, bottleneck 19",
        Remedy(
            "Look for exit 137, probe failures or a rollout; keep liveness apart from inference, the grace period above "
            "the longest generation.",
            "terminationGracePeriodSeconds",
        ),
        cites=("restarts", "planned_restarts", "failed_scrape_ratio", "not_ready_ratio"),
        when=(
            (Limit("planned_restarts", ">=", 1),),
            # it serves, and gets no traffic: the probe fails, or the pod is being replaced; one that only now came up
            # has failed scrapes behind it
            (Limit("not_ready_ratio", ">=", 0.5), Limit("failed_scrape_ratio", "<=", 0.0)),
            (Limit("restarts_not_crashed", ">=", 1), Limit("failed_scrape_ratio", ">", 0.0)),
            (Limit("restarts_not_crashed", ">=", 1), ANY_HARM),
            (Limit("restarts_not_crashed", ">=", 1), Limit("lost_by_restarts", ">=", 1)),
        ),
        confirms=(Limit("planned_restarts", ">=", 1),),
        # while it is away, a gateway refuses and its page does not come
        explains=("retry-storm", "overloaded-and-shedding", "telemetry-broken"),
        confidence=0.96,
        note="A crash or an out-of-memory kill looks the same from the page: the exit code tells them apart.",
        hazard=True,
        even_idle=True,
        at_once=True,
    ),
    # -- 4: the link between GPUs: slow steps look like a batch or prompts that are too large ----------------------
    Check(
        "interconnect-bound",
        4,
        "GPUs wait for each other: tensor parallelism over a slow link",
        "backpressure article, bottleneck 7",
        Remedy(
            "Replicas instead of tensor parallelism if the model fits one GPU; else keep it inside NVLink, and the "
            "smallest that fits.",
            "--tensor-parallel-size",
        ),
        when=(
            # half of the time at the third of a link that small exchanges reach: latency binds long before bytes fill it;
            # with a link that is hardly used, steps of short kernels or dense prompts look the same
            (ANY_HARM, *GPU_WAITS, LINK_BUSY),
            (ANY_HARM, *GPU_WAITS, Limit("gpu_links_unknown", ">=", 1)),
        ),
        confirms=(
            Limit("gpu_link_use_ratio", ">", 0.0),  # known at all: from where on it counts, the conditions say
            Limit("gpu_peer_link_level", ">", 0),  # a path over PCIe or the host; 0: NVLink everywhere
        ),
        cites=(
            "tensor_parallel_gpus",
            "gpu_peer_link_level",
            "gpu_link_use_ratio",
            "gpu_sm_active_mean_ratio",
            "gpu_dram_active_mean_ratio",
        ),
        tells=("gpu_peer_link_level",),
        explains=(
            "batch-too-large",
            "batch-too-small",
            "prefill-bound",
            "prefill-decode-interference",
            "head-of-line-blocking",
            "kv-cache-saturation",
            "unbounded-queue",
            "prefix-cache-miss",
            "prefix-caching-off",
        ),
        confidence=0.96,
    ),
    # -- 5: waits that are not for capacity -------------------------------------------------------------------------
    Check(
        "kv-transfer-bound",
        4,
        "KV transfers are slower than the prefill they serve, or fail",
        "inference guide, prefill/decode split",
        Remedy("Use a faster link or fewer hops, or keep prefill and decode together.", "kv-transfer-config"),
        cites=("kv_transfer_mean_seconds", "kv_transfer_failures"),
        when=(
            (ANY_HARM, Limit("kv_transfer_mean_seconds", ">=", "slo.ttft_seconds", 0.5)),
            (ANY_HARM, Limit("kv_transfer_failures", ">=", 1)),
        ),
        explains=(
            "grammar-compilation",
            "prefill-bound",
            "unbounded-queue",
            "batch-too-small",
            "head-of-line-blocking",
        ),
        confidence=0.97,
    ),
    # -- 3: cache misses --------------------------------------------------------------------------------------------
    Check(
        "adapter-slots",
        5,
        "More LoRA adapters wanted than slots",
        "backpressure article, bottleneck 18",
        Remedy(
            "Raise max_loras to the number of adapters that are busy at once, or give each adapter its own pool.",
            "--max-loras",
        ),
        cites=("lora_slots", "queue_mean_seconds"),
        when=(
            (Limit("adapters_short_ratio", ">=", 0.2), Limit("deferred_share_ratio", ">=", 0.5), ANY_HARM),
            (
                Limit("adapters_short_ratio", ">=", 0.5),
                Limit("deferred_share_ratio", ">=", 0.5),
                Limit("waiting_share_ratio", ">=", 0.2),
            ),
        ),
        explains=("grammar-compilation", "prefill-bound", "unbounded-queue", "batch-too-small"),
        confidence=0.97,
    ),
    Check(
        "grammar-compilation",
        5,
        "Requests wait for their grammar to compile",
        "backpressure article, bottleneck 17",
        Remedy("Warm known schemas up, limit their size and number, reuse identical ones.", "structured outputs"),
        cites=("deferred_share_ratio", "queue_mean_seconds"),
        when=((TTFT_HARM, Limit("deferred_share_ratio", ">=", 0.5), Limit("waiting_share_ratio", ">=", 0.3), KV_FREE),),
        explains=("prefill-bound", "unbounded-queue", "batch-too-small", "head-of-line-blocking", "prefix-cache-miss"),
        confidence=0.97,
        note="Deferred requests also wait for adapters or for KV from elsewhere; neither shows here.",
    ),
    # -- 6: demand, as a gateway shows it: the change is a quota, a budget or a cache, and what load brings about follows
    Check(
        "retry-storm",
        6,
        "Clients multiply failed work: retries are a large share of the calls",
        "backpressure article, bottleneck 9",
        Remedy(
            "Full jitter, deadlines passed on, a circuit breaker, and a retry budget of 10 % of the calls.",
            "retry budget (retries per minute)",
            _signal("first_calls_per_minute", 0.1),
        ),
        cites=("retry_ratio", "call_failure_ratio", "breaker_open_ratio"),
        when=(
            (RETRIED, Limit("call_failure_ratio", ">=", "thresholds.error_ratio")),
            # an open breaker is the gateway's own verdict on the errors
            (RETRIED, Limit("breaker_open_ratio", ">", 0.0)),
        ),
        explains=(
            *LOAD,
            "overloaded-and-shedding",
            "unbounded-queue",
            "head-of-line-blocking",
            "ghost-compute",  # clients that time out leave, and call again
            "uncached-repeats",
        ),
        confidence=0.97,
        note="What failed first may be over by now: a storm keeps itself up.",
        hazard=True,  # failed calls are harm, whatever the latency of the others
    ),
    Check(
        "runaway-agent",
        6,
        "One session loops: the same tool call again and again",
        "backpressure article, bottleneck 14",
        Remedy(
            "Stop that session; limits on iterations, tokens, repeats and depth for all.",
            "calls per session and minute",
            _signal("session_call_limit"),
        ),
        cites=("session_calls_peak", "session_calls_excess", "session_repeats_peak"),
        when=(
            # an agent carries its transcript along: a twentieth of the calls is well above a twentieth of the tokens
            (*RUNAWAY, Limit("session_call_ratio", ">=", 0.05)),
            # where users are hurt, a small loop is not why; where they are not, it is still a cost
            (*RUNAWAY, Limit("users_harm_p", ">=", "thresholds.harm_p")),
        ),
        explains=(*LOAD, "unbounded-queue", "fan-out", "noisy-tenant", "uncached-repeats"),
        confidence=0.97,
        hazard=True,
    ),
    Check(
        "noisy-tenant",
        6,
        "One tenant takes the token budget, and others pay",
        "backpressure article, bottleneck 6",
        Remedy(
            "A token quota for that tenant, a cap on its concurrent sequences, weighted fair queueing for all.",
            "TPM quota",
            _signal("fair_tokens_per_minute"),
        ),
        cites=("tenant_share_ratio", "tenant_excess"),
        tells=("tenant_share_ratio",),
        when=(
            (*NOISY, Limit("others_queue_harm_p", "<", "thresholds.harm_p")),
            (*NOISY, Limit("users_harm_p", "<", "thresholds.harm_p")),
            # the queue is bounded, and the others are turned away instead
            (*NOISY, Limit("others_refused_ratio", ">=", 0.05)),
        ),
        explains=(*LOAD, "overloaded-and-shedding", "unbounded-queue"),
        confidence=0.97,
        note="Tenants without a weight count as equal.",
        hazard=True,  # every alternative holds somebody who is hurt
    ),
    Check(
        "fan-out",
        6,
        "One user request makes more model calls than planned",
        "backpressure article, bottleneck 13",
        Remedy(
            "Plan in calls and tokens; embedding and reranking off this GPU, or inside its budget.",
            "model calls per user request",
            _signal("planned_calls"),
        ),
        cites=("calls_per_user_request", "fan_out_excess"),
        # capacity is planned to be used at about 65 %: from 1.6 times the planned calls on it is used up
        when=((Limit("fan_out_excess", ">=", 1.6),),),
        explains=(*LOAD, "unbounded-queue"),
        confidence=0.97,
    ),
    Check(
        "uncached-repeats",
        3,
        "The same question is computed again and again",
        "backpressure article, bottleneck 12",
        Remedy(
            "An exact cache in front, then a semantic one with a calibrated threshold; small models for routine questions.",
            "response cache",
        ),
        cites=("uncached_repeat_ratio", "response_cache_hit_ratio"),
        when=((Limit("uncached_repeat_ratio", ">=", 0.3),),),
        explains=LOAD,
        confidence=0.97,
        note="Answers that are personal or bound to time must not be cached, even where the question is the same.",
    ),
    # -- 1: memory pressure -----------------------------------------------------------------------------------------
    Check(
        "preemption-mode",
        1,
        "Long prompts are computed again after each preemption",
        "batching mistakes, mistake 2",
        Remedy(
            "Swap or offload instead of recomputing where the engine can; else cap admission at what the pool holds.",
            "--kv-offloading-size",
        ),
        cites=("prompt_mean_tokens", "preemptions_per_minute"),
        when=((*THRASH, Limit("prompt_mean_tokens", ">=", 4000)),),  # recompute is right for hundreds of tokens
        confirms=(Limit("preempted_waiting_peak", ">", 0), ANY_HARM),
        explains=("preemption-thrash", *THRASHED),
        confidence=0.95,
        note=(
            "vLLM's V0 engine has --preemption-mode swap with --swap-space instead; fewer at once (--max-num-seqs) "
            "helps every engine."
        ),
        hazard=True,
    ),
    Check(
        "preemption-thrash",
        1,
        "More was admitted than the KV cache holds; work is computed again and again",
        "backpressure article, bottleneck 2",
        Remedy(
            "Cap admission at what the KV pool holds when requests are at their longest.",
            "--max-num-seqs",
            _signal("seats_full"),
        ),
        cites=("preemptions_per_minute", "preemptions_per_completion"),
        when=(THRASH,),
        confirms=(Limit("preempted_waiting_peak", ">", 0), ANY_HARM),
        explains=THRASHED,
        confidence=0.95,
        hazard=True,
    ),
    Check(
        "block-fragmentation",
        1,
        "KV blocks are much larger than what sequences put into them",
        "batching mistakes, mistake 1",
        Remedy(
            "Use smaller KV blocks for short requests (16 for outputs under 50 tokens).",
            "--block-size",
            lambda _r, _s: 16.0,
        ),
        cites=("kv_fill_ratio",),
        when=((TTFT_HARM, KV_BOUND, QUEUED, Limit("kv_fill_ratio", "<", 0.4), Limit("kv_free_low_ratio", "<=", 0.1)),),
        explains=("kv-cache-saturation", "unbounded-queue", "prefill-bound"),
        confidence=0.96,
    ),
    Check(
        "kv-cache-saturation",
        1,
        "The KV cache holds no more requests, so new ones wait",
        "backpressure article, bottleneck 1",
        Remedy(
            "Cap admission at the seats the pool has; for more: FP8 KV, smaller weights, another replica.",
            "--max-num-seqs",
            _signal("seats_full"),  # at the mean size, preemption would answer the next long request
            already=(
                "running_max",
                "No more than these run already, so that the limit alone cures nothing: more KV (FP8, smaller weights, "
                "another replica) or less load does.",
            ),
        ),
        cites=("kv_usage_high_ratio", "waiting_last"),
        when=(
            (TTFT_HARM, *KV_FULL),
            (TTFT_HARM, *KV_SPENT),
            (TTFT_HARM, *KV_CAPPED),
        ),
        confirms=(Limit("queue_share_ratio", ">=", 0.3),),
        explains=("prefill-bound", "batch-too-small", "prefix-cache-miss"),
        confidence=0.93,
    ),
    Check(
        "context-imbalance",
        1,
        "The longest accepted context is out of proportion to the pool",
        "batching mistakes, mistake 4",
        Remedy("Cut max_model_len to what traffic uses.", "--max-model-len", _model_len),
        cites=("contexts_in_pool", "context_slack_ratio"),
        when=((ANY_HARM, QUEUED, Limit("contexts_in_pool", "<", 4), Limit("context_slack_ratio", ">=", 4)),),
        leads=False,
        confidence=0.6,
    ),
    # -- 2: batch configuration -------------------------------------------------------------------------------------
    Check(
        "draft-rejected",
        2,
        "Speculative drafts are mostly thrown away",
        "inference guide, speculative decoding",
        Remedy(
            "Try another draft or fewer draft tokens, or switch speculation off at high batch.", "--speculative-config"
        ),
        cites=("draft_acceptance_ratio",),
        when=(
            (Limit("draft_acceptance_ratio", "<", "thresholds.draft_acceptance"), TPOT_HARM),
            (Limit("draft_acceptance_ratio", "<", "thresholds.draft_acceptance"), TTFT_HARM),
        ),
        # a step that drafts in vain is slow for all, and what it lacks in speed waits
        explains=(
            "batch-too-large",
            "batch-too-small",
            "prefill-bound",
            "prefill-decode-interference",
            "unbounded-queue",
        ),
        confidence=0.97,
    ),
    Check(
        "batch-too-small",
        2,
        "Too few seats: requests wait while KV and compute are free",
        "inference guide, debugging performance, step 2",
        Remedy("Raise max_num_seqs step by step while TPOT stays inside its target.", "--max-num-seqs", _more_seats),
        cites=("running_max", "waiting_last"),
        when=(
            (
                TTFT_HARM,
                KV_FREE,
                QUEUED,
                Limit("spare_seats", ">=", 1),
                Limit("prompt_share_ratio", "<", 0.9),  # long prompts: seats do not make prefill faster
                Limit("running_pinned_ratio", ">=", 0.7),
                Limit("turnover_ratio", ">=", 2),
                Limit("itl_p99_low_seconds", "<", "slo.tpot_seconds", 5),
                # a larger batch makes steps longer: near the target there is no room for it
                Limit("token_mean_seconds", "<", "slo.tpot_seconds", 0.75),
                Limit("tpot_harm_p", ">=", "thresholds.harm_p"),
            ),
        ),
        confirms=(GPU_IDLE,),
        explains=("prefill-bound", "head-of-line-blocking"),
        confidence=0.95,
    ),
    Check(
        "batch-too-large",
        2,
        "The batch is too large: every token is slow",
        "inference guide, debugging performance, step 2",
        Remedy(
            "Lower max_num_seqs to where TPOT meets its target, and add replicas for the rest.",
            "--max-num-seqs",
            _fewer_seats,
        ),
        cites=("running_max", "tpot_mean_seconds"),
        when=(
            (
                TPOT_HARM,
                Limit("tpot_median_low_seconds", ">=", "slo.tpot_seconds"),
                Limit("itl_median_low_seconds", ">=", "slo.tpot_seconds"),
                KV_FREE,
                NOT_QUEUED,
                Limit("prompt_share_ratio", "<", 0.8),
                Limit("running_max", ">=", 8),
                Limit("preemptions_per_minute", "<=", "thresholds.preemptions_per_minute"),
            ),
        ),
        confirms=(Limit("gpu_dram_active_mean_ratio", ">=", 0.7),),  # busy decoding keeps memory that active
        explains=("prefill-decode-interference",),
        confidence=0.97,
    ),
    # -- 4: connections: what cannot come in or stay open --------------------------------------------------------------
    Check(
        "connection-exhaustion",
        4,
        "Descriptors, ports or connections run out, or a proxy cuts streams",
        "backpressure article, bottleneck 15",
        Remedy(
            "Keep connections to the engine alive (HTTP/2, upstream keep-alive), buffering off, timeouts above the longest "
            "generation, and raise the limit that is near.",
            "ulimit -n",
        ),
        when=(
            (Limit("fd_usage_ratio", ">=", "thresholds.resource_limit"),),
            (Limit("port_usage_ratio", ">=", "thresholds.resource_limit"),),
            (Limit("gateway_connection_ratio", ">=", "thresholds.resource_limit"),),
            # half way to the limit, and half of that are connections that nobody closes: a leak gets there by itself
            (Limit("fd_usage_ratio", ">=", 0.5), Limit("close_wait_ratio", ">=", 0.5)),
            # the engine answers every scrape, so it is not that it is down; a share that breaks the objective
            (
                Limit("connect_errors", ">=", 5),
                Limit("connect_error_ratio", ">=", 0.05),
                Limit("failed_scrape_ratio", "<=", 0.0),
                Limit("restarts", "<=", 0),
            ),
            (
                Limit("streams_cut", ">=", 5),
                Limit("streams_cut_ratio", ">=", 0.05),
                Limit("failed_scrape_ratio", "<=", 0.0),
                Limit("restarts", "<=", 0),
            ),
        ),
        cites=(
            "fd_usage_ratio",
            "close_wait_ratio",
            "port_usage_ratio",
            "gateway_connection_ratio",
            "connect_errors",
            "streams_cut",
        ),
        explains=("api-server-bound", "ghost-compute", "retry-storm"),
        confidence=0.97,
        hazard=True,
        even_idle=True,  # nothing reaches an engine that nobody can connect to
    ),
    # -- 5: the API process -----------------------------------------------------------------------------------------
    Check(
        "api-server-bound",
        5,
        "The API process is full or starved; the engine is not",
        "batching mistakes, mistake 5",
        Remedy(
            "Give the API process CPU of its own, run more of them, flush tokens in small groups.", "--api-server-count"
        ),
        cites=(
            "frontend_residual_seconds",
            "page_answer_seconds",
            "stalled_front_ratio",
            "span_frontend_mean_seconds",
            "probe_gap_seconds",
        ),
        when=(
            (
                NOT_QUEUED,
                Limit("frontend_residual_seconds", ">=", "slo.ttft_seconds", 0.15),
                Limit("residual_share_ratio", ">=", 0.4),
                Limit("page_answer_seconds", ">=", "thresholds.page_answer_seconds"),
                Limit("itl_p99_low_seconds", "<", "slo.tpot_seconds", 5),
            ),
            (
                ANY_HARM,
                NOT_QUEUED,
                Limit("frontend_residual_late_seconds", ">=", "slo.ttft_seconds", 0.5),
                Limit("frontend_residual_seconds", ">=", "slo.ttft_seconds", 0.5),
            ),
            # it stalls before it measures: the engine saw nothing wrong
            (NOT_QUEUED, STALLING, Limit("harm_p", ">=", "thresholds.harm_p")),
            # seen at work: one thread at one core, or all of it at its limit, while the GPU has little to do
            (
                ANY_HARM,
                NOT_QUEUED,
                API_FULL,
                GPU_IDLE,
                Limit("frontend_residual_seconds", ">=", "slo.ttft_seconds", 0.15),
            ),
            (
                ANY_HARM,
                NOT_QUEUED,
                Limit("api_throttled_ratio", ">=", 0.25),
                GPU_IDLE,
                Limit("frontend_residual_seconds", ">=", "slo.ttft_seconds", 0.15),
            ),
            # its clock starts late: callers wait around the engine for what the page does not hold. A gateway's own queue
            # lies there, too, so the page must be slow as well
            (
                NOT_QUEUED,
                Limit("span_frontend_mean_seconds", ">=", "slo.ttft_seconds", 0.15),
                Limit("span_frontend_share_ratio", ">=", 0.4),
                Limit("page_answer_seconds", ">=", "thresholds.page_answer_seconds"),
                Limit("itl_p99_low_seconds", "<", "slo.tpot_seconds", 5),
            ),
        ),
        confirms=(
            GPU_IDLE,
            API_FULL,
            Limit("span_frontend_mean_seconds", ">=", "slo.ttft_seconds", 0.15, aside=True),
            Limit("probe_gap_seconds", ">=", "slo.ttft_seconds", 0.15, aside=True),
        ),
        explains=("prefill-decode-interference", "batch-too-large", "prefix-cache-miss", "prefix-caching-off"),
        confidence=0.96,
    ),
    # -- 4: network -------------------------------------------------------------------------------------------------
    Check(
        "prefix-caching-off",
        3,
        "Prefix caching is switched off while prefill dominates",
        "batching mistakes, mistake 3",
        Remedy("Switch prefix caching on.", "--enable-prefix-caching"),
        cites=("prompt_mean_tokens", "ttft_mean_seconds"),
        when=(
            (
                ANY_HARM,
                KV_FREE,
                Limit("prefix_caching_enabled", "<=", 0),
                Limit("prompt_share_ratio", ">=", 0.8),
                Limit("prompt_mean_tokens", ">=", 256),
            ),
        ),
        explains=("prefix-cache-miss", "prefill-decode-interference", "prefill-bound"),
        proof=Proof((SHARED,), 0.97, note="The gateway shows that prompts share text."),
        unless=(NOTHING_SHARED,),
        confidence=0.7,
        note="Whether prompts share a beginning is not on the page: it helps only if they do.",
    ),
    Check(
        "prefix-cache-miss",
        3,
        "Long prompts, prefix caching on, and hardly a hit",
        "backpressure article, bottleneck 4",
        Remedy("If the prompts share text: move what varies (date, user, request id) to their end.", "prompt template"),
        cites=("prefix_hit_ratio", "prompt_mean_tokens"),
        when=(
            (
                ANY_HARM,
                KV_FREE,
                NOT_QUEUED,
                Limit("prefix_hit_ratio", "<", 0.1),
                Limit("prompt_p10_tokens", ">=", 200),
                Limit("prompt_share_ratio", ">=", 0.8),
                Limit("prompt_length_cv", "<=", 0.02),
            ),
            (
                KV_FREE,
                NOT_QUEUED,
                Limit("prefix_hit_ratio", "<", 0.1),
                Limit("prompt_p10_tokens", ">=", 200),
                Limit("prompt_share_ratio", ">=", 0.8),
                Limit("prefix_turnover_seconds", "<=", "thresholds.prefix_turnover_seconds"),
                Limit("kv_capacity_tokens", ">", 0),
            ),
            # the gateway sees that prompts share text: their lengths need say nothing, and a queue rules nothing out
            (
                ANY_HARM,
                KV_FREE,
                Limit("prefix_hit_ratio", "<", 0.1),
                Limit("prompt_share_ratio", ">=", 0.5),
                SHARED,
            ),
        ),
        proof=Proof(
            (SHARED,),
            0.97,
            explains=("prefill-bound", "prefill-decode-interference", "unbounded-queue"),
            note="The gateway shows that prompts share text which the cache does not hit.",
        ),
        unless=(NOTHING_SHARED,),
        confirms=(Limit("prefix_hit_before_ratio", ">=", 0.1),),
        confidence=0.45,
        note="A suspicion: whether the prompts share anything is on no engine page; hashes at the gateway would show it.",
    ),
    # -- 2: prefill -------------------------------------------------------------------------------------------------
    Check(
        "prefill-bound",
        2,
        "Prompt tokens alone fill the compute, so requests wait",
        "inference guide, prefill/decode split",
        Remedy("Give long prompts a pool of their own, reuse prefixes, or add prefill compute.", "replicas"),
        cites=("prompt_share_ratio", "waiting_last"),
        when=(
            # where the seats are not the cap, half of the tokens is enough; where they are, nearly all must be prompts:
            # a decoded token takes the time of ten prompt tokens and more
            (
                TTFT_HARM,
                KV_FREE,
                QUEUED,
                FOR_CAPACITY,
                Limit("prompt_share_ratio", ">=", 0.5),
                Limit("running_pinned_ratio", "<", 0.7),
            ),
            (TTFT_HARM, KV_FREE, QUEUED, Limit("prompt_share_ratio", ">=", 0.9)),
        ),
        explains=("prefill-decode-interference",),
        confidence=0.95,
    ),
    Check(
        "prefill-decode-interference",
        2,
        "Prefills of long prompts stall running streams",
        "backpressure article, bottleneck 4",
        Remedy(
            "Tune the token budget of a step: smaller is steadier for running streams, larger gives earlier first tokens.",
            "--max-num-batched-tokens",
        ),
        cites=("itl_p99_low_seconds", "itl_median_high_seconds"),
        when=(
            (
                TPOT_HARM,
                KV_FREE,
                NOT_QUEUED,
                Limit("itl_median_high_seconds", "<=", "slo.tpot_seconds"),
                Limit("prompt_share_ratio", ">=", 0.5),
                Limit("prompt_p99_tokens", ">=", 1000),
            ),
        ),
        confirms=(Limit("itl_spread", ">=", 5),),
        confidence=0.95,
    ),
    Check(
        "head-of-line-blocking",
        2,
        "Large requests hold small ones up (likely)",
        "backpressure article, bottleneck 5",
        Remedy("Pools by prompt size, or aging.", "split between pools (prompt tokens)", lambda _r, _s: 1024.0),
        cites=("prompt_p95_tokens", "large_call_ratio", "large_token_ratio"),
        when=(
            (*SMALL_BEHIND_LARGE, KV_FREE, Limit("prompt_share_ratio", ">=", 0.5)),
            (TTFT_HARM, KV_FREE, QUEUED, Limit("prompt_spread", ">=", 8), Limit("prompt_p95_tokens", ">=", 1000)),
        ),
        proof=Proof(
            SMALL_BEHIND_LARGE,
            0.95,
            explains=("prefill-bound", "prefill-decode-interference", "unbounded-queue"),
            note="Late first tokens of small prompts are seen request by request.",
        ),
        unless=(
            Limit("small_ttft_harm_p", ">=", "thresholds.harm_p"),
            Limit("running_pinned_ratio", ">=", 0.7),  # the seats are the cap: all wait, whoever is in front
        ),
        leads=False,
        confidence=0.35,
        note="Needs latency per class of request to be proved: a gateway's or the spans'.",
    ),
    # -- 6: demand --------------------------------------------------------------------------------------------------
    Check(
        "unbounded-queue",
        6,
        "More arrives than is served, and nothing bounds the queue",
        "backpressure article, bottleneck 8",
        Remedy(
            "Bound the queue at service rate x acceptable wait; answer 429/503 with Retry-After above it.",
            "--max-num-queued-reqs",
            _ceiling,
        ),
        cites=("waiting_last", "wait_ahead_seconds", "calls_wait_ahead_seconds"),
        when=(
            (
                Limit("waiting_trend_z", ">=", TREND_Z),
                Limit("waiting_growth_sigmas", ">=", TREND_Z),
                Limit("wait_ahead_seconds", ">", "slo.ttft_seconds"),
            ),
            (
                Limit("waiting_trend_z", ">=", TREND_Z),
                Limit("waiting_growth_sigmas", ">=", TREND_Z),
                Limit("queue_age_seconds", ">", "slo.ttft_seconds"),
            ),
            # the gateway holds the queue back, so the engine looks well
            (
                Limit("calls_waiting_trend_z", ">=", TREND_Z),
                Limit("calls_waiting_growth_sigmas", ">=", 3),
                Limit("calls_wait_ahead_seconds", ">", "slo.ttft_seconds"),
            ),
        ),
        confidence=0.96,
        hazard=True,
    ),
    Check(
        "ghost-compute",
        6,
        "Work goes on for clients that have left",
        "backpressure article, bottleneck 11",
        Remedy(
            "Find who disconnects and when: client timeout above the longest answer, cancellation passed on by every proxy.",
            "client timeout",
        ),
        cites=("aborted_requests", "wasted_decode_ratio", "ghost_calls"),
        when=(
            (
                Limit("aborted_requests", ">=", 10),
                Limit("aborted_ratio", ">=", 0.3),
                Limit("wasted_decode_ratio", ">=", 0.3),
            ),
            GHOSTS,
        ),
        proof=Proof(
            GHOSTS,
            0.98,
            explains=(*LOAD, "unbounded-queue"),
            note="Clients left the gateway, and the engine was never told.",
        ),
        confidence=0.97,
        hazard=True,
    ),
    Check(
        "unbounded-output",
        6,
        "Requests set no max_tokens",
        "backpressure article, bottleneck 10",
        Remedy("Set a server default and a cap per tenant.", "max_tokens", lambda _r, _s: 512.0),
        cites=("open_max_tokens_ratio",),
        when=(
            (
                Limit("open_max_tokens_requests", ">=", 3),
                Limit("open_max_tokens_ratio", ">=", 0.02),
                Limit("generation_spread", ">=", 2.5),
            ),
        ),
        confidence=0.97,
        note="A hazard even while nobody is hurt: long answers are seen only once they end.",
        hazard=True,
    ),
    # -- 0 again: broken telemetry leads only when nothing else does ------------------------------------------------
    Check(
        "telemetry-broken",
        0,
        "The numbers cannot be trusted",
        "backpressure article, section 21",
        Remedy(
            "Repair the scrape first: ask each server by its own address, and see below which series are missing.",
            "scrape target",
        ),
        cites=("failed_scrape_ratio", "core_families_missing", "processes_behind"),
        when=(
            (Limit("failed_scrape_ratio", ">", 0.2),),
            (Limit("core_families_missing", ">=", 2),),
            (Limit("contradiction", ">=", 10),),
            (Limit("processes_behind", ">=", 2),),
        ),
        confidence=0.97,
        hazard=True,
        even_idle=True,
        by_scrapes=True,
    ),
    # -- causes that no engine page shows ---------------------------------------------------------------------------
)

BY_CAUSE: dict[str, Check] = {check.cause: check for check in CHECKS}
"""Table order is the order of leadership: the first firing check that may lead and is not explained away is the
cause.
"""
