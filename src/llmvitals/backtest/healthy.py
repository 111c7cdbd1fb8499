"""What the alerts say of a week in which nothing is wrong, through the readers, checks and rules that production uses.

That nothing is wrong is what clients say: of the requests of each hour no more miss their promise than may.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from llmvitals.alerts.alertmanager import config
from llmvitals.alerts.course import Course
from llmvitals.alerts.firing import Episode, all_episodes
from llmvitals.alerts.model import PAGE, TICKET
from llmvitals.alerts.notify import Notice, notices
from llmvitals.backtest.moments import counts_of, of_scope, reach, width_of
from llmvitals.backtest.replay import EVERY_SECONDS, Replay, beside, grid
from llmvitals.backtest.spread import Spread
from llmvitals.backtest.week import HOUR, Served, week
from llmvitals.lab.play import kind_of
from llmvitals.lab.truth import told
from llmvitals.series import Series, Snapshot
from llmvitals.settings import Settings
from llmvitals.signals.service import answers
from llmvitals.simulator.live import Live
from llmvitals.sources import Observed
from llmvitals.telemetry.ingest import Ingest, RawPage

MONDAY = 1_800_230_400.0
"""Unix time at which the week begins: Monday 18 January 2027, 0:00 UTC."""

PAGE_SECONDS = 15.0
"""Between two pages, as Prometheus is usually set."""

WARM = 20.0
"""Seconds before the first page."""

_WITHIN = HOUR - 1e-3
"""To the last moment of an hour: its end is the next one's begin."""


@dataclass(frozen=True, slots=True)
class Hour:
    """What clients of one model got in an hour (``start``: seconds from Monday): calls that ended, and how many broke a promise."""

    model: str
    start: float
    calls: int
    broken: int


@dataclass(frozen=True, slots=True)
class Noise:
    """What came of the week: ``hours`` prove that it was healthy, ``episodes`` are what fired, ``notices`` who was told."""

    days: int
    seed: int
    every: float
    hours: tuple[Hour, ...]
    episodes: tuple[Episode, ...]
    notices: tuple[Notice, ...]
    calls: int
    evaluations: int

    @property
    def pages(self) -> tuple[Episode, ...]:
        """What would have woken somebody."""
        return tuple(one for one in self.episodes if one.severity == PAGE)

    @property
    def tickets(self) -> tuple[Episode, ...]:
        """What would have waited for office hours."""
        return tuple(one for one in self.episodes if one.severity == TICKET)


@dataclass(frozen=True, slots=True)
class _Job:
    """One target, watched for the whole time: what a process does."""

    target: Served
    days: int
    every: float
    judged: float
    settings: Settings


@dataclass(frozen=True, slots=True)
class _Watched:
    """What came of one target."""

    name: str
    courses: tuple[Course, ...]
    hours: tuple[Hour, ...]


def noise(
    seed: int,
    settings: Settings,
    *,
    days: int = 7,
    every: float = EVERY_SECONDS,
    judged: float = 0.0,
    processes: int | None = None,
    on_day: Callable[[str], None] = lambda _: None,
) -> Noise:
    """Watch healthy days, over all cores unless ``processes`` says otherwise: the same seed gives the same, on however many.

    ``every``: seconds between two evaluations of the rules; ``judged``: seconds between two verdicts, where they are to cost less:
    the last one then stands while the counters of requests go on. ``on_day`` hears of each target's days when it is done.
    """
    found: dict[str, _Watched] = {}

    def heard(one: _Watched) -> None:
        found[one.name] = one
        for _ in range(days):
            on_day(one.name)

    targets = week(seed, days)
    with Spread[_Job, _Watched](_watch, heard, processes=processes) as spread:
        for target in targets:
            spread.give(_Job(target, days, every, max(every, judged), settings))
        spread.finish()
    courses = beside([course for target in targets for course in found[target.name].courses])
    fired = tuple(one for course in courses for one in all_episodes(course, settings))
    hours = _together([hour for target in targets for hour in found[target.name].hours])
    return Noise(
        days,
        seed,
        every,
        hours,
        tuple(sorted(fired, key=lambda one: one.fired)),
        notices(fired, config(settings)),
        sum(hour.calls for hour in hours),
        sum(len(course.moments) for course in courses),
    )


