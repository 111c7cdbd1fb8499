"""Calls as the gateway in front sees them: what comes of them, how long they take, who tries again and who leaves."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import all_of, asked, grown, over, rate, reached, spread
from llmvitals.dashboards.boards.users_failed import GATEWAY_FAILS
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    Kind,
    Limit,
    Panel,
    Query,
    Row,
    heat,
    q,
)

NO_GATEWAY = "no traffic, or no gateway is joined to this target"
_CALLS, _CAME = "llm_gateway_requests_total", "llm_gateway_calls_total"
TTFT, TPOT, WHOLE = "llm_gateway_ttft_seconds", "llm_gateway_tpot_seconds", "llm_gateway_request_seconds"
OVERHEAD = "llm_gateway_overhead_seconds"


def _answered(match: str = "") -> str:
    """Calls answered per second over everything selected."""
    return rate(_CALLS, "", match)


def _ended(legend: str, color: str, status: str) -> Query:
    return all_of(legend, color, f"{_answered(f'status{status}')} and on () ({_answered()} > 0)")


def _counted(histogram: str) -> str:
    """Observations of the window."""
    return f"{grown(f'{histogram}_count')} > 0"


_WELL, _REFUSED, _LEFT = "[123]..|ok|answered", "429|503", "499"
_FAILED = "50[0-24-9]|5[1-9].|5xx|error"
_CLIENTS = "4[013-8].|42[0-8]|49[0-8]|4xx"
"""Statuses, each in one of five kinds: exact codes, or the class where a gateway knows no more."""

STATUSES = Panel(
    Kind.STACK,
    "Calls, by how they ended",
    "reqps",
    (
        _ended("served", BLUE, f'=~"{_WELL}"'),
        _ended("refused (429, 503)", ORANGE, f'=~"{_REFUSED}"'),
        _ended("failed", VERMILLION, f'=~"{_FAILED}"'),
        _ended("given up by clients (499)", PURPLE, f'="{_LEFT}"'),
        _ended("the client's fault", GREY, f'=~"{_CLIENTS}"'),
    ),
    "Calls a second that the gateway in front answered, over everything selected, by HTTP status. Refused ones are load shed; with"
    " 'served' unchanged that is what should happen. 'Served' that falls while 'refused' rises: the same clients come again.",
    NO_GATEWAY,
    symptoms=("answers-fail",),
    causes=("retry-storm", "noisy-tenant", "connection-exhaustion"),
    moved=("chat", "shedding"),
)

FIRST = Panel(
    Kind.LINES,
    "Time to first token, as the gateway saw it",
    "s",
    (
        *spread(TTFT),
        q("ttft_p95_seconds", "p95 of the engine", GREEN, dashed=True),
    ),
    "Call to first token by the gateway's clock, its own queue and the way to the engine among it. The line is the promise for p95,"
    " {slo.ttft_seconds:g} s. Far above the engine's dashed curve: the time goes in front of the engine. The gateway has edges"
    " of its own, so a small difference means nothing.",
    NO_GATEWAY,
    symptoms=("users-hurt", "first-tokens-late"),
    causes=("head-of-line-blocking", "noisy-tenant", "retry-storm"),
    limits=(Limit("slo.ttft_seconds"),),
    moved=("chat",),
)

_BY_SIZE = ("instance", "model", "size")
_SIZES = ", ".join(_BY_SIZE)
_SIZED = 'size!=""'

BY_SIZE = Panel(
    Kind.LINES,
    "First tokens of small and large prompts, p95",
    "s",
    (
        asked("p95", BLUE, reached(0.95, rate(f"{TTFT}_bucket", f"{_SIZES}, le", _SIZED)), *_BY_SIZE),
        asked(
            "calls in the window",
            GREY,
            f"{grown(f'{TTFT}_count', _SIZES, _SIZED)} > 0",
            *_BY_SIZE,
            dashed=True,
            unit="short",
        ),
    ),
    "First tokens by the size of the prompt, split at 1,024 tokens, by the gateway's clock, and how many calls they are of (right"
    " axis). The line is the promise, {slo.ttft_seconds:g} s. Small ones as late as large ones while they are most of the calls:"
    " they wait behind long prefills. Of fewer calls than twenty a p95 is the slowest one.",
    "no traffic, or the gateway does not tell small prompts from large ones",
    causes=("head-of-line-blocking",),
    limits=(Limit("slo.ttft_seconds"),),
    moved=("chat",),
)

FIRST_HEAT = Panel(
    Kind.HEATMAP,
    "Where first tokens of calls lie",
    "s",
    (heat(TTFT, "s"),),
    "Calls of the window by how long their first token took at the gateway, over everything selected. Two bands at once: some calls"
    " pass and others wait, by size, by tenant, or by the upstream that they were sent to.",
    NO_GATEWAY,
    causes=("head-of-line-blocking", "noisy-tenant"),
    moved=("chat",),
)

RETRIES = Panel(
    Kind.LINES,
    "Calls that repeat a failed one",
    "percentunit",
    (
        q("retry_ratio", "retries of clients", ORANGE),
        q("call_failure_ratio", "calls that may be retried", VERMILLION, dashed=True),
        q("first_calls_per_minute", "calls a minute without them", GREY, dashed=True, unit="none"),
    ),
    "Share of the calls with which clients come again: load is 1 / (1 - this) times what users asked for. It follows failures, and"
    " stays up after them where retries keep the server full: then failures and retries are high while what users ask for (right"
    " axis) is what it always was. A retry budget of 10 % would hold it at 0.1.",
    "no traffic, or the gateway cannot tell a retry",
    causes=("retry-storm",),
    moved=("chat",),
)

_LEAVING = over(rate("llm_gateway_disconnects_total"), rate(_CAME))

LEFT = Panel(
    Kind.LINES,
    "Clients that left, and calls that went on without them",
    "percentunit",
    (
        asked("left", GREY, _LEAVING),
        q("ghost_call_ratio", "went on without them, about", VERMILLION),
        q("aborted_ratio", "stopped at the engine", BLUE, dashed=True),
    ),
    "Clients that left before their answer ended, as a share of the calls, and those of them whose call the engine never stopped."
    " Left without going on: cancellation works, and impatient clients are why. Going on: the gateway does not pass the disconnect"
    " on, and the engine works for nobody.",
    "no traffic, or neither gateway nor engine tells who left",
    causes=("ghost-compute",),
    moved=("chat", "left-and-cancelled"),
)

CALLS = Row("Calls, as the gateway in front sees them", (STATUSES, GATEWAY_FAILS, RETRIES, FIRST, BY_SIZE, FIRST_HEAT))

_NO_STREAMS = "no traffic, or not exported: the gateway does not look into streams"

PACE = Panel(
    Kind.LINES,
    "Time per output token, as the gateway saw it",
    "s",
    (
        *spread(TPOT),
        q("tpot_p95_seconds", "p95 of the engine", GREEN, dashed=True),
        asked("answers in the window", ORANGE, _counted(TPOT), dashed=True, unit="short"),
    ),
    "Pace of tokens by the gateway's clock. The line is the promise for p95, {slo.tpot_seconds:g} s. Slower than the engine's"
    " dashed curve: a proxy buffers the stream, or the client reads slowly. Right axis: how many answers it is of.",
    _NO_STREAMS,
    symptoms=("tokens-slow",),
    limits=(Limit("slo.tpot_seconds"),),
    apart="the lab's gateway times first tokens only",
    width=12,
)

WHOLE_CALL = Panel(
    Kind.LINES,
    "Whole calls, as the gateway saw them",
    "s",
    (
        *spread(WHOLE),
        asked("calls in the window", ORANGE, _counted(WHOLE), dashed=True, unit="short"),
    ),
    "Call to the end of its answer by the gateway's clock. It follows the length of the answers, so it explains timeouts and judges"
    " nothing. p95 near a round number: that is somebody's timeout.",
    "no traffic, or not exported: the gateway does not time whole calls",
    apart="the lab's gateway times first tokens only",
    width=12,
)

ADDED = Panel(
    Kind.LINES,
    "What the gateway itself adds",
    "s",
    spread(OVERHEAD),
    "Time of a call that the gateway spent itself: authentication, limits, routing, rewriting, logging. Milliseconds as a rule."
    " More while the engine is quick: the gateway is busy, or something that it asks (a key store, a guard model) is slow.",
    "no traffic, or not exported: the gateway has no clock around its own work",
    apart="the lab's gateway adds nothing",
    width=12,
)

OWN_RETRIES = Panel(
    Kind.LINES,
    "Calls that the gateway tried again itself",
    "percentunit",
    (
        asked(
            "of the calls",
            ORANGE,
            over(rate("llm_gateway_retries_total", match='by="gateway"'), rate(_CAME)),
        ),
    ),
    "Calls that the gateway sent again after a failure, without its client, as a share of those that came in: hidden load on the"
    " engines, bounded by its settings. High while clients see few failures: it works as meant, and an upstream is bad.",
    "no traffic, or not exported: the gateway does not try again itself, or does not count it",
    apart="the lab's gateway leaves trying again to its clients",
    width=12,
)

TIMED = Row(
    "Pace, whole calls and the gateway's own time: needs a gateway that times them",
    (PACE, WHOLE_CALL, ADDED, OWN_RETRIES),
    collapsed=True,
)
