"""What a replay comes to: which alerts would have fired, which causes were named, who would have been told how often, how soon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from llmvitals.alerts.alertmanager import config
from llmvitals.alerts.budgets import BY_ID
from llmvitals.alerts.course import Course
from llmvitals.alerts.firing import Episode, all_episodes
from llmvitals.alerts.holds import replayable
from llmvitals.alerts.model import PAGE
from llmvitals.alerts.notify import Notice, notices
from llmvitals.alerts.policy import ALERTS, KEEP
from llmvitals.backtest.replay import EVERY_SECONDS
from llmvitals.settings import Settings, seconds_of
from llmvitals.signals.window import Scope

DAY_SECONDS = 86_400.0
"""A range shorter than that, with one shape of the day left out, says nothing of a week."""

WEEK_SECONDS = 7 * DAY_SECONDS

SAME_INCIDENT = seconds_of(KEEP)
"""Hurt that comes back within so many seconds is the same incident, as it is for the alerts on it."""


@dataclass(frozen=True, slots=True)
class Fired:
    """One alert over the range. ``seconds``: for how long it fired, over all scopes; ``leading``: causes that led as it fired."""

    alert: str
    severity: str
    episodes: int
    seconds: float
    leading: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What one receiver is sent because something fires; what is resolved wakes nobody and is left out. ``per_week``: None where
    the range is too short to say.
    """

    receiver: str
    notices: int
    per_week: float | None


@dataclass(frozen=True, slots=True)
class Named:
    """A cause that led: for what share of the time in which there was a verdict, and for how many scopes."""

    cause: str
    share: float
    scopes: int


@dataclass(frozen=True, slots=True)
class Incident:
    """Users of a scope were hurt from ``start`` to ``end`` (unix seconds). ``paged``: seconds until somebody was woken, or None.

    ``causes``: those that led meanwhile, the longest first.
    """

    instance: str
    model: str
    start: float
    end: float
    paged: float | None
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unhurt:
    """A page in whose time no verdict said that users were hurt: what stops answering measures nobody, the rest is noise."""

    alert: str
    instance: str
    model: str
    fired: float
    leading: str


@dataclass(frozen=True, slots=True)
class Blind:
    """A budget that a scope cannot be judged by: the family that its page lacks, and why."""

    instance: str
    model: str
    budget: str
    family: str
    why: str


@dataclass(frozen=True, slots=True)
class Summary:
    """A replay from ``start`` to ``end`` (unix seconds), a moment every ``every`` seconds.

    ``scopes``: number of them; ``verdicts``: moments that were judged, over all scopes; ``left_out``: alerts on the watching
    itself, which a replay of servers cannot answer.
    """

    start: float
    end: float
    every: float
    scopes: int
    verdicts: int
    alerts: tuple[Fired, ...]
    told: tuple[Told, ...]
    causes: tuple[Named, ...]
    incidents: tuple[Incident, ...]
    unhurt: tuple[Unhurt, ...]
    left_out: tuple[str, ...]
    blind: tuple[Blind, ...]

    def per_week(self, count: int) -> float | None:
        """As many a week as ``count`` in this range; None where it is too short to say."""
        return _per_week(count, self.end - self.start)

    @property
    def delays(self) -> tuple[float, ...]:
        """Seconds from the first hurt to the page, of the incidents that were paged, in order of size."""
        return tuple(sorted(one.paged for one in self.incidents if one.paged is not None))

    @property
    def median_delay(self) -> float | None:
        """The median of :attr:`delays`; None without any."""
        return median(self.delays) if self.delays else None


