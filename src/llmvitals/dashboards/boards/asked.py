"""Short ways to ask for what the rows of several boards share: rates, gauges, means and quantiles by labels."""

from __future__ import annotations

from llmvitals.dashboards.model import GREY, INSTANCE, RANGE, SELECTOR, WINDOW, Query, cell, chosen
from llmvitals.schema import SCOPE

APART = ", ".join(SCOPE)


def rate(family: str, by: str = APART, match: str = "") -> str:
    """Growth per second of a counter, summed over what is not in ``by``; ``match``: matchers beside those of the board."""
    return f"sum by ({by}) (rate({family}{{{_and(match)}{chosen(family)}}}[{WINDOW}]))"


def came(family: str, by: str = "", match: str = "") -> str:
    """Growth of a counter of engines in the whole of the chosen time, summed over what is not in ``by``."""
    return f"sum by ({by}) (increase({family}{{{_and(match)}{SELECTOR}}}{RANGE}))"


def gauge(family: str, by: str = APART, agg: str = "sum", match: str = "") -> str:
    """A gauge as it is now, put together by ``agg``."""
    return f"{agg} by ({by}) ({family}{{{_and(match)}{chosen(family)}}})"


KV_POOL = f"sum by ({APART}) (llm_kv_capacity_tokens{{{SELECTOR}}})"
"""Tokens that fit into the pools of all ranks of a replica; the page has each rank's."""


def over(above: str, below: str) -> str:
    """A quotient that is not there where there is nothing to divide by."""
    return f"{above} / ({below} > 0)"


def inside_grows(by: str = APART) -> str:
    """By how many requests per second those that run or wait become more: arrivals less all that left, over one window."""
    return " + ".join(
        f"sum by ({by}) (deriv({family}{{{SELECTOR}}}[{WINDOW}]))"
        for family in ("llm_requests_running", "llm_requests_waiting")
    )


def mean(family: str, by: str = APART, match: str = "") -> str:
    """Mean of a histogram's observations: sum over count, never a mean of means."""
    return over(rate(f"{family}_sum", by, match), rate(f"{family}_count", by, match))


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
    buckets = f"sum by ({labels}, le) (increase({family}_bucket{{{chosen(family)}}}[{WINDOW}]))"
    enough = (
        f" and sum by ({labels}) (increase({family}_count{{{chosen(family)}}}[{WINDOW}])) >= {floor}" if floor else ""
    )
    return Query(
        legend,
        color,
        promql=f"histogram_quantile({q:g}, {buckets}) >= 0{enough}",
        by=(*SCOPE, *by),
        dashed=dashed,
        unit=unit,
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
_BROKEN = (
    "0 * <completion_rate> + on (instance) group_left ()"
    f' sum by (instance) (rate(llm_http_requests_total{{status="5xx",{INSTANCE}}}[{WINDOW}]))'
)
OFFERED = f"(<completion_rate> + ({_REFUSED} >= ({_BROKEN}) or ({_BROKEN}) or {_REFUSED} or 0 * <completion_rate>))"
"""Requests a second of which goodput is a share: finished ones, and those that failed or were refused, whichever are more."""
