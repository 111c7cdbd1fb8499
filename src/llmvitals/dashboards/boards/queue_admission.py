"""Rows of the queue's board on the way in and out: what arrives, how it ends, who is turned away, and what is missing."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import all_of, asked, inside_grows, over, rate
from llmvitals.dashboards.model import (
    BLUE,
    GREY,
    INSTANCE,
    ORANGE,
    PURPLE,
    RANGE,
    SELECTOR,
    SKY,
    VERMILLION,
    Kind,
    Panel,
    Row,
    of_target,
    q,
)

FLOW = Panel(
    Kind.LINES,
    "Arrivals and completions",
    "reqps",
    (
        q("arrival_rate", "arrive", ORANGE),
        q("completion_rate", "finish", BLUE),
        asked("inside grows by", GREY, inside_grows(), dashed=True),
    ),
    "Requests that arrive and that finish, per second. Arrivals above completions for long means a queue without an end: cap it"
    " at service rate times the wait you accept, and answer 429 beyond. Dashed: by how much those inside become more, which is"
    " arrivals less all that left, over the panel's window; below 0 the queue drains. Arrivals are the exporter's, over its own.",
    "no request is counted on this page, or the target is down",
    symptoms=("throughput-fell",),
    causes=("unbounded-queue", "noisy-tenant", "runaway-agent", "fan-out"),
    moved=("chat",),
    bottom=None,
)

_CLIENTS_LEFT = over("<aborted_requests>", "<window_seconds>")

OUTCOMES = Panel(
    Kind.LINES,
    "How requests end, layer by layer",
    "reqps",
    (
        q("completion_rate", "finished", BLUE),
        asked("refused by the engine", ORANGE, rate("llm_requests_rejected_total")),
        asked("given up in the gateway's queue", VERMILLION, rate("llm_gateway_queue_dropped_total"), dashed=True),
        asked("clients left (estimate)", PURPLE, _CLIENTS_LEFT, dashed=True),
    ),
    "What became of requests, per second. Refused at the door (vLLM from 0.32, SGLang's 503) or given up in the gateway's"
    " queue: load that was shed. Clients that left are in no counter of most engines, so they are what was answered and never"
    " finished, off by a few. Some engines count those among the finished as well, so the lines do not add up.",
    "no request is counted on this page, or the target is down",
    causes=("overloaded-and-shedding", "ghost-compute"),
    moved=("chat", "shedding"),
    width=12,
)
TURNED_AWAY = Panel(
    Kind.LINES,
    "Turned away, by layer and reason",
    "reqps",
    (
        asked(
            "engine:",
            ORANGE,
            rate("llm_requests_rejected_total", "instance, model, reason"),
            *("instance", "model", "reason"),
        ),
        asked(
            "gateway's queue:",
            VERMILLION,
            rate("llm_gateway_queue_dropped_total", "instance, model, reason"),
            *("instance", "model", "reason"),
            dashed=True,
        ),
        asked(
            "gateway's answer:",
            PURPLE,
            of_target("llm_gateway_requests_total", "status", agg="sum", rate=True, match='status=~"429|503"'),
            *("instance", "status"),
            dashed=True,
        ),
    ),
    "Requests per second that got no place. The engine's reason: its queue was full, in requests or in tokens. The"
    " gateway's queue: full, waited too long (ttl), or their clients left. The gateway's answer: 429 and 503 as callers saw"
    " them, the engine's refusals among them.",
    "nothing on these pages counts refusals: vLLM does from 0.32 on, SGLang and TGI do, a gateway on its own page",
    symptoms=("answers-fail",),
    causes=("overloaded-and-shedding",),
    width=12,
)

REFUSED = Panel(
    Kind.LINES,
    "Share that was turned away",
    "percentunit",
    (
        q("rejection_ratio", "at the engine", ORANGE),
        q("refused_call_ratio", "at the gateway, with the engine's", VERMILLION, dashed=True),
        q("client_error_ratio", "4xx of the engine", GREY, dashed=True),
    ),
    "Of what was offered, the share that was refused. Above 0 on purpose: a bounded queue sheds what it could not serve in"
    " time. What matters is whether those who get in are served well, and whether callers come back at once: see retries. 4xx"
    " that are no refusal are faults of the requests.",
    "no traffic, or nothing here counts refusals",
    causes=("overloaded-and-shedding", "retry-storm"),
    top=1,
    width=12,
)

LEFT = Panel(
    Kind.LINES,
    "Work for clients that left",
    "percentunit",
    (
        q("wasted_decode_ratio", "decode wasted", VERMILLION),
        q("aborted_requests", "aborted", ORANGE, dashed=True, unit="none"),
    ),
    "Requests whose client went away in the window (right axis), and the share of generated tokens nobody"
    " received. Pass cancellation on and switch off proxy buffering.",
    "this page cannot tell who left: it needs HTTP answers or the engine's own count",
    causes=("ghost-compute",),
    width=12,
)

ADMISSION = Row("In and out", (OUTCOMES, TURNED_AWAY, REFUSED, LEFT))


def _came(family: str, match: str = "") -> str:
    """Of the chosen models alone, at gateways as well: calls that name none cannot be set against what engines finished."""
    return f"sum by () (increase({family}{{{f'{match},' if match else ''}{SELECTOR}}}{RANGE}))"


def _grew(*families: str) -> str:
    return " + ".join(f"sum by () (delta({family}{{{SELECTOR}}}{RANGE}))" for family in families)


_CALLS = f"({_came('llm_gateway_calls_total')})"
_ENDED = _came("llm_requests_finished_total")
_INSIDE = _grew("llm_requests_running", "llm_requests_waiting")


def _where(part: str) -> str:
    """0 where it is not counted: whoever counts calls and not these has none."""
    return f"({part} or {_CALLS} * 0)"


_AGAIN = _where(_came("llm_gateway_retries_total", 'by="gateway"'))
_GIVEN_UP = _where(_came("llm_gateway_queue_dropped_total"))
_FROM_CACHE = _where(_came("llm_gateway_cache_hits_total"))
_QUEUED = _where(_grew("llm_gateway_queue_waiting"))
_TURNED = (
    f'sum by () (increase(llm_gateway_requests_total{{status="503",{INSTANCE}}}{RANGE}))',
    _came("llm_requests_rejected_total"),
)
_REFUSED = _where(f"({_TURNED[0]} unless {_TURNED[1]} > {_TURNED[0]}) or {_TURNED[1]}")
_BACK = " + ".join((_GIVEN_UP, _FROM_CACHE, _REFUSED))

MISSING = Panel(
    Kind.BARS,
    "Where did the calls go?",
    "none",
    (
        all_of("came to the gateway", SKY, f"{_CALLS} + {_AGAIN}"),
        all_of("kept back or from a cache", ORANGE, f"({_BACK}) + {_CALLS} * 0"),
        all_of("finished at the engines", BLUE, f"{_ENDED} + {_CALLS} * 0"),
        all_of("more inside than before", GREY, f"{_INSIDE} + {_QUEUED}"),
        all_of("missing", VERMILLION, f"{_CALLS} + {_AGAIN} - ({_BACK}) - {_ENDED} - ({_INSIDE} + {_QUEUED})"),
    ),
    "Calls at the gateway against what became of them, in the chosen time: what is neither kept back (given up, refused, or"
    " answered from a cache), nor finished, nor still inside is missing. Those are clients that left, which engines do not"
    " count, and lost calls. Choose the gateway with all engines behind it. A request for several answers (n) counts once for"
    " each, so missing may fall below 0; a few are the pages' different moments.",
    "no calls are counted at a gateway here: is its page a target?",
    causes=("ghost-compute",),
    moved=("retry-storm",),
    width=12,
    bottom=None,
)

DEMAND = Panel(
    Kind.LINES,
    "Demand in front, load behind",
    "reqps",
    (
        asked("requests of users", SKY, rate("llm_gateway_user_requests_total"), dashed=True),
        asked("calls at the gateway", ORANGE, rate("llm_gateway_calls_total")),
        asked("of these, retries", VERMILLION, rate("llm_gateway_retries_total"), dashed=True),
        q("arrival_rate", "arrive at the engine", PURPLE),
        q("completion_rate", "finish", BLUE),
    ),
    "Demand before any queue, and how much of it each layer lets through. Calls far above users' requests: fan-out or an agent"
    " that loops. Retries rising with calls: clients multiply the load. Calls above arrivals: the gateway holds back. A gateway"
    " that is a target of its own is a line of its own.",
    "no request is counted here, or the target is down",
    causes=("fan-out", "runaway-agent", "retry-storm"),
    width=12,
)

GATEWAY = Row("In front of the engine (needs a gateway's page)", (DEMAND, MISSING), collapsed=True)
