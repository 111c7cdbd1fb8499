"""Who is told of what: the table of alerts. One row per alert; what else is known of a cause stands in the triage.

``page`` wakes somebody, ``ticket`` waits for office hours. A symptom pages, and its annotation names the cause; causes are tickets,
but for a server that answers nobody and for telemetry that makes every other alert blind. Nothing here looks at GPU percent or at
memory that engines reserve by design: a busy GPU and a full pool are the aim.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.alerts import names, watching
from llmvitals.alerts.conditions import (
    Burns,
    Busy,
    Compared,
    Concludes,
    Condition,
    Either,
    Every,
    Fell,
    Fires,
    Gone,
    Hurt,
    Steady,
    Unless,
)
from llmvitals.alerts.model import CHECK_STATE, PAGE, TARGET_UP, TELEMETRY_GROUP, TICKET, Alert, Severity
from llmvitals.schema import SCOPE
from llmvitals.triage.checks import BY_CAUSE


@dataclass(frozen=True, slots=True)
class _Cause:
    """An alert on a cause's check: fires while its state is ``firing``, and tells the numbers of ``evidence``; not while ``but``
    holds. ``keep``: for a page that flaps; tickets are kept anyway. ``words``: where a report's remedy says what only a report has.
    """

    cause: str
    severity: Severity
    wait: str
    evidence: tuple[str, ...]
    but: Condition | None = None
    keep: str = ""
    words: str = ""


KEEP = "5m"
"""Checks look at about a minute, and a fault that comes and goes is one incident: so long it is still told after it went."""

_NO_PAGE = Compared("failed_scrape_ratio", ">=", 1)
"""Not one scrape of the window brought a page: the target is gone, which is an alert of its own."""

_CAUSES: tuple[_Cause, ...] = (
    _Cause(
        "not-serving",
        PAGE,
        "1m",
        ("stalled_seconds", "dead_tail_pages", "error_ratio"),
        Gone(),  # without any page it is gone, which pages by itself where nobody else serves its model
        words="Nothing moves while work is there, or answers are errors. Keep the engine's log, then restart it.",
    ),
    # a server without any page is gone, not its telemetry: each replica is for minutes while its weights load
    _Cause(
        "telemetry-broken",
        PAGE,
        "2m",
        ("failed_scrape_ratio", "core_families_missing", "contradiction"),
        _NO_PAGE,
        KEEP,
        "Repair the scrape first: ask each server by its own address. llm_family_gap tells which families are missing.",
    ),
    _Cause("hardware-event", TICKET, "0m", ("gpu_xid_errors", "gpu_ecc_errors", "gpu_clock_ratio")),
    _Cause("vram-headroom", TICKET, "0m", ("gpu_memory_free_low_ratio", "gpu_memory_other_ratio", "oom_restarts")),
    _Cause("overloaded-and-shedding", TICKET, "15m", ("rejection_ratio", "rejected_requests", "refused_call_ratio")),
    _Cause(
        "cold-start",
        TICKET,
        "1m",
        ("uptime_seconds", "ttft_p95_seconds"),
        words="It passes. The next one: warm it up before it is ready, keep one warm, and scale on queue wait, not GPU percent.",
    ),
    _Cause("rollout-and-probes", TICKET, "0m", ("restarts", "planned_restarts", "lost_by_restarts")),
    _Cause("interconnect-bound", TICKET, "10m", ("gpu_link_use_ratio", "gpus_per_rank", "tpot_p95_seconds")),
    _Cause("adapter-slots", TICKET, "5m", ("adapters_short_ratio", "lora_slots", "requests_waiting")),
    _Cause("grammar-compilation", TICKET, "5m", ("deferred_share_ratio", "requests_waiting", "ttft_p95_seconds")),
    _Cause("retry-storm", TICKET, "3m", ("retry_ratio", "call_failure_ratio", "first_calls_per_minute")),
    _Cause("runaway-agent", TICKET, "5m", ("session_calls_peak", "session_calls_excess", "session_repeats_peak")),
    _Cause("noisy-tenant", TICKET, "5m", ("tenant_share_ratio", "tenant_excess", "fair_tokens_per_minute")),
    _Cause("fan-out", TICKET, "15m", ("calls_per_user_request", "planned_calls", "fan_out_excess")),
    _Cause("uncached-repeats", TICKET, "30m", ("uncached_repeat_ratio", "response_cache_hit_ratio")),
    _Cause("preemption-thrash", TICKET, "3m", ("preemptions_per_minute", "preemptions_per_completion", "seats_full")),
    _Cause("block-fragmentation", TICKET, "10m", ("kv_fill_ratio", "kv_free_low_ratio")),
    _Cause("kv-cache-saturation", TICKET, "5m", ("kv_usage_high_ratio", "waiting_share_ratio", "seats")),
    _Cause("context-imbalance", TICKET, "15m", ("contexts_in_pool", "context_slack_ratio")),
    _Cause("preemption-mode", TICKET, "10m", ("preemptions_per_minute", "prompt_mean_tokens")),
    _Cause("batch-too-small", TICKET, "5m", ("running_max", "waiting_share_ratio", "kv_usage_high_ratio")),
    _Cause("batch-too-large", TICKET, "5m", ("tpot_p95_seconds", "running_max")),
    _Cause(
        "connection-exhaustion",
        TICKET,
        "3m",
        ("fd_usage_ratio", "port_usage_ratio", "gateway_connection_ratio", "connect_errors", "streams_cut"),
    ),
    _Cause("api-server-bound", TICKET, "5m", ("frontend_residual_seconds", "page_answer_seconds", "api_cpu_cores")),
    _Cause("kv-transfer-bound", TICKET, "5m", ("kv_transfer_mean_seconds", "kv_transfer_failures")),
    _Cause("prefix-caching-off", TICKET, "30m", ("prompt_share_ratio", "prompt_mean_tokens")),
    _Cause("prefix-cache-miss", TICKET, "15m", ("prefix_hit_ratio", "prefix_turnover_seconds", "prompt_mean_tokens")),
    _Cause("prefill-bound", TICKET, "5m", ("prompt_tokens_rate", "ttft_p95_seconds", "requests_waiting")),
    _Cause("prefill-decode-interference", TICKET, "5m", ("itl_spread", "tpot_p95_seconds", "prompt_p95_tokens")),
    _Cause("draft-rejected", TICKET, "15m", ("draft_acceptance_ratio", "tpot_p95_seconds")),
    _Cause("head-of-line-blocking", TICKET, "15m", ("prompt_spread", "large_token_ratio", "ttft_p95_seconds")),
    _Cause("unbounded-queue", TICKET, "3m", ("requests_waiting", "wait_ahead_seconds", "queue_age_seconds")),
    _Cause("ghost-compute", TICKET, "10m", ("aborted_ratio", "wasted_decode_ratio", "ghost_call_ratio")),
    _Cause("unbounded-output", TICKET, "15m", ("open_max_tokens_ratio",)),
)


def alert_name(cause: str) -> str:
    """``preemption-thrash`` is ``LLMPreemptionThrash``."""
    return "LLM" + "".join(part.capitalize() for part in cause.split("-"))


def _of_cause(row: _Cause) -> Alert:
    check = BY_CAUSE[row.cause]
    return Alert(
        alert_name(row.cause),
        check.title,
        row.severity,
        Fires(row.cause) if row.but is None else Unless(Fires(row.cause), row.but),
        row.wait,
        row.cause,
        CHECK_STATE,
        "llmvitals-causes",
        row.evidence,
        row.words or " ".join(part for part in (check.remedy.text, check.note) if part),
        row.cause,
        row.keep or (KEEP if row.severity is TICKET else ""),
    )


_T, _S, _W = TELEMETRY_GROUP, "llmvitals-symptoms", "llmvitals-while-waiting"

TELEMETRY: tuple[Alert, ...] = (
    Alert(
        "LLMTargetGone",
        "Nobody answers for a model that was in use",
        PAGE,
        Gone(alone=True),
        "2m",
        "target-gone",
        TARGET_UP,
        _T,
        words="The target refused, timed out, answered with no readable page, or is no longer scraped (its exporter may be gone: "
        "LLMExporterGone), and no other replica of its model is up.",
        cause="not-serving",
        keep=KEEP,  # a server that crashes again and again is one outage
    ),
    Alert(
        "LLMTargetMissing",
        "No metrics page",
        TICKET,
        Gone(),
        "15m",
        "target-gone",
        TARGET_UP,
        _T,
        words="It has given no page for longer than a rollout takes; others may serve its load.",
        cause="not-serving",
        by=names.INSTANCE,
    ),
    *watching.ALERTS,
)
"""What makes the other alerts blind, and targets that are gone."""

_STARTING = Compared("uptime_seconds", "<", "thresholds.cold_start_seconds", 0.5)
"""A process that began less than a minute before its window did. The first step compiles, which is over before anyone can
look; and five minutes of which it has lived through one are no five minutes. Who is hurt for longer is hurt users' business.
"""

_LOST = Every(
    (
        Compared("lost_call_ratio", ">=", "thresholds.error_ratio"),
        Compared("first_calls_per_minute", ">=", "alerts.least_requests"),
    )
)
"""One call in five gets no answer; a share of fewer calls than ``alerts.least_requests`` in a minute says nothing."""

MANY_REFUSED = 10
"""Refusals in the window of a verdict, about a minute: a share of fewer is of a handful of requests."""

SYMPTOMS: tuple[Alert, ...] = (
    Alert(
        "LLMUsersHurt",
        "Users do not get what was promised",
        PAGE,
        # whoever gets no answer at all is hurt, too: below the burn that pages at once, and no histogram shows it
        Unless(Either((Hurt(), _LOST)), Concludes(("shedding",))),
        "2m",
        "users-hurt",
        "ttft_p95_seconds",
        _S,
        ("ttft_breach_ratio", "ttft_p95_seconds", "tpot_breach_ratio", "tpot_p95_seconds", "requests_waiting"),
        "More requests miss their promise than chance explains, for minutes.",
        keep=KEEP,  # so that the budgets it has silenced have had their quiet window when it is over
    ),
    Alert(
        "LLMFirstTokensLate",
        "First tokens come too late",
        PAGE,
        Unless(Burns("ttft", "page"), _STARTING),
        "0m",
        "first-tokens-late",
        "ttft_p95_seconds",
        _S,
        ("ttft_p95_seconds", "requests_waiting", "wait_ahead_seconds"),
    ),
    Alert(
        "LLMTokensSlow",
        "Tokens come too slowly",
        PAGE,
        Burns("tpot", "page"),
        "0m",
        "tokens-slow",
        "tpot_p95_seconds",
        _S,
        ("tpot_p95_seconds", "requests_running"),
    ),
    Alert(
        "LLMAnswersFail",
        "Requests end in errors",
        PAGE,
        Unless(Burns("answers", "page"), Concludes(("shedding",))),
        "0m",
        "answers-fail",
        "error_ratio",
        _S,
        ("error_ratio", "server_errors"),
        by=names.INSTANCE,
    ),
    # What a gateway loses never reaches the engine, and answers that die with their process reach no histogram: a server that
    # restarts all the time, or that nobody is led to, looks idle from within. One that is gone for good is LLMTargetGone's.
    Alert(
        "LLMCallsLost",
        "Calls get no answer",
        PAGE,
        Unless(Burns("calls", "page"), Either((Concludes(("shedding",)), _NO_PAGE))),
        "0m",
        "answers-fail",
        "lost_call_ratio",
        _S,
        ("lost_call_ratio", "refused_call_ratio", "restarts"),
        by=names.INSTANCE,
    ),
    # Refusing is the right thing to do for a while. Two in five means that half as much again and more is wanted than is served.
    Alert(
        "LLMMostRefused",
        "Two in five requests are refused",
        PAGE,
        Either(
            (
                Every((Compared("refused_call_ratio", ">=", 0.4), Compared("refused_calls", ">=", MANY_REFUSED))),
                Every((Compared("rejection_ratio", ">=", 0.4), Compared("rejected_requests", ">=", MANY_REFUSED))),
            )
        ),
        "2m",
        "overloaded-and-shedding",
        "rejection_ratio",
        _S,
        ("refused_call_ratio", "rejection_ratio"),
    ),
    Alert(
        "LLMGoodputLow",
        "A class of requests misses its whole promise",
        PAGE,
        Unless(Burns("goodput", "page"), Either((Concludes(("shedding",)), _STARTING))),
        "0m",
        "goodput-low",
        "slo_worst_goodput_ratio",
        _S,
        ("slo_worst_goodput_ratio", "slo_burn_peak"),
        by=(*SCOPE, "slo_class", "vantage"),
    ),
    Alert(
        "LLMFirstTokensBudget",
        "First tokens use up their error budget",
        TICKET,
        Burns("ttft", "ticket"),
        "0m",
        "first-tokens-late",
        "ttft_p95_seconds",
        _S,
        ("ttft_p95_seconds",),
    ),
    Alert(
        "LLMTokensBudget",
        "Slow tokens use up their error budget",
        TICKET,
        Burns("tpot", "ticket"),
        "0m",
        "tokens-slow",
        "tpot_p95_seconds",
        _S,
        ("tpot_p95_seconds",),
    ),
    Alert(
        "LLMAnswersBudget",
        "Errors use up their budget",
        TICKET,
        Unless(Burns("answers", "ticket"), Concludes(("shedding",))),
        "0m",
        "answers-fail",
        "error_ratio",
        _S,
        ("error_ratio", "server_errors"),
        by=names.INSTANCE,
    ),
    Alert(
        "LLMGoodputBudget",
        "A class of requests uses up its error budget",
        TICKET,
        Unless(Burns("goodput", "ticket"), Concludes(("shedding",))),
        "0m",
        "goodput-low",
        "slo_worst_goodput_ratio",
        _S,
        ("slo_worst_goodput_ratio",),
        by=(*SCOPE, "slo_class", "vantage"),
    ),
    Alert(
        "LLMTtftOverTarget",
        "Time to first token is over its target",
        TICKET,
        Every((Compared("ttft_p95_seconds", ">", "slo.ttft_seconds"), Busy())),
        "15m",
        "first-tokens-late",
        "ttft_p95_seconds",
        _S,
        ("ttft_p95_seconds", "queue_share_ratio", "requests_waiting"),
    ),
    Alert(
        "LLMThroughputFell",
        "Fewer tokens per second at the same load",
        TICKET,
        Every(
            (
                Fell("generation_tokens_rate", 0.7, "1h"),
                Steady("arrival_rate", 0.2, "1h"),
                Steady("generation_mean_tokens", 0.2, "1h"),
                Busy(),
            )
        ),
        "15m",
        "throughput-fell",
        "generation_tokens_rate",
        _S,
        ("generation_tokens_rate", "arrival_rate", "generation_mean_tokens"),
    ),
)
"""What users feel."""

WHILE_WAITING: tuple[Alert, ...] = (
    Alert(
        "LLMKvHighWhileWaiting",
        "KV usage is above its line while requests wait",
        TICKET,
        Every((Compared("kv_usage_peak_ratio", ">", "thresholds.kv_lines.0"), Compared("requests_waiting", ">", 0))),
        "10m",
        "kv-cache-saturation",
        "kv_usage_ratio",
        _W,
        ("kv_usage_peak_ratio", "requests_waiting"),
    ),
    Alert(
        "LLMGpuIdleWhileWaiting",
        "The GPU is under-used while requests wait",
        TICKET,
        Every(
            (Compared("requests_waiting", ">", 0), Compared("gpu_sm_active_mean_ratio", "<", "thresholds.gpu_active"))
        ),
        "10m",
        "batch-too-small",
        "gpu_sm_active_ratio",
        _W,
        ("gpu_sm_active_mean_ratio", "requests_waiting"),
    ),
)
"""Numbers that mean something only while work waits."""

CAUSES: tuple[Alert, ...] = tuple(map(_of_cause, _CAUSES))

ALERTS: tuple[Alert, ...] = (*TELEMETRY, *SYMPTOMS, *CAUSES, *WHILE_WAITING)

BY_NAME: dict[str, Alert] = {row.name: row for row in ALERTS}
