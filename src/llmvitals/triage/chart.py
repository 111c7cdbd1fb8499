"""What a small chart of one piece of evidence draws: points in display units, the limit, and the side that breaches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.course import Began
from llmvitals.triage.history import VITALS, Trace, Vital
from llmvitals.triage.units import digits, scale, with_unit
from llmvitals.triage.verdict import CheckResult, Evidence, Verdict
from llmvitals.triage.view import Row, row, vital_row

ROOM = 1.15
"""Space beyond the largest number, so that neither a line nor a limit's label touches the edge."""
_TOP_SHARE = 0.8
_SHORT = 3  # characters of a unit that fit beside a tick; the number in the head has it anyway
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_TICKS = 3

Since = Mapping[str, Began]
"""By cause: when its check began to fire, of those that do."""


@dataclass(frozen=True, slots=True)
class Chart:
    """``points``: (milliseconds since 1970, value in ``unit``), None where the number was absent; empty without any number.

    ``tick_unit`` is written behind a tick. ``bound`` is the limit in ``unit``, None where the condition has no number;
    from there to ``breach_end`` it holds (None where the direction is not known). ``low``, ``high``: the axis' ends.
    ``label_above``: there is room for the limit's label above its line. ``moves``: there is a line to draw. ``ticks``: values of
    the axis with their texts. ``since``: when the check that this speaks for began to fire (milliseconds since 1970), None where
    that is not known or lies before the first point.
    """

    row: Row
    unit: str
    tick_unit: str
    points: tuple[tuple[float, float | None], ...]
    bound: float | None
    bound_text: str
    breach_end: float | None
    low: float
    high: float
    label_above: bool
    moves: bool
    ticks: tuple[tuple[float, str], ...] = ()
    since: float | None = None


def leading_charts(verdict: Verdict, traces: Mapping[str, Trace], since: Since | None = None) -> tuple[Chart, ...]:
    """What speaks for the leading cause, one chart per signal, in the order of the check."""
    if verdict.leading is None:
        return ()
    return _each_once(verdict.leading.evidence, verdict.leading.cause, verdict, traces, since or {})


def check_charts(
    check: CheckResult, verdict: Verdict, traces: Mapping[str, Trace], since: Since | None = None
) -> tuple[Chart, ...]:
    """What a check of the walk looked at, over time, as far as there are lines of it."""
    drawn = _each_once(check.evidence, check.cause, verdict, traces, since or {})
    return tuple(chart for chart in drawn if chart.moves)


def _each_once(
    evidence: tuple[Evidence, ...], cause: str, verdict: Verdict, traces: Mapping[str, Trace], since: Since
) -> tuple[Chart, ...]:
    once: dict[str, Evidence] = {}
    for e in evidence:
        once.setdefault(e.signal, e)
    began = since.get(cause)
    mark = None if began is None or began.before else began.t * 1000.0
    return tuple(_chart(row(e), e, traces.get(e.signal), verdict, mark) for e in once.values())


def vital_charts(verdict: Verdict, traces: Mapping[str, Trace]) -> tuple[Chart, ...]:
    """The vital signs that do not already speak for the leading cause, as far as the source keeps a line of them."""
    shown = {e.signal for e in verdict.leading.evidence} if verdict.leading else set()
    found = []
    for vital in VITALS:
        trace = traces.get(vital.signal)
        if trace is not None and vital.signal not in shown:
            evidence = _vital(vital, trace)
            found.append(_chart(vital_row(evidence), evidence, trace, verdict))
    return tuple(found)


def _vital(vital: Vital, trace: Trace) -> Evidence:
    title, unit = BY_ID[vital.signal].title, BY_ID[vital.signal].unit
    value = trace.values[-1] if trace.values else None
    judged = vital.promised and trace.bound is not None
    limit = f"> {trace.bound:g}" if judged else ""
    holds = value > trace.bound if judged and value is not None and trace.bound is not None else None
    gap = "" if value is not None else trace.why or "no number in the newest window"
    return Evidence(vital.signal, title, value, unit, limit, holds, gap, trace.standing, trace.bound)


def _chart(
    shown_row: Row, evidence: Evidence, trace: Trace | None, verdict: Verdict, since: float | None = None
) -> Chart:
    times, values = _points(evidence, trace, verdict.window)
    known = [v for v in (*values, evidence.bound) if v is not None and math.isfinite(v)]
    shown = scale(evidence.unit, max(map(abs, known), default=0.0))
    low = min(known, default=0.0) * shown.factor * ROOM
    high = max(known, default=0.0) * shown.factor * ROOM
    low, high = min(low, 0.0), max(high, 0.0) or 1.0
    if evidence.unit == "ratio" and all(0.0 <= v <= 1.0 for v in known):
        high = shown.factor  # a share is seen against the whole
    ends = {">": high, "≥": high, "<": low, "≤": low}
    bound = _scaled(evidence.bound, shown.factor)
    tick_unit = f" {shown.unit}" if 0 < len(shown.unit) <= _SHORT else ""
    points = tuple((t * 1000.0, _scaled(v, shown.factor)) for t, v in zip(times, values, strict=True))
    return Chart(
        row=shown_row,
        unit=shown.unit,
        tick_unit=tick_unit,
        points=points,
        bound=bound,
        bound_text=_bound_text(evidence),
        breach_end=None if bound is None else ends.get(evidence.limit[:1]),
        low=low,
        high=high,
        label_above=bound is None or bound <= _TOP_SHARE * high,
        moves=sum(v is not None for v in values) > 1,
        ticks=tuple((v, f"{digits(v)}{tick_unit}") for v in ticks(low, high)),
        since=since if since is not None and points and points[0][0] <= since <= points[-1][0] else None,
    )


def ticks(low: float, high: float) -> tuple[float, ...]:
    """Round numbers between two ends, zero among them where it lies there; some three."""
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return ()
    size = 10.0 ** math.floor(math.log10(span / _MOST_TICKS))
    step = next((size * s for s in _STEPS if size * s * _MOST_TICKS >= span * (1 - 1e-9)), size * _STEPS[-1])
    first = math.ceil(low / step - 1e-9)
    return tuple(step * i for i in range(first, math.floor(high / step + 1e-9) + 1))


def _points(
    evidence: Evidence, trace: Trace | None, window: Mapping[str, object]
) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
    """The line, or the newest number alone where the source keeps no line of the signal."""
    if trace is not None and any(value is not None for value in trace.values):
        return trace.times, trace.values
    end = window.get("end")
    if evidence.value is None or not isinstance(end, (int, float)):
        return (), ()
    return (float(end),), (evidence.value,)


def _bound_text(evidence: Evidence) -> str:
    if evidence.bound is None:
        return ""
    text = with_unit(evidence.bound, evidence.unit)
    return f"limit {text}" if evidence.limit else text


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None or not math.isfinite(value) else value * factor
