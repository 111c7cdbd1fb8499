"""What a verdict could be taken for: only what the checks ruled out, with the row that decides."""

from __future__ import annotations

import pytest

from llmvitals.settings import Settings
from llmvitals.triage.checks import BY_CAUSE, CHECKS
from llmvitals.triage.lookalikes import ALIKE, MOST
from llmvitals.triage.verdict import State
from llmvitals.triage.walk import diagnose, states
from support.made import healthy, run
from support.situations import SITUATIONS, WELL, kv_full, thrash

SETTINGS = Settings()
MADE = {f"{s.cause}: {name}": made for s in SITUATIONS for name, made in (*s.shown.items(), *s.alike.items())} | dict(
    WELL
)


@pytest.mark.parametrize("name", MADE)
def test_a_look_alike_is_neither_named_nor_unknown_and_its_row_says_why(name):
    verdict = diagnose(MADE[name](), SETTINGS)
    named = {f.cause for f in (verdict.leading, *verdict.contributing) if f is not None}
    found = states(verdict)
    assert len(verdict.lookalikes) <= MOST
    for alike in verdict.lookalikes:
        assert alike.cause not in named
        assert found[alike.cause].state in {State.CLEAR, State.SHADOWED}
        assert alike.evidence is not None
        assert alike.evidence.value is not None
        if found[alike.cause].state is State.CLEAR:
            assert alike.evidence in found[alike.cause].evidence
        assert alike.why.startswith(("It shows as well", alike.evidence.title))


def test_a_full_pool_is_no_thrash_and_no_waste_and_says_by_which_number():
    told = {alike.cause: alike.evidence.signal for alike in diagnose(kv_full(), SETTINGS).lookalikes}
    assert told["block-fragmentation"] == "kv_fill_ratio"
    assert told["preemption-thrash"].startswith("preemption")


def test_what_follows_from_the_leading_cause_is_told_with_what_that_shows_beyond_it():
    verdict = diagnose(thrash(), SETTINGS)
    follows = next(alike for alike in verdict.lookalikes if alike.why.startswith("It shows as well"))
    assert states(verdict)[follows.cause].state is State.SHADOWED
    assert "follows from preemption-thrash" in follows.why
    assert follows.evidence.signal.startswith("preemption")
    assert follows.evidence.holds


def test_a_plain_server_looks_like_nothing():
    assert diagnose(run(8, healthy), SETTINGS).lookalikes == ()


def test_every_cause_has_what_it_is_taken_for():
    assert set(ALIKE) == {check.cause for check in CHECKS}
    for cause, others in ALIKE.items():
        assert others
        assert cause not in others
        assert set(others) <= set(BY_CAUSE)
