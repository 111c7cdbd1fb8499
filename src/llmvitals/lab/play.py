"""Plays scenarios: two deployments in simulated time, their pages read as any target's, and what the triage says of them.

What clients saw decides whether a scenario counts; the pages decide what the triage can say. They meet in the score.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from llmvitals.lab.base import WARM, Base
from llmvitals.lab.draw import AS_SCORED, Draw, Longer
from llmvitals.lab.machine import Machine
from llmvitals.lab.result import LEVELS, Heard, Kind, Played, heard, level_of, sources_of
from llmvitals.lab.scenario import Pair, Scenario
from llmvitals.lab.scenarios import BY_NAME, SCENARIOS
from llmvitals.lab.tracing import Tracing, sending
from llmvitals.lab.truth import CLEARLY, MET, Count, Facts, facts
from llmvitals.schema import Origin, origin_of
from llmvitals.series import Series, Snapshot, Window
from llmvitals.settings import Settings
from llmvitals.signals.window import scopes
from llmvitals.simulator.live import Live
from llmvitals.simulator.world import World
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.triage.walk import diagnose

ORIGIN = 1_800_000_000.0
"""Unix time of simulated time 0."""

INSTANCE = "replica-0"

READY = 2.0
"""Seconds after its start at which a young process answers its first scrape."""

PER_CAUSE, PER_LOOKALIKE, PER_HEALTHY, PER_COMPOUND = 12, 6, 4, 12
"""Plays of each row at size 1."""

ATTEMPTS = 8
"""Draws of one play until the fault shows and its absence does not; the last one is kept, and said not to count."""

_SHARES = {
    Kind.FAULT: PER_CAUSE,
    Kind.COMPOUND: PER_COMPOUND,
    Kind.LOOKALIKE: PER_LOOKALIKE,
    Kind.HEALTHY: PER_HEALTHY,
}


@dataclass(frozen=True, slots=True)
class Job:
    """One play: a row of the table, a seed, a severity."""

    scenario: str
    seed: int
    number: int
    severity: str = ""


def plan(seed: int, causes: tuple[str, ...] | None = None, size: float = 1.0) -> tuple[Job, ...]:
    """The plays of a score: every row, each severity in turn; only rows that inject or mimic ``causes`` where given."""
    jobs: list[Job] = []
    for row in SCENARIOS:
        if causes is not None and not {*row.causes, row.mimics} & set(causes):
            continue
        times = max(1, round(_SHARES[row.kind] * size))
        graded = row.kind in (Kind.FAULT, Kind.COMPOUND)
        jobs.extend(
            Job(row.name, seed, i, row.severities[i % len(row.severities)] if graded else "clear") for i in range(times)
        )
    return tuple(jobs)


_KINDS = {"vllm-v0": "vllm"}
"""Dialects that one reader reads with those of another name."""


def kind_of(dialect: str) -> str:
    """The kind of target that shows pages of one of the lab's dialects."""
    return _KINDS.get(dialect, dialect)


def watch(job: Job, attempt: int = 0, *, fault: bool = True, longer: Longer = AS_SCORED) -> Run:
    """One draw of a job, watched to its end, or ``longer``; without ``fault`` the same draw in which nothing is wrong."""
    row = BY_NAME[job.scenario]
    draw = Draw(f"{job.seed}/{row.name}/{job.number}/{attempt}", job.severity, longer)
    dialect = draw.one(row.dialects)
    pair = row.draw(draw)
    chance = f"{job.seed}/{job.number}/{attempt}"
    return Run(pair.bad if fault else pair.good, pair, row, dialect, chance, attempt, longer)


def showing(job: Job, longer: Longer = AS_SCORED) -> tuple[Run, str]:
    """The first draw of a job that shows its cause; else the last one, and why it does not count."""
    for attempt in range(ATTEMPTS):
        run = watch(job, attempt, longer=longer)
        why = _why_not(run.row, run.pair, run)
        if not why:
            break
    return run, why


