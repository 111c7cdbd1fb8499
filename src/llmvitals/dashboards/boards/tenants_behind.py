"""What lies behind the gateway and what bounds it: connections, upstreams, breakers, and limits that move."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import asked, gauge, quantile, rate, share
from llmvitals.dashboards.boards.tenants_calls import LEFT
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
    Query,
    Row,
    q,
)

_UP = ("instance", "model", "upstream")
_U = ", ".join(_UP)

CONNECTIONS = Panel(
    Kind.LINES,
    "Connections of the gateway",
    "none",
    (
        asked("open", BLUE, gauge("llm_gateway_connections")),
        asked("most that may be", VERMILLION, gauge("llm_gateway_connection_limit"), dashed=True),
        q("gateway_connection_ratio", "in use, at most", GREY, dashed=True, unit="percentunit"),
    ),
    "Connections open at the gateway beside how many it may hold. Each stream holds one for as long as it lasts, so slow"
    " answers need more of them at the same load. At the limit new calls wait or fail before anything counts them.",
    "no gateway that shows its connections is joined to this target",
    causes=("connection-exhaustion",),
    moved=("chat", "many-connections"),
)

BROKEN = Panel(
    Kind.LINES,
    "Connections that failed and streams that were cut",
    "reqps",
    (
        asked("could not connect", VERMILLION, rate("llm_gateway_connect_errors_total")),
        asked(
            "stream cut:",
            PURPLE,
            rate("llm_gateway_streams_cut_total", "instance, model, reason"),
            "reason",
            "instance",
            "model",
            dashed=True,
        ),
    ),
    "Connections to the engine that the gateway could not make, and streams that it ended itself, by reason, a second. 'timeout':"
    " an idle or total timeout of the proxy is shorter than an answer takes. 'upstream': the engine went away in the middle. Both"
    " with a restart: the rollout does not drain.",
    "no gateway that counts them is joined to this target",
    causes=("connection-exhaustion", "rollout-and-probes", "not-serving"),
    moved=("chat", "after-restart"),
)

FIT = Panel(
    Kind.TIMELINE,
    "Upstreams that the gateway holds fit",
    "none",
    (
        Query(
            "",
            VERMILLION,
            promql=gauge("llm_gateway_upstream_up", _U, "min"),
            by=("upstream", "instance", "model"),
            names=((0, "unfit", VERMILLION), (1, "fit", BLUE)),
        ),
    ),
    "Each server that the gateway may send calls to, and whether its health check holds it fit. Unfit while its page is well: the"
    " check asks too much or waits too short a time, and the others carry its load. All unfit: nobody is served.",
    "no gateway that checks its upstreams is joined to this target",
    causes=("rollout-and-probes", "not-serving"),
    moved=("chat", "after-restart"),
    width=12,
    height=6,
)

BREAKER = Panel(
    Kind.TIMELINE,
    "Circuit breaker",
    "none",
    (
        Query(
            "breaker",
            VERMILLION,
            promql=gauge("llm_gateway_breaker_open", agg="max"),
            names=((0, "closed", BLUE), (1, "open: calls are refused", VERMILLION)),
        ),
    ),
    "Whether any breaker of the gateway refuses calls. Open for short times while the engine fails: it keeps the load off, as"
    " it should. Open and closed in turns for long: too much is let through when it closes; let it try with a few calls.",
    "no gateway with a circuit breaker is joined to this target",
    causes=("retry-storm",),
    moved=("chat",),
    width=12,
    height=6,
)

BEHIND = Row("Connections, clients that leave, upstreams and breakers", (CONNECTIONS, BROKEN, LEFT, FIT, BREAKER))

_TOLD = "the gateway does not tell upstreams apart"
_ANSWERED = "llm_gateway_upstream_requests_total"
_ONE = "the lab's gateway has one upstream and does not count by it"
_BAD = rate(_ANSWERED, _U, 'status=~"5..|error"')
_EVERY = rate(_ANSWERED, _U)

UPSTREAM_TIME = Panel(
    Kind.LINES,
    "Time of a call by upstream, p95",
    "s",
    (quantile(0.95, "llm_gateway_upstream_seconds", "p95", BLUE, "upstream"),),
    "What each upstream takes for a call by the gateway's clock. One above the others: it is slower, fuller, or gets the long ones."
    " All together: not the upstreams.",
    f"no traffic, or not exported: {_TOLD}",
    apart=_ONE,
    width=12,
)

UPSTREAM_SHARE = Panel(
    Kind.LINES,
    "Calls by upstream",
    "reqps",
    (asked("calls", SKY, f"{_EVERY} > 0", *_UP),),
    "Calls a second that each upstream answered. Uneven while all are alike: the balancer follows prefixes, or counts of which it"
    " knows too little. One that gets far more and is quick because it fails: a breaker is missing.",
    f"no traffic, or not exported: {_TOLD}",
    apart=_ONE,
    width=12,
)

UPSTREAM_ERRORS = Panel(
    Kind.LINES,
    "Failed calls by upstream",
    "percentunit",
    (asked("failed", VERMILLION, share(_BAD, _EVERY), *_UP),),
    "Share of the calls of each upstream that failed. One above the others: take it out. All together: what they share, as a model"
    " or a client. The line, {thresholds.error_ratio:g}, is where a breaker should open.",
    f"no traffic, or not exported: {_TOLD}",
    symptoms=("answers-fail",),
    limits=(Limit("thresholds.error_ratio"),),
    apart=_ONE,
    width=12,
)

BREAKERS = Panel(
    Kind.TIMELINE,
    "Circuit breakers by upstream",
    "none",
    (
        Query(
            "",
            VERMILLION,
            promql=gauge("llm_gateway_breaker_open", _U, "max", 'upstream!=""'),
            by=("upstream", "instance", "model"),
            names=((0, "closed", BLUE), (1, "open: calls go elsewhere", VERMILLION)),
        ),
    ),
    "Each upstream's breaker. One that is open while its upstream is well again: nothing is let through to find that out. Many"
    " at once: what they share failed, and nothing is left to send calls to.",
    f"not exported: {_TOLD}",
    apart=_ONE,
    height=6,
    width=12,
)

UPSTREAMS = Row(
    "Upstream by upstream: needs a gateway that tells them apart",
    (UPSTREAM_TIME, UPSTREAM_SHARE, UPSTREAM_ERRORS, BREAKERS),
    collapsed=True,
)

_NO_LIMITS = "the lab's gateway has neither a moving limit nor a budget of tokens"

CONCURRENCY = Panel(
    Kind.LINES,
    "Calls that may run at once",
    "none",
    (
        asked("running", BLUE, gauge("llm_gateway_calls_running")),
        asked("may run", ORANGE, gauge("llm_gateway_concurrency_limit"), dashed=True),
        asked("run in the engine", GREY, "<requests_running>", dashed=True),
    ),
    "Calls in the gateway's hands, how many it lets run, and how many the engine runs. A limit that moves (CoDel, gradient,"
    " AIMD) falls when answers slow down and rises again. Always at the limit with the engine idle: it is too low. Never near"
    " it while the engine's queue grows: it does not hold.",
    "not exported: neither gateway nor engine says how many calls run",
    apart=_NO_LIMITS,
)

RESERVED = Panel(
    Kind.LINES,
    "Tokens set aside for calls in hand",
    "suffix: tok",
    (
        asked("set aside", BLUE, gauge("llm_gateway_reserved_tokens")),
        asked("may be set aside", VERMILLION, gauge("llm_gateway_token_limit"), dashed=True),
        asked("fit into the engine's KV", GREY, gauge("llm_kv_capacity_tokens"), dashed=True),
    ),
    "Prompt and expected answer of the calls that the gateway let in, beside its budget and beside what the engine's KV pool"
    " holds. A budget far above the pool lets in what will be preempted; one far below it leaves memory unused.",
    "not exported: the gateway sets no tokens aside, and the engine does not tell its pool",
    apart=_NO_LIMITS,
)

BY_TENANT = Panel(
    Kind.LINES,
    "Sequences and tokens in hand by tenant",
    "none",
    (
        asked(
            "sequences",
            BLUE,
            gauge("llm_gateway_tenant_sequences", "instance, model, tenant"),
            "instance",
            "model",
            "tenant",
        ),
        asked(
            "tokens",
            PURPLE,
            gauge("llm_gateway_reserved_tokens", "instance, model, tenant", match='tenant!=""'),
            "instance",
            "model",
            "tenant",
            dashed=True,
            unit="suffix: tok",
        ),
    ),
    "What each tenant has in hand at this moment: sequences that run or wait, and tokens set aside for them (right axis). A"
    " tenant with most of either holds the others' place, whatever its share of the finished tokens is.",
    "not exported: the gateway does not say what tenants have in hand",
    apart=_NO_LIMITS,
)

LIMITS = Row(
    "Limits that move and tokens set aside: needs a gateway that has them",
    (CONCURRENCY, RESERVED, BY_TENANT),
    collapsed=True,
)
