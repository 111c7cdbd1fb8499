"""What would change a verdict: every change that is told is what the walk gives, and what is well is left alone."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from llmvitals.settings import Settings
from llmvitals.signals.catalogue import compute
from llmvitals.triage.changes import LEAST_OF, MOST_TOLD, MOST_TRIED, Standpoint, changes, distance
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.judge import OPS, judge
from llmvitals.triage.verdict import Outcome
from llmvitals.triage.walk import diagnose_readings, diagnose_with
from support.situations import SITUATIONS, WELL, batch_too_small, idle, kv_full, thrash

SETTINGS = Settings()
SHOWN = {f"{s.cause}: {name}": made for s in SITUATIONS for name, made in s.shown.items()}
LINKED = {*LEAST_OF, *(part for parts in LEAST_OF.values() for part in parts)}


def beyond(op: str, bound: float) -> float:
    return {"<": math.nextafter(bound, -math.inf), ">": math.nextafter(bound, math.inf)}.get(op, bound)


@pytest.mark.parametrize("name", SHOWN)
def test_every_change_is_what_the_walk_gives_with_that_number(name):
    """By the public entry for readings, which knows nothing of how changes are found."""
    verdict, readings = diagnose_with(SHOWN[name](), SETTINGS)
    if "several phases" in verdict.sentence:
        readings = None  # the part that decided has readings of its own
    assert len(verdict.changes) <= MOST_TOLD
    now = (verdict.outcome.value, verdict.leading.cause if verdict.leading else "")
    for change in verdict.changes:
        assert (change.outcome, change.cause) != now
        assert not OPS[change.op](change.value, change.bound), "it is there already"
        if readings is None or change.signal in LINKED:
            continue
        moved = replace(readings[change.signal], value=beyond(change.op, change.bound))
        then = diagnose_readings({**readings, change.signal: moved}, SETTINGS)
        assert (then.outcome.value, then.leading.cause if then.leading else "") == (change.outcome, change.cause)


def test_enough_causes_say_what_would_change_them():
    """Some are named at once whatever else holds; most are not."""
    told = [name for name, made in SHOWN.items() if diagnose_with(made(), SETTINGS)[0].changes]
    assert len(told) > len(SHOWN) * 0.8


def test_a_promise_that_would_be_kept_is_kept_by_all_its_parts():
    """The least of two chances moves with the one that it is, so that no verdict is told on half a promise."""
    verdict, readings = diagnose_with(SHOWN["block-fragmentation: large blocks"](), SETTINGS)
    assert readings["harm_p"].value == readings["ttft_harm_p"].value < 0.01
    kept = next(c for c in verdict.changes if c.signal == "ttft_harm_p")
    assert (kept.op, kept.bound, kept.outcome) == (">=", 0.01, "healthy")


def test_a_chance_comes_after_what_can_be_measured():
    verdict, _ = diagnose_with(kv_full(), SETTINGS)
    units = [c.unit for c in verdict.changes]
    assert units == sorted(units, key=lambda unit: unit == "probability")
    far = [distance(c.value, c.bound) for c in verdict.changes if c.unit != "probability"]
    assert far == sorted(far)


def test_thrash_at_the_edge_says_how_near_the_edge_is():
    verdict, _ = diagnose_with(thrash(), SETTINGS)
    assert verdict.changes[0].cause != "preemption-thrash"
    assert any(c.signal.startswith("preemption") and c.op in {"<", "<="} for c in verdict.changes)


@pytest.mark.parametrize("name", WELL)
def test_what_is_well_and_far_from_ill_is_not_walked_again(name):
    readings = compute(WELL[name](), SETTINGS)
    results = {check.cause: judge(check, readings, SETTINGS) for check in CHECKS}
    asked = []

    def again(other, moved):
        asked.append(moved)
        return Outcome.HEALTHY, ""

    assert changes(Standpoint(Outcome.HEALTHY, "", results, readings, SETTINGS), again) == ()
    assert len(asked) <= 2


def test_walks_are_bounded_whatever_the_verdict():
    readings = compute(batch_too_small(), SETTINGS)
    results = {check.cause: judge(check, readings, SETTINGS) for check in CHECKS}
    asked = []

    def again(other, moved):
        asked.append(moved)
        return Outcome.UNDETERMINED, f"cause {len(asked)}"

    for outcome, cause in ((Outcome.CAUSE, "batch-too-small"), (Outcome.UNDETERMINED, "")):
        asked.clear()
        changes(Standpoint(outcome, cause, results, readings, SETTINGS), again)
        assert len(asked) <= MOST_TRIED


def test_without_traffic_there_is_nothing_to_change():
    assert diagnose_with(idle(), SETTINGS)[0].changes == ()