def summary(
    courses: Sequence[Course],
    settings: Settings,
    *,
    start: float,
    end: float,
    every: float = EVERY_SECONDS,
    lacks: Mapping[Scope, Mapping[str, str]] | None = None,
) -> Summary:
    """Sum up what the alerts would have done over courses. ``lacks``: of each scope, the budgets that its page cannot count."""
    episodes = tuple(one for course in courses for one in all_episodes(course, settings))
    pages = tuple(one for one in episodes if one.severity == PAGE)
    example = config(settings)
    sent = notices(episodes, example, until=end)
    incidents = tuple(one for course in courses for one in _incidents(course, pages))
    return Summary(
        start,
        end,
        every,
        len(courses),
        _verdicts(courses),
        tuple(_fired(episodes, end)),
        tuple(_told(sent, example, end - start)),
        tuple(_named(courses)),
        tuple(sorted(incidents, key=lambda one: (one.start, one.instance, one.model))),
        tuple(_unhurt(pages, courses, end)),
        tuple(row.name for row in ALERTS if not replayable(row.when)),
        tuple(
            Blind(*scope, BY_ID[budget].title, BY_ID[budget].needs, why)
            for scope, own in (lacks or {}).items()
            for budget, why in own.items()
        ),
    )


def _fired(episodes: Sequence[Episode], end: float) -> Iterator[Fired]:
    """Pages first, then what fired longest."""
    own: dict[str, list[Episode]] = {}
    for one in episodes:
        own.setdefault(one.alert, []).append(one)
    rows = [
        Fired(
            alert,
            several[0].severity,
            len(several),
            sum((end if one.ended is None else one.ended) - one.fired for one in several),
            tuple(cause for cause, _ in Counter(one.leading for one in several if one.leading).most_common()),
        )
        for alert, several in own.items()
    ]
    yield from sorted(rows, key=lambda row: (row.severity != PAGE, -row.seconds, row.alert))


def _verdicts(courses: Sequence[Course]) -> int:
    return sum(bool(moment.outcome) for course in courses for moment in course.moments)


def _per_week(count: int, seconds: float) -> float | None:
    return None if seconds < DAY_SECONDS else count * WEEK_SECONDS / seconds


def _told(sent: Iterable[Notice], example: Mapping[str, Any], seconds: float) -> Iterator[Told]:
    counts = Counter(one.receiver for one in sent if one.kind != "resolved")
    for receiver in (one["name"] for one in example["receivers"]):
        yield Told(receiver, counts[receiver], _per_week(counts[receiver], seconds))


def _named(courses: Sequence[Course]) -> Iterator[Named]:
    led = Counter(moment.leading for course in courses for moment in course.moments if moment.leading)
    where: dict[str, set[Scope]] = {}
    for course in courses:
        for moment in course.moments:
            where.setdefault(moment.leading, set()).add((course.instance, course.model))
    judged = _verdicts(courses)
    for cause, moments in led.most_common():
        yield Named(cause, moments / judged, len(where[cause]))


def _incidents(course: Course, pages: Sequence[Episode]) -> Iterator[Incident]:
    hurt = [moment for moment in course.moments if moment.hurt]
    runs: list[list[int]] = []
    for at, moment in enumerate(hurt):
        if runs and moment.t - hurt[runs[-1][-1]].t <= SAME_INCIDENT:
            runs[-1].append(at)
        else:
            runs.append([at])
    for run in runs:
        start, end = hurt[run[0]].t, hurt[run[-1]].t
        causes = Counter(hurt[at].leading for at in run if hurt[at].leading)
        woken = [
            max(0.0, one.fired - start)
            for one in pages
            if _about(one, course) and one.fired <= end + SAME_INCIDENT and (one.ended is None or one.ended > start)
        ]
        named = tuple(cause for cause, _ in causes.most_common())
        yield Incident(course.instance, course.model, start, end, min(woken, default=None), named)


def _unhurt(pages: Sequence[Episode], courses: Sequence[Course], end: float) -> Iterator[Unhurt]:
    for one in sorted(pages, key=lambda page: page.fired):
        until = end if one.ended is None else one.ended
        hurt = any(
            moment.hurt
            for course in courses
            if _about(one, course)
            for moment in course.moments
            if one.since - SAME_INCIDENT <= moment.t <= until
        )
        if not hurt:
            yield Unhurt(one.alert, one.instance, one.model, one.fired, one.leading)


def _about(one: Episode, course: Course) -> bool:
    """Whether an alert is about a scope; one that names no model is about all of its target."""
    return one.instance == course.instance and one.model in ("", course.model)
