"""How every signal moved from cycle to cycle: the lines that the app draws beside the newest verdict (``/history``).

A point is what the page's gauges showed then, so nothing is computed again and a chart ends on the number in its head.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import deque
from collections.abc import Iterable
from typing import Any

from llmvitals.exporters.cycle import Cycle
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.signals.promised import of_model
from llmvitals.triage import history

POINTS = 180
"""Cycles kept of each scope (15 min at the default interval); all signals of one scope then take about 170 kB."""

Scope = tuple[str, str]
_Points = deque[tuple[float, "array[float]"]]


class Trail:
    """One writer (the cycle), many readers. A scope that is no longer judged is forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: dict[Scope, _Points] = {}

    def remember(self, cycle: Cycle) -> None:
        """Add a cycle's numbers; NaN stands for a signal that had none."""
        with self._lock:
            before, self._points = self._points, {}
            for scoped in cycle.scopes:
                key = (scoped.instance, scoped.model)
                values = (scoped.readings[s.id].value if s.id in scoped.readings else None for s in SIGNALS)
                points: _Points = before.get(key) or deque(maxlen=POINTS)
                points.append((cycle.ended, array("d", (math.nan if v is None else v for v in values))))
                self._points[key] = points

    def document(self, scope: Scope, signals: Iterable[str], settings: Settings) -> dict[str, Any]:
        """The JSON of :func:`llmvitals.triage.history.encode` for one scope: the vital signs and the named signals."""
        with self._lock:
            points = tuple(self._points.get(scope, ()))
        named = history.wanted(s for s in signals if s in _COLUMN)
        rows = [(t, {s: _known(values[_COLUMN[s]]) for s in named}) for t, values in points]
        return history.encode(history.traced(rows, named, of_model(settings, scope[1])))


_COLUMN: dict[str, int] = {signal.id: i for i, signal in enumerate(SIGNALS)}


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
