"""The lab's incidents watched for as long as an alert needs: calm first, then the fault, which stays. Who is told, when, of what?

What clients saw is the truth; the pages are all that the alerts know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from llmvitals.alerts.alertmanager import config
from llmvitals.alerts.budgets import BUDGETS
from llmvitals.alerts.conditions import Fell, Steady, parts_of
from llmvitals.alerts.course import Course, Moment
from llmvitals.alerts.firing import all_episodes, episodes, seconds_of_wait
from llmvitals.alerts.holds import Answers, replayable
from llmvitals.alerts.notify import notices
from llmvitals.alerts.policy import ALERTS, BY_NAME
from llmvitals.backtest.replay import EVERY_SECONDS, courses
from llmvitals.backtest.spread import Spread
from llmvitals.lab.draw import Longer
from llmvitals.lab.play import INSTANCE, ORIGIN, Job, Run, kind_of, plan, showing
from llmvitals.lab.result import Kind
from llmvitals.lab.scenarios import BY_NAME as ROWS
from llmvitals.lab.truth import CLEARLY, Told, beyond_doubt, told
from llmvitals.series import Series
from llmvitals.settings import Settings, seconds_of
from llmvitals.sources import Observed
from llmvitals.triage.checks import BY_CAUSE

LONGER = Longer(calm=300.0, fault=480.0)
"""Seconds. Calm for as long as the window of the fastest page, so that this is not full of the fault alone; and the fault for
so long that who is hurt late can still be told within five minutes.
"""

SHORT_WAIT = "3m"
"""For how long an alert is asked that waits for longer: the fault does not last that long. Its delay has its own wait in it."""

PAST_SECONDS = 3900.0
"""As far back as the longest window of a page reaches, and then some."""

COMPARED = frozenset(
    part.signal for alert in ALERTS for part in parts_of(alert.when) if isinstance(part, Fell | Steady)
)
"""Signals that are compared with themselves, an hour before."""

MENDED = 120.0
"""Seconds without harm that end a spell of it."""

RECENT = 60.0
"""Seconds of clients' answers by which it is told since when they are hurt, and whether they still are."""


@dataclass(frozen=True, slots=True)
class Fired:
    """An alert that fired: when (seconds from the onset, its whole wait in it; under 0: before), and which causes led meanwhile."""

    alert: str
    after: float
    leading: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """A notification that something fires: when, since when the newest of it does and until when the last of it did (seconds
    from the onset), to whom, which alerts, and the cause that it names.
    """

    after: float
    newest: float
    until: float
    receiver: str
    alerts: tuple[str, ...]
    leading: str


@dataclass(frozen=True, slots=True)
class Incident:
    """One play and what became of it. Times are seconds from the onset.

    ``truth``: the causes that are there; ``injected``: those of them that were put there; ``why``: why the play does not count
    ('': it does); ``hurt``: the promises that were broken beyond doubt after the onset (ttft, tpot, answers), and '' for all
    together; ``broke``: when the first promise was broken of the last spell in which clients were hurt (None: there was
    none); ``before``: the usual load hurt them already; ``lasted``: they were still hurt at the end, ``seconds`` after the
    onset.
    """

    scenario: str
    kind: Kind
    severity: str
    seed: int
    number: int
    engine: str
    interval: float
    truth: frozenset[str]
    injected: frozenset[str]
    why: str
    hurt: frozenset[str]
    broke: float | None
    before: bool
    lasted: bool
    seconds: float
    fired: tuple[Fired, ...]
    sent: tuple[Sent, ...]

    @property
    def pages(self) -> tuple[Sent, ...]:
        """What woke somebody."""
        return tuple(one for one in self.sent if one.receiver == PAGER)


PAGER = "pager"
"""The receiver of pages in the example configuration."""


def planned(seed: int, causes: tuple[str, ...] | None = None, size: float = 1.0, severity: str = "") -> tuple[Job, ...]:
    """The plays of the lab, as the score plans them, without those that are judged when their fault is over.

    ``severity``: only faults that are so bad, without look-alikes and healthy ones.
    """
    jobs = (job for job in plan(seed, causes, size) if not ROWS[job.scenario].after)
    return tuple(job for job in jobs if not severity or (ROWS[job.scenario].causes and job.severity == severity))


def watch_all(
    jobs: Sequence[Job],
    settings: Settings,
    *,
    processes: int | None = None,
    on_watched: Callable[[str], None] = lambda _: None,
) -> tuple[Incident, ...]:
    """Watch every job, over all cores unless ``processes`` says otherwise; the same, in the order of the jobs, on however many."""
    found: dict[int, Incident] = {}

    def heard(one: tuple[int, Incident]) -> None:
        found[one[0]] = one[1]
        on_watched(one[1].scenario)

    with Spread[tuple[int, Job, Settings], tuple[int, Incident]](_numbered, heard, processes=processes) as spread:
        for at, job in enumerate(jobs):
            spread.give((at, job, settings), here=len(jobs) == 1)
        spread.finish()
    return tuple(found[at] for at in range(len(jobs)))


def _numbered(given: tuple[int, Job, Settings]) -> tuple[int, Incident]:
    at, job, settings = given
    return at, incident(job, settings)


