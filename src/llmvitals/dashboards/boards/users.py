"""The board of user experience: what was promised, and how far it is kept."""

from __future__ import annotations

from llmvitals.dashboards.boards.promises import PROMISES
from llmvitals.dashboards.boards.requests import REQUESTS
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
    q,
)

USER = Row(
    "User experience",
    (
        Panel(
            Kind.LINES,
            "Time to first token",
            "s",
            (
                q("ttft_p50_seconds", "p50", SKY),
                q("ttft_p95_seconds", "p95", BLUE),
                q("ttft_p99_seconds", "p99", PURPLE, dashed=True),
            ),
            "Arrival to first token, as the API process saw it. The line is the promise for p95: {slo.ttft_seconds:g}"
            " s. Above it, look at the queue band on top first. Quantiles lie inside a bucket; the last bucket shows"
            " its lower bound.",
            NO_TRAFFIC,
            symptoms=("users-hurt", "first-tokens-late"),
            causes=("kv-cache-saturation", "batch-too-small", "prefill-bound", "cold-start"),
            limits=(Limit("slo.ttft_seconds"),),
        ),
        Panel(
            Kind.LINES,
            "Time per output token, per request",
            "s",
            (q("tpot_p50_seconds", "p50", SKY), q("tpot_p95_seconds", "p95", BLUE)),
            "Mean pace of each finished request after its first token. The line is the promise for p95:"
            " {slo.tpot_seconds:g} s. p50 above it too: slow for everybody, the batch is too large. Only p95: some"
            " requests are stalled or preempted.",
            NO_TRAFFIC,
            symptoms=("users-hurt", "tokens-slow"),
            causes=("batch-too-large", "prefill-decode-interference", "preemption-thrash"),
            limits=(Limit("slo.tpot_seconds"),),
        ),
        Panel(
            Kind.LINES,
            "Gap between tokens",
            "s",
            (q("itl_p50_seconds", "p50", SKY), q("itl_p99_seconds", "p99", PURPLE, dashed=True)),
            "Gap between two engine outputs of one request. A p99 many times p50 with a normal p50 means that long"
            " prefills stall running streams: lower max_num_batched_tokens.",
            NO_TRAFFIC,
            causes=("prefill-decode-interference",),
        ),
        Panel(
            Kind.LINES,
            "Whole request",
            "s",
            (q("e2e_p50_seconds", "p50", SKY), q("e2e_p95_seconds", "p95", BLUE)),
            "Arrival to last token of finished requests. It follows the length of the answers: judge the server by"
            " the first token and the pace, and use this to explain a client's timeout.",
            NO_TRAFFIC,
            causes=("unbounded-output",),
        ),
        Panel(
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
            "no traffic, or too many requests in flight to say",
            symptoms=("users-hurt", "goodput-low"),
            causes=("unbounded-queue", "batch-too-large"),
            limits=(Limit("slo.objective"),),
            top=1,
        ),
        Panel(
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
        ),
    ),
)

BOARD = Board(
    uid="llmvitals-users",
    file="dashboards/users.json",
    title="LLM user experience and SLOs",
    description="What users feel, what was promised to them, and how fast the budgets of those promises burn.",
    rows=(
        USER,
        PROMISES,
        REQUESTS,
    ),
)
