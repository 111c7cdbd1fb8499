"""When alerts fire over a course, as Prometheus' rule manager does it: pending, firing after ``for``, kept for
``keep_firing_for``, resolved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from llmvitals.alerts.conditions import Burns, parts_of
from llmvitals.alerts.course import Course
from llmvitals.alerts.holds import Answers, replayable
from llmvitals.alerts.model import Alert
from llmvitals.alerts.policy import ALERTS
from llmvitals.settings import Burn, Settings, seconds_of


@dataclass(frozen=True, slots=True)
class Episode:
    """One firing of an alert for one scope. Times are unix seconds of evaluations.

    ``since``: its condition held from then on; ``fired``: it was told; ``ended``: it was resolved, None: it fired to the
    course's end. ``leading``: the cause that led when it fired ('': none), which its annotation names; ``leading_later``:
    those that led while it fired, in order, since annotations are written anew at each evaluation. ``window``: the longer
    one of the burn row whose rule it is. ``instance`` and ``model`` are '' where the alert does not tell them.
    """

    alert: str
    severity: str
    cause: str
    instance: str
    model: str
    since: float
    fired: float
    ended: float | None
    leading: str = ""
    leading_later: tuple[str, ...] = ()
    window: str = ""

    def fires_at(self, t: float) -> bool:
        """Whether it fires at this moment."""
        return self.fired <= t and (self.ended is None or t < self.ended)


@dataclass(frozen=True, slots=True)
class _Span:
    """Indices of moments: held from, fired, resolved (None: not within the course)."""

    since: int
    fired: int
    ended: int | None


def all_episodes(course: Course, settings: Settings, alerts: Iterable[Alert] = ALERTS) -> tuple[Episode, ...]:
    """Those of every alert that a course can answer, in order of time."""
    answers = Answers(course, settings)
    found = (one for a in alerts if replayable(a.when) for one in episodes(a, course, settings, answers))
    return tuple(sorted(found, key=lambda one: one.fired))


def episodes(alert: Alert, course: Course, settings: Settings, answers: Answers | None = None) -> tuple[Episode, ...]:
    """Those of one alert, in order of time; an alert on a budget has a rule for each row of its severity, and so may fire
    twice at once. ``answers``: of this course and these settings, where they are at hand.

    Raises ValueError for an alert that no course can answer.
    """
    known = answers or Answers(course, settings)
    found = (
        _episode(alert, course, row, span)
        for row in rules_of(alert, settings)
        for span in _spans(
            known.over(alert.when, row),
            [moment.t for moment in course.moments],
            seconds_of_wait(wait_of(alert, row)),
            seconds_of_wait(alert.keep),
        )
    )
    return tuple(sorted(found, key=lambda one: one.fired))


def rules_of(alert: Alert, settings: Settings) -> tuple[Burn | None, ...]:
    """The rows of the settings that an alert has a rule for, each with its own wait; one None for an alert on no budget."""
    severities = {part.severity for part in parts_of(alert.when) if isinstance(part, Burns)}
    return tuple(row for row in settings.alerts.burns if row.severity in severities) if severities else (None,)


def wait_of(alert: Alert, row: Burn | None) -> str:
    """How long a rule must hold: the row's own wait, of an alert on no budget the alert's."""
    return row.wait if row else alert.wait


def seconds_of_wait(duration: str) -> float:
    """Seconds of a rule's ``for`` or ``keep_firing_for``; '' and ``0m`` are none."""
    return 0.0 if duration in ("", "0m", "0s") else seconds_of(duration)


def _spans(held: list[bool], times: list[float], wait: float, keep: float) -> Iterator[_Span]:
    """As ``AlertingRule.Eval`` of Prometheus 2.42 goes: an alert fires at the first evaluation at which it has held for ``wait``,
    and is resolved at the first at which it has not held for ``keep``; what is kept fires on when it holds again.
    """
    since: int | None = None
    fired: int | None = None
    quiet: int | None = None
    for at, (holds, now) in enumerate(zip(held, times, strict=True)):
        if holds:
            since, quiet = at if since is None else since, None
            if fired is None and now - times[since] >= wait:
                fired = at
        elif fired is None:
            since = None
        else:
            quiet = at if quiet is None else quiet
            if now - times[quiet] >= keep:
                yield _Span(since or 0, fired, at)
                since = fired = quiet = None
    if fired is not None:
        yield _Span(since or 0, fired, None)


def _episode(alert: Alert, course: Course, row: Burn | None, span: _Span) -> Episode:
    moments = course.moments
    later = dict.fromkeys(moment.leading for moment in moments[span.fired : span.ended] if moment.leading)
    return Episode(
        alert.name,
        alert.severity.value,
        alert.cause,
        course.instance if "instance" in alert.by else "",
        course.model if "model" in alert.by else "",
        moments[span.since].t,
        moments[span.fired].t,
        None if span.ended is None else moments[span.ended].t,
        moments[span.fired].leading,
        tuple(later),
        row.long if row else "",
    )
