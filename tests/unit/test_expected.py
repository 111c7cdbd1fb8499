"""What a remedy brings and how to see that it worked: for every cause, with the checks' own limits."""

from __future__ import annotations

import re

import msgspec
import pytest

from llmvitals.settings import Settings, Slo, Thresholds
from llmvitals.signals.catalogue import compute
from llmvitals.triage.checks import BY_CAUSE, CHECKS
from llmvitals.triage.expected import EXPECTED
from llmvitals.triage.judge import finding, judge
from llmvitals.triage.verdict import State
from llmvitals.triage.walk import diagnose
from support.situations import SITUATIONS, kv_full, thrash

SETTINGS = Settings()
SHOWN = {f"{s.cause}: {name}": (s.cause, made) for s in SITUATIONS for name, made in s.shown.items()}


def test_every_cause_has_a_row():
    assert set(EXPECTED) == {check.cause for check in CHECKS}
    assert all(row.effect.endswith(".") for row in EXPECTED.values())


def test_no_row_writes_a_limit_of_its_own():
    """The bounds are the checks': a second copy would be wrong after the next fit."""
    for row in EXPECTED.values():
        assert not re.search(r"\d", (row.effect + row.also).replace("FP8", ""))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.cause)
def test_every_alternative_of_a_check_can_be_verified_by_one_of_its_own_signals(check):
    row = EXPECTED[check.cause]
    for rows in check.when:
        signals = {limit.signal for limit in rows}
        assert signals & {*row.signs} or row.also, f"nothing to watch for {signals}"
    assert set(row.signs) <= {limit.signal for rows in check.when for limit in rows} | {
        "ttft_harm_p",
        "tpot_harm_p",
        "harm_p",
    }


@pytest.mark.parametrize("name", SHOWN)
def test_whatever_fires_says_both(name):
    cause, made = SHOWN[name]
    readings = compute(made(), SETTINGS)
    result = judge(BY_CAUSE[cause], readings, SETTINGS)
    assert result.state is State.FIRING
    action = finding(BY_CAUSE[cause], result, readings, SETTINGS).action
    assert action.effect
    assert re.match(r"Within \d+ min(?: of serving again)?: .+\.$", action.verify)


def test_the_limits_are_those_of_the_settings():
    other = msgspec.structs.replace(SETTINGS, thresholds=Thresholds(preemptions_per_minute=7.0))
    leading = diagnose(thrash(), other).leading
    assert leading is not None
    assert "preemptions per minute at most 7 /min" in leading.action.verify


def test_a_promise_is_told_as_what_was_promised():
    leading = diagnose(kv_full(), msgspec.structs.replace(SETTINGS, slo=Slo(ttft_seconds=0.5, objective=0.9))).leading
    assert leading is not None
    assert "90 % of the first tokens within 500 ms" in leading.action.verify
