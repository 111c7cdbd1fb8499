"""Short ways to ask for what the rows of several boards share: rates, gauges, means and quantiles by labels."""

from __future__ import annotations

from llmvitals.dashboards.model import (
    BLUE,
    GREY,
    INSTANCE,
    PLACE,
    RANGE,
    SELECTOR,
    SKY,
    WINDOW,
    Query,
    cell,
    chosen,
    of_target,
)
from llmvitals.schema import SCOPE

APART = ", ".join(SCOPE)

MODEL = (*PLACE, "model")
"""What replicas of one model have in common: those of another cluster or namespace get other requests."""

BY_MODEL = ", ".join(MODEL)

RECENT, SHOWN = f"[{WINDOW}]", "[$__range]"
"""Spans of time: that of a moment, and the time shown up to a moment."""


def rate(family: str, by: str = APART, match: str = "", span: str = RECENT) -> str:
    """Growth per second of a counter, summed over what is not in ``by``; ``match``: matchers beside those of the board."""
    return f"sum by ({by}) (rate({family}{{{_and(match)}{chosen(family)}}}{span}))"


def grown(family: str, by: str = APART, match: str = "", span: str = RECENT) -> str:
    """By how much a counter grew over ``span``, summed like :func:`rate`."""
    return f"sum by ({by}) (increase({family}{{{_and(match)}{chosen(family)}}}{span}))"


def gauge(family: str, by: str = APART, agg: str = "sum", match: str = "") -> str:
    """A gauge as it is now, put together by ``agg``."""
    return f"{agg} by ({by}) ({family}{{{_and(match)}{chosen(family)}}})"


KV_POOL = f"sum by ({APART}) (llm_kv_capacity_tokens{{{SELECTOR}}})"
"""Tokens that fit into the pools of all ranks of a replica; the page has each rank's."""


def over(above: str, below: str) -> str:
    """A quotient that is not there where there is nothing to divide by."""
    return f"{above} / ({below} > 0)"


def share(some: str, all_: str) -> str:
    """Some of all; where all were counted and none of these, that is 0."""
    return over(f"({some} or 0 * {all_})", all_)


def inside_grows(by: str = APART) -> str:
    """By how many requests per second those that run or wait become more: arrivals less all that left, over one window."""
    return " + ".join(
        f"sum by ({by}) (deriv({family}{{{SELECTOR}}}[{WINDOW}]))"
        for family in ("llm_requests_running", "llm_requests_waiting")
    )


def mean(family: str, by: str = APART, match: str = "", span: str = RECENT) -> str:
    """Mean of a histogram's observations: sum over count, never a mean of means."""
    return over(rate(f"{family}_sum", by, match, span), rate(f"{family}_count", by, match, span))


def reached(q: float, buckets: str) -> str:
    """A quantile of counts by bucket; absent where it is no number, as of nothing observed."""
    return f"histogram_quantile({q:g}, {buckets}) >= 0"


def asked(legend: str, color: str, promql: str, *by: str, dashed: bool = False, unit: str = "") -> Query:
    """A query in PromQL that keeps ``by``, or instance and model where nothing is given."""
    return Query(legend, color, promql=promql, by=by or SCOPE, dashed=dashed, unit=unit)


def all_of(legend: str, color: str, promql: str, *, dashed: bool = False, unit: str = "") -> Query:
    """A query in PromQL over everything selected."""
    return Query(legend, color, promql=promql, by=(), dashed=dashed, unit=unit)


def quantile(
    q: float, family: str, legend: str, color: str, *by: str, dashed: bool = False, unit: str = "", floor: str = ""
) -> Query:
    """A quantile of a histogram, by instance, model and ``by``: never one of quantiles, and not drawn where it is no number.

    ``floor``: with fewer observations in the window (a number, or a setting) it is not drawn at all.
    """
    labels = ", ".join((*SCOPE, *by))
    enough = f" and {grown(f'{family}_count', labels)} >= {floor}" if floor else ""
    promql = f"{reached(q, grown(f'{family}_bucket', f'{labels}, le'))}{enough}"
    return Query(legend, color, promql=promql, by=(*SCOPE, *by), dashed=dashed, unit=unit)


def spread(family: str) -> tuple[Query, ...]:
    """What a panel of times shows of a histogram that no signal reads: p50, p95 and the mean."""
    return (
        quantile(0.5, family, "p50", SKY),
        quantile(0.95, family, "p95", BLUE),
        asked("mean", GREY, mean(family), dashed=True),
    )


def labels_alone(column: str, promql: str, by: tuple[str, ...]) -> Query:
    """A column whose labels are what is told: its number is always 1."""
    return cell(column, "none", promql=promql, by=by, names=((1, "yes", GREY),))


def said(series: str, label: str, words: str) -> str:
    """The same series with words in a label, whatever was in it."""
    return f'label_replace({series}, "{label}", "{words}", "", "")'


def told(series: str, words: str, *labels: str) -> str:
    """The same series with words in those of the labels that are empty."""
    for label in labels:
        series = f'label_replace({series}, "{label}", "{words}", "{label}", "")'
    return series


WATCHED = f"max by (instance) (count_over_time(llm_target_up{{{INSTANCE}}}{RANGE}))"
"""At how many moments of the chosen time each target was told of."""


def _and(match: str) -> str:
    return f"{match}," if match else ""


_REFUSED = rate("llm_requests_rejected_total")
_BROKEN = "0 * <completion_rate> + on (instance) group_left () " + of_target(
    "llm_http_requests_total", agg="sum", rate=True, match='status="5xx"'
)
OFFERED = f"(<completion_rate> + ({_REFUSED} >= ({_BROKEN}) or ({_BROKEN}) or {_REFUSED} or 0 * <completion_rate>))"
"""Requests a second of which goodput is a share: finished ones, and those that failed or were refused, whichever are more."""