def incident(job: Job, settings: Settings) -> Incident:
    """Watch one job. Pure: the same job and settings give the same incident."""
    run, why = showing(job, LONGER)
    onset = ORIGIN + run.onset
    (course,) = _courses(run, settings)
    course = course if run.row.young else with_past(course, onset)
    calls = [call for call in told(run.live.world, margin=CLEARLY) if call.t <= run.last]
    hurt = _hurt([call for call in calls if call.t >= run.onset])
    spells = _spells(calls) if "" in hurt else []
    since = spells[-1] if spells else None
    row = run.row
    return Incident(
        scenario=row.name,
        kind=row.kind,
        severity=job.severity if row.kind in (Kind.FAULT, Kind.COMPOUND) else "",
        seed=job.seed,
        number=job.number,
        engine=run.dialect,
        interval=run.base.times.interval,
        truth=frozenset({*row.causes, *row.truth}),
        injected=frozenset(row.causes),
        why=why,
        hurt=hurt,
        broke=None if since is None else since - run.onset,
        before=bool(spells) and spells[0] < run.onset,
        lasted=since is not None and beyond_doubt([call for call in calls if call.t > run.last - 2 * RECENT]),
        seconds=run.last - run.onset,
        fired=tuple(_fired(course, settings, onset)),
        sent=tuple(_sent(course, settings, onset)),
    )


def _courses(run: Run, settings: Settings) -> tuple[Course, ...]:
    pages = tuple(run.snapshots)
    seen = Observed(INSTANCE, kind_of(run.dialect), pages)
    return courses([seen], settings, start=pages[0].t, end=ORIGIN + run.last, processes=1)


def with_past(course: Course, onset: float) -> Course:
    """The course with an hour before it of as many requests as in its calm, none of which missed a promise: so windows of an
    hour are not made of the fault alone.
    """
    calm = [moment for moment in course.moments if moment.t < onset]
    first, last = calm[0], calm[-1]
    seconds = last.t - first.t
    rates = {
        k: 0.0 if _missed(k) else (last.counts[k] - v) / seconds for k, v in first.counts.items() if k in last.counts
    }
    values = {name: value for name, value in first.values.items() if name in COMPARED}
    before = (EVERY_SECONDS * step for step in range(round(PAST_SECONDS / EVERY_SECONDS), 0, -1))
    past = (
        Moment(
            first.t - by,
            outcome="healthy",
            values=values,
            counts={k: first.counts[k] - rate * by for k, rate in rates.items()},
        )
        for by in before
    )
    return replace(course, moments=(*past, *course.moments))


def _missed(key: Series) -> bool:
    """Whether a counter counts what some budget holds for missed."""
    return any(counted.counts(key) for budget in BUDGETS for counted in budget.missed)


def _hurt(calls: Sequence[Told]) -> frozenset[str]:
    """The promises that were broken beyond doubt, each against all calls, and '' for all together."""
    kinds = {call.broke for call in calls} | {""}
    return frozenset(
        kind for kind in kinds if beyond_doubt([Told(c.t, c.broke if kind in ("", c.broke) else "") for c in calls])
    )


def _spells(calls: Sequence[Told]) -> list[float]:
    """For each spell in which clients were hurt, when the first promise of it was broken (simulated seconds)."""
    found: list[float] = []
    start, last = 0, -math.inf
    for at, call in enumerate(calls):
        while calls[start].t <= call.t - RECENT:
            start += 1
        if call.broke and beyond_doubt(calls[start : at + 1]):
            if call.t - last > MENDED:
                found.append(next(one.t for one in calls[start : at + 1] if one.broke))
            last = call.t
    return found


def _fired(course: Course, settings: Settings, onset: float) -> list[Fired]:
    """The first firing of each alert, before the onset and after it; those that wait for long are asked for a part of it."""
    rows = tuple(msgspec.structs.replace(row, wait=_cut(row.wait)[0]) for row in settings.alerts.burns)
    sooner = msgspec.structs.replace(settings, alerts=msgspec.structs.replace(settings.alerts, burns=rows))
    lost = {(row.severity, row.long): _cut(row.wait)[1] for row in settings.alerts.burns}
    answers, found = Answers(course, sooner), dict[tuple[str, bool], Fired]()
    for alert in ALERTS:
        if replayable(alert.when):
            wait, more = _cut(alert.wait)
            for one in episodes(replace(alert, wait=wait), course, sooner, answers):
                after = one.fired - onset + (lost[one.severity, one.window] if one.window else more)
                led = tuple(filter(None, (one.leading, *one.leading_later)))
                found.setdefault((one.alert, one.fired < onset), Fired(one.alert, after, led))
    return sorted(found.values(), key=lambda one: one.after)


def _cut(wait: str) -> tuple[str, float]:
    """A wait that a play is long enough for, and by how many seconds it is shorter."""
    seconds = seconds_of_wait(wait)
    return (SHORT_WAIT, seconds - seconds_of(SHORT_WAIT)) if seconds > seconds_of(SHORT_WAIT) else (wait, 0.0)


def _own(alert: str) -> str:
    """The cause whose runbook an alert opens where none leads, '' for a symptom's own."""
    return BY_NAME[alert].runbook if BY_NAME[alert].runbook in BY_CAUSE else ""


def _sent(course: Course, settings: Settings, onset: float) -> Iterator[Sent]:
    """What people are told while the play lasts, but for what is over."""
    end = course.moments[-1].t
    for one in notices(all_episodes(course, settings), config(settings), until=end):
        if one.kind != "resolved" and one.t <= end:
            # who is woken by several reads them in the order in which they came
            first = sorted(one.episodes, key=lambda e: (e.severity, e.fired))
            led = (e.leading or e.cause or _own(e.alert) for e in first)
            alerts = tuple(dict.fromkeys(e.alert for e in first))
            newest = max(e.fired for e in one.episodes)
            until = max(end if e.ended is None else e.ended for e in one.episodes)
            yield Sent(one.t - onset, newest - onset, until - onset, one.receiver, alerts, next(filter(None, led), ""))