def play(job: Job, telemetry: tuple[str, ...] | None = None) -> Played:
    """Play one job. Pure: the same job gives the same result."""
    shown, why = showing(job)
    row = shown.row
    levels = LEVELS if telemetry is None else (level_of(telemetry),)
    verdicts = tuple((level, heard(diagnose(shown.window(shown.last, level), SETTINGS))) for level in levels)
    course = _course(shown, levels[-1]) if row.causes and not why else _Course(False, "", None)
    return Played(
        scenario=row.name,
        kind=row.kind,
        causes=row.causes,
        mimics=row.mimics,
        severity=job.severity if row.kind in (Kind.FAULT, Kind.COMPOUND) else "",
        engine=shown.dialect,
        interval=shown.base.times.interval,
        seed=job.seed,
        shown_by=row.shown_by,
        verdicts=verdicts,
        delay=course.delay,
        valid=not why,
        why=why,
        known_before=course.known_before,
        first=course.first,
        hurt=shown.hurt,
        truth=row.truth,
        number=job.number,
        attempt=shown.attempt,
    )


SETTINGS = Settings()
"""The triage as it comes: nobody tunes thresholds for the lab."""


@dataclass(frozen=True, slots=True)
class Look:
    """All telemetry of one moment as it came: the engine's page, the GPUs' page, and what was read of the machine, the gateway
    and traces, as canonical samples.
    """

    page: RawPage
    cards: RawPage
    beside: Mapping[Series, float]


class Run:
    """One deployment, watched from its first page to the end of the scenario, or ``longer``.

    ``judged``: seconds up to the last page in which its clients tell the truth: a window, and as much more.
    """

    def __init__(
        self,
        base: Base,
        pair: Pair,
        row: Scenario,
        dialect: str,
        seed: str,
        attempt: int = 0,
        longer: Longer = AS_SCORED,
    ) -> None:
        times = base.times
        self.judged = times.window + longer.fault
        self.base, self.row, self.pair, self.dialect, self.attempt = base, row, pair, dialect, attempt
        traced = sending(dialect, f"{row.name}/{seed}")
        self.live = Live(base.setup, origin=ORIGIN, dialect=dialect, spans=traced)
        self.labels = {"instance": INSTANCE, "model": base.setup.engine.model}
        self._traces = Tracing(self.live, self.labels, SETTINGS) if traced is not None else None
        first = READY if row.young else WARM
        end = times.end + 2 * times.window if row.after else times.onset + row.lasts * times.window + longer.fault
        self.onset = 0.0 if row.young else times.onset
        last = min(end, self.judged) if row.young else end
        self.last = (
            first + int((last - first) / times.interval) * times.interval
        )  # the last page is the newest there is
        self.snapshots: list[Snapshot] = []
        self.looks: list[Look] = []
        before: Count | None = None
        rng = random.Random(seed)
        reader = Ingest(instance=INSTANCE, kind=kind_of(dialect))
        moment = first
        with Machine(self.live, self.labels, seed) as machine:
            while moment <= self.last + 1e-9:
                if before is None and self.last - self.judged <= moment:
                    self.live.advance(ORIGIN + max(0.0, self.last - self.judged))
                    before = Count.of(self.live.world)
                self.snapshots.append(self._look(moment, pair, rng, reader, machine))
                moment += times.interval
        self.live.advance(ORIGIN + self.last)
        assert before is not None
        world, since = self.live.world, max(0.0, self.last - self.judged)
        # what is meant to be well is held to the promise itself, harm to what nobody can mistake
        well = not (row.causes or row.truth)
        self.facts = facts(before, world, since, self.last, margin=1.0 if well else CLEARLY)
        self.hurt = facts(before, world, since, self.last, margin=CLEARLY).hurt

    def _look(self, moment: float, pair: Pair, rng: random.Random, reader: Ingest, machine: Machine) -> Snapshot:
        t = ORIGIN + moment
        answer = self.live.answer_at(t)
        page = (answer.took, answer.status, answer.body)
        if pair.spoil is not None and moment >= pair.spoil.start:
            page = pair.spoil.change(page, t, rng)
        took, status, body = page
        raw = RawPage(t, took, status, body, "" if status else "connection refused")
        seen = machine.look(reader.snapshot(raw), t)
        gateway = self.live.gateway_at(t, self.labels)
        told = self._traces.look(t) if self._traces is not None and seen.joined.samples else {}
        self.looks.append(Look(raw, seen.cards, {**seen.beside, **gateway, **told}))
        return replace(seen.joined, samples={**seen.joined.samples, **gateway, **told})

    def window(self, until: float, level: str, *, start: float | None = None) -> Window:
        """The trailing window at a moment, with the telemetry of a level."""
        since = max(until - self.base.times.window, 0.0) if start is None else start
        traced = {Origin.SPANS} if level == LEVELS[-1] else set()  # beside all other telemetry, where a play has traces
        origins = {Origin(name) for name in sources_of(level)} | {Origin.TARGET} | traced
        kept = [
            replace(s, samples={k: v for k, v in s.samples.items() if shown_by(k) in origins})
            for s in self.snapshots
            if since - 1e-6 <= s.t - ORIGIN <= until + 1e-6
        ]
        ((_, window),) = scopes(kept).items()
        return window

    def moments(self) -> Iterator[float]:
        """Simulated moments of the pages after the onset, while the fault lasts."""
        for snapshot in self.snapshots:
            if self.onset < snapshot.t - ORIGIN <= self.last + 1e-6:
                yield snapshot.t - ORIGIN


