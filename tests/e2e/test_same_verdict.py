"""Every scenario of the lab through three doors: the exporter that judges live, the app and the command line over what a Prometheus
stored of it, and both over that exporter. For the same moment they give the same verdict.

One Prometheus holds all plays, each a server of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from llmvitals.app.ask import Failure, ask
from llmvitals.cli import main
from llmvitals.exporters.judge import groups, judge
from llmvitals.lab.play import Job, watch
from llmvitals.lab.result import Kind
from llmvitals.lab.scenarios import SCENARIOS
from llmvitals.series import Series, Snapshot
from llmvitals.settings import Exporter, Settings, Source
from llmvitals.sources.exporter import SIGNATURE
from llmvitals.triage.document import decode
from llmvitals.triage.report import document
from llmvitals.triage.verdict import Verdict
from support.fake_exporter import FakeExporter
from support.prometheus import PrometheusServer, points_of, prometheus_of
from support.prometheus import joined as merged

pytestmark = pytest.mark.prometheus
SEED = 7
ROWS = tuple(SCENARIOS)
HALF = 0.5
"""Of an interval: a window ends there between two pages, so that none lies on its edge."""

CLOSE = 1e-3
"""Relative: a Prometheus keeps milliseconds."""


@dataclass(frozen=True)
class Shown:
    """One play as the exporter judged it at its last page, at the moment ``at`` (unix seconds), over ``window`` seconds."""

    verdict: Verdict
    at: float
    window: float

    @property
    def settings(self) -> Settings:
        """Those of whoever looks at it."""
        return Settings(exporter=Exporter(window_seconds=self.window))


@dataclass(frozen=True)
class World:
    """All plays by scenario, the Prometheus that holds them, and an exporter that says what it said."""

    shown: dict[str, Shown]
    server: PrometheusServer
    exporter: FakeExporter


def played(name: str) -> tuple[Shown, dict[Series, list[tuple[int, float]]]]:
    """One play, and all that its exporter's pages said in the window before its end, the verdict with the last."""
    row = next(row for row in ROWS if row.name == name)
    run = watch(Job(name, SEED, 0, row.severities[0] if row.kind in (Kind.FAULT, Kind.COMPOUND) else "clear"))
    times = run.base.times
    window = times.window + HALF * times.interval
    pages = [named(page, name) for page in run.snapshots]
    at = pages[-1].t
    kept = [page for page in pages if page.t >= at - window]
    settings = Settings(exporter=Exporter(window_seconds=window))
    judged, _ = judge(kept, settings)
    (scoped,) = judged
    assert scoped.verdict is not None
    told = {
        Series(group.name, tuple(sorted(labels))): [(round(at * 1000), value)]
        for group in groups(judged, window)
        for labels, value in group.samples.items()
    }
    return Shown(scoped.verdict, at, window), merged([points_of(kept), told])


def named(page: Snapshot, name: str) -> Snapshot:
    """A page of the server of that name, at a moment that a Prometheus can keep."""
    return replace(
        page, t=round(page.t, 3), samples={key.plus(instance=name): value for key, value in page.samples.items()}
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    plays = {row.name: played(row.name) for row in ROWS}
    shown = {name: one for name, (one, _) in plays.items()}
    points = merged([told for _, told in plays.values()])
    exporter = FakeExporter()
    exporter.answers["/metrics"] = (200, SIGNATURE + b"} 1\n")
    exporter.answers["/triage"] = document([one.verdict for one in shown.values()])
    try:
        with prometheus_of(tmp_path_factory.mktemp("lab"), points) as server:
            del points
            yield World(shown, server, exporter)
    finally:
        exporter.close()


def by_name(found: dict[str, Any]) -> dict[str, Verdict]:
    """A document's verdicts by the name of their target."""
    return {one["name"]: decode(one["detail"], place="test") for one in found["targets"]}


def said(verdict: Verdict) -> dict[str, Any]:
    """All of a verdict that is a word: no other moment, no other number can change it unseen."""
    return {
        "outcome": verdict.outcome,
        "leading": verdict.leading and (verdict.leading.cause, verdict.leading.action.setting),
        "contributing": [found.cause for found in verdict.contributing],
        "states": {check.cause: check.state for step in verdict.steps for check in step.checks},
        "hurt": verdict.hurt,
        "binds": verdict.binding.resource,
        "blind": [spot.what for spot in verdict.blind],
        "changes": [(change.signal, change.outcome, change.cause) for change in verdict.changes],
        "lookalikes": [one.cause for one in verdict.lookalikes],
    }


def numbers(verdict: Verdict) -> dict[str, float]:
    """The numbers that a finding rests on; a gap is none, and must be one for everybody."""
    leading = verdict.leading
    if leading is None:
        return {}
    told = {"confidence": leading.confidence, "setting": leading.action.value}
    return {
        name: value
        for name, value in (told | {e.signal: e.value for e in leading.evidence}).items()
        if value is not None
    }


def same(found: Verdict, expected: Verdict) -> None:
    assert said(found) == said(expected)
    assert numbers(found) == pytest.approx(numbers(expected), rel=CLOSE)


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_app_and_command_line_say_what_the_exporter_said(world, name, capsys):
    shown = world.shown[name]
    source = Source(name="prometheus", url=world.server.url, kind="prometheus")
    answer = ask(source, {"instance": name, "model": ""}, shown.at, shown.settings)
    assert not isinstance(answer, Failure), answer
    same(answer.verdict, shown.verdict)
    narrow = ["--selector", f'{{instance="{name}"}}', "--at", f"{shown.at:.3f}", "--for", f"{shown.window:g}s"]
    with pytest.raises(SystemExit):
        main(["triage", "--prometheus", world.server.url, *narrow, "--json"])
    (found,) = by_name(json.loads(capsys.readouterr().out)).values()
    same(found, shown.verdict)


def test_the_command_line_over_the_exporter_says_what_the_exporter_said(world, capsys):
    with pytest.raises(SystemExit):
        main(["triage", world.exporter.url, "--json"])
    listed = by_name(json.loads(capsys.readouterr().out))
    assert listed.keys() == world.shown.keys()
    for name, found in listed.items():
        same(found, world.shown[name].verdict)


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_the_app_over_the_exporter_says_what_the_exporter_said(world, name):
    answer = ask(Source(name="x", url=world.exporter.url), {"instance": name, "model": ""}, None, Settings())
    assert not isinstance(answer, Failure), answer
    same(answer.verdict, world.shown[name].verdict)
    assert {member.instance for member in answer.members} == set(world.shown)


def test_the_scenarios_are_not_all_one(world):
    outcomes = {one.verdict.outcome for one in world.shown.values()}
    causes = {one.verdict.leading.cause for one in world.shown.values() if one.verdict.leading}
    assert len(outcomes) >= 4
    assert len(causes) >= 25
