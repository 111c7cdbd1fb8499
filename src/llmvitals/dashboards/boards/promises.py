"""The row behind the alerts on promises: how fast error budgets burn.

No rule needs to be loaded for it: what a rule asks is asked here of the exporter's page.
"""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import share
from llmvitals.dashboards.boards.requests import CLASS, NO_TRACES, OBJECTIVE
from llmvitals.dashboards.model import (
    BLUE,
    INSTANCE,
    ORANGE,
    PURPLE,
    SELECTOR,
    SKY,
    VERMILLION,
    Kind,
    Limit,
    Panel,
    Query,
    Row,
)
from llmvitals.signals.derived.gateway import LOST_LABELS

_HTTP = "llm_http_requests_total"
_CALLS = "llm_gateway_requests_total"
_LOST = "|".join(LOST_LABELS)


def _share(missed: str, judged: str, by: tuple[str, ...]) -> str:
    """The share of requests that missed over ``<long>``."""
    some, all_ = (f"sum by ({', '.join(by)}) (rate({series}[<long>]))" for series in (missed, judged))
    return share(some, all_)


def _promised(objective: str) -> str:
    match = f'{{objective="{objective}",{SELECTOR}}}'
    share = _share(f"llm_promise_missed_total{match}", f"llm_promise_requests_total{match}", ("instance", "model"))
    return f"{share} / (1 - <slo.objective>)"


TTFT, TPOT = _promised("ttft"), _promised("tpot")
ANSWERS = (
    _share(f'{_HTTP}{{status="5xx",{INSTANCE}}}', f'{_HTTP}{{status=~"2xx|5xx",{INSTANCE}}}', ("instance",))
    + " / (1 - <slo.objective>)"
)
CALLS = (
    _share(f'{_CALLS}{{status=~"{_LOST}",{INSTANCE}}}', f"{_CALLS}{{{INSTANCE}}}", ("instance",))
    + " / (1 - <slo.objective>)"
)
_SLO = "llm_slo_requests_total"
_TOLD = _share(f'{_SLO}{{met="no",{SELECTOR}}}', f'{_SLO}{{met=~"yes|no",{SELECTOR}}}', CLASS)
GOODPUT = f"{_TOLD} / on (instance, slo_class) group_left () (1 - {OBJECTIVE})"

_PAGES = (Limit("alerts.burns", severity="page"),)
_TICKETS = (Limit("alerts.burns", ORANGE, severity="ticket"),)
_AT_1 = "At 1 exactly as many miss as may. The lines are where somebody is paged: {pages}, the longer window beside the shorter."


def _burning(
    title: str, promql: str, by: tuple[str, ...], what: str, empty: str, *symptoms: str, width: int = 12
) -> Panel:
    return Panel(
        Kind.LINES,
        title,
        "suffix: x",
        (Query("over <long>:", BLUE, promql=promql, by=by, burns="page"),),
        f"{what} {_AT_1}",
        empty,
        symptoms=symptoms,
        limits=_PAGES,
        width=width,
        moved=("chat",),
    )


_NOBODY_ASKED = "no traffic, or the page lacks what counts it"
_SCOPED = ("instance", "model")

PROMISES = Row(
    "Promises: how fast their budgets burn",
    (
        _burning(
            "First tokens in time",
            TTFT,
            _SCOPED,
            "How many times faster than allowed first tokens come later than was promised. Only what certainly missed counts:"
            " beyond the histogram's edge at or above the promise.",
            _NOBODY_ASKED,
            "first-tokens-late",
        ),
        _burning(
            "Pace of tokens",
            TPOT,
            _SCOPED,
            "The same for the pace of tokens after the first, request by request. Slow while first tokens are in time: the batch"
            " is too large, or long prefills stall it.",
            _NOBODY_ASKED,
            "tokens-slow",
        ),
        _burning(
            "Answers that fail",
            ANSWERS,
            ("instance",),
            "The same for answers that are server errors (5xx), of these and those that are well. What a full server refuses on"
            " purpose is not among them.",
            "no traffic, or the page has no HTTP series",
            "answers-fail",
            width=8,
        ),
        _burning(
            "Calls that get no answer",
            CALLS,
            ("instance",),
            "The same for calls that the gateway in front refused or failed, of all its calls: a server that restarts all the"
            " time looks idle from within.",
            "no traffic, or no gateway is joined to this target",
            "answers-fail",
            width=8,
        ),
        _burning(
            "Whole promise, class by class",
            GOODPUT,
            CLASS,
            "The same for requests that traces told one by one, each held to every threshold and to the objective of its class.",
            NO_TRACES,
            "goodput-low",
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Budgets over hours and days",
            "suffix: x",
            (
                Query("first tokens over <long>:", BLUE, promql=TTFT, by=_SCOPED, burns="ticket"),
                Query("pace over <long>:", SKY, promql=TPOT, by=_SCOPED, burns="ticket"),
                Query("answers over <long>:", VERMILLION, promql=ANSWERS, by=("instance",), burns="ticket"),
                Query("whole promise over <long>:", PURPLE, promql=GOODPUT, by=CLASS, burns="ticket"),
            ),
            "Those that have a ticket, over the long windows. The lines are where one is written: {tickets}, the longer window"
            " beside the shorter. A curve that stays above 1 means that the promise is not kept, though nobody was woken.",
            _NOBODY_ASKED,
            symptoms=("first-tokens-late", "tokens-slow", "answers-fail", "goodput-low"),
            limits=_TICKETS,
            width=24,
            points=60,
            moved=("chat",),
        ),
    ),
    collapsed=True,
)
