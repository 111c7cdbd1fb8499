"""The limits of the table of checks are pinned: made wrong, they change the verdict on a stored situation.

The situations are readings of played scenarios, of recordings and of made windows, kept by ``tools/store_scenarios.py``; it
writes them anew after the table, the signals or the lab have changed.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import pytest

from llmvitals.signals.catalogue import SIGNALS
from llmvitals.signals.reading import Reading
from llmvitals.triage.checks import BY_CAUSE, CHECKS, HURT
from llmvitals.triage.judge import bound_of, judge
from llmvitals.triage.verdict import State
from llmvitals.triage.walk import diagnose
from support import lab, stored
from support.mutants import SETTINGS, WHOLE, Judged, every, key, mutants, ruled_out, with_wrong

CAUSES = ["", *(check.cause for check in CHECKS)]
AGAIN = f"after a change to the table or the signals, run `{stored.RENEW}`"


@lru_cache(maxsize=1)
def situations() -> tuple[stored.Stored, ...]:
    return stored.read()


@lru_cache(maxsize=1)
def judged() -> tuple[Judged, ...]:
    return tuple(Judged(one.seen) for one in situations())


def test_the_stored_situations_show_every_signal():
    shown = {name for one in situations() for name in one.seen.whole}
    assert shown >= {signal.id for signal in SIGNALS}, AGAIN


def test_the_table_gives_the_stored_verdicts():
    other = [one.source for one, now in zip(situations(), judged(), strict=True) if now.key != one.expected]
    assert not other, f"{AGAIN}: " + "; ".join(other)


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause or "hurt")
def test_a_limit_gone_wrong_changes_a_verdict(cause):
    own = [m for m in mutants() if m.cause == cause]
    unpinned = [m.name for m in own if not any(one.changes(m) for one in judged())]
    assert not unpinned, f"{AGAIN}; nothing pins " + "; ".join(unpinned)


# -- what this rests on ------------------------------------------------------------------------------------------------
def test_every_limit_goes_wrong_in_every_way():
    """Limits of all parts of a check, and of what says who is hurt; those at 0 and those that count have fewer ways."""
    table = mutants()
    places = {(m.cause, m.place) for m in table}
    every = sum(
        sum(map(len, c.when)) + len(c.confirms) + len(c.unless) + (len(c.proof.limits) if c.proof else 0)
        for c in CHECKS
    )
    assert len(places) == every + len(HURT)
    assert {m.how for m in table} == {"inverted", "doubled", "halved"}
    assert Counter(m.how for m in table)["inverted"] == len(places)
    assert all(m.limit != m.wrong for m in table)


def test_what_is_left_out_is_ruled_out_anyway():
    """Where a number between the two bounds rules a check out, it is clear with either, wherever it fires else."""
    left_out = [m for m in every() if ruled_out(m)]
    assert {m.name for m in left_out} == {
        "head-of-line-blocking when.0.0 small_ttft_harm_p < thresholds.harm_p doubled",
        "head-of-line-blocking proof.0 small_ttft_harm_p < thresholds.harm_p doubled",
    }
    for mutant in left_out:
        right = BY_CAUSE[mutant.cause]
        between = Reading(1.5 * min(bound_of(mutant.limit, SETTINGS), bound_of(mutant.wrong, SETTINGS)))
        firing = [
            one.seen.whole for one in situations() if judge(right, one.seen.whole, SETTINGS).state is State.FIRING
        ]
        assert firing
        for whole in firing:
            seen = {**whole, mutant.limit.signal: between}
            states = {judge(check, seen, SETTINGS).state for check in (right, with_wrong(right, mutant))}
            assert states == {State.CLEAR}


def test_what_counts_has_whole_numbers():
    """Their bounds of 1 have no half: nothing lies between."""
    for one in situations():
        for name in WHOLE:
            value = one.seen.whole[name].value
            assert value is None or value == int(value), (one.source, name)


def test_the_short_way_is_the_whole_walk():
    """Judging only the check that has the wrong limit gives what judging all of them gives."""
    table = mutants()
    for at, one in enumerate(judged()[::7]):
        for mutant in table[at % 5 :: 5]:
            assert (one.wrong(mutant, every_check=True) != one.key) == one.changes(mutant), mutant.name


def test_a_walk_over_readings_is_a_walk_over_their_window():
    """What is stored of a window gives the verdict on the window, the parts included that are asked by themselves."""
    for name, window in list(lab.made())[::3]:
        assert Judged(stored.look(window)).key == key(diagnose(window, SETTINGS)), name


def test_what_is_stored_comes_back(tmp_path):
    found = [stored.Stored(name, seen := stored.look(w), Judged(seen).key) for name, w in list(lab.made())[::30]]
    size = stored.write(found, tmp_path / "some.gz")
    back = stored.read(tmp_path / "some.gz")
    assert [one.expected for one in back] == [one.expected for one in found] == [Judged(one.seen).key for one in back]
    assert (tmp_path / "some.gz").stat().st_size == size
    stored.write(found, tmp_path / "again.gz")
    assert (tmp_path / "again.gz").read_bytes() == (tmp_path / "some.gz").read_bytes()
