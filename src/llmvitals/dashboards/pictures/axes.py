"""Axes of time and of numbers: where their ticks are, and how they are named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from llmvitals.dashboards.pictures.results import Span
from llmvitals.dashboards.pictures.units import number, scale, ticks

_APART = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
_TICK_PIXELS = 74.0
"""Room for one label of the time axis."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What an axis of numbers covers, and its ticks with their words."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


def reach(values: Sequence[float], unit: str, *, low: float | None, high: float | None, most: int) -> Reach:
    """An axis over values: from ``low`` (None: what the data need) to ``high`` (None: a round number above all of them)."""
    least = min(values, default=0.0)
    bottom = least if low is None else min(low, least)
    top = max(values, default=1.0)
    if high is not None:
        top = max(top, high)
    if not top > bottom:
        top = bottom + (abs(bottom) or 1.0)
    told = scale(max(abs(top), abs(bottom)), unit)
    factor = told.factor
    marks = ticks(bottom / factor, top / factor, most)
    if high is None or top > high:
        step = marks[1] - marks[0] if len(marks) > 1 else top / factor
        if marks[-1] < top / factor - 1e-9:
            marks = (*marks, round(marks[-1] + step, 12))
        top = max(top, marks[-1] * factor)
    if low is None and marks[0] > bottom / factor + 1e-9:
        marks = (round(marks[0] - (marks[1] - marks[0] if len(marks) > 1 else 1.0), 12), *marks)
        bottom = marks[0] * factor
    return Reach(bottom, top, tuple((mark * factor, number(mark) + told.suffix) for mark in marks))


def steps(span: Span) -> np.ndarray:
    """The moments at which there may be a point."""
    return np.arange(span.start, span.end + span.step / 2, span.step)


def along(points: Iterable[tuple[float, float]], moments: Iterable[float]) -> np.ndarray:
    """The value at each of these moments; NaN where there is no point."""
    known = {round(t): value for t, value in points}
    return np.array([known.get(round(t), np.nan) for t in moments])


def times(span: Span, width: float) -> tuple[tuple[float, str], ...]:
    """Ticks of the time axis: round moments of UTC, as far apart as their words need."""
    room = max(2.0, width / _TICK_PIXELS)
    apart = next((s for s in _APART if (span.end - span.start) / s <= room), _APART[-1])
    form = "%m-%d" if apart >= 86400 else "%m-%d %H:%M" if span.end - span.start > 2 * 86400 else "%H:%M"
    if apart < 60:
        form = "%H:%M:%S"
    first = -(-span.start // apart) * apart
    found, t = [], first
    while t <= span.end + 1e-6:
        found.append((t, datetime.fromtimestamp(t, UTC).strftime(form)))
        t += apart
    return tuple(found)
