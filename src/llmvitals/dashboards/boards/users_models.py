"""What users of each model get, model by model, and how that compares with the time before."""

from __future__ import annotations

from llmvitals.dashboards.model import (
    INSTANCE,
    PLACE,
    SELECTOR,
    Kind,
    Limit,
    Panel,
    Row,
    buckets,
    cell,
)

_MODEL = (*PLACE, "model")
_M = ", ".join(_MODEL)
_HTTP = "llm_http_requests_total"
_FINISHED = "llm_requests_finished_total"
_SPAN, _BEFORE = "[$__range]", "[$__range] offset $__range"


def _grew(counter: str, match: str = "", over: str = _SPAN) -> str:
    """By how much a counter grew per second in the time shown, or in as much before it."""
    return f"sum by ({_M}) (rate({counter}{{{match}{SELECTOR}}}{over}))"


def _quantile(q: float, histogram: str) -> str:
    return f"histogram_quantile({q:g}, {buckets(histogram, _MODEL, per='rate', window='$__range')}) >= 0"


_ENGINES = 'rank!~".*/.*",'
"""A service of several engines counts their requests once more: its ranks begin with an engine's name."""


def _kept(objective: str) -> str:
    match = f'objective="{objective}",{_ENGINES}'
    judged = _grew("llm_promise_requests_total", match)
    return f"1 - {_grew('llm_promise_missed_total', match)} / ({judged} > 0)"


def _mean(histogram: str, over: str = _SPAN) -> str:
    return f"{_grew(f'{histogram}_sum', over=over)} / ({_grew(f'{histogram}_count', over=over)} > 0)"


def _answers(match: str) -> str:
    """Answers of the servers of a model: an HTTP server names none."""
    answers = f"sum by (instance) (rate({_HTTP}{{{match}{INSTANCE}}}{_SPAN}))"
    return f"sum by ({_M}) (0 * <requests_running> + on (instance) group_left () {answers})"


_BAD, _JUDGED = _answers('status="5xx",'), _answers('status=~"2xx|4xx|5xx",')
_FAILED = f"({_BAD} or 0 * {_JUDGED}) / ({_JUDGED} > 0)"


def _against(now: str, before: str) -> str:
    """How much more it is than it was, as a share of what it was."""
    return f"({now}) / ({before} > 0) - 1"


_TTFT, _TPOT, _LENGTH = "llm_request_ttft_seconds", "llm_request_tpot_seconds", "llm_request_generation_tokens"

SUMMARY = Panel(
    Kind.TABLE,
    "What users of each model get",
    "none",
    (
        cell("Requests", "reqps", promql=f"{_grew(_FINISHED)} > 0", by=_MODEL),
        cell("TTFT p50", "s", promql=_quantile(0.5, _TTFT), by=_MODEL),
        cell("TTFT p95", "s", promql=_quantile(0.95, _TTFT), by=_MODEL, limits=(Limit("slo.ttft_seconds"),)),
        cell("TPOT p95", "s", promql=_quantile(0.95, _TPOT), by=_MODEL, limits=(Limit("slo.tpot_seconds"),)),
        cell("First tokens in time", "percentunit", promql=_kept("ttft"), by=_MODEL),
        cell("Pace in time", "percentunit", promql=_kept("tpot"), by=_MODEL),
        cell("5xx", "percentunit", promql=_FAILED, by=_MODEL, limits=(Limit("thresholds.error_ratio"),)),
    ),
    "Each model over the time shown, all its replicas together. Both promises ({slo.ttft_seconds:g} s, {slo.tpot_seconds:g} s)"
    " were met by no more requests than the smaller of the two shares; by no fewer than their sum less 1, where the edges that"
    " they are counted by are the promises. Shares are of what was measured; 5xx is of all answers of the servers of that model.",
    "no traffic in the time shown, or no engine counts requests",
    symptoms=("users-hurt",),
    causes=("unbounded-queue", "batch-too-large", "prefill-bound"),
    moved=("chat", "busy"),
    worst="TTFT p95",
    width=16,
    height=7,
)

CHANGE = Panel(
    Kind.TABLE,
    "Against the time before",
    "none",
    (
        cell(
            "Requests",
            "percentunit",
            promql=_against(_grew(_FINISHED), _grew(_FINISHED, over=_BEFORE)),
            by=_MODEL,
        ),
        cell("TTFT, mean", "percentunit", promql=_against(_mean(_TTFT), _mean(_TTFT, _BEFORE)), by=_MODEL),
        cell("TPOT, mean", "percentunit", promql=_against(_mean(_TPOT), _mean(_TPOT, _BEFORE)), by=_MODEL),
        cell("Tokens each", "percentunit", promql=_against(_mean(_LENGTH), _mean(_LENGTH, _BEFORE)), by=_MODEL),
    ),
    "The time shown against as much time right before it: 0 is no change, 1 twice as much, -0.5 half. Slower with as many requests"
    " of the same length: the server changed. Slower with more of them, or with longer ones: the load did. Choose 24 hours or 7"
    " days to compare like with like.",
    "no traffic in the time shown or in as much before it, or no engine counts requests",
    symptoms=("users-hurt", "throughput-fell"),
    apart="it asks for as much time again before the time shown",
    worst="TTFT, mean",
    width=8,
    height=7,
)

MODELS = Row("", (SUMMARY, CHANGE))
