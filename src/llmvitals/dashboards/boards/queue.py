"""The board of the queue and of admission: who waits, how long, for what, and who is turned away."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import KV_POOL, all_of, asked, gauge, inside_grows, over, quantile, rate
from llmvitals.dashboards.boards.engine_kv import ROOM
from llmvitals.dashboards.boards.queue_admission import ADMISSION, FLOW, GATEWAY
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    NO_TRAFFIC,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Board,
    Kind,
    Limit,
    Panel,
    Row,
    heat,
    q,
    total,
)
from llmvitals.schema import SCOPE

_SERIES = "no queue series for this selection: is the target down, or does this engine not say who waits?"
_NO_TIMES = f"{NO_TRAFFIC}, or this engine counts no queue times"
_QUEUE = "llm_request_queue_seconds"
_TOLD = gauge("llm_requests_waiting_by_reason", "")
_WAIT = gauge("llm_requests_waiting", "")

RUNNING_WAITING = Panel(
    Kind.STACK,
    "Running and waiting",
    "none",
    (
        total("requests_running", "running", BLUE),
        total("requests_waiting", "waiting", ORANGE),
    ),
    "Requests in the batch and in the queue, over everything selected. Waiting wide while running stays flat: something"
    " holds them, 'What do they wait for?' and 'What stands at its limit while requests wait' say what. SGLang writes"
    " these numbers now and then, so short bursts do not show.",
    _SERIES,
    causes=("kv-cache-saturation", "batch-too-small", "adapter-slots", "grammar-compilation"),
    moved=("chat", "busy"),
)

EACH_REPLICA = Panel(
    Kind.LINES,
    "Running and waiting, replica by replica",
    "none",
    (q("requests_running", "running", BLUE), q("requests_waiting", "waiting", ORANGE, dashed=True)),
    "The same, each replica by itself. One queue long beside empty ones: requests are not spread by load, or one replica is"
    " slower. All of them long: the service is short of capacity.",
    _SERIES,
    causes=("kv-cache-saturation", "batch-too-small", "unbounded-queue"),
    moved=("chat", "busy"),
)

WHY_WAITING = Panel(
    Kind.STACK,
    "What do they wait for?",
    "none",
    (
        all_of("room or a seat", ORANGE, gauge("llm_requests_waiting_by_reason", "", match='reason="capacity"')),
        all_of(
            "an adapter, a grammar, KV from elsewhere",
            PURPLE,
            gauge("llm_requests_waiting_by_reason", "", match='reason="deferred"'),
        ),
        all_of("the engine does not say", GREY, f"clamp_min({_WAIT} - ({_TOLD} or {_WAIT} * 0), 0)"),
    ),
    "Waiting requests by what holds them. Room or a seat: KV or the batch limits. Deferred ones would have room, and wait for"
    " something of their own. The reasons come from vLLM 0.20 and SGLang 0.4.7 on; of any other engine all is grey, and"
    " the panel on limits says more.",
    _SERIES,
    causes=("kv-cache-saturation", "batch-too-small", "adapter-slots", "grammar-compilation", "kv-transfer-bound"),
    moved=("chat", "busy"),
)

AT_LIMIT = Panel(
    Kind.LINES,
    "What stands at its limit while requests wait",
    "percentunit",
    (
        q("running_pinned_ratio", "seats: running at its most", BLUE),
        q("kv_high_while_waiting_ratio", "KV nearly full", ORANGE),
        q("deferred_share_ratio", "nobody waits for room", PURPLE, dashed=True),
        q("adapters_short_ratio", "every adapter slot taken", GREY, dashed=True),
        q("gpu_idle_while_waiting_ratio", "GPUs under-used", GREEN, dashed=True),
    ),
    "Of the moments with waiting requests, the share in which each limit was reached. Seats high with KV low: raise"
    " max_num_seqs. KV high: memory is the bound, seats will not help. GPUs under-used beside either: the machine could do"
    " more. The exporter counts over its own window.",
    "nobody waited long enough to tell, or this page does not say who waits",
    causes=("batch-too-small", "kv-cache-saturation", "adapter-slots"),
    top=1,
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
    "the exporter has too little history, clients left uncounted, or this engine does not say who waits",
    causes=("unbounded-queue", "kv-cache-saturation"),
    limits=(Limit("slo.ttft_seconds"),),
    moved=("chat",),
)

QUEUE_TIME = Panel(
    Kind.LINES,
    "Time in the queue, of finished requests",
    "s",
    (
        quantile(0.5, _QUEUE, "p50", SKY),
        q("queue_p95_seconds", "p95", ORANGE),
        quantile(0.99, _QUEUE, "p99", PURPLE, dashed=True),
        q("queue_mean_seconds", "mean", GREY, dashed=True),
    ),
    "From arrival at the engine to its first step. Most engines count it when a request has ended, so a queue that stands"
    " still looks well here: read its age beside. The line is the promise for the first token, {slo.ttft_seconds:g} s. On"
    " vLLM the first bucket ends at 0.3 s, and what lies in it is interpolated.",
    _NO_TIMES,
    causes=("kv-cache-saturation", "batch-too-small", "unbounded-queue"),
    limits=(Limit("slo.ttft_seconds"),),
    moved=("chat",),
)

QUEUE_HEAT = Panel(
    Kind.HEATMAP,
    "Where queue times lie",
    "s",
    (heat(_QUEUE, "s", ORANGE),),
    "Finished requests by the time that they had queued, over everything selected. Two bands at once: some requests pass"
    " while others wait, as with priorities, adapters, or one slow replica. One band that climbs: the queue grows for"
    " everybody.",
    _NO_TIMES,
    causes=("unbounded-queue", "kv-cache-saturation"),
    moved=("chat",),
)

QUEUE_SHARE = Panel(
    Kind.LINES,
    "Share of time spent queued",
    "percentunit",
    (
        q("queue_share_ratio", "of queue and engine time", ORANGE),
        asked(
            "of the wait for the first token",
            PURPLE,
            f"clamp_max({over('<queue_mean_seconds>', '<ttft_mean_seconds>')}, 1)",
            dashed=True,
        ),
    ),
    "Queue time as a share of queue and engine time of finished requests. Most of the time queued: the engine"
    " is not slow, it is full or held back by its limits. Dashed: mean queue over mean time to first token, an estimate, since"
    " the one is counted when requests end and the other at their first token.",
    _NO_TIMES,
    causes=("kv-cache-saturation", "batch-too-small", "unbounded-queue"),
    top=1,
    moved=("chat",),
)

EDGES = ("1", "2.5", "5", "10", "30", "60")
"""Edges that histograms of engines have: where none lies at the promise, the first one beyond it gives a lower bound."""


def _longer(edge: str) -> str:
    within = rate(f"{_QUEUE}_bucket", match=f'le=~"{edge}([.]0+)?"')
    return f"1 - {over(within, rate(f'{_QUEUE}_count'))}"


QUEUED_LATE = Panel(
    Kind.LINES,
    "Queued for longer than the promise",
    "percentunit",
    (
        asked(
            "late before they started",
            VERMILLION,
            " or ".join(
                (
                    f"({_longer('<slo.ttft_seconds>')})",
                    *(f"({_longer(edge)} and on () vector({edge}) >= <slo.ttft_seconds>)" for edge in EDGES),
                )
            ),
        ),
    ),
    "Share of finished requests that had queued for longer than the whole promise for the first token,"
    " {slo.ttft_seconds:g} s: nothing that the engine does later can save them. Counted at that edge of the histogram, or at"
    " the first edge beyond it, which says at least how many.",
    f"{_NO_TIMES}, or none at edges that are looked for (TGI)",
    symptoms=("first-tokens-late",),
    causes=("unbounded-queue",),
    top=1,
    moved=("chat",),
)

_DRAINS = f"(0 - ({inside_grows()}))"
DRAIN = Panel(
    Kind.LINES,
    "Time until the queue is empty",
    "s",
    (asked("drained in", GREEN, over("(<requests_waiting> > 0)", _DRAINS)),),
    "Waiting requests over what leaves beyond what arrives, only while somebody waits and those inside become fewer: an"
    " estimate at the present pace. No line while requests wait: the queue does not drain, see its age and the flow beside."
    " The line across is the promise for the first token, {slo.ttft_seconds:g} s.",
    "the queue is empty, does not drain, or is not told of here",
    limits=(Limit("slo.ttft_seconds"),),
    moved=("after-full-pool",),
)

WAITING_TOKENS = Panel(
    Kind.LINES,
    "Tokens that wait for room",
    "suffix: tok",
    (
        q("waiting_tokens", "waiting (estimate)", ORANGE),
        asked("KV pool", BLUE, KV_POOL, dashed=True),
    ),
    "Prompt tokens of waiting requests (estimate: waiting times the mean prompt) next to all that the KV pool"
    " holds. Waiting above the pool: no setting admits it at once, add a replica or cap admission.",
    "this page says neither what the pool holds nor who waits, or the target is down",
    causes=("kv-cache-saturation", "unbounded-queue"),
    moved=("chat",),
)

CEILING = Panel(
    Kind.LINES,
    "Waiting against what the promise allows",
    "none",
    (
        q("requests_waiting", "waiting", ORANGE),
        asked("served within the promise", GREY, "(<completion_rate> > 0) * <slo.ttft_seconds>", dashed=True),
    ),
    "How many may wait at most: requests that finish per second times the wait that is acceptable, here the whole promise for"
    " the first token, {slo.ttft_seconds:g} s. Waiting above the dashed line: whoever is at the end is late already. It"
    " is the number to cap the queue at, and to answer 429 beyond.",
    _SERIES,
    causes=("unbounded-queue", "overloaded-and-shedding"),
    moved=("chat",),
)

HELD_BACK = Panel(
    Kind.LINES,
    "Held back: preempted, deferred, asleep",
    "none",
    (
        q("preempted_waiting", "preempted, wait again", VERMILLION),
        q("requests_waiting_deferred", "deferred", PURPLE),
        asked("engines asleep", BLUE, gauge("llm_engine_asleep"), dashed=True),
    ),
    "Requests that are in the engine and do not move for a reason of their own. Preempted ones were running and must be"
    " computed anew. Deferred ones (vLLM from 0.20, SGLang from 0.4.7) would have room. An engine that sleeps (vLLM from 0.11)"
    " serves nobody until it is woken, whatever waits.",
    "this engine says none of them",
    causes=("preemption-thrash", "grammar-compilation", "adapter-slots"),
    moved=("chat",),
)

_SPAN_QUEUE = "llm_span_queue_seconds"
_CLASS = (*SCOPE, "slo_class")
_BY_CLASS = ", ".join(_CLASS)
_TIMED = " + ".join(rate(f"llm_span_{part}_seconds_sum", _BY_CLASS) for part in ("queue", "prefill", "decode"))
BY_CLASS = Row(
    "Queue by class of request (needs traces of the engine)",
    (
        Panel(
            Kind.LINES,
            "Time in the queue by class, p95",
            "s",
            (quantile(0.95, _SPAN_QUEUE, "p95", ORANGE, "slo_class", floor="<alerts.least_requests>"),),
            "Queue time by the class of the promise, from traces. A class with fewer requests in the window than"
            " alerts.least_requests is not drawn: they say nothing of a p95. One class high beside others: its priority is"
            " lower, or its prompts keep it out. Waits of tenants in front of the engine are on the board of tenants and the"
            " gateway.",
            "no traffic by class: no traces, or too few requests of each",
            causes=("unbounded-queue", "head-of-line-blocking"),
            width=12,
        ),
        Panel(
            Kind.LINES,
            "Share of time spent queued, by class",
            "percentunit",
            (
                asked(
                    "queued",
                    ORANGE,
                    over(rate(f"{_SPAN_QUEUE}_sum", _BY_CLASS), f"({_TIMED})"),
                    *_CLASS,
                ),
            ),
            "Queue over queue, prefill and decode of the requests of a class, from traces. It tells who pays for the waiting:"
            " classes with the same share wait in one line, those with different ones are ordered by something.",
            "no traffic by class: no traces came",
            causes=("unbounded-queue", "head-of-line-blocking"),
            top=1,
            width=12,
        ),
    ),
    collapsed=True,
)

QUEUE = Row(
    "Queue and admission",
    (RUNNING_WAITING, QUEUE_AGE, QUEUE_SHARE, FLOW, WHY_WAITING, WAITING_TOKENS),
)
"""What says most of the queue; the board of one service has it as well."""

WAITS = Row("How long, and for how many", (QUEUE_TIME, QUEUE_HEAT, QUEUED_LATE, CEILING, DRAIN, ROOM))
HOLDS = Row("What holds them", (AT_LIMIT, HELD_BACK, EACH_REPLICA))

BOARD = Board(
    uid="llmvitals-queue",
    file="dashboards/queue.json",
    title="LLM queue and admission",
    description="Who waits, for how long and for what, what is refused, and whether the queue has an end.",
    rows=(QUEUE, WAITS, HOLDS, ADMISSION, GATEWAY, BY_CLASS),
)
