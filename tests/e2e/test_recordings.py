"""Every recording gives its verdict through three ways: itself, the exporter fed by a replay, and a real Prometheus.

The committed recordings are thinned real ones, so that every clone proves the walk; the full ones run where they are.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from llmvitals.alerts.rules import files
from llmvitals.exporters.cycle import replay, replay_last
from llmvitals.exporters.judge import Scoped
from llmvitals.exporters.page import recording
from llmvitals.series import Series, Snapshot, Window
from llmvitals.settings import Exporter, Settings, Target
from llmvitals.signals.catalogue import BY_ID, compute
from llmvitals.signals.context import Context
from llmvitals.signals.evaluate import evaluate
from llmvitals.signals.window import scopes
from llmvitals.sources.capture import raw, read_capture
from llmvitals.sources.promql import read_prometheus
from llmvitals.triage.walk import diagnose
from support.prometheus import PrometheusServer, load_blocks
from support.recordings import EXPECTED, LESS, MENTIONED, cuts, name_of, only_scope

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures"
COMMITTED = sorted(p.name for p in FIXTURES.iterdir())
SETTINGS = Settings()
LONG = msgspec.structs.replace(SETTINGS, exporter=Exporter(window_seconds=600.0))


def committed_expectation(name: str) -> str:
    """What a committed recording must give: its own leading cause, or its outcome where none leads."""
    expected = json.loads((FIXTURES / name / "about.json").read_text(encoding="utf-8"))["expected"]
    return str(expected["leading"] or expected["verdict"])


def served(folder: Path) -> Scoped:
    """What the exporter publishes after it took the recording in, page by page, over its whole length."""
    (target,) = raw(folder)
    cycle = replay_last(target.pages, LONG, target=Target(url="http://replayed", name=target.name, kind=target.kind))
    (scope,) = cycle.scopes
    return scope


# -- the recording itself ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", COMMITTED)
def test_a_committed_recording_gives_its_verdict(name, ran_recording):
    _, window = only_scope(FIXTURES / name)
    ran_recording(FIXTURES / name)
    assert name_of(diagnose(window, SETTINGS)) == committed_expectation(name)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_full_recording_gives_its_verdict(name, shared, ran_recording):
    folder = shared / "captures" / name
    _, window = only_scope(folder)
    ran_recording(folder)
    verdict = diagnose(window, SETTINGS)
    assert name_of(verdict) in EXPECTED[name]
    if name in MENTIONED and name_of(verdict) != MENTIONED[name]:
        assert MENTIONED[name] in {f.cause for f in verdict.contributing}


@pytest.mark.parametrize("name", EXPECTED)
def test_less_of_a_recording_never_gives_another_cause(name, shared):
    _, window = only_scope(shared / "captures" / name)
    for cut, part in cuts(window):
        found = name_of(diagnose(part, SETTINGS))
        allowed = (*EXPECTED[name], *LESS) if cut == "middle two thirds" else EXPECTED[name]
        assert found in allowed, cut


@pytest.mark.parametrize("name", EXPECTED)
def test_names_and_times_do_not_matter(name, shared):
    (scope, window) = only_scope(shared / "captures" / name)
    moved = Window.of(_renamed(s, shift=86_400.0 * 365) for s in window.snapshots)
    before, after = diagnose(window, SETTINGS), diagnose(moved, SETTINGS)
    assert (before.outcome, before.leading and before.leading.cause) == (
        after.outcome,
        after.leading and after.leading.cause,
    )
    assert scope[0] == "vllm-0"


def _renamed(snapshot: Snapshot, *, shift: float) -> Snapshot:
    """The same page of another server, model and day."""
    new = {"instance": "10.1.2.3:9000", "model": "someone/else-70b"}
    samples = {}
    for key, value in snapshot.samples.items():
        labels = tuple((k, new.get(k, v)) for k, v in key.labels)
        moved = value + shift if key.name == "llm_process_start_time_seconds" else value
        samples[Series(key.name, labels)] = moved
    return Snapshot(snapshot.t + shift, samples, snapshot.detail)


# -- the exporter, on the recording's own clock -------------------------------------------------------------------------
@pytest.mark.parametrize("name", COMMITTED)
def test_the_exporter_says_the_same_of_a_committed_recording(name):
    verdict = served(FIXTURES / name).verdict
    assert verdict is not None
    assert name_of(verdict) == committed_expectation(name)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_exporter_says_the_same_of_a_full_recording(name, shared):
    folder = shared / "captures" / name
    _, window = only_scope(folder)
    start = time.process_time()
    scoped = served(folder)
    assert time.process_time() - start < 5.0, "a replay must not wait in real time"
    assert scoped.verdict is not None
    assert name_of(scoped.verdict) == name_of(diagnose(window, SETTINGS))
    assert scoped.readings == compute(window, SETTINGS)


def test_the_exporter_publishes_after_each_page():
    (target,) = raw(FIXTURES / "kv-preemption")
    named = Target(url="http://replayed", name=target.name, kind=target.kind)
    cycles = list(replay(target.pages, LONG, target=named))
    assert len(cycles) == len(target.pages)
    assert b'llm_triage_leading{cause="preemption-thrash"' in cycles[-1].page


# -- a real Prometheus with the recording rules --------------------------------------------------------------------------
def _all_recordings(folders: list[Path]) -> Iterator[tuple[str, Snapshot]]:
    for folder in folders:
        for observed in read_capture(folder):
            for snapshot in observed.snapshots:
                yield folder.name, snapshot


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory) -> Iterator[tuple[PrometheusServer, dict[str, Window]]]:
    """A Prometheus that holds every recording as the exporter would have shown it, each under its own instance."""
    full = Path(os.environ.get("LLMVITALS_SHARED") or FIXTURES.parents[2].parent / "shared") / "captures"
    folders = sorted(full.iterdir()) if full.is_dir() else []
    folders = [f for f in folders if f.name in EXPECTED] or [FIXTURES / n for n in COMMITTED]
    snapshots = [_as_instance(s, name) for name, s in _all_recordings(folders)]
    root = tmp_path_factory.mktemp("prometheus")
    load_blocks([recording(snapshots).decode()], root / "data")
    rules = root / "rules.yaml"
    rules.write_text(files()["alerts/llmvitals-recording.yaml"], encoding="utf-8")
    windows = {scope[0]: window for scope, window in scopes(snapshots).items()}
    with PrometheusServer(root, rules=[rules]) as server:
        yield server, windows


def _as_instance(snapshot: Snapshot, name: str) -> Snapshot:
    samples = {
        Series(k.name, tuple((n, name if n == "instance" else v) for n, v in k.labels)): v
        for k, v in snapshot.samples.items()
    }
    # Prometheus stores milliseconds
    return Snapshot(round(snapshot.t, 3), samples, snapshot.detail)


@pytest.mark.prometheus
def test_prometheus_gives_every_recording_the_same_verdict(prometheus):
    server, windows = prometheus
    different = {}
    for name, window in windows.items():
        observed = read_prometheus(
            server.url, selector=f'{{instance="{name}"}}', at=window.end, seconds=window.seconds + 0.01
        )
        ((_, found),) = scopes(s for o in observed for s in o.snapshots).items()
        mine, theirs = diagnose(window, SETTINGS), diagnose(found, SETTINGS)
        if (mine.outcome, mine.leading and mine.leading.cause) != (
            theirs.outcome,
            theirs.leading and theirs.leading.cause,
        ):
            different[name] = (name_of(mine), name_of(theirs))
    assert not different
    assert len(windows) in {len(EXPECTED), len(COMMITTED)}


@pytest.mark.prometheus
def test_every_recording_rule_equals_the_signal_at_the_end_of_every_recording(prometheus):
    server, windows = prometheus
    groups = yaml.safe_load(files()["alerts/llmvitals-recording.yaml"])["groups"]
    rules = [rule for group in groups if group["name"] == "llmvitals-signals" for rule in group["rules"]]
    assert len(rules) >= 30
    compared = 0
    for name, window in windows.items():
        last = Context(window.slice(window.end - 60.0, window.end), SETTINGS).window
        for rule in rules:
            signal = BY_ID[rule["record"].split(":")[1]]
            assert signal.expr is not None
            mine = evaluate(signal.expr, last)
            found = server.query(rule["expr"].replace("[5m]", "[1m]"), at=window.end)  # recordings are of minutes
            theirs = [v for labels, v in found if labels.get("instance") == name]
            if mine.value is None:
                assert theirs == [], (name, rule["record"], mine.gap)
            else:
                assert theirs == [pytest.approx(mine.value, rel=1e-6, abs=1e-9)], (name, rule["record"])
                compared += 1
    assert compared >= 20 * len(windows) / 2
