"""Who is told of what: the table of alerts. One row per alert; what else is known of a cause stands in the triage.

``page`` wakes somebody, ``ticket`` waits for office hours. The verdict series that the rows read are on the exporter's
page; ``wait`` is Prometheus' ``for``: a check looks at about a minute, so a ticket asks for several minutes in a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

CHECK_STATE = "llm_triage_check_state"
LEADING = "llm_triage_leading"
VERDICT = "llm_triage_verdict"
TARGET_UP = "llm_target_up"


class Severity(StrEnum):
    """How urgent an alert is."""

    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True)
class CauseAlert:
    """An alert on a cause's check: fires while its state is ``firing``, and tells the numbers of ``evidence``."""

    cause: str
    severity: Severity
    wait: str
    evidence: tuple[str, ...]


PAGE, TICKET = Severity.PAGE, Severity.TICKET

CAUSES: tuple[CauseAlert, ...] = (
    CauseAlert("not-serving", PAGE, "1m", ("stalled_seconds", "dead_tail_pages", "error_ratio")),
    CauseAlert("telemetry-broken", PAGE, "5m", ("failed_scrape_ratio", "core_families_missing", "contradiction")),
    CauseAlert("hardware-event", TICKET, "0m", ("gpu_xid_errors", "gpu_ecc_errors", "gpu_clock_ratio")),
    CauseAlert("vram-headroom", TICKET, "0m", ("gpu_memory_free_low_ratio", "gpu_memory_other_ratio", "oom_restarts")),
    CauseAlert(
        "overloaded-and-shedding", TICKET, "15m", ("rejection_ratio", "rejected_requests", "refused_call_ratio")
    ),
    CauseAlert("cold-start", TICKET, "1m", ("uptime_seconds", "ttft_p95_seconds")),
    CauseAlert("rollout-and-probes", TICKET, "0m", ("restarts", "planned_restarts", "lost_by_restarts")),
    CauseAlert("interconnect-bound", TICKET, "10m", ("gpu_link_use_ratio", "gpus_per_rank", "tpot_p95_seconds")),
    CauseAlert("adapter-slots", TICKET, "5m", ("adapters_short_ratio", "lora_slots", "requests_waiting")),
    CauseAlert("grammar-compilation", TICKET, "5m", ("deferred_share_ratio", "requests_waiting", "ttft_p95_seconds")),
    CauseAlert("retry-storm", TICKET, "3m", ("retry_ratio", "call_failure_ratio", "first_calls_per_minute")),
    CauseAlert("runaway-agent", TICKET, "5m", ("session_calls_peak", "session_calls_excess", "session_repeats_peak")),
    CauseAlert("noisy-tenant", TICKET, "5m", ("tenant_share_ratio", "tenant_excess", "fair_tokens_per_minute")),
    CauseAlert("fan-out", TICKET, "15m", ("calls_per_user_request", "planned_calls", "fan_out_excess")),
    CauseAlert("uncached-repeats", TICKET, "30m", ("uncached_repeat_ratio", "response_cache_hit_ratio")),
    CauseAlert(
        "preemption-thrash", TICKET, "3m", ("preemptions_per_minute", "preemptions_per_completion", "seats_full")
    ),
    CauseAlert("block-fragmentation", TICKET, "10m", ("kv_fill_ratio", "kv_free_low_ratio")),
    CauseAlert("kv-cache-saturation", TICKET, "5m", ("kv_usage_high_ratio", "waiting_share_ratio", "seats")),
    CauseAlert("context-imbalance", TICKET, "15m", ("contexts_in_pool", "context_slack_ratio")),
    CauseAlert("preemption-mode", TICKET, "10m", ("preemptions_per_minute", "prompt_mean_tokens")),
    CauseAlert("batch-too-small", TICKET, "5m", ("running_max", "waiting_share_ratio", "kv_usage_high_ratio")),
    CauseAlert("batch-too-large", TICKET, "5m", ("tpot_p95_seconds", "running_max")),
    CauseAlert(
        "connection-exhaustion",
        TICKET,
        "3m",
        ("fd_usage_ratio", "port_usage_ratio", "gateway_connection_ratio", "connect_errors", "streams_cut"),
    ),
    CauseAlert("api-server-bound", TICKET, "5m", ("frontend_residual_seconds", "page_answer_seconds", "api_cpu_cores")),
    CauseAlert("kv-transfer-bound", TICKET, "5m", ("kv_transfer_mean_seconds", "kv_transfer_failures")),
    CauseAlert("prefix-caching-off", TICKET, "30m", ("prompt_share_ratio", "prompt_mean_tokens")),
    CauseAlert(
        "prefix-cache-miss", TICKET, "15m", ("prefix_hit_ratio", "prefix_turnover_seconds", "prompt_mean_tokens")
    ),
    CauseAlert("prefill-bound", TICKET, "5m", ("prompt_tokens_rate", "ttft_p95_seconds", "requests_waiting")),
    CauseAlert("prefill-decode-interference", TICKET, "5m", ("itl_spread", "tpot_p95_seconds", "prompt_p95_tokens")),
    CauseAlert("draft-rejected", TICKET, "15m", ("draft_acceptance_ratio", "tpot_p95_seconds")),
    CauseAlert("head-of-line-blocking", TICKET, "15m", ("prompt_spread", "large_token_ratio", "ttft_p95_seconds")),
    CauseAlert("unbounded-queue", TICKET, "3m", ("requests_waiting", "wait_ahead_seconds", "queue_age_seconds")),
    CauseAlert("ghost-compute", TICKET, "10m", ("aborted_ratio", "wasted_decode_ratio", "ghost_call_ratio")),
    CauseAlert("unbounded-output", TICKET, "15m", ("open_max_tokens_requests", "open_max_tokens_ratio")),
)