def _watch(job: _Job) -> _Watched:
    """One target, hour by hour, so that no more pages than those of an hour are held."""
    live = Live(job.target.setup, origin=MONDAY, dialect=job.target.dialect, coarse=True)
    reader = Ingest(instance=job.target.name, kind=kind_of(job.target.dialect))
    pages: list[Snapshot] = []
    hours: list[Hour] = []
    counted: dict[float, _Counted] = {}
    with Replay(job.settings, processes=1) as replay:
        for start in (HOUR * i for i in range(round(job.days * 24))):
            pages += _pages(live, reader, start)
            hours.append(_hour(job.target.model, live, start))
            end, began = MONDAY + start + _WITHIN, MONDAY + max(start, job.judged)
            back = reach((width_of(pages, job.settings),)) + PAGE_SECONDS + job.judged
            replay.feed([_observed(job.target, pages)], _moving(pages, grid(began, end, job.judged), back))
            counted |= _counters(pages, grid(began, end, job.every), job.settings)
            pages = [page for page in pages if page.t >= MONDAY + start + HOUR - back]
        courses = tuple(_finer(course, counted) for course in replay.courses())
        return _Watched(job.target.name, courses, tuple(hours))


def _moving(pages: Sequence[Snapshot], at: Sequence[float], back: float) -> list[float]:
    """The moments to judge. While all pages that a verdict looks at are the same, it is the one before: at night nothing moves."""
    moved = [MONDAY + WARM, *(one.t for before, one in pairwise(pages) if one.samples != before.samples)]
    return [t for t in at if t == at[0] or bisect_right(moved, t) > bisect_left(moved, t - back)]


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a page says without a verdict: whether it came, and what budgets count on it."""

    up: bool
    counts: Mapping[Series, float]


def _counters(pages: Sequence[Snapshot], at: Sequence[float], settings: Settings) -> dict[float, _Counted]:
    """By moment, what the newest page said."""
    times = [page.t for page in pages]
    newest = ((t, pages[bisect_right(times, t) - 1]) for t in at)
    return {t: _Counted(answers(page), counts_of(page, settings)) for t, page in newest}


def _finer(course: Course, counted: Mapping[float, _Counted]) -> Course:
    """The course with a moment for each that was counted: its verdict is the last one that was made."""
    moments = {moment.t: moment for moment in course.moments}
    last = course.moments[0]
    for t in sorted(t for t in counted if t > last.t):
        last = moments.get(t, last)
        own = of_scope(counted[t].counts, course.instance, course.model)
        moments.setdefault(t, replace(last, t=t, up=counted[t].up, counts=own))
    return replace(course, moments=tuple(moments[t] for t in sorted(moments)))


def _pages(live: Live, reader: Ingest, start: float) -> Iterator[Snapshot]:
    for t in grid(MONDAY + max(start, WARM), MONDAY + start + _WITHIN, PAGE_SECONDS):
        answer = live.answer_at(t)
        failed = "" if answer.status else "connection refused"
        yield reader.snapshot(RawPage(t, answer.took, answer.status, answer.body, failed))


def _observed(target: Served, pages: Sequence[Snapshot]) -> Observed:
    return Observed(target.name, kind_of(target.dialect), tuple(pages))


def _hour(model: str, live: Live, start: float) -> Hour:
    """What clients said in the hour that has passed; it is not kept any longer."""
    live.advance(MONDAY + start + HOUR)
    ended = [call for call in told(live.world) if call.t > start]
    live.world.clients.log.clear()
    return Hour(model, start, len(ended), sum(bool(call.broke) for call in ended))


def _together(hours: Sequence[Hour]) -> tuple[Hour, ...]:
    """The hours of each model, over its replicas: users call a model, not a server."""
    found: dict[tuple[str, float], Hour] = {}
    for one in hours:
        before = found.get((one.model, one.start), Hour(one.model, one.start, 0, 0))
        found[one.model, one.start] = replace(one, calls=before.calls + one.calls, broken=before.broken + one.broken)
    return tuple(found.values())
