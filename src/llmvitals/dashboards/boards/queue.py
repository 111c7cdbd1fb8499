"""The board of the queue and of admission: who waits, how long, for what, and who is turned away."""

from __future__ import annotations

from llmvitals.dashboards.model import (
    BLUE,
    NO_TRAFFIC,
    ORANGE,
    PURPLE,
    VERMILLION,
    Board,
    Kind,
    Limit,
    Panel,
    Row,
    q,
)

RUNNING_WAITING = Panel(
    Kind.LINES,
    "Running and waiting",
    "none",
    (
        q("requests_running", "running", BLUE),
        q("requests_waiting", "waiting", ORANGE),
        q("requests_waiting_deferred", "deferred", PURPLE, dashed=True),
        q("preempted_waiting", "preempted", VERMILLION, dashed=True),
    ),
    "Requests in the batch and in the queue. Deferred ones wait for an adapter, a grammar or a transfer, not"
    " for room. Preempted ones were running and wait again: they must be computed anew.",
    "no queue series for this selection",
    causes=("kv-cache-saturation", "batch-too-small", "adapter-slots", "grammar-compilation"),
)

QUEUE_AGE = Panel(
    Kind.LINES,
    "How old is the queue?",
    "s",
    (
        q("queue_age_seconds", "oldest is at least", VERMILLION),
        q("wait_ahead_seconds", "newcomer will wait", ORANGE, dashed=True),
    ),
    "The oldest waiting request, as a lower bound from the exporter's own history, and what a request that"
    " arrives now has ahead of it. Live: queue time itself is only known when a request finishes. The line is"
    " the promise for the first token, {slo.ttft_seconds:g} s: above it newcomers are late before they start.",
    "nobody waits, or the exporter has too little history",
    causes=("unbounded-queue", "kv-cache-saturation"),
    limits=(Limit("slo.ttft_seconds"),),
)

QUEUE_SHARE = Panel(
    Kind.LINES,
    "Share of time spent queued",
    "percentunit",
    (q("queue_share_ratio", "queued", ORANGE),),
    "Queue time as a share of queue and engine time of finished requests. Most of the time queued: the engine"
    " is not slow, it is full or held back by its limits.",
    "no traffic: no request finished in this window",
    causes=("kv-cache-saturation", "batch-too-small", "unbounded-queue"),
    top=1,
)

FLOW = Panel(
    Kind.LINES,
    "Arrivals and completions",
    "reqps",
    (q("arrival_rate", "arrive", ORANGE), q("completion_rate", "finish", BLUE)),
    "Requests that arrive and that finish, per second. Arrivals above completions for long means a queue"
    " without an end: cap it at service rate times the wait you accept, and answer 429 beyond.",
    NO_TRAFFIC,
    symptoms=("throughput-fell",),
    causes=("unbounded-queue", "noisy-tenant", "runaway-agent", "fan-out"),
)

WAITING_TOKENS = Panel(
    Kind.LINES,
    "Tokens that wait for room",
    "suffix: tok",
    (
        q("waiting_tokens", "waiting (estimate)", ORANGE),
        q("kv_capacity_tokens", "KV pool", BLUE, dashed=True),
    ),
    "Prompt tokens of waiting requests (estimate: waiting times the mean prompt) next to all that the KV pool"
    " holds. Waiting above the pool: no setting admits it at once, add a replica or cap admission.",
    "no capacity on this page, and nobody waits",
    causes=("kv-cache-saturation", "unbounded-queue"),
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
    "no aborts seen",
    causes=("ghost-compute",),
)

QUEUE = Row(
    "Queue and admission",
    (
        RUNNING_WAITING,
        QUEUE_AGE,
        QUEUE_SHARE,
        FLOW,
        WAITING_TOKENS,
        LEFT,
    ),
)

BOARD = Board(
    uid="llmvitals-queue",
    file="dashboards/queue.json",
    title="LLM queue and admission",
    description="Who waits, for how long and for what, what is refused, and whether the queue has an end.",
    rows=(QUEUE,),
)
