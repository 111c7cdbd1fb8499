"""How much the counters of a course grew over the windows that alerts ask of, for all its moments at once."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from operator import add

from llmvitals.alerts.budgets import Counted
from llmvitals.alerts.course import Course
from llmvitals.alerts.names import WIDER, WINDOW
from llmvitals.alerts.recording import LONGEST_RAW
from llmvitals.series import Series
from llmvitals.settings import seconds_of

Growth = list[float | None]
"""By moment; None: no counter stood twice in that window."""

EDGE = 1e-3
"""Moments are kept to the millisecond, as in Prometheus: a page that came at a window's very start is in it."""

LOOKBACK = 300.0
"""Seconds for which Prometheus takes a sample for the newest one."""

_PART, _WIDER = seconds_of(WINDOW), seconds_of(WIDER)


class Counters:
    """The counters of one course. ``growth`` is what the rules count with ``sum by (...) (increase(x[window]))``, resets undone,
    from the first page in the window (its start included) to the newest; of a short window with less than two pages of a server
    that is up, over a wider one (:data:`llmvitals.alerts.names.WIDER`); and over hours, as the sum of windows of 5 minutes that
    end at whole 5 minutes, as :mod:`llmvitals.alerts.recording` sums them.

    What Prometheus extrapolates to the edges of a window is left out. A window that pages fill agrees exactly. Where they do
    not (a target came back, the course began), Prometheus counts on for up to a page's distance on either side, though no
    counter below zero: with two pages in the window that may double a count, and move a share by a third where one of its
    counters began there; with ten pages a tenth of that is left.
    """

    def __init__(self, course: Course) -> None:
        self._times = [moment.t for moment in course.moments]
        self._up = [moment.up for moment in course.moments]
        found: dict[Series, tuple[list[int], list[float]]] = {}
        for at, moment in enumerate(course.moments):
            for key, value in moment.counts.items():
                indices, values = found.setdefault(key, ([], []))
                indices.append(at)
                values.append(value)
        self._grown = {key: (tuple(indices), _cumulated(values)) for key, (indices, values) in found.items()}
        self.growth = cache(self._growth)

    def _growth(
        self, counted: tuple[Counted, ...], seconds: float, by: tuple[str, ...] = ()
    ) -> dict[tuple[str, ...], Growth]:
        """The growth over the last ``seconds``, at each moment, summed by the values of the labels ``by``."""
        if seconds > LONGEST_RAW:
            return {group: self._gathered(part, seconds) for group, part in self.growth(counted, _PART, by).items()}
        found = self._raw(counted, seconds, by)
        if seconds >= _WIDER:
            return found
        wider = self.growth(counted, _WIDER, by)
        return {
            group: [
                there if grew is None and up else grew
                for grew, there, up in zip(part, wider[group], self._up, strict=True)
            ]
            for group, part in found.items()
        }

    def _raw(self, counted: tuple[Counted, ...], seconds: float, by: tuple[str, ...]) -> dict[tuple[str, ...], Growth]:
        together: dict[tuple[str, ...], dict[tuple[int, ...], list[float]]] = {}
        for key, (indices, grown) in self._grown.items():
            if any(one.counts(key) for one in counted):
                same = together.setdefault(tuple(key.label(label) for label in by), {})
                same[indices] = list(map(add, same[indices], grown)) if indices in same else grown
        return {group: self._summed(same.items(), seconds) for group, same in together.items()}

    def _summed(self, tracks: Iterable[tuple[tuple[int, ...], list[float]]], seconds: float) -> Growth:
        total: Growth = [None] * len(self._times)
        for indices, grown in tracks:
            times = [self._times[index] for index in indices]
            newest, oldest = -1, 0
            for at, now in enumerate(self._times):
                newest += newest + 1 < len(indices) and indices[newest + 1] == at
                start = now - seconds - EDGE
                while oldest < newest and times[oldest] < start:
                    oldest += 1
                if oldest < newest:
                    total[at] = (total[at] or 0.0) + grown[newest] - grown[oldest]
        return total

    def _gathered(self, parts: Growth, seconds: float) -> Growth:
        """What windows of 5 minutes counted, summed over those that end within the last ``seconds``."""
        if not self._times:
            return []
        first = math.ceil(self._times[0] / _PART)
        sums, counts = [0.0], [0]
        for number in range(first, math.floor(self._times[-1] / _PART) + 1):
            at = bisect_right(self._times, number * _PART + EDGE) - 1
            part = parts[at] if number * _PART - self._times[at] < LOOKBACK else None
            sums.append(sums[-1] + (part or 0.0))
            counts.append(counts[-1] + (part is not None))
        total: Growth = []
        for now in self._times:
            newest = max(0, math.floor((now + EDGE) / _PART) + 1 - first)
            oldest = min(newest, max(0, math.ceil((now - seconds - EDGE) / _PART) - first))
            total.append(sums[newest] - sums[oldest] if counts[newest] > counts[oldest] else None)
        return total


def _cumulated(values: Sequence[float]) -> list[float]:
    """A counter from 0 on, with its resets undone: after one it counted from zero."""
    return list(
        accumulate((after - before if after >= before else after for before, after in pairwise(values)), initial=0.0)
    )
