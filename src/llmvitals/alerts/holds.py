"""A condition answered over a course in memory: what Prometheus would have said of the same pages, at each moment of a replay."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from operator import ge, gt, le, lt

from llmvitals.alerts.budgets import BY_ID, FINISHED, USED, Budget, Counted
from llmvitals.alerts.conditions import (
    Burns,
    Busy,
    Compared,
    Concludes,
    Condition,
    Either,
    Every,
    Fell,
    Fires,
    Gone,
    Hurt,
    Steady,
    Unless,
    Written,
    parts_of,
)
from llmvitals.alerts.counted import EDGE, LOOKBACK, Counters, Growth
from llmvitals.alerts.course import Course, Moment
from llmvitals.alerts.limits import bounded, limit
from llmvitals.alerts.model import GONE_MEMORY, USED_MEMORY
from llmvitals.alerts.names import WINDOW
from llmvitals.schema import BY_NAME
from llmvitals.settings import Burn, Settings, seconds_of
from llmvitals.signals.catalogue import BY_ID as SIGNALS
from llmvitals.triage.verdict import Outcome

_OPS: dict[str, Callable[[float, float], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}
_LATELY = seconds_of(WINDOW)


def replayable(condition: Condition) -> bool:
    """Whether a course of a server can answer it. What is written in PromQL asks of the watching itself."""
    return not any(isinstance(part, Written) for part in parts_of(condition))


class Answers:
    """Every condition at every moment of one course. Each is worked out once, for all moments."""

    def __init__(self, course: Course, settings: Settings) -> None:
        self._course, self._moments, self._settings = course, course.moments, settings
        self._times = [moment.t for moment in course.moments]
        self.over = cache(self._over)
        self.promised = cache(self._promised)

    @cached_property
    def _counters(self) -> Counters:
        return Counters(self._course)

    def holds(self, condition: Condition, at: int, row: Burn | None = None) -> bool:
        """Whether it holds at the moment of this index. ``row``: the one row of the settings that budgets are asked by, None: any.

        Raises ValueError for what is not :func:`replayable`.
        """
        return self.over(condition, row)[at]

    def _over(self, condition: Condition, row: Burn | None = None) -> list[bool]:
        match condition:
            case Fires(cause):
                return self._each(lambda m: cause in m.firing and m.outcome != Outcome.HEALTHY.value)
            case Hurt():
                return self._each(lambda m: m.hurt)
            case Concludes(outcomes):
                return self._each(lambda m: m.outcome in outcomes)
            case Compared(signal, op, bound, factor):
                compare, least = _OPS[op], bounded(self._settings, bound, factor)
                return self._each(lambda m: signal in m.values and compare(m.values[signal], least))
            case Fell(signal, to, ago):
                return self._since(signal, ago, lambda now, then: now < to * then)
            case Steady(signal, within, ago):
                return self._since(signal, ago, lambda now, then: abs(now - then) <= within * then)
            case Burns(budget, severity):
                rows = [row] if row else [one for one in self._settings.alerts.burns if one.severity == severity]
                return self._any(self._burns(BY_ID[budget], one) for one in rows)
            case Busy():
                return [_at_least(grew, self._settings.alerts.least_requests) for grew in self._grown(FINISHED)]
            case Gone(alone):
                return self._alone() if alone else self._each(lambda m: m.named and not m.up)
            case Every(parts):
                return [all(held) for held in zip(*(self.over(part, row) for part in parts), strict=True)]
            case Either(parts):
                return self._any(self.over(part, row) for part in parts)
            case Unless(what, but):
                return [
                    held and not spared for held, spared in zip(self.over(what, row), self.over(but, row), strict=True)
                ]
            case Written():
                raise ValueError("it asks of the watching itself, which no course of a server can answer")

    def _each(self, test: Callable[[Moment], bool]) -> list[bool]:
        return list(map(test, self._moments))

    def _any(self, several: Iterable[list[bool]]) -> list[bool]:
        held = [False] * len(self._moments)
        for one in several:
            held = [before or now for before, now in zip(held, one, strict=True)]
        return held

    def _since(self, signal: str, ago: str, test: Callable[[float, float], bool]) -> list[bool]:
        """A test of a signal over the last minutes and over those that were the last ``ago``."""
        lately = self._newest if SIGNALS[signal].expr is not None else self._mean
        held = []
        for moment in self._moments:
            now, then = lately(signal, moment.t), lately(signal, moment.t - seconds_of(ago))
            held.append(now is not None and then is not None and test(now, then))
        return held

    def _newest(self, signal: str, t: float) -> float | None:
        """The number that is the newest one at this time: what is recorded is of the last minutes."""
        at = bisect_right(self._times, t + EDGE) - 1
        return self._moments[at].values.get(signal) if at >= 0 and t - self._times[at] < LOOKBACK else None

    def _mean(self, signal: str, t: float) -> float | None:
        """The mean of the numbers of the last minutes before this time."""
        start, end = bisect_left(self._times, t - _LATELY - EDGE), bisect_right(self._times, t + EDGE)
        found = [moment.values[signal] for moment in self._moments[start:end] if signal in moment.values]
        return sum(found) / len(found) if found else None

    def _burns(self, budget: Budget, row: Burn) -> list[bool]:
        """Whether it burns as fast as one row says; with labels that have a budget of their own each, for one of them at least."""
        windows = seconds_of(row.long), seconds_of(row.short)
        judged, missed = (
            [self._counters.growth(which, seconds, budget.by) for seconds in windows]
            for which in (budget.judged, budget.missed)
        )
        groups = [group for group in judged[0] if group in missed[0]]
        pairs = {group: [(m[group], j[group]) for m, j in zip(missed, judged, strict=True)] for group in groups}
        return self._any(self._burning(self._limits(budget, group, row), pairs[group]) for group in groups)

    def _burning(self, limits: Growth, windows: list[tuple[Growth, Growth]]) -> list[bool]:
        enough = [_at_least(judged, self._settings.alerts.least_requests) for judged in windows[0][1]]
        if not any(enough):
            return enough
        over = [list(map(_at_least, map(_share, *window), limits)) for window in windows]
        return [all(held) for held in zip(enough, *over, strict=True)]

    def _limits(self, budget: Budget, group: tuple[str, ...], row: Burn) -> Growth:
        """The share of requests that misses where the budget burns so fast, at each moment; None where nothing was promised."""
        if not budget.objective:
            return [limit(row.burn, self._settings.slo.objective)] * len(self._moments)
        own = dict(zip(budget.by, group, strict=True)).__getitem__
        promised = self.promised(budget).get(_told(budget, own), [None] * len(self._moments))
        return [None if one is None else limit(row.burn, one) for one in promised]

    def _promised(self, budget: Budget) -> dict[tuple[str, ...], Growth]:
        """The shares that were promised, as pages said at each moment, by those labels of a budget that they have."""
        found: dict[tuple[str, ...], Growth] = {}
        for at, moment in enumerate(self._moments):
            for key, value in moment.counts.items():
                if key.name == budget.objective:
                    found.setdefault(_told(budget, key.label), [None] * len(self._moments))[at] = value
        return found

    def _grown(self, counter: str) -> Growth:
        """How much a counter grew over the last minutes, at each moment."""
        return self._counters.growth((Counted(counter),), _LATELY).get((), [None] * len(self._moments))

    def _used(self) -> list[bool]:
        """Whether the server was in use when it had a page last: anything grew that grows while it works."""
        memory, last, used = seconds_of(USED_MEMORY), -math.inf, False
        grown = zip(*map(self._grown, USED), strict=True)
        held = []
        for moment, several in zip(self._moments, grown, strict=True):
            known = [grew for grew in several if grew is not None]
            if moment.up and known:
                last, used = moment.t, max(known) > 0
            held.append(used and moment.t - last <= memory + EDGE)
        return held

    def _alone(self) -> list[bool]:
        memory, named = seconds_of(GONE_MEMORY), -math.inf
        held = []
        for moment, used in zip(self._moments, self._used(), strict=True):
            named = moment.t if moment.named else named
            gone = not moment.up and moment.t - named <= memory + EDGE
            held.append(gone and used and not moment.elsewhere)
        return held


def _told(budget: Budget, label: Callable[[str], str]) -> tuple[str, ...]:
    """The values of those labels of a budget that the share that was promised has as well."""
    return tuple(label(name) for name in budget.by if name in BY_NAME[budget.objective].labels)


def _at_least(value: float | None, least: float | None) -> bool:
    return value is not None and least is not None and value >= least


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
