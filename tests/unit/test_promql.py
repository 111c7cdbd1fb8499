"""The printer, node by node; that Prometheus takes and means it the same is in tests/property and tests/rules."""

from __future__ import annotations

import math

import pytest

from llmvitals.signals.algebra import (
    Agg,
    Binary,
    Const,
    FractionBelow,
    Gauge,
    Increase,
    Op,
    OverTime,
    Quantile,
    Rate,
    Slope,
    Stat,
    mean,
    ratio,
)
from llmvitals.signals.edges import edge_spellings
from llmvitals.signals.promql import to_promql


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Gauge("g"), "sum by (instance, model) (g)"),
        (Gauge("g", (("reason", "capacity"),), Agg.MAX), 'max by (instance, model) (g{reason="capacity"})'),
        (OverTime(Stat.AVG, "g", agg=Agg.MIN), "min by (instance, model) (avg_over_time(g[60s]))"),
        (OverTime(Stat.QUANTILE, "g", q=0.9), "sum by (instance, model) (quantile_over_time(0.9, g[60s]))"),
        (Increase("c_total"), "sum by (instance, model) (increase(c_total[60s]))"),
        (Rate("c_total"), "sum by (instance, model) (rate(c_total[60s]))"),
        (Slope("g"), "sum by (instance, model) (deriv(g[60s]))"),
        (Quantile(0.95, "h"), "histogram_quantile(0.95, sum by (instance, model, le) (increase(h_bucket[60s])))"),
        (Binary(Op.MUL, Rate("c_total"), Const(60.0)), "sum by (instance, model) (rate(c_total[60s])) * 60"),
        (Const(math.inf), "Inf"),
    ],
)
def test_nodes(expr, text) -> None:
    assert to_promql(expr, window="60s") == text


def test_a_divisor_is_absent_where_it_is_not_positive() -> None:
    assert to_promql(mean("h"), window="5m", by=("instance",)) == (
        "sum by (instance) (increase(h_sum[5m])) / (sum by (instance) (increase(h_count[5m])) > 0)"
    )
    assert to_promql(ratio(Gauge("g"), Const(2))) == "sum by (instance, model) (g) / 2"
    assert to_promql(ratio(Gauge("g"), Const(0))) == "sum by (instance, model) (g) / (vector(0) > 0)"


def test_literals_are_computed_because_they_cannot_be_compared_away() -> None:
    assert to_promql(ratio(Gauge("g"), Binary(Op.ADD, Const(1), Const(2)))) == "sum by (instance, model) (g) / 3"


def test_an_edge_is_matched_in_each_of_its_spellings() -> None:
    text = to_promql(FractionBelow(2.0, "h"), window="60s", by=("instance",))
    assert text == (
        'sum by (instance) (increase(h_bucket{le=~"2|2\\\\.0|2e\\\\+00"}[60s]))'
        " / (sum by (instance) (increase(h_count[60s])) > 0)"
    )
    assert edge_spellings(1_000_000) == ("1000000", "1000000.0", "1e+06")
    assert "0.005" in edge_spellings(0.005)
    assert edge_spellings(math.inf) == ("+Inf",)


@pytest.mark.parametrize(
    "selector", ['namespace="a",pod=~"b.*"', '{namespace="a",pod=~"b.*"}', ' {namespace="a",pod=~"b.*"} ']
)
def test_a_selector_reaches_every_series(selector) -> None:
    text = to_promql(
        ratio(Rate("a_total", (("x", "1"),)), Quantile(0.5, "h")), window="$__rate_interval", selector=selector
    )
    assert 'a_total{x="1",namespace="a",pod=~"b.*"}[$__rate_interval]' in text
    assert 'h_bucket{namespace="a",pod=~"b.*"}[$__rate_interval]' in text


def test_label_values_are_escaped() -> None:
    assert to_promql(Gauge("g", (("m", 'a"b\\c\nd'),)), by=("instance",)) == 'sum by (instance) (g{m="a\\"b\\\\c\\nd"})'
