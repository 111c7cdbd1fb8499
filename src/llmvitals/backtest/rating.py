"""How good the alerts are over the lab's incidents: precision, recall and delay of each, and what severe incidents woke.

An alert on a cause is right where the cause is there, one on a symptom where clients were hurt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmvitals.alerts.conditions import Gone
from llmvitals.alerts.holds import replayable
from llmvitals.alerts.model import Alert
from llmvitals.alerts.policy import ALERTS
from llmvitals.backtest.incidents import Fired, Incident
from llmvitals.lab.result import Kind
from llmvitals.lab.stats import Median, Share, median_of

IN_TIME = 300.0
"""Seconds within which who is hurt is to be told of, as the service promises."""

MOST = 2
"""Notifications of one incident that are not too many."""

PROMISES: Mapping[str, str] = {
    "LLMUsersHurt": "late",
    "LLMFirstTokensLate": "ttft",
    "LLMFirstTokensBudget": "ttft",
    "LLMTtftOverTarget": "ttft",
    "LLMTokensSlow": "tpot",
    "LLMTokensBudget": "tpot",
    "LLMAnswersFail": "answers",
    "LLMAnswersBudget": "answers",
    "LLMCallsLost": "answers",
    "LLMMostRefused": "",
}
"""Which broken promise each symptom is about (late: a token of any kind; '': any promise); the others have no recall, and are
right by the same rule.
"""

GONE = frozenset({"not-serving", "vram-headroom", "rollout-and-probes"})
"""Causes with which a target is gone for a while."""


@dataclass(frozen=True, slots=True)
class Rate:
    """One alert. ``right``: of the plays in which it fired, where it should; ``found``: of those where it should have, where it
    did; ``delay``: seconds from the onset to its firing in those, in which it did not fire before.
    """

    alert: str
    severity: str
    right: Share
    found: Share
    delay: Median


@dataclass(frozen=True, slots=True)
class Answer:
    """One incident that hurt clients to its end. ``delay``, ``after``: seconds from the first broken promise and from the onset
    until somebody was woken (None: nobody was); ``leading``: what the page named; ``notifications``: how many there were.
    """

    incident: Incident
    delay: float | None
    after: float | None
    leading: str
    notifications: int

    @property
    def in_time(self) -> bool:
        """Whether somebody was woken within five minutes."""
        return self.delay is not None and self.delay <= IN_TIME

    @property
    def named(self) -> bool:
        """Whether the page names a cause that is there."""
        return self.leading in self.incident.truth

    @property
    def few(self) -> bool:
        """Whether it was told of no more often than is bearable."""
        return self.notifications <= MOST


def rates(incidents: Sequence[Incident]) -> tuple[Rate, ...]:
    """Every alert that a course can answer, over the plays that count."""
    counted = [one for one in incidents if not one.why]
    return tuple(_rate(alert, counted) for alert in ALERTS if replayable(alert.when))


def _rate(alert: Alert, counted: Sequence[Incident]) -> Rate:
    firing = [(one, fired) for one in counted if (fired := _fired(one, alert.name))]
    should = [one for one in counted if _should(alert, one)]
    delays = (_delay(one, alert.name) for one in should)
    return Rate(
        alert.name,
        alert.severity.value,
        Share.of(_right(alert, one, fired) for one, fired in firing),
        Share.of(bool(_fired(one, alert.name)) for one in should),
        median_of(delay for delay in delays if delay is not None),
    )


def _fired(one: Incident, alert: str) -> tuple[Fired, ...]:
    return tuple(fired for fired in one.fired if fired.alert == alert)


def _delay(one: Incident, alert: str) -> float | None:
    """Seconds from the onset; None where it never fired, or before."""
    when = [fired.after for fired in _fired(one, alert)]
    return min(when) if when and min(when) >= 0 else None


def _should(alert: Alert, one: Incident) -> bool:
    if alert.name in PROMISES:
        wanted = {"late": {"ttft", "tpot"}}.get(PROMISES[alert.name], {PROMISES[alert.name]})
        return bool(one.hurt & wanted) and "" in one.hurt
    # a replica without a page is some cause's doing, and no cause of its own
    return alert.cause in one.injected and one.kind is Kind.FAULT and alert.when != Gone()


def _right(alert: Alert, one: Incident, fired: Iterable[Fired]) -> bool:
    """Whether it is true of this incident, and not earlier than it is."""
    if isinstance(alert.when, Gone):
        return bool(GONE & one.truth)
    if alert.cause:
        return alert.cause in one.truth
    early = any(first.after < 0 for first in fired)
    return one.before or (one.broke is not None and not early)


def severe(incidents: Sequence[Incident]) -> tuple[Answer, ...]:
    """Severe incidents that hurt clients until the end."""
    return tuple(_answer(one) for one in _severe(incidents) if one.lasted and one.broke is not None)


def passed(incidents: Sequence[Incident]) -> tuple[Incident, ...]:
    """Severe incidents that hurt clients and were over by themselves: nobody need be woken for what is gone."""
    return tuple(one for one in _severe(incidents) if one.broke is not None and not one.lasted)


def harmless(incidents: Sequence[Incident]) -> tuple[Incident, ...]:
    """Severe hazards that hurt nobody."""
    return tuple(one for one in _severe(incidents) if "" not in one.hurt and one.broke is None)


def well(incidents: Sequence[Incident]) -> tuple[Incident, ...]:
    """Plays with which nothing is wrong, look-alikes among them."""
    return tuple(one for one in incidents if not one.why and not one.truth)


def _severe(incidents: Sequence[Incident]) -> Iterator[Incident]:
    return (one for one in incidents if not one.why and one.severity == "severe")


def _answer(one: Incident) -> Answer:
    assert one.broke is not None
    since = min(one.broke, 0.0)
    pages = [sent for sent in one.pages if sent.until > since]  # what still fires when they are hurt again stands
    first = pages[0] if pages else None
    return Answer(
        one,
        None if first is None else max(0.0, first.after - one.broke),
        None if first is None else first.after,
        "" if first is None else first.leading,
        sum(sent.newest >= since for sent in one.sent),  # what was there before is told of for its own sake
    )
