"""What must not matter does not: names, clocks, neighbours, moments. And what is worse is still called by its name."""

from __future__ import annotations

import pytest

from llmvitals.lab.play import SETTINGS, Job, Run, showing
from llmvitals.lab.result import Kind
from llmvitals.lab.scenarios import BY_NAME, SCENARIOS
from llmvitals.series import Window
from llmvitals.triage.verdict import Verdict
from llmvitals.triage.walk import diagnose
from support.lab import FULL, beside, clock, graded, stretched, told, watched
from support.mutants import key
from support.recordings import LESS, name_of

SEED = 5
GRADED = [row.name for row in SCENARIOS if row.kind is Kind.FAULT and set(row.severities) >= {"clear", "severe"}]


@pytest.fixture(scope="module", params=[row.name for row in SCENARIOS])
def run(request) -> Run:
    row = BY_NAME[request.param]
    return watched(Job(row.name, SEED, 0, "severe" if graded(row.kind) else "clear"))


@pytest.fixture(scope="module")
def window(run) -> Window:
    return run.window(run.last, FULL)


@pytest.fixture(scope="module")
def verdict(window) -> Verdict:
    return diagnose(window, SETTINGS)


@pytest.fixture(scope="module")
def other() -> Window:
    """Another replica, with troubles of its own."""
    run = watched(Job("hardware-error", SEED, 1, "severe"))
    return told(run.window(run.last, FULL), label=lambda name, value: "replica-9" if name == "instance" else value)


MOMENTS = ("start_time_seconds", "started_time_seconds", "ready_time_seconds")
"""How families end whose value is a moment."""

NAMES = {"instance": "10.0.0.7:8000", "model": "meta/other-70b", "gateway": "front", "engine": "served-by"}


def renamed(name: str, value: str) -> str:
    """Other names; tenants and GPUs in another order than before."""
    if name in {"tenant", "gpu", "peer"}:  # a peer is a GPU
        return f"{name.replace('peer', 'gpu')}-{value[::-1]}"
    return NAMES.get(name, value)


def test_other_names_and_more_labels_change_nothing(window, verdict):
    assert key(diagnose(told(window, label=renamed, more={"zone": "b", "pod": "x-1"}), SETTINGS)) == key(verdict)


def test_a_replica_beside_it_changes_nothing(window, verdict, other):
    assert key(diagnose(beside(window, other), SETTINGS)) == key(verdict)


@pytest.mark.parametrize("k", [2.0, 0.5])
def test_another_clock_changes_nothing(window, verdict, k):
    with clock(k) as settings:
        assert key(diagnose(stretched(window, k), settings)) == key(verdict)


def test_another_day_changes_nothing(window, verdict):
    later = 86_400.0 * 365

    def value(series, v):
        return v + later if series.name.endswith(MOMENTS) else v

    assert key(diagnose(told(window, value=value, moment=lambda t: t + later), SETTINGS)) == key(verdict)


@pytest.mark.parametrize("first", [0, 1])
def test_every_second_scrape_says_the_same_or_less(run, window, verdict, first):
    seen = name_of(diagnose(Window.of(window.snapshots[first::2]), SETTINGS))
    assert seen in {name_of(verdict), *run.row.causes, *LESS}


@pytest.mark.parametrize("name", GRADED)
def test_what_is_worse_is_still_called_by_its_name(name):
    """The same draw, clear and severe: where both show the cause and the clear one is told, so is the severe one."""
    row = BY_NAME[name]
    for number in (0, 1):
        clear, severe = (showing(Job(name, SEED, number, severity)) for severity in ("clear", "severe"))
        if any(why for _, why in (clear, severe)):
            continue
        if causes(clear[0]) & set(row.causes):
            assert causes(severe[0]) & set(row.causes), number


def causes(run: Run) -> set[str]:
    """What is named at the end of a play, whether it leads or not."""
    verdict = diagnose(run.window(run.last, FULL), SETTINGS)
    return {name_of(verdict), *(f.cause for f in verdict.contributing)}
