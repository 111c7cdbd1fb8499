"""The row of failures: what callers, the gateway and the engine each saw fail, and how answers end."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import all_of, asked, over, rate, share
from llmvitals.dashboards.model import (
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Kind,
    Limit,
    Panel,
    Row,
    q,
)

_VANTAGE = ("instance", "model", "vantage")
_V = ", ".join(_VANTAGE)
_SAID_BY = ("vantage", "instance", "model")
_SPANS = "llm_span_requests_total"
_FINISHED = "llm_requests_finished_total"


def _ended(how: str) -> str:
    """Share of the requests that spans told of."""
    return share(rate(_SPANS, _V, f'ended=~"{how}"'), rate(_SPANS, _V))


_ERROR = Limit("thresholds.error_ratio")
_LINE = "The line, {thresholds.error_ratio:g}, is where a client should stop trying."

CALLERS = Panel(
    Kind.LINES,
    "What callers saw fail",
    "percentunit",
    (
        asked("failed, by", VERMILLION, _ended("error"), *_SAID_BY),
        asked("refused, by", ORANGE, _ended("refused"), *_SAID_BY),
        asked("left, by", GREY, _ended("left"), *_SAID_BY, dashed=True),
        q("probe_failure_ratio", "probes without an answer", PURPLE, dashed=True),
    ),
    "Failures from outside, of requests that traces tell (as the gateway's callers saw them, and as the engine did), and of small"
    f" requests of our own. It sees what fails after streaming began, which no HTTP status says. {_LINE} Higher than the gateway's"
    " beside it: something in between loses answers.",
    "no traffic, or neither traces nor probes",
    symptoms=("answers-fail",),
    causes=("overloaded-and-shedding", "retry-storm"),
    limits=(_ERROR,),
    moved=("chat",),
)

GATEWAY_FAILS = Panel(
    Kind.LINES,
    "What the gateway saw fail",
    "percentunit",
    (
        q("lost_call_ratio", "without an answer", VERMILLION),
        q("refused_call_ratio", "refused", ORANGE, dashed=True),
        q("call_failure_ratio", "and given up by clients", GREY, dashed=True),
        q("connect_error_ratio", "could not connect", PURPLE),
        q("streams_cut_ratio", "streams cut", SKY, dashed=True),
    ),
    "Shares of the calls that the gateway in front answered: refused or failed (429, 5xx), refused alone, with those that clients"
    f" gave up, connections to the engine that could not be made, and streams that the gateway itself ended. {_LINE} Failures here"
    " that the engine does not know of never reached it.",
    "no traffic, or no gateway is joined to this target",
    symptoms=("answers-fail",),
    causes=("connection-exhaustion", "rollout-and-probes", "retry-storm", "overloaded-and-shedding"),
    limits=(_ERROR,),
    moved=("chat",),
)

ENGINE_FAILS = Panel(
    Kind.LINES,
    "What the engine saw fail",
    "percentunit",
    (
        q("error_ratio", "5xx", VERMILLION),
        q("rejection_ratio", "rejected", ORANGE, dashed=True),
        q("aborted_ratio", "clients left", GREY, dashed=True),
        asked("ended in an error", PURPLE, over(rate(_FINISHED, match='reason=~"error.*"'), rate(_FINISHED))),
        q("client_error_ratio", "4xx", SKY, dashed=True),
    ),
    "Shares of what the engine's own page counts: answers that were server errors, requests refused at admission, requests whose"
    " clients left, finished ones that ended in an error, and answers that were the client's fault. It cannot see a failure after"
    f" streaming began, nor a call that never came. {_LINE}",
    "no traffic, or the page counts no failures",
    symptoms=("answers-fail",),
    causes=("rollout-and-probes", "overloaded-and-shedding", "ghost-compute"),
    limits=(_ERROR,),
    moved=("chat",),
)


def _ends(match: str) -> str:
    """Share of the finished sequences whose reason matches, of those that have one, over everything selected."""
    return over(rate(_FINISHED, "", f'reason{match},reason!=""'), rate(_FINISHED, "", 'reason!=""'))


_STOP, _LENGTH, _ABORT = "stop.*|eos.*", "length", "abort.*"

FINISH = Panel(
    Kind.STACK,
    "How answers end",
    "percentunit",
    (
        all_of("said all", BLUE, _ends(f'=~"{_STOP}"')),
        all_of("cut off (length)", ORANGE, _ends(f'="{_LENGTH}"')),
        all_of("aborted", GREY, _ends(f'=~"{_ABORT}"')),
        all_of("other reasons", VERMILLION, _ends(f'!~"{_STOP}|{_LENGTH}|{_ABORT}"')),
    ),
    "Finished sequences by the engine's own reason, as shares of all; over everything selected. 'Cut off' means truncation: the"
    " answer met max_tokens or the context's end before it was done. A jump there: a client's limit changed, or the model runs on."
    " Clients that left are counted by few engines: see the shares beside. Engines that give no reason (SGLang) are left out.",
    "no traffic, or no engine here says why answers end",
    causes=("unbounded-output",),
    top=1,
    moved=("chat",),
    width=24,
    height=6,
)

FAILED = Row("What fails, layer by layer", (CALLERS, GATEWAY_FAILS, ENGINE_FAILS, FINISH))