@dataclass(frozen=True, slots=True)
class HarmAlert:
    """A page on the share of requests that certainly missed their SLO (the signal ``breach``, a lower bound).

    ``chance``: the signal that rules bad luck out. ``burn``: multiple of the error budget 1 - objective from which it
    pages; 14.4 spends 2 % of a 30-day budget in an hour (Google's SRE Workbook, chapter 5).
    """

    name: str
    title: str
    breach: str
    chance: str
    evidence: tuple[str, ...]
    burn: float = 14.4
    wait: str = "5m"


HARMS: tuple[HarmAlert, ...] = (
    HarmAlert(
        "LLMFirstTokensLate",
        "Most first tokens come too late",
        "ttft_breach_ratio",
        "ttft_harm_p",
        ("ttft_p95_seconds", "requests_waiting"),
    ),
    HarmAlert(
        "LLMTokensSlow",
        "Most answers come too slowly",
        "tpot_breach_ratio",
        "tpot_harm_p",
        ("tpot_p95_seconds", "requests_running"),
    ),
)


@dataclass(frozen=True, slots=True)
class WhileWaiting:
    """A ticket on a recorded signal beyond a line, only while requests wait: alone the number means nothing.

    ``threshold``: a field of :class:`llmvitals.settings.Thresholds`, ``place`` the index where that field is a pair.
    """

    name: str
    title: str
    signal: str
    op: str
    threshold: str
    place: int | None
    runbook: str
    wait: str = "10m"


WHILE_WAITING: tuple[WhileWaiting, ...] = (
    WhileWaiting(
        "LLMKvHighWhileWaiting",
        "KV usage is above its line while requests wait",
        "kv_usage_peak_ratio",
        ">",
        "kv_lines",
        0,
        "kv-cache-saturation",
    ),
    WhileWaiting(
        "LLMGpuIdleWhileWaiting",
        "The GPU is under-used while requests wait",
        "gpu_sm_active_mean_ratio",
        "<",
        "gpu_active",
        None,
        "batch-too-small",
    ),
)

GONE_MEMORY = "15m"
"""How long a target that vanished from the page altogether is remembered (and the alert on it lasts)."""

RULE_WINDOWS: tuple[str, ...] = ("1m", "5m")
"""Ranges for which every signal that compiles is recorded."""

ALERT_WINDOW = "5m"
"""The recorded range from which alerts read and tell numbers."""
