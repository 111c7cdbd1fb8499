"""The evaluator by hand-worked numbers; its agreement with a real Prometheus is in tests/property."""

from __future__ import annotations

import math

import pytest

from llmvitals.gaps import GapKind
from llmvitals.series import Snapshot, Window, series
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
from llmvitals.signals.evaluate import evaluate
from llmvitals.signals.reading import Standing


def _window(end: float, **columns: dict[float, float]) -> Window:
    """Series by name (``h_bucket__2`` is the bucket le="2"), each a mapping of moment to value; starts at 0."""
    at: dict[float, dict] = {}
    for column, values in columns.items():
        name, _, le = column.partition("__")
        key = series(name, instance="a", **({"le": le.replace("_", ".")} if le else {}))
        for t, value in values.items():
            at.setdefault(t, {})[key] = value
    return Window.of([Snapshot(t, samples) for t, samples in at.items()], start=0.0, end=end)


def _line(values: list[float], *, first: float = 10, step: float = 10) -> dict[float, float]:
    return {first + step * i: value for i, value in enumerate(values)}


@pytest.mark.parametrize(
    ("values", "end", "growth"),
    [
        ([100, 110, 120, 130, 140], 60, 60),  # both edges are one step away: 40 seen in 40 s, stretched to 60 s
        ([0, 10, 20, 30, 40], 60, 50),  # it was 0 at the first sample: nothing can have come before
        ([100, 110, 120, 130, 140], 105, 55),  # 55 s to the end is more than 1.1 steps: half a step is added
        # 9 -> 2 is a reset: 1 + 9 = 10 in 30 s; 30 s x 5 / 10 back to zero, further than the start 10 s away
        ([5, 9, 2, 6], 40, 10 * 40 / 30),
    ],
)
def test_increase(values, end, growth) -> None:
    window = _window(end, c_total=_line(values))
    assert evaluate(Increase("c_total"), window).value == pytest.approx(growth, rel=1e-12)
    assert evaluate(Rate("c_total"), window).value == pytest.approx(growth / end, rel=1e-12)


def test_resets_are_summed_for_each_series_by_itself() -> None:
    snapshots = [
        Snapshot(t, {series("c_total", rank="0"): a, series("c_total", rank="1"): b})
        for t, a, b in ((0.0, 10.0, 1.0), (10.0, 0.0, 11.0))
    ]
    # rank 0 restarted and counted nothing since, rank 1 grew by 10; summed first, 11 -> 11 would say that nothing grew
    assert evaluate(Increase("c_total"), Window.of(snapshots)).value == pytest.approx(10)


def test_range_is_closed_on_both_sides() -> None:
    window = _window(20, g={0: 7, 10: 1, 20: 5, 30: 99})
    assert evaluate(OverTime(Stat.MAX, "g"), window).value == 7
    assert evaluate(Gauge("g"), window).value == 5


def test_instant_value_is_looked_for_five_minutes_back() -> None:
    snapshots = [Snapshot(0.0, {series("g"): 3.0}), Snapshot(300.0, {series("other"): 1.0})]
    assert evaluate(Gauge("g"), Window.of(snapshots, start=290, end=300)).value == 3
    late = evaluate(Gauge("g"), Window.of([*snapshots, Snapshot(300.001, {})], start=290, end=300.001))
    assert late.gap is not None
    assert late.gap.kind is GapKind.MISSING


HISTOGRAM = {"h_bucket__1": 10, "h_bucket__2": 30, "h_bucket__+Inf": 40, "h_count": 40, "h_sum": 60}


def _histogram(**changed: float) -> Window:
    return _window(60, **{name: {0: 0, 60: grown} for name, grown in (HISTOGRAM | changed).items()})


def test_quantile_is_interpolated_and_says_between_which_edges() -> None:
    found = evaluate(Quantile(0.5, "h"), _histogram())
    assert (found.value, found.low, found.high, found.standing) == (1.5, 1, 2, Standing.ESTIMATE)  # rank 20 of 10..30
    first = evaluate(Quantile(0.1, "h"), _histogram())
    assert (first.value, first.low, first.high) == (pytest.approx(0.4), 0, 1)  # rank 4 of 0..10, from 0


def test_quantile_in_the_open_bucket_is_a_lower_bound() -> None:
    found = evaluate(Quantile(0.95, "h"), _histogram())
    assert (found.value, found.low, found.high, found.standing) == (2, 2, None, Standing.LOWER)
    assert "at least 2" in found.note