def shown_by(key: Series) -> Origin:
    """The source that a sample is from; a gap is of the source of the family that it speaks of."""
    return origin_of(key.label("family") if key.name == "llm_family_gap" else key.name)


def _right(row: Scenario, said: Heard) -> bool:
    return said.leading in row.causes


@dataclass(frozen=True, slots=True)
class _Course:
    """What the triage said while the fault lasted: whether it was right before the onset, the first cause that led after it,
    and scrape intervals from the onset to the first right verdict (None: never).
    """

    known_before: bool
    first: str
    delay: float | None


def _course(run: Run, level: str) -> _Course:
    def said(moment: float) -> Heard:
        return heard(diagnose(run.window(moment, level), SETTINGS))

    earlier = [s.t - ORIGIN for s in run.snapshots if s.t - ORIGIN <= run.onset]
    known = bool(earlier) and _right(run.row, said(earlier[-1]))
    first = ""
    for moment in run.moments():
        verdict = said(moment)
        first = first or verdict.leading
        if _right(run.row, verdict):
            return _Course(known, first, (moment - run.onset) / run.base.times.interval)
    return _Course(known, first, None)


def _why_not(row: Scenario, pair: Pair, run: Run) -> str:
    """Why a play does not count as what it is meant to be; empty where it does."""
    seen = run.facts
    named = row.causes or row.truth
    if not named:
        return "" if seen.bad <= MET else f"it is not well: {seen.bad:.0%} of {seen.calls} calls missed a promise"
    if row.hazard is not None:
        if not row.hazard(seen):
            return "the hazard does not show"
    elif not seen.hurt:
        return f"nobody is hurt: {seen.bad:.0%} of {seen.calls} calls missed a promise"
    if pair.good is pair.bad:
        return ""
    good = _without(pair, run.last, run.judged)
    if row.hazard is not None and row.hazard(good):
        return "the hazard is there without the fault"
    if row.hazard is None and good.bad > MET:
        return f"without the fault {good.bad:.0%} of {good.calls} calls missed a promise"
    return ""


def _without(pair: Pair, until: float, judged: float) -> Facts:
    """The same draw without the fault: only its clients and counters are looked at."""
    start, world = max(0.0, until - judged), World(pair.good.setup)
    world.advance(start)
    before = Count.of(world)
    world.advance(until)
    return facts(before, world, start, until)
