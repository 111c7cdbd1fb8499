"""How every signal moved from cycle to cycle, and what every check said: what is shown beside the newest verdict (``/history``).

A point is what the page's gauges showed then, so nothing is computed again and a chart ends on the number in its head. What checks
said is kept where it changed, for as long as the scope is judged: it reaches back farther than the points do.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from llmvitals.exporters.cycle import Cycle
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.signals.promised import of_model
from llmvitals.signals.reading import Reading
from llmvitals.triage import course, history
from llmvitals.triage.course import Course

POINTS = 180
"""Cycles kept of each scope (15 min at the default interval); those of one scope then take about 150 kB."""

EVERY = "*"
"""Asked for as a signal: all of them that have a number."""

Scope = tuple[str, str]
_Points = deque[tuple[float, bytes, "array[float]"]]
"""When; for each signal 1 if it had a number then (points of one pattern share it); those numbers in the catalogue's order."""


class Trail:
    """One writer (the cycle), many readers. A scope that is no longer judged is forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: dict[Scope, _Points] = {}
        self._courses: dict[Scope, Course] = {}
        self._newest: dict[Scope, Mapping[str, Reading]] = {}

    def remember(self, cycle: Cycle) -> None:
        """Add a cycle's numbers."""
        with self._lock:
            before, self._points = self._points, {}
            courses, self._courses = self._courses, {}
            self._newest = {(scoped.instance, scoped.model): scoped.readings for scoped in cycle.scopes}
            for scoped in cycle.scopes:
                key = (scoped.instance, scoped.model)
                points: _Points = before.get(key) or deque(maxlen=POINTS)
                points.append(_point(cycle.ended, scoped.readings, points[-1][1] if points else b""))
                self._points[key] = points
                told = courses.get(key)
                if scoped.verdict is not None:
                    told = course.extended(told, cycle.ended, scoped.verdict, cycle.window_seconds)
                if told is not None:
                    self._courses[key] = told

    def document(self, scope: Scope, signals: Iterable[str], settings: Settings) -> dict[str, Any]:
        """The JSON of :func:`llmvitals.triage.history.encode` for one scope: the vital signs and the named signals (``*``: all that
        have a number); beside it, as ``course``, that of :func:`llmvitals.triage.course.encode` (null where no verdict was given).
        """
        with self._lock:
            points, told = tuple(self._points.get(scope, ())), self._courses.get(scope)
            newest = self._newest.get(scope, {})
        asked = tuple(signals)
        if EVERY in asked:
            asked += tuple(s.id for i, s in enumerate(SIGNALS) if any(known[i] for _, known, _ in points))
        named = history.wanted(s for s in asked if s in _IDS)
        rows = [(t, _named(named, known, values)) for t, known, values in points]
        lines = history.encode(history.traced(rows, named, of_model(settings, scope[1]), newest))
        return lines | {"course": course.encode(told) if told is not None else None}


_IDS = frozenset(signal.id for signal in SIGNALS)


def _point(t: float, readings: Mapping[str, Reading], before: bytes) -> tuple[float, bytes, array[float]]:
    values = [reading.value if (reading := readings.get(signal.id)) is not None else None for signal in SIGNALS]
    told = [value if value is not None and math.isfinite(value) else None for value in values]
    known = bytes(value is not None for value in told)
    return t, before if known == before else known, array("d", (value for value in told if value is not None))


def _named(names: Sequence[str], known: bytes, values: array[float]) -> dict[str, float | None]:
    numbers = dict(zip((signal.id for signal in compress(SIGNALS, known)), values, strict=True))
    return {name: numbers.get(name) for name in names}