def test_quantile_without_observations_is_no_traffic() -> None:
    idle = dict.fromkeys(HISTOGRAM, 0)
    gap = evaluate(Quantile(0.5, "h"), _histogram(**idle)).gap
    assert gap is not None
    assert gap.kind is GapKind.NO_TRAFFIC


def test_fraction_below_takes_a_real_edge_or_nothing() -> None:
    assert evaluate(FractionBelow(2.0, "h"), _histogram()).value == 0.75
    gap = evaluate(FractionBelow(1.5, "h"), _histogram()).gap
    assert gap is not None
    assert gap.kind is GapKind.MISSING
    other = _window(60, h_bucket__2_0={0: 0, 60: 30}, h_count={0: 0, 60: 40})
    assert evaluate(FractionBelow(2.0, "h"), other).value == 0.75  # le="2.0" is the same edge


def test_division_by_nothing_is_no_traffic() -> None:
    window = _window(60, a_total={0: 0, 60: 6}, b_total={0: 5, 60: 5}, g={60: -1})
    for divisor in (Increase("b_total"), Gauge("g"), Const(0)):
        gap = evaluate(ratio(Increase("a_total"), divisor), window).gap
        assert gap is not None
        assert gap.kind is GapKind.NO_TRAFFIC
    assert evaluate(mean("h"), _histogram()).value == 1.5


def test_gaps_say_why() -> None:
    told = series("llm_family_gap", family="llm_preemptions_total", gap="unsupported", reason="V0 has no such counter")
    window = Window.of([Snapshot(0.0, {told: 1.0}), Snapshot(10.0, {told: 1.0, series("once_total"): 1.0})])
    unsupported = evaluate(Rate("llm_preemptions_total"), window).gap
    assert unsupported is not None
    assert (unsupported.kind, unsupported.why) == (GapKind.UNSUPPORTED, "V0 has no such counter")
    kinds = [evaluate(expr, window).gap.kind for expr in (Rate("nowhere_total"), Rate("once_total"))]
    assert kinds == [GapKind.MISSING, GapKind.TOO_SHORT]
    left_first = evaluate(Binary(Op.ADD, Rate("once_total"), Rate("nowhere_total")), window).gap
    assert left_first is not None
    assert left_first.kind is GapKind.TOO_SHORT


def test_nan_is_never_a_number() -> None:
    window = _window(20, g={0: math.nan, 10: 4, 20: math.nan})
    assert evaluate(Gauge("g"), window).value is None
    assert evaluate(OverTime(Stat.AVG, "g"), window).value is None
    assert evaluate(OverTime(Stat.MAX, "g"), window).value == 4  # NaN is passed over, as Prometheus does


def test_statistics_are_of_each_series_then_aggregated() -> None:
    snapshots = [
        Snapshot(t, {series("g", rank="0"): a, series("g", rank="1"): b})
        for t, a, b in ((0.0, 1.0, 8.0), (10.0, 5.0, 4.0), (20.0, 3.0, 6.0))
    ]
    window = Window.of(snapshots)
    assert evaluate(OverTime(Stat.MAX, "g"), window).value == 13  # 5 + 8, though no moment had more than 9
    assert evaluate(OverTime(Stat.QUANTILE, "g", agg=Agg.MIN, q=0.5), window).value == 3
    assert evaluate(OverTime(Stat.QUANTILE, "g", agg=Agg.MAX, q=0.25), window).value == 5  # 4, 6, 8: halfway 4 to 6
    assert evaluate(Slope("g"), window).value == pytest.approx(0)  # +0.1 and -0.1 per second
    assert evaluate(Gauge("g", (("rank", "1"),)), window).value == 6


@pytest.mark.parametrize(
    ("op", "left", "right", "standing"),
    [
        (Op.ADD, Quantile(0.95, "h"), Const(1), Standing.LOWER),
        (Op.SUB, Const(1), Quantile(0.95, "h"), Standing.UPPER),
        (Op.DIV, Const(1), Quantile(0.95, "h"), Standing.UPPER),
        (Op.MUL, Const(-1), Quantile(0.95, "h"), Standing.ESTIMATE),
        (Op.SUB, Quantile(0.95, "h"), Quantile(0.95, "h"), Standing.ESTIMATE),
        (Op.ADD, Const(1), Const(1), Standing.EXACT),
    ],
)
def test_a_bound_stays_a_bound_through_arithmetic(op, left, right, standing) -> None:
    assert evaluate(Binary(op, left, right), _histogram()).standing is standing
