"""The compiler that computes: an algebra expression over a window in memory.

Every number equals what a Prometheus 2 gives for :func:`llmvitals.signals.promql.to_promql` of the same expression at
``window.end`` with the range ``window.seconds``: ranges are closed on both sides, an instant value is the newest one
not older than the lookback. (Prometheus 3 leaves the start of a range open: a sample exactly on it then counts here
only.) Where Prometheus answers with nothing, or with NaN, the reading is a gap that says why.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from llmvitals.gaps import Gap, GapKind
from llmvitals.schema import family_of
from llmvitals.series import Track, Window
from llmvitals.signals import arithmetic
from llmvitals.signals.algebra import (
    Agg,
    Binary,
    Const,
    Expr,
    FractionBelow,
    Gauge,
    Increase,
    Match,
    Op,
    OverTime,
    Quantile,
    Rate,
    Slope,
    Stat,
)
from llmvitals.signals.edges import edge_spellings
from llmvitals.signals.joined import not_joined
from llmvitals.signals.reading import Reading, Standing

LOOKBACK_MS = 300_000
"""How old the newest sample of an instant selector may be (Prometheus' default ``--query.lookback-delta``, 5 min)."""

Values = Sequence[float]
Points = list[tuple[int, float]]

_AGG: dict[Agg, Callable[[Values], float]] = {
    Agg.SUM: sum,
    Agg.MAX: arithmetic.largest,
    Agg.MIN: arithmetic.smallest,
    Agg.AVG: arithmetic.average,
}
_STAT: dict[Stat, Callable[[Values, float], float]] = {
    Stat.MAX: lambda values, _: arithmetic.largest(values),
    Stat.MIN: lambda values, _: arithmetic.smallest(values),
    Stat.AVG: lambda values, _: arithmetic.average(values),
    Stat.QUANTILE: lambda values, q: arithmetic.quantile(q, values),
}
_FLIPPED = {Standing.LOWER: Standing.UPPER, Standing.UPPER: Standing.LOWER}


def evaluate(expr: Expr, window: Window) -> Reading:
    """The expression's value over the window, all series of the window being one scope. Never raises on data."""
    match expr:
        case Const(value):
            return _number(value, "")
        case Gauge(name, match, agg):
            return _leaf(window, name, match, _AGG[agg], lambda points: points[-1][1], lookback=True)
        case OverTime(stat, name, match, agg, q):
            return _leaf(window, name, match, _AGG[agg], lambda points: _STAT[stat]([v for _, v in points], q))
        case Increase(name, match):
            start, end = _range(window)
            return _leaf(window, name, match, sum, lambda p: arithmetic.increase(p, start, end), least=2)
        case Rate(name, match):
            start, end = _range(window)
            return _leaf(window, name, match, sum, lambda p: arithmetic.rate(p, start, end), least=2)
        case Slope(name, match):
            return _leaf(window, name, match, sum, arithmetic.slope, least=2)
        case Quantile(q, family):
            return _quantile(q, family, window)
        case FractionBelow(bound, family):
            return _fraction_below(bound, family, window)
        case Binary(op, left, right):
            return _binary(op, evaluate(left, window), evaluate(right, window))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _range(window: Window) -> tuple[int, int]:
    return _ms(window.start), _ms(window.end)


def _points(track: Track, start: int, end: int) -> Points:
    times = [_ms(t) for t in track.times]
    first, last = bisect_left(times, start), bisect_right(times, end)
    return list(zip(times[first:last], track.values[first:last], strict=True))


def _selected(window: Window, name: str, match: Match, *, lookback: bool = False) -> list[tuple[Track, Points]]:
    start, end = _range(window)
    found = ((t, _points(t, end - LOOKBACK_MS if lookback else start, end)) for t in window.tracks(name, dict(match)))
    return [(track, points) for track, points in found if points]


def _leaf(
    window: Window,
    name: str,
    match: Match,
    agg: Callable[[Values], float],
    per_series: Callable[[Points], float],
    *,
    least: int = 1,
    lookback: bool = False,
) -> Reading:
    found = [points for _, points in _selected(window, name, match, lookback=lookback)]
    if not found:
        return _absent(window, name, match)
    values = [per_series(points) for points in found if len(points) >= least]
    if not values:
        return _too_short(name)
    return _number(agg(values), name)


def _quantile(q: float, family: str, window: Window) -> Reading:
    name = f"{family}_bucket"
    found = _selected(window, name, ())
    if not found:
        return _absent(window, name, ())
    start, end = _range(window)
    counts: dict[float, float] = {}
    for track, points in found:
        bound = _bound(track.label("le"))
        if bound is not None and len(points) >= 2:
            counts[bound] = counts.get(bound, 0.0) + arithmetic.increase(points, start, end)
    if not counts:
        return _too_short(name)
    value, low, high = arithmetic.bucket_quantile(q, sorted(counts.items()))
    if math.isnan(value):
        return Reading(None, Gap(GapKind.NO_TRAFFIC, "no observation in the window", name))
    if math.isinf(high):
        note = f"in the open bucket: at least {value:g}, the last finite edge"
        return Reading(value, standing=Standing.LOWER, low=value, note=note)
    note = f"interpolated inside the bucket {low:g} to {high:g}"
    return Reading(value, standing=Standing.ESTIMATE, low=low, high=high, note=note)


def _bound(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _fraction_below(bound: float, family: str, window: Window) -> Reading:
    spellings = edge_spellings(bound)
    name = f"{family}_bucket"
    found = [points for track, points in _selected(window, name, ()) if track.label("le") in spellings]
    if not found:
        return _absent(window, name, (("le", spellings[0]),))
    start, end = _range(window)
    values = [arithmetic.increase(points, start, end) for points in found if len(points) >= 2]
    below = _number(sum(values), name) if values else _too_short(name)
    return _binary(Op.DIV, below, evaluate(Increase(f"{family}_count"), window))


def _binary(op: Op, left: Reading, right: Reading) -> Reading:
    if left.value is None:
        return Reading(None, left.gap)
    if right.value is None:
        return Reading(None, right.gap)
    if op is Op.DIV and not right.value > 0:
        return Reading(None, Gap(GapKind.NO_TRAFFIC, "nothing happened that it could be divided by"))
    value = arithmetic.OPERATORS[op](left.value, right.value)
    if math.isnan(value):
        return _number(value, "")
    note = "; ".join(dict.fromkeys(n for n in (left.note, right.note) if n))
    return Reading(value, standing=_standing(op, left, right), note=note)


def _standing(op: Op, left: Reading, right: Reading) -> Standing:
    """Bounds pass through monotone arithmetic; a bound of what is subtracted or divided by points the other way."""
    a, b = left.standing, right.standing
    if op in (Op.SUB, Op.DIV):
        b = _FLIPPED.get(b, b)
    if a is b is Standing.EXACT:
        return Standing.EXACT
    signed = op in (Op.MUL, Op.DIV) and min(left.value or 0.0, right.value or 0.0) < 0
    if signed or (Standing.EXACT not in (a, b) and a is not b):
        return Standing.ESTIMATE
    return b if a is Standing.EXACT else a


def _number(value: float, name: str) -> Reading:
    if math.isnan(value):
        return Reading(None, Gap(GapKind.MISSING, "the value is not a number (NaN)", name))
    return Reading(value)


def _too_short(name: str) -> Reading:
    return Reading(None, Gap(GapKind.TOO_SHORT, "fewer than two samples in the window", name))


def _absent(window: Window, name: str, match: Match) -> Reading:
    """Why nothing was selected: the reason that the adapter gave, else: its source is not joined, or lacks it."""
    start, end = _range(window)
    if not any(start <= _ms(s.t) <= end for s in window.snapshots):
        return Reading(None, Gap(GapKind.TOO_SHORT, "no page in the window", name))
    family = family_of(name)
    told = _selected(window, "llm_family_gap", (("family", name),), lookback=True)  # a part that is not there by nature
    if family and not told:
        told = _selected(window, "llm_family_gap", (("family", family.name),), lookback=True)
    if told:
        newest = max(told, key=lambda found: found[1][-1][0])[0]
        return Reading(None, Gap(_kind(newest.label("gap")), newest.label("reason"), name))
    apart = not_joined(window, name)
    if apart is not None:
        return Reading(None, apart)
    labels = ", ".join(f'{key}="{value}"' for key, value in match)
    which = f"{name}{{{labels}}}" if labels else name
    return Reading(None, Gap(GapKind.MISSING, f"{which} is not on the page", name))


def _kind(text: str) -> GapKind:
    try:
        return GapKind(text)
    except ValueError:
        return GapKind.MISSING
