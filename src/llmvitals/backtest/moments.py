"""The moments of targets that are judged together, from their pages: the work of one process of a replay."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from llmvitals.alerts.budgets import BUDGETS, counted_names
from llmvitals.alerts.course import Moment
from llmvitals.alerts.names import WINDOW
from llmvitals.backtest.wanted import SIGNALS
from llmvitals.series import Series, Snapshot, Window
from llmvitals.settings import Settings, seconds_of
from llmvitals.signals import budget
from llmvitals.signals.context import Context
from llmvitals.signals.evaluate import evaluate
from llmvitals.signals.reading import Reading
from llmvitals.signals.service import answers
from llmvitals.signals.window import Scope, scopes
from llmvitals.sources import Observed
from llmvitals.sources.assemble import is_gpu_only
from llmvitals.triage.report import scope_of
from llmvitals.triage.together import settled
from llmvitals.triage.verdict import State, Verdict
from llmvitals.triage.walk import diagnose_with, states

RECORDED_SECONDS = seconds_of(WINDOW)
"""The range over which rules record what compiles to PromQL, and from which alerts read it."""

_SHOWN = counted_names() - {budget.JUDGED, budget.MISSED}
"""Counters that are on the page itself; the others follow from it, and from what is promised now."""


@dataclass(frozen=True, slots=True)
class Part:
    """Targets that are judged together (a service and its engines, or one target) and the moments (unix seconds) to judge them at.

    ``widths``: how far back the window of each reaches, in seconds.
    """

    observed: tuple[Observed, ...]
    widths: tuple[float, ...]
    moments: tuple[float, ...]
    settings: Settings


def width_of(snapshots: Sequence[Snapshot], settings: Settings) -> float:
    """Seconds that a window reaches back: the exporter's own, or more where pages are scraped so rarely that it would hold too few.

    A page may be nearly an interval old, so that ``min_pages`` of them, first to last, need an interval more: of a server scraped
    every 15 s, five pages within 90 s.
    """
    apart = [after.t - before.t for before, after in pairwise(snapshots)]
    interval = median(apart) if apart else 0.0
    return max(settings.exporter.window_seconds, (settings.thresholds.min_pages + 1) * interval)


def counts_of(page: Snapshot, settings: Settings) -> dict[Series, float]:
    """What alerts count on a page."""
    shown = {key: value for key, value in page.samples.items() if key.name in _SHOWN}
    return shown | budget.counters(page, settings)


def of_scope(counts: Mapping[Series, float], instance: str, model: str) -> dict[Series, float]:
    """The counts of one scope: those with its model, and those of its target that name none."""
    return {k: v for k, v in counts.items() if k.label("instance") == instance and k.label("model") in ("", model)}


def reach(widths: Iterable[float]) -> float:
    """How far before the first moment pages are needed, in seconds."""
    return max((RECORDED_SECONDS, *widths))


@dataclass(frozen=True, slots=True)
class Told:
    """What a part tells. ``moments``: each scope's, at which there was a page within its window, in order of time; whether another
    target serves its model is not known here. ``lacks``: the budgets that its newest page cannot judge, and why.

    A scope without a model is a target that named none in its window.
    """

    moments: dict[Scope, list[Moment]]
    lacks: dict[Scope, dict[str, str]]


def told(part: Part) -> Told:
    """Judge every target at every moment of a part."""
    found = Told({}, {})
    newest: dict[Scope, _Look] = {}
    targets = [_Target(one, width, part.settings) for one, width in _judgeable(part)]
    for t in part.moments:
        looks = [look for target in targets for look in target.looks(t)]
        verdicts = settled([look.verdict for look in looks])
        for look, verdict in zip(looks, verdicts, strict=True):
            found.moments.setdefault(look.scope, []).append(look.moment(t, verdict))
        newest |= {look.scope: look for look in looks if look.up and not look.service}
    for scope, look in newest.items():
        found.lacks[scope] = look.lacks(part.settings)
    return found


def _judgeable(part: Part) -> Iterator[tuple[Observed, float]]:
    for one, width in zip(part.observed, part.widths, strict=True):
        if one.snapshots and not is_gpu_only(one):
            yield one, width


@dataclass(frozen=True, slots=True)
class _Look:
    """One scope at one moment, judged by itself."""

    scope: Scope
    window: Window
    verdict: Verdict
    up: bool
    service: bool
    values: dict[str, float]
    counts: dict[Series, float]

    def lacks(self, settings: Settings) -> dict[str, str]:
        """The budgets that its page does not count for, and why."""
        context = Context(self.window, settings)
        return {
            row.id: context.gap(row.needs).why
            for row in BUDGETS
            if not any(counted.counts(key) for counted in row.judged for key in self.counts)
        }

    def moment(self, t: float, verdict: Verdict) -> Moment:
        """As a moment, with the verdict as it stands beside those of the targets that it is judged with."""
        return Moment(
            t=t,
            up=self.up,
            outcome=verdict.outcome.value,
            hurt=verdict.hurt,
            leading=verdict.leading.cause if verdict.leading is not None else "",
            firing=frozenset(cause for cause, check in states(verdict).items() if check.state is State.FIRING),
            values=self.values,
            counts=self.counts,
        )


class _Target:
    """One target's pages. Where it showed one model throughout they are one scope's; else each window says whose they are."""

    def __init__(self, observed: Observed, width: float, settings: Settings) -> None:
        self._observed, self._width, self._settings = observed, width, settings
        self._times = tuple(page.t for page in observed.snapshots)
        found = scopes(observed.snapshots)
        self._alone = found if len(found) == 1 else {}
        self._counted: tuple[Snapshot, dict[Series, float]] | None = None

    def looks(self, t: float) -> Iterator[_Look]:
        """Every scope that has a page in the window that ends now."""
        pages = self._within(t - self._width, t)
        if not pages:
            return
        engines = self._observed.engines
        # rules sum over a page, so a service's counters are not on it beside those of its engines
        counted = {} if engines else self._counters(pages[-1])
        for (instance, model), window, recorded in self._windows(pages, t):
            verdict, readings = diagnose_with(window, self._settings, scope=scope_of(instance, model, engines))
            yield _Look(
                (instance, model),
                window,
                verdict,
                answers(pages[-1]),
                bool(engines),
                _values(readings, recorded),
                of_scope(counted, instance, model),
            )

    def _within(self, start: float, end: float) -> tuple[Snapshot, ...]:
        return self._observed.snapshots[bisect_left(self._times, start) : bisect_right(self._times, end)]

    def _windows(self, pages: tuple[Snapshot, ...], t: float) -> Iterator[tuple[Scope, Window, Window]]:
        """Each scope with the window of its verdict, and with what rules would have recorded from."""
        long = t - RECORDED_SECONDS
        if self._alone:
            for scope, whole in self._alone.items():
                yield scope, whole.slice(pages[0].t, pages[-1].t), whole.slice(long, t)
            return
        recorded = scopes(self._within(long, t))
        for scope, window in scopes(pages).items():
            yield scope, window, recorded.get(scope, window).slice(long, t)

    def _counters(self, page: Snapshot) -> dict[Series, float]:
        """What alerts count on a page; moments closer than scrapes share it."""
        if self._counted is None or self._counted[0] is not page:
            self._counted = page, counts_of(page, self._settings)
        return self._counted[1]


def _values(readings: Mapping[str, Reading], recorded: Window) -> dict[str, float]:
    """The numbers of signals as alerts read them: recorded by rules where they compile to PromQL, else of the exporter's page."""
    read = ((s.id, evaluate(s.expr, recorded) if s.expr is not None else readings.get(s.id)) for s in SIGNALS)
    return {name: reading.value for name, reading in read if reading is not None and reading.value is not None}
