"""How much the counters of a course grew over the windows that alerts ask of, for all its moments at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from operator import add

from llmvitals.alerts.budgets import Counted
from llmvitals.alerts.course import Course
from llmvitals.series import Series

Growth = list[float | None]
"""By moment; None: no counter stood twice in that window."""

EDGE = 1e-3
"""Moments are kept to the millisecond, as in Prometheus: a page that came at a window's very start is in it."""


class Counters:
    """The counters of one course. ``growth`` is what Prometheus' ``sum by (...) (increase(x[window]))`` counts, with resets,
    from the first page in the window (its start included) to the newest; what it extrapolates to the edges is left out.

    So a window that pages fill agrees exactly. One that they fill partly counts less here, by what the distance of two
    pages, or the course's own beginning, leaves uncovered. A share of two counters then differs only where one of them
    began within the window, or their pages differ.
    """

    def __init__(self, course: Course) -> None:
        self._times = [moment.t for moment in course.moments]
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
        together: dict[tuple[str, ...], dict[tuple[int, ...], list[float]]] = {}
        for key, (indices, grown) in self._grown.items():
            if any(_meant(key, one) for one in counted):
                same = together.setdefault(tuple(key.label(label) for label in by), {})
                same[indices] = list(map(add, same[indices], grown)) if indices in same else grown
        return {group: self._summed(same.items(), seconds) for group, same in together.items()}

    def _summed(self, tracks: Iterable[tuple[tuple[int, ...], list[float]]], seconds: float) -> Growth:
        total: Growth = [None] * len(self._times)
        for indices, grown in tracks:
            times = [self._times[index] for index in indices]
            newest = -1
            for at, now in enumerate(self._times):
                while newest + 1 < len(indices) and indices[newest + 1] <= at:
                    newest += 1
                oldest = bisect_left(times, now - seconds - EDGE)
                if oldest < newest:
                    total[at] = (total[at] or 0.0) + grown[newest] - grown[oldest]
        return total


def _cumulated(values: Sequence[float]) -> list[float]:
    """A counter from 0 on, with its resets undone: after one it counted from zero."""
    return list(
        accumulate((after - before if after >= before else after for before, after in pairwise(values)), initial=0.0)
    )


def _meant(key: Series, counted: Counted) -> bool:
    return key.name == counted.name and all(key.label(label) in values for label, values in counted.matching)
