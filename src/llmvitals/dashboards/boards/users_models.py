"""What users of each model get, model by model, and how that compares with the time before."""

from __future__ import annotations

from collections.abc import Callable

from llmvitals.dashboards.boards.asked import BY_MODEL as _M
from llmvitals.dashboards.boards.asked import MODEL, SHOWN, mean, over, rate, reached, share
from llmvitals.dashboards.model import (
    INSTANCE,
    Kind,
    Limit,
    Panel,
    Row,
    buckets,
    cell,
)

_HTTP = "llm_http_requests_total"
_FINISHED = "llm_requests_finished_total"
_BEFORE = f"{SHOWN} offset $__range"


def _quantile(q: float, histogram: str) -> str:
    return reached(q, buckets(histogram, MODEL, per="rate", window="$__range"))


_ENGINES = 'rank!~".*/.*"'
"""A service of several engines counts their requests once more: its ranks begin with an engine's name."""


def _kept(objective: str) -> str:
    match = f'objective="{objective}",{_ENGINES}'
    missed, judged = (rate(f"llm_promise_{part}_total", _M, match, SHOWN) for part in ("missed", "requests"))
    return f"1 - {over(missed, judged)}"


def _answers(match: str) -> str:
    """Answers of the servers of a model: an HTTP server names none."""
    answers = f"sum by (instance) (rate({_HTTP}{{{match}{INSTANCE}}}{SHOWN}))"
    return f"sum by ({_M}) (0 * <requests_running> + on (instance) group_left () {answers})"


_FAILED = share(_answers('status="5xx",'), _answers('status=~"2xx|4xx|5xx",'))


def _against_before(ask: Callable[..., str], family: str) -> str:
    """How much more it is in the time shown than in as much before it, as a share of what it was."""
    now, before = (ask(family, _M, span=span) for span in (SHOWN, _BEFORE))
    return f"{over(f'({now})', before)} - 1"


_TTFT, _TPOT, _LENGTH = "llm_request_ttft_seconds", "llm_request_tpot_seconds", "llm_request_generation_tokens"

SUMMARY = Panel(
    Kind.TABLE,
    "What users of each model get",
    "none",
    (
        cell("Requests", "reqps", promql=f"{rate(_FINISHED, _M, span=SHOWN)} > 0", by=MODEL),
        cell("TTFT p50", "s", promql=_quantile(0.5, _TTFT), by=MODEL),
        cell("TTFT p95", "s", promql=_quantile(0.95, _TTFT), by=MODEL, limits=(Limit("slo.ttft_seconds"),)),
        cell("TPOT p95", "s", promql=_quantile(0.95, _TPOT), by=MODEL, limits=(Limit("slo.tpot_seconds"),)),
        cell("First tokens in time", "percentunit", promql=_kept("ttft"), by=MODEL),
        cell("Pace in time", "percentunit", promql=_kept("tpot"), by=MODEL),
        cell("5xx", "percentunit", promql=_FAILED, by=MODEL, limits=(Limit("thresholds.error_ratio"),)),
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
        cell("Requests", "percentunit", promql=_against_before(rate, _FINISHED), by=MODEL),
        cell("TTFT, mean", "percentunit", promql=_against_before(mean, _TTFT), by=MODEL),
        cell("TPOT, mean", "percentunit", promql=_against_before(mean, _TPOT), by=MODEL),
        cell("Tokens each", "percentunit", promql=_against_before(mean, _LENGTH), by=MODEL),
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
