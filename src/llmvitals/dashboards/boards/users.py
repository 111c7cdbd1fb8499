"""The board of user experience: how long it takes, what was promised, where the time goes, and what fails.

Its panels have names, so that another board can show one of them.
"""

from __future__ import annotations

from llmvitals.dashboards.boards.promises import PROMISES
from llmvitals.dashboards.boards.requests import REQUESTS
from llmvitals.dashboards.boards.users_failed import FAILED
from llmvitals.dashboards.boards.users_lengths import LENGTHS
from llmvitals.dashboards.boards.users_models import MODELS
from llmvitals.dashboards.boards.users_promised import PROMISED
from llmvitals.dashboards.boards.users_time import TIMES
from llmvitals.dashboards.boards.users_trust import TRUST
from llmvitals.dashboards.model import (
    BLUE,
    GREY,
    NOT_SHOWN,
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
)

TTFT = Panel(
    Kind.LINES,
    "Time to first token",
    "s",
    (
        q("ttft_p50_seconds", "p50", SKY),
        q("ttft_p95_seconds", "p95", BLUE),
        q("ttft_p99_seconds", "p99", PURPLE, dashed=True),
        q("ttft_mean_seconds", "mean", GREY, dashed=True),
    ),
    "Arrival to first token, as the API process saw it. The line is the promise for p95: {slo.ttft_seconds:g}"
    " s. Above it, look at the queue band of where the time goes first. Quantiles lie inside a bucket; the last bucket"
    " shows its lower bound. How many requests they are of, and how wide the bucket is, stands under 'How far to trust the"
    " quantiles'.",
    NOT_SHOWN,
    symptoms=("users-hurt", "first-tokens-late"),
    causes=("kv-cache-saturation", "batch-too-small", "prefill-bound", "cold-start"),
    limits=(Limit("slo.ttft_seconds"),),
    moved=("chat", "busy"),
)

TPOT = Panel(
    Kind.LINES,
    "Time per output token, per request",
    "s",
    (
        q("tpot_p50_seconds", "p50", SKY),
        q("tpot_p95_seconds", "p95", BLUE),
        q("tpot_mean_seconds", "mean", GREY, dashed=True),
    ),
    "Mean pace of each finished request after its first token: each request counts once, however long it was. The line is"
    " the promise for p95: {slo.tpot_seconds:g} s. p50 above it too: slow for everybody, the batch is too large. Only p95:"
    " some requests are stalled or preempted.",
    NOT_SHOWN,
    symptoms=("users-hurt", "tokens-slow"),
    causes=("batch-too-large", "prefill-decode-interference", "preemption-thrash"),
    limits=(Limit("slo.tpot_seconds"),),
    moved=("chat", "busy"),
)

GAP = Panel(
    Kind.LINES,
    "Gap between tokens",
    "s",
    (
        q("itl_p50_seconds", "p50", SKY),
        q("itl_p99_seconds", "p99", PURPLE, dashed=True),
        q("itl_mean_seconds", "mean", GREY, dashed=True),
    ),
    "Gap between two engine outputs of one request: long answers count for more. vLLM counts one for each output, which"
    " may hold several tokens (drafts); SGLang one for each token: compare a server with itself. A p99 many times p50 with"
    " a normal p50 means that long prefills stall running streams: lower max_num_batched_tokens.",
    NOT_SHOWN,
    causes=("prefill-decode-interference",),
    moved=("chat", "busy"),
)

TTFT_HEAT = Panel(
    Kind.HEATMAP,
    "Where first tokens lie",
    "s",
    (heat("llm_request_ttft_seconds", "s"),),
    "First tokens of the window by how long they took, over everything selected; the higher a row, the later. Two bands at"
    " once: some requests pass and others wait, which no quantile shows. One band that climbs: it grows for everybody.",
    NOT_SHOWN,
    causes=("kv-cache-saturation", "batch-too-small", "prefill-bound"),
    moved=("chat", "busy"),
    width=12,
)

GAP_HEAT = Panel(
    Kind.HEATMAP,
    "Where gaps between tokens lie",
    "s",
    (heat("llm_request_inter_token_seconds", "s", SKY),),
    "Gaps of the window by their length, over everything selected. A thin second band far above the first: steps in which a"
    " long prefill held all streams up. One band that climbs with the batch: decode itself is slower.",
    NOT_SHOWN,
    causes=("prefill-decode-interference", "batch-too-large"),
    moved=("chat", "busy"),
    width=12,
)

ERRORS = Panel(
    Kind.LINES,
    "Errors and rejections",
    "percentunit",
    (
        q("error_ratio", "5xx", VERMILLION),
        q("rejection_ratio", "rejected", ORANGE, dashed=True),
        q("client_error_ratio", "4xx", GREY, dashed=True),
        q("lost_call_ratio", "lost at the gateway", PURPLE, dashed=True),
    ),
    "Share of answers that were server errors (5xx) or the client's fault (4xx), share refused at"
    " admission, and share of the calls that the gateway in front refused or failed. The line,"
    " {thresholds.error_ratio:g}, is where a client should stop trying. Rejections with"
    " a bounded queue are load shed on purpose.",
    "no traffic, or the page has no HTTP series",
    symptoms=("answers-fail",),
    causes=("not-serving", "rollout-and-probes", "retry-storm", "overloaded-and-shedding"),
    limits=(Limit("thresholds.error_ratio"),),
)

LATENCY = Row("How long it takes", (TTFT, TPOT, GAP, TTFT_HEAT, GAP_HEAT))

BOARD = Board(
    uid="llmvitals-users",
    file="dashboards/users.json",
    title="LLM user experience and SLOs",
    description="What users feel, what was promised to them, where their time goes, and how fast the budgets burn.",
    rows=(MODELS, LATENCY, PROMISED, TIMES, FAILED, LENGTHS, TRUST, PROMISES, REQUESTS),
)
