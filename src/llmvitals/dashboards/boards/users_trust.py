"""The row of trust: how many observations a quantile is made of, how wide its bucket is, and what no bucket holds."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import APART, asked, grown, over, quantile, rate, reached
from llmvitals.dashboards.model import (
    BLUE,
    GREY,
    NOT_SHOWN,
    ORANGE,
    PURPLE,
    SKY,
    Kind,
    Limit,
    Panel,
    Query,
    Row,
)

_TTFT, _TPOT = "llm_request_ttft_seconds", "llm_request_tpot_seconds"
_GAP, _WHOLE = "llm_request_inter_token_seconds", "llm_request_e2e_seconds"
_LE = f"{APART}, le"


def _below(q: float, family: str) -> tuple[str, str, str]:
    """Buckets by edge, those among them that reach a quantile, and those that do not."""
    buckets = rate(f"{family}_bucket", _LE)
    rank = f"on ({APART}) group_left () ({q:g} * ({rate(f'{family}_count')} > 0))"
    return buckets, f"{buckets} >= {rank}", f"{buckets} < {rank}"


def _at_most(q: float, family: str) -> str:
    """The upper edge of the bucket in which a quantile lies; absent where that is the open one.

    PromQL makes no number of a label, but the largest observation of a histogram whose observations all lie below one edge is
    that edge: buckets from there on are given one observation, and those below it none.
    """
    _, enough, _ = _below(q, family)
    return reached(1, f"0 * ({enough}) + 1")


def _at_least(q: float, family: str) -> str:
    """Its lower edge: of one observation in the open bucket the highest finite edge is told, and only those below are left."""
    _, _, short = _below(q, family)
    open_one = rate(f"{family}_bucket", _LE, 'le="+Inf"')
    some = f"{rate(f'{family}_count')} > 0"
    found = reached(1, f"0 * ({short}) or 0 * {open_one} + 1")
    return f"{found} or 0 * ({some})"


def _edges(title: str, family: str, what: str, limit: str, empty: str, *causes: str) -> Panel:
    line = f"{{{limit}:g}}"
    return Panel(
        Kind.LINES,
        title,
        "s",
        (
            asked("at most", SKY, _at_most(0.95, family), dashed=True),
            quantile(0.95, family, "p95, as drawn", BLUE),
            asked("at least", ORANGE, _at_least(0.95, family), dashed=True),
        ),
        f"{what} The edges of the histogram between which the p95 lies for certain; what is drawn between them is a straight line"
        " between two counts. Without 'at most' it lies in the open bucket, and the drawn one is only the last edge. The promise,"
        f" {line} s, inside the interval: whether p95 keeps it cannot be told, read the share of kept promises.",
        empty,
        causes=causes,
        limits=(Limit(limit),),
        moved=("chat",),
        width=12,
    )


def _beyond(family: str) -> str:
    """Share of the observations above the last finite edge."""
    finite = rate(f"{family}_bucket", _LE, 'le!="+Inf"')
    told = over(f"max by ({APART}) ({finite})", rate(f"{family}_count"))
    return f"clamp_min(1 - {told}, 0)"


OBSERVATIONS = Panel(
    Kind.LINES,
    "Observations behind the quantiles",
    "short",
    (
        asked("first tokens", BLUE, f"{grown(f'{_TTFT}_count')} > 0"),
        asked("requests with a pace", SKY, f"{grown(f'{_TPOT}_count')} > 0", dashed=True),
        asked("gaps", PURPLE, f"{grown(f'{_GAP}_count')} > 0", dashed=True),
        asked(
            "fewest that alerts judge",
            GREY,
            f"0 * ({grown(f'{_TTFT}_count')} > 0) + <alerts.least_requests>",
            dashed=True,
        ),
    ),
    "How many observations each point of the panels above is made of. A p95 of 20 is the second slowest, a p99 of fewer than 100"
    " the slowest: below the dashed line alerts say nothing, and quantiles jump with single requests. A longer time range makes"
    " the windows wider.",
    NOT_SHOWN,
    moved=("chat", "few"),
)

BEYOND = Panel(
    Kind.LINES,
    "Share beyond the last finite edge",
    "percentunit",
    (
        asked("first tokens", BLUE, _beyond(_TTFT)),
        asked("pace", SKY, _beyond(_TPOT)),
        asked("gaps", PURPLE, _beyond(_GAP), dashed=True),
        asked("whole requests", GREY, _beyond(_WHOLE), dashed=True),
    ),
    "Observations that are larger than the histogram can tell. Above 0.05 the p95 is only the last edge, above 0.01 the p99 is:"
    " the truth is worse by nobody knows how much. Read means and the share of kept promises then, or give the engine more"
    " edges where it takes them.",
    NOT_SHOWN,
    moved=("chat", "unbounded-queue"),
)

CORRUPTED = Panel(
    Kind.LINES,
    "Answers that held no numbers",
    "percentunit",
    (
        Query(
            "of finished requests",
            ORANGE,
            promql=over(rate("llm_requests_corrupted_total"), rate("llm_requests_finished_total")),
        ),
    ),
    "Requests whose output held NaN logits, of all that finished: each is an answer of noise that no latency shows. Any at all is"
    " a reason to take the replica out: weights, kernels or memory are broken. vLLM counts them from 0.11 on, with"
    " VLLM_COMPUTE_NANS_IN_LOGITS=1.",
    "no traffic, or not exported: set VLLM_COMPUTE_NANS_IN_LOGITS=1 on vLLM",
    causes=("hardware-event",),
    apart="no play computes what is no number",
)

_FIRST = "Of times to first token:"
_PACE = "Of times per output token:"

TRUST = Row(
    "How far to trust the quantiles",
    (
        OBSERVATIONS,
        BEYOND,
        CORRUPTED,
        _edges(
            "Between which edges p95 of first tokens lies",
            _TTFT,
            _FIRST,
            "slo.ttft_seconds",
            NOT_SHOWN,
            "prefill-bound",
        ),
        _edges(
            "Between which edges p95 of the pace lies", _TPOT, _PACE, "slo.tpot_seconds", NOT_SHOWN, "batch-too-large"
        ),
    ),
    collapsed=True,
)
