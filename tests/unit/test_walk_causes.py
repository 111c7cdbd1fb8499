"""Every cause that a page can show: a window that shows it is named so, and those that look like it are not."""

from __future__ import annotations

import pytest

from llmvitals.settings import Settings
from llmvitals.signals.catalogue import compute
from llmvitals.triage.checks import BY_CAUSE, CHECKS
from llmvitals.triage.judge import proved, weigh
from llmvitals.triage.verdict import Outcome, State
from llmvitals.triage.walk import diagnose, states
from support.recordings import name_of
from support.situations import SITUATIONS, WELL

SETTINGS = Settings()
NAMES = {"overloaded-and-shedding": "shedding"}
SHOWN = [(s.cause, name) for s in SITUATIONS for name in s.shown]
ALIKE = [(s.cause, name) for s in SITUATIONS for name in s.alike]
BY = {s.cause: s for s in SITUATIONS}


@pytest.mark.parametrize(("cause", "name"), SHOWN)
def test_a_window_that_shows_a_cause_is_called_by_its_name(cause, name):
    verdict = diagnose(BY[cause].shown[name](), SETTINGS)
    check = BY_CAUSE[cause]
    if check.leads or cause in NAMES or proved(check, states(verdict)[cause]):
        assert name_of(verdict) == NAMES.get(cause, cause), verdict.sentence
    else:
        assert cause in {f.cause for f in verdict.contributing}
        assert verdict.leading is not None
    assert states(verdict)[cause].state is State.FIRING


@pytest.mark.parametrize(("cause", "name"), ALIKE)
def test_a_look_alike_is_not_called_by_its_name(cause, name):
    verdict = diagnose(BY[cause].alike[name](), SETTINGS)
    assert name_of(verdict) != NAMES.get(cause, cause)
    assert cause not in {f.cause for f in verdict.contributing}


@pytest.mark.parametrize("name", WELL)
def test_where_nobody_is_hurt_nothing_is_wrong(name):
    verdict = diagnose(WELL[name](), SETTINGS)
    assert verdict.outcome is Outcome.HEALTHY, verdict.sentence


def test_every_cause_with_conditions_is_shown_and_has_a_look_alike():
    with_conditions = {check.cause for check in CHECKS if check.when}
    assert {s.cause for s in SITUATIONS} == with_conditions
    assert all(s.shown and s.alike for s in SITUATIONS)


def test_every_alternative_of_every_check_is_shown_by_some_window():
    """An alternative that no window meets could be dropped or broken without anybody noticing."""
    met: set[tuple[str, int]] = set()
    for situation in SITUATIONS:
        check = BY_CAUSE[situation.cause]
        for made in situation.shown.values():
            readings = compute(made(), SETTINGS)
            for i, limits in enumerate(check.when):
                if all(weigh(limit, readings, SETTINGS).holds for limit in limits):
                    met.add((check.cause, i))
    unmet = {(c.cause, i) for c in CHECKS for i in range(len(c.when))} - met
    assert not unmet
