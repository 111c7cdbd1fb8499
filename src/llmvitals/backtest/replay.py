"""What a triage would have said at every moment of a past: pages of targets become courses, which alerts are asked over."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from llmvitals.alerts.course import Course, Moment
from llmvitals.backtest.moments import Part, Told, reach, told, width_of
from llmvitals.backtest.spread import Spread
from llmvitals.settings import Settings
from llmvitals.signals.window import Scope
from llmvitals.sources import Observed

EVERY_SECONDS = 30.0
"""The evaluation interval of the generated rules."""

VERDICTS_PER_PART, LEAST_MOMENTS = 100, 10
"""What travels to a process together: a second of work, and so many moments that the pages before the first one weigh little."""

WORTH_A_PROCESS = 400
"""Verdicts (some 10 ms each) from which on it pays to start processes."""


def grid(start: float, end: float, every: float = EVERY_SECONDS) -> tuple[float, ...]:
    """The moments (unix seconds) from ``start`` up to ``end`` at which rules are evaluated."""
    steps = math.floor((end - start) / every + 1e-9)
    return tuple(start + i * every for i in range(steps + 1))


def courses(
    observed: Sequence[Observed],
    settings: Settings,
    *,
    start: float,
    end: float,
    every: float = EVERY_SECONDS,
    on_step: Callable[[], None] = lambda: None,
    processes: int | None = None,
) -> tuple[Course, ...]:
    """The course of each scope from ``start`` to ``end`` (unix seconds), a moment every ``every`` seconds.

    ``observed``: targets as a triage judges them, services and gateways joined (:func:`llmvitals.sources.assemble.joined`), with
    what pages there are of the minutes before ``start``; ``on_step`` hears of each moment of the grid once all were judged at
    it. ``processes``: one per core by default, 1 works in this process.
    """
    with Replay(settings, on_step=on_step, processes=processes) as replay:
        replay.feed(observed, grid(start, end, every))
        return replay.courses()


class Replay:
    """A replay that is fed piece by piece, so that no more pages than those of a piece are ever held.

    Use it as a context: it may have started processes.
    """

    def __init__(
        self, settings: Settings, *, on_step: Callable[[], None] = lambda: None, processes: int | None = None
    ) -> None:
        self._settings, self._on_step = settings, on_step
        self._spread = Spread[Part, tuple[int, Told]](_judge, self._heard, processes=processes)
        self._found: dict[Scope, list[Moment]] = {}
        self._lacks: dict[Scope, dict[str, str]] = {}
        self._services: set[str] = set()
        self._grid: list[float] = []
        self._verdicts = 0

    def feed(self, observed: Sequence[Observed], at: Sequence[float]) -> None:
        """Judge these moments (unix seconds), whose windows the pages of these targets hold. Moments come in order of time."""
        self._grid.extend(at)
        self._services.update(one.name for one in observed if one.engines)
        self._verdicts += len(observed) * len(at)
        widths = tuple(width_of(one.snapshots, self._settings) for one in observed)
        times = [[page.t for page in one.snapshots] for one in observed]
        size = max(LEAST_MOMENTS, VERDICTS_PER_PART // max(1, len(observed)))
        for first in range(0, len(at), size):
            some = tuple(at[first : first + size])
            needed = some[0] - reach(widths), some[-1]
            cut = tuple(_cut(one, own, *needed) for one, own in zip(observed, times, strict=True))
            self._spread.give(Part(cut, widths, some, self._settings), here=self._verdicts < WORTH_A_PROCESS)

    def courses(self) -> tuple[Course, ...]:
        """The course of each scope, in the order of their names; one begins where its scope was first seen."""
        self._spread.finish()
        found = _named(self._found)
        own = (Course(*scope, tuple(self._whole(found[scope]))) for scope in sorted(found) if found[scope])
        return beside(tuple(own), self._services)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spread.__exit__(kind, error, trace)

    def lacks(self) -> dict[Scope, dict[str, str]]:
        """Of each scope, the budgets (by id) that it could not be judged by at any time, and why."""
        return {scope: dict(why) for scope, why in sorted(self._lacks.items()) if why}

    def _heard(self, judged: tuple[int, Told]) -> None:
        steps, found = judged
        for scope, several in found.moments.items():
            self._found.setdefault(scope, []).extend(several)
        for scope, why in found.lacks.items():
            before = self._lacks.get(scope, why)
            self._lacks[scope] = {budget: reason for budget, reason in before.items() if budget in why}
        for _ in range(steps):
            self._on_step()

    def _whole(self, seen: Sequence[Moment]) -> Iterator[Moment]:
        """A scope's moments on the grid, from the first at which it was seen; where it has no page, no exporter would know it."""
        by_time = {moment.t: moment for moment in seen}
        for t in self._grid[bisect_left(self._grid, seen[0].t) :]:
            yield by_time.get(t) or Moment(t, up=False, named=False)


def _judge(part: Part) -> tuple[int, Told]:
    return len(part.moments), told(part)


def _cut(one: Observed, times: Sequence[float], start: float, end: float) -> Observed:
    return replace(one, snapshots=one.snapshots[bisect_left(times, start) : bisect_right(times, end)])


def _named(found: Mapping[Scope, Sequence[Moment]]) -> dict[Scope, list[Moment]]:
    """Each scope's moments in order of time. While a target names no model (it answers nobody), it is each of those that it had."""
    models: dict[str, list[str]] = {}
    for instance, model in found:
        models.setdefault(instance, []).append(model)
    whole: dict[Scope, list[Moment]] = {}
    for (instance, model), several in found.items():
        for name in [model] if model else [other for other in models[instance] if other] or [""]:
            whole.setdefault((instance, name), []).extend(several)
    return {scope: sorted(several, key=lambda moment: moment.t) for scope, several in whole.items()}


def beside(several: Sequence[Course], services: Collection[str] = ()) -> tuple[Course, ...]:
    """The courses of targets that serve side by side: whether another one that is up serves a model is known now.

    ``services``: the names among them that are engines once more, and stand in for none.
    """
    up: dict[tuple[str, float], set[str]] = {}
    for course in several:
        for moment in course.moments if course.model and course.instance not in services else ():
            if moment.up:
                up.setdefault((course.model, moment.t), set()).add(course.instance)
    return tuple(replace(one, moments=tuple(_elsewhere(one, up))) for one in several)


def _elsewhere(course: Course, up: Mapping[tuple[str, float], set[str]]) -> Iterator[Moment]:
    for moment in course.moments:
        others = up.get((course.model, moment.t), set()) - {course.instance}
        yield replace(moment, elsewhere=bool(others))
