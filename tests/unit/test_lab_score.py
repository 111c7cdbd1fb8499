"""The score's definitions on scenarios made by hand; every expected number is counted out in the test."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from llmvitals.lab.calibration import calibration, suggest
from llmvitals.lab.result import LEVELS, Kind, level_of, sources_of
from llmvitals.lab.score import score
from support.played import FULL, UNSURE, heard, played


def counted(share) -> tuple[int, int]:
    return share.hits, share.n


def test_levels_are_keyed_in_one_order():
    assert LEVELS == ("engine", "engine+gpu", "engine+gpu+host", "engine+gpu+host+gateway")
    assert level_of({"gateway", "engine"}) == "engine+gateway"
    assert sources_of("engine+gateway") == {"engine", "gateway"}
    assert sources_of("") == frozenset()


def test_the_leading_cause_counts_and_nothing_else():
    found = score(
        [
            played("a", said=heard("a")),
            played("a", said=heard("b", contributing=("a",))),
            played("a", said=UNSURE),
            played("a", said=heard()),
        ]
    ).whole
    assert counted(found.top1) == (1, 4)
    assert counted(found.among) == (2, 4)
    assert counted(found.wrong_cause) == (1, 4)
    assert counted(found.abstained) == (1, 4)
    assert counted(found.false_cause) == (0, 0)


def test_either_cause_of_a_compound_is_right():
    found = score([played("a", "b", said=heard(c)) for c in "abc"])
    assert counted(found.whole.top1) == (2, 3)
    assert counted(found.by_kind[Kind.COMPOUND].top1) == (2, 3)
    assert found.by_cause == {}
    assert found.confusion == {"a + b": {"a": 1, "b": 1, "c": 1}}


def test_any_cause_is_false_on_a_healthy_one_and_only_the_mimicked_one_on_a_look_alike():
    found = score(
        [
            played(),
            played(said=heard("a")),
            played(said=heard(outcome="shedding", contributing=("a",))),
            played(mimics="a", said=heard("a")),
            played(mimics="a", said=heard("b")),
            played(mimics="a", said=UNSURE),
        ]
    )
    assert counted(found.whole.false_cause) == (2, 6)
    assert counted(found.by_kind[Kind.HEALTHY].false_cause) == (1, 3)
    assert counted(found.by_kind[Kind.LOOKALIKE].false_cause) == (1, 3)
    assert counted(found.by_kind[Kind.LOOKALIKE].abstained) == (1, 3)
    assert counted(found.whole.top1) == (0, 0)
    assert [(one.kind, one.mimics) for one in found.wrong] == [(Kind.HEALTHY, ""), (Kind.LOOKALIKE, "a")]


def test_what_does_not_show_its_cause_counts_nowhere_but_is_told():
    found = score(
        [played("a", said=heard("a")), played("a", valid=False, why="the SLO holds"), played("z", valid=False)]
    )
    assert (found.played, found.whole.n) == (3, 1)
    assert counted(found.whole.top1) == (1, 1)
    assert [one.why for one in found.invalid] == ["the SLO holds", ""]
    assert {cause: one.invalid for cause, one in found.by_cause.items()} == {"a": 1, "z": 1}
    assert found.by_cause["z"].part.top1.value is None


def test_a_cause_is_scored_where_it_can_be_seen():
    found = score(
        [
            played("a", said=heard("a"), alone=heard("a")),
            played("g", said=heard("g"), alone=UNSURE, shown_by=("engine", "gpu")),
            played("g", said=heard("g"), alone=heard("a"), shown_by=("gpu",)),
            played("h", said=heard("h"), alone=heard("h"), shown_by=("host",)),
            played(said=heard(), alone=heard("a")),
        ]
    )
    alone, full = found.by_telemetry[LEVELS[0]], found.by_telemetry[FULL]
    assert list(found.by_telemetry) == [LEVELS[0], FULL]
    assert counted(alone.part.top1) == (1, 1)
    assert counted(alone.part.false_cause) == (1, 1)
    assert counted(alone.part.abstained) == (1, 5)
    assert counted(alone.blind_abstained) == (1, 3)
    assert counted(alone.blind_wrong_cause) == (1, 3)
    assert counted(full.part.top1) == counted(found.whole.top1) == (4, 4)
    assert counted(full.blind_abstained) == (0, 0)
    assert counted(found.whole.false_cause) == (0, 1)
    assert counted(found.by_cause["g"].engine_only) == (0, 0)
    assert found.wrong == ()


def test_a_look_alike_counts_where_something_tells_it_from_what_it_mimics():
    like = {"mimics": "a", "shown_by": ("engine", "host")}
    found = score(
        [
            played(**like, said=heard("b"), alone=heard("a")),
            played(**like, said=heard("a"), alone=heard("a")),
            played(mimics="a", said=heard(), alone=heard("a")),
            played(said=heard(), alone=heard("b")),
        ]
    )
    alone, full = found.by_telemetry[LEVELS[0]].part, found.by_telemetry[FULL].part
    assert (counted(alone.false_cause), alone.untold) == ((2, 2), 2)
    assert (
        (counted(full.false_cause), full.untold)
        == (counted(found.whole.false_cause), found.whole.untold)
        == ((1, 4), 0)
    )
    assert len(found.wrong) == 1


def test_a_look_alike_that_nothing_tells_is_not_wrong_where_no_more_is_looked_at():
    (one,) = [played(mimics="a", shown_by=("engine", "host"), said=heard("a"))]
    alone = replace(one, verdicts=one.verdicts[:1])
    found = score([alone])
    assert (counted(found.whole.false_cause), found.whole.untold, found.wrong) == ((0, 0), 1, ())


def test_causes_with_too_few_valid_plays_are_told_and_compounds_show_both():
    plays = [*[played("a", said=heard("a"))] * 9, played("a", "b"), *[played("b")] * 8, played("c", valid=False)]
    found = score(plays)
    assert found.shows == {"a": 10, "b": 9, "c": 0}
    assert found.few == {"b": 9, "c": 0}


def test_the_delay_is_a_median_over_what_has_a_cause():
    plays = [
        played("a", said=heard("a"), severity=s, delay=d) for s, d in [("severe", 1.0), ("severe", 2.0), ("mild", 7.0)]
    ]
    found = score([*plays, played("a", severity="mild"), played(), played(mimics="a")])
    assert found.whole.delay.value == 4.5  # 1, 2, 7, never
    assert found.by_severity["severe"].delay.value == 1.5
    assert found.by_severity["mild"].delay.value == math.inf
    assert list(found.by_severity) == ["mild", "severe"]


def test_parts_by_cause_engine_and_interval():
    found = score(
        [
            played("a", said=heard("a"), engine="sglang", interval=15.0),
            played("a", said=heard("b"), interval=5.0),
            played("b", said=heard("b"), interval=15.0),
            played(mimics="b", said=heard("b"), interval=60.0),
            played(mimics="b", said=heard("a"), interval=60.0),
            played(said=heard("b"), interval=60.0),
        ]
    )
    assert counted(found.by_cause["a"].part.top1) == (1, 2)
    assert counted(found.by_cause["b"].part.top1) == (1, 1)
    assert counted(found.by_cause["b"].part.false_cause) == (1, 2)
    # b led on a, on b, on its look-alike and on a healthy one; a's lead on a look-alike of b is nobody's fault
    assert counted(found.by_cause["b"].led_right) == (1, 4)
    assert counted(found.by_cause["a"].led_right) == (1, 1)
    assert {engine: part.n for engine, part in found.by_engine.items()} == {"sglang": 1, "vllm": 5}
    assert counted(found.by_engine["vllm"].top1) == (1, 2)
    assert {seconds: part.n for seconds, part in found.by_interval.items()} == {5.0: 1, 15.0: 2, 60.0: 3}
    assert list(found.by_interval) == [5.0, 15.0, 60.0]
    assert found.confusion["like b"] == {"b": 1, "a": 1}
    assert found.confusion["a"] == {"a": 1, "b": 1}


def test_nothing_played_is_no_share():
    found = score([])
    assert found.whole.top1.value is None
    assert found.by_telemetry == {}


# -- calibration --------------------------------------------------------------------------------------------------------
def stating(confidence: float, right: int, wrong: int) -> list:
    return [played("a", said=heard("a", confidence))] * right + [played("b", said=heard("a", confidence))] * wrong


def test_bins_hold_what_was_stated_and_what_was_right():
    found = calibration([*stating(0.8, 3, 1), *stating(0.84, 1, 1), *stating(1.0, 1, 0), *stating(0.1 + 0.7, 0, 1)])
    (eighties, top) = found.bins
    assert (eighties.low, eighties.high, counted(eighties.right)) == (0.8, 0.9, (4, 7))
    assert eighties.mean == pytest.approx((5 * 0.8 + 2 * 0.84) / 7)
    assert (top.low, top.high, counted(top.right)) == (0.9, 1.0, (1, 1))


@pytest.mark.parametrize(
    ("right", "wrong", "ok"),
    [
        (40, 10, True),
        (30, 20, False),  # Wilson: 0.46 to 0.72, below 0.8
        (30, 19, True),  # 49 verdicts are too few to say
        (49, 1, False),  # 0.90 to 1.00, above 0.8
    ],
)
def test_a_bin_with_fifty_verdicts_is_held_to_its_mean(right, wrong, ok):
    assert calibration(stating(0.8, right, wrong)).ok is ok


def test_only_a_leading_cause_states_a_confidence_and_only_valid_ones_count():
    plays = [played("a", said=UNSURE), played("a"), played("a", said=heard("a"), valid=False), played(said=heard("a"))]
    (only,) = calibration(plays).bins
    assert counted(only.right) == (0, 1)


def test_a_look_alike_called_by_a_third_name_proves_nothing():
    found = calibration([played(mimics="a", said=heard("b")), played(mimics="a", said=heard("a"))])
    assert found.unknown == 1
    assert counted(found.by_cause["a"].right) == (0, 1)
    assert list(found.by_cause) == ["a"]


def test_each_cause_gets_the_share_that_its_lead_was_right_and_a_rising_map():
    plays = [*stating(0.6, 1, 1), *stating(0.7, 1, 3), *stating(0.9, 3, 0), played("b", said=heard("b", 0.5))]
    found = calibration(plays)
    assert {cause: counted(share) for cause, share in suggest(plays).items()} == {"a": (5, 9), "b": (1, 1)}
    assert found.fitted["a"] == ((0.6, 1 / 3), (0.7, 1 / 3), (0.9, 1.0))
    assert found.by_cause["a"].mean == pytest.approx((2 * 0.6 + 4 * 0.7 + 3 * 0.9) / 9)
