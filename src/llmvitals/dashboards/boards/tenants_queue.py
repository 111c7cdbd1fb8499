"""The gateway's own queue: how full it is, whom it gives up, and who waits how long in it."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import asked, gauge, quantile, rate, spread
from llmvitals.dashboards.model import (
    BLUE,
    ORANGE,
    PURPLE,
    VERMILLION,
    Kind,
    Limit,
    Panel,
    Row,
    q,
)

_WAIT = "llm_gateway_queue_seconds"
_NO_QUEUE = "the gateway has no queue of its own, or does not show it"
_APART = "the lab's gateway queues nothing"

WAITING = Panel(
    Kind.LINES,
    "Calls that wait in the gateway",
    "none",
    (
        asked("waiting", ORANGE, gauge("llm_gateway_queue_waiting")),
        asked("most that may", VERMILLION, gauge("llm_gateway_queue_limit"), dashed=True),
    ),
    "Calls in the gateway's queue and, where it is bounded, the bound. At the bound it refuses: load is shed. Without a bound and"
    " climbing: everybody will wait longer than promised, and then leave. The engine's own queue may be short meanwhile.",
    f"not exported: {_NO_QUEUE}",
    apart=_APART,
)

AHEAD = Panel(
    Kind.LINES,
    "Wait ahead of a call that comes now",
    "s",
    (
        q("calls_wait_ahead_seconds", "in the gateway", ORANGE),
        q("wait_ahead_seconds", "in the engine", PURPLE, dashed=True),
    ),
    "How long a call that arrives now will wait: those in front of it over how fast they are served, in the gateway and in the"
    " engine behind it. The line is the whole promise for the first token, {slo.ttft_seconds:g} s: above it a call is late"
    " before it is begun, and refusing it at once is kinder.",
    "not exported: neither gateway nor engine shows who waits",
    causes=("unbounded-queue",),
    limits=(Limit("slo.ttft_seconds"),),
    moved=("chat",),
)

DROPPED = Panel(
    Kind.LINES,
    "Calls that the queue gave up, by reason",
    "reqps",
    (
        asked(
            "given up:",
            VERMILLION,
            rate("llm_gateway_queue_dropped_total", "instance, model, reason"),
            "reason",
            "instance",
            "model",
        ),
    ),
    "Calls a second that left the queue unserved: full (there was no room), ttl (they waited for longer than they may), left (their"
    " clients went away). 'full' is load shed on purpose; 'ttl' and 'left' waited for nothing: a shorter queue refuses them at"
    " once.",
    f"not exported: {_NO_QUEUE}",
    causes=("unbounded-queue",),
    moved=("chat",),
)

WAITS = Panel(
    Kind.LINES,
    "Wait in the gateway's queue",
    "s",
    spread(_WAIT),
    "What calls waited before they were sent on or given up; those that did not wait count as 0. The line is the whole promise"
    " for the first token, {slo.ttft_seconds:g} s. Add the engine's queue time to know what a call waited.",
    f"no traffic, or {_NO_QUEUE}",
    limits=(Limit("slo.ttft_seconds"),),
    apart=_APART,
)

BY_TENANT = Panel(
    Kind.LINES,
    "Wait in the gateway's queue by tenant, p95",
    "s",
    (quantile(0.95, _WAIT, "p95", BLUE, "tenant", floor="<alerts.least_requests>"),),
    "The same tenant by tenant, of those with enough calls in the window for a p95. All alike: the queue is fair, or in order of"
    " arrival. One tenant's calls fill it while all wait alike: give each a queue of its own. The line is {slo.ttft_seconds:g} s.",
    f"no traffic, too few calls of every tenant, or {_NO_QUEUE}",
    limits=(Limit("slo.ttft_seconds"),),
    apart=_APART,
)

OTHERS_WAIT = Panel(
    Kind.LINES,
    "Chance that the other tenants' wait keeps the promise",
    "percentunit",
    (q("others_queue_harm_p", "all but the largest tenant", BLUE),),
    "How probable so many late calls of the other tenants would be if the objective were just met: their wait in the gateway's"
    " queue alone was longer than the promise for the first token. Under the line, {thresholds.harm_p:g}, it is no chance:"
    " they are hurt.",
    f"no traffic of a second tenant, or {_NO_QUEUE}",
    limits=(Limit("thresholds.harm_p"),),
    top=1,
    apart=_APART,
)

QUEUED = Row(
    "The gateway's queue: needs a gateway that queues calls",
    (WAITING, AHEAD, DROPPED, WAITS, BY_TENANT, OTHERS_WAIT),
    collapsed=True,
)
