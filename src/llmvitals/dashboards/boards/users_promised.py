"""The row of promises: how far they are kept, by share and by rate, and what is left of their budgets."""

from __future__ import annotations

from llmvitals.dashboards.boards import promises
from llmvitals.dashboards.boards.asked import APART, OFFERED, asked, rate
from llmvitals.dashboards.boards.requests import CLASS
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    Kind,
    Limit,
    Panel,
    Query,
    Row,
    q,
)

GOODPUT = Panel(
    Kind.LINES,
    "Goodput: share inside every promise",
    "percentunit",
    (
        q("goodput_low_ratio", "at least", BLUE),
        q("goodput_high_ratio", "at most", SKY, dashed=True),
        q("slo_goodput_ratio", "exact", GREEN),
        q("slo_ttft_attainment_ratio", "first tokens in time", ORANGE, dashed=True),
        q("slo_tpot_attainment_ratio", "pace in time", PURPLE, dashed=True),
    ),
    "Requests that met both promises (first token {slo.ttft_seconds:g} s, pace {slo.tpot_seconds:g} s). Two"
    " histograms give an interval, never one number; failed, rejected and overdue requests count against it."
    " Where traces tell every request, the exact share is drawn, each held to its own class."
    " The line is the objective, {slo.objective:g}.",
    "no traffic, too many requests in flight to say, or times that the engine does not show",
    symptoms=("users-hurt", "goodput-low"),
    causes=("unbounded-queue", "batch-too-large"),
    limits=(Limit("slo.objective"),),
    top=1,
    moved=("chat",),
)


def _per_second(bound: str, of: str) -> str:
    """So much of a rate as a share of the requests has."""
    return f"<{bound}> * on (instance, model) <{of}>"


_WELL = f"<goodput_high_ratio> * on (instance, model) {OFFERED}"
_AT_MOST = (
    f"({_WELL} <= on (instance, model) <completion_rate> or <completion_rate> and on (instance, model) ({_WELL}))"
)
"""The upper share is of refused and failed requests, too; no more were well than finished."""

_TOLD_BY = "instance, model, vantage"


def _told(match: str = "") -> str:
    """Requests a second that traces told."""
    return rate("llm_slo_requests_total", _TOLD_BY, match)


_INSIDE = _told('met="yes"')

GOODPUT_RATE = Panel(
    Kind.LINES,
    "Goodput: requests and tokens a second inside every promise",
    "reqps",
    (
        asked("requests, at least", BLUE, _per_second("goodput_low_ratio", "completion_rate")),
        asked("requests, at most", SKY, _AT_MOST, dashed=True),
        asked(
            "requests, exact by",
            GREEN,
            f"{_INSIDE} and on ({_TOLD_BY}) ({_told()} > 0)",
            "vantage",
            "instance",
            "model",
        ),
        asked(
            "tokens, about",
            PURPLE,
            _per_second("goodput_low_ratio", "generation_tokens_rate"),
            dashed=True,
            unit="suffix: tok/s",
        ),
    ),
    "What a server is worth: finished requests a second that met both promises ({slo.ttft_seconds:g} s, {slo.tpot_seconds:g}"
    " s), as an interval, and exactly where traces tell. It rises with load until promises break and then falls: the top is the"
    " capacity. Tokens (right axis) are an estimate: the lower share of all generated ones, as if those that missed were as long"
    " as the others.",
    "no traffic, too many requests in flight to say, or times that the engine does not show",
    symptoms=("goodput-low", "throughput-fell"),
    causes=("unbounded-queue", "batch-too-large"),
    moved=("chat",),
)


def _kept(objective: str) -> str:
    """Share of the requests up to the edge by which a promise is counted."""
    match = f'objective="{objective}"'
    missed = rate("llm_promise_missed_total", f"{APART}, edge", match)
    judged = rate("llm_promise_requests_total", match=match)
    return f"1 - {missed} / on (instance, model) group_left () ({judged} > 0)"


ATTAINMENT = Panel(
    Kind.LINES,
    "Promises kept, and the edge that is counted by",
    "percentunit",
    (
        asked("first tokens, s:", BLUE, _kept("ttft"), "edge", "instance", "model"),
        asked("pace, s:", SKY, _kept("tpot"), "edge", "instance", "model"),
    ),
    "Requests whose first token came, and whose tokens followed, within the edge of the histogram that the legend names: the"
    " first one at or above the promise ({slo.ttft_seconds:g} s, {slo.tpot_seconds:g} s). Where that is wider than the promise,"
    " the true share is lower. These are the counters that the alerts burn by. The line is the objective, {slo.objective:g}.",
    "no traffic, no histogram, or one whose finite edges are all below the promise",
    symptoms=("first-tokens-late", "tokens-slow"),
    causes=("unbounded-queue", "batch-too-large"),
    limits=(Limit("slo.objective"),),
    top=1,
    moved=("chat",),
)


def _left(burn: str) -> str:
    """What is left of a budget over the time shown, of what burns it over ``<long>``."""
    return f"1 - {burn.replace('<long>', '$__range')}"


BUDGET = Panel(
    Kind.STAT,
    "Error budget left, of the time shown",
    "percentunit",
    (
        asked("first tokens", BLUE, _left(promises.TTFT)),
        asked("pace", SKY, _left(promises.TPOT)),
        asked("answers", GREY, _left(promises.ANSWERS), "instance"),
        Query("whole promise", PURPLE, promql=_left(promises.GOODPUT), by=CLASS),
    ),
    "What may still miss, of all that may miss in the time shown (1 - {slo.objective:g} of its requests): 100 % is untouched, 0"
    " is used up, below 0 the promise was broken. Choose the period that was promised, as 30 days, at the top right. How fast it"
    " goes stands under 'Promises'.",
    "no traffic in the time shown, or the page lacks what counts it",
    symptoms=("first-tokens-late", "tokens-slow", "answers-fail", "goodput-low"),
    causes=("unbounded-queue", "batch-too-large"),
    moved=("chat",),
    width=24,
    height=6,
)

PROMISED = Row("What was promised, and how far it is kept", (GOODPUT, GOODPUT_RATE, ATTAINMENT, BUDGET))
