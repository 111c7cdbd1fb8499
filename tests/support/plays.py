"""Plays of the lab as a Prometheus would hold them: all telemetry of each deployment, and what an exporter says of it.

Every play is a server of its own, named after its scenario, and has a model of its own; all begin at :data:`ORIGIN`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from llmvitals.alerts.model import CHECK_STATE
from llmvitals.exporters import promises
from llmvitals.exporters.judge import groups, judge
from llmvitals.exporters.page import Group
from llmvitals.lab.draw import Draw
from llmvitals.lab.play import ORIGIN, Job, Run, watch
from llmvitals.lab.result import Kind
from llmvitals.lab.scenarios import BY_NAME, SCENARIOS
from llmvitals.lab.tracing import sending
from llmvitals.series import Series, Snapshot
from llmvitals.settings import Settings
from llmvitals.triage.verdict import State
from support.prometheus import Points, joined, points_of

SEED, TRIES = 7, 40
DIALECT, SEVERITY = "vllm", "severe"
FAULTS = tuple(row for row in SCENARIOS if row.kind is Kind.FAULT)


def told(scenario: str, before: float = 0.0, *, traced: bool = False) -> Points:
    """A play of a scenario on vLLM, whose page shows the most: the first draw in which the checks of its causes fire.

    ``before``: so many seconds earlier there is the same draw in which nothing is wrong; 0 leaves it out. ``traced``: of the draws
    whose engine and gateway send traces, which most do not.
    """
    for job in jobs(scenario, traced=traced):
        points = played(watch(job), Settings())
        if fired(points) >= set(BY_NAME[scenario].causes):
            return joined([played(watch(job, fault=False), Settings(), shift=-before), points]) if before else points
    raise AssertionError(f"in no play of {scenario} on {DIALECT} its check fires")


def jobs(scenario: str, *, traced: bool = False) -> Iterator[Job]:
    """The draws of a scenario on vLLM; ``traced``: only those whose engine and gateway send traces."""
    row = BY_NAME[scenario]
    for number in range(TRIES * 4 if traced else TRIES):
        on = Draw(f"{SEED}/{row.name}/{number}/0", SEVERITY).one(row.dialects)
        if on == DIALECT and not (traced and sending(DIALECT, f"{row.name}/{SEED}/{number}/0") is None):
            yield Job(scenario, SEED, number, SEVERITY)


def fired(points: Points) -> set[str]:
    """The causes whose checks fire at some moment."""
    states = ((key, samples) for key, samples in points.items() if key.name == CHECK_STATE)
    firing = ((key, samples) for key, samples in states if key.label("state") == State.FIRING.value)
    return {key.label("cause") for key, samples in firing if any(value == 1 for _, value in samples)}


def played(run: Run, settings: Settings, *, shift: float = 0.0) -> Points:
    """Every sample of a play: its snapshots with all that was joined, promises, and from the onset on signals and verdict of the
    window at each page. ``shift``: seconds later than it was.
    """
    snapshots = [_renamed(one, run.row.name, run.labels["model"], shift) for one in run.snapshots]
    shown: list[Snapshot] = []
    for at, newest in enumerate(snapshots):
        samples = {**newest.samples, **_samples(promises.groups([promises.Newest(newest)], settings))}
        if newest.t - shift >= ORIGIN + run.onset:
            window = [one for one in snapshots[: at + 1] if one.t >= newest.t - run.base.times.window - 1e-6]
            judged, _ = judge(window, settings)
            samples |= _samples(groups(judged, run.base.times.window))
        shown.append(replace(newest, samples=samples))
    return points_of(shown)


def _renamed(snapshot: Snapshot, instance: str, model: str, shift: float) -> Snapshot:
    own = {"instance": instance}
    samples = {
        key.plus(**(own | ({"model": f"{model}-{instance}"} if key.label("model") == model else {}))): value
        for key, value in snapshot.samples.items()
    }
    return replace(snapshot, t=snapshot.t + shift, samples=samples)


def _samples(told: Iterable[Group]) -> dict[Series, float]:
    return dict(_each(told))


def _each(told: Iterable[Group]) -> Iterator[tuple[Series, float]]:
    for group in told:
        for labels, value in group.samples.items():
            yield Series(group.name, tuple(sorted(labels))), value
