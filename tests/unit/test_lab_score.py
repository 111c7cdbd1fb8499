"""The score's definitions on scenarios made by hand; every expected number is counted out in the test."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from llmvitals.lab.calibration import calibration, suggest
from llmvitals.lab.result import LEVELS, Heard, Kind, level_of, sources_of
from llmvitals.lab.result import heard as hear
from llmvitals.lab.score import score
from llmvitals.triage.calibration import calibrated
from llmvitals.triage.checks import BY_CAUSE
from llmvitals.triage.verdict import Outcome, Verdict
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
    assert found.confusion == {"a + b": {"a": 1, "b": 1, "c": 1}}


def test_a_cause_that_only_comes_with_another_is_told_over_those_compounds():
    plays = [
        played("a", "b", said=heard("a")),
        played("a", "b", said=heard("a", contributing=("b",))),
        played("a", "b", said=heard("b")),
        played("b", "c", said=heard("x", contributing=("c",))),
        played("a", "b", valid=False),
        played("a", said=UNSURE),
    ]
    found = score(plays).by_cause
    assert {cause: one.only_in_compounds for cause, one in found.items()} == {"a": False, "b": True, "c": True}
    b = found["b"]
    assert counted(b.part.top1) == (3, 4)  # either is right
    assert counted(b.part.among) == (2, 4)  # itself: once beside a, once in front
    assert counted(b.led_right) == (1, 1)
    assert b.invalid == 1
    assert (counted(found["c"].part.top1), counted(found["c"].part.among)) == ((0, 1), (1, 1))
    assert counted(found["a"].part.top1) == (0, 1)  # over the play in which it is alone


def test_a_cause_that_was_injected_alone_but_never_showed_is_not_told_over_compounds():
    found = score([played("a", "b", said=heard("a")), played("a", valid=False), played("b", said=heard("b"))]).by_cause
    assert (found["a"].only_in_compounds, counted(found["a"].part.top1), found["a"].invalid) == (False, (0, 0), 1)


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


def test_what_was_known_before_its_onset_has_no_delay():
    def late(delay, **more):
        return played("a", said=heard("a"), severity="severe", delay=delay, **more)

    plays = [late(1.0), late(3.0), late(0.5, known_before=True), late(None, known_before=True)]
    unseen = played("g", shown_by=("nothing",), known_before=True)
    found = score([*plays, unseen, late(0.0, known_before=True, valid=False)])
    assert (found.whole.delay.n, found.whole.delay.value, found.whole.known_before) == (2, 2.0, 2)
    assert (found.by_severity["severe"].delay.value, found.by_cause["a"].part.delay.value) == (2.0, 2.0)
    assert counted(found.whole.top1) == (4, 4)


def test_the_first_cause_named_is_counted_where_any_was():
    plays = [
        played("a", said=heard("a"), severity="severe", first="a"),
        played("a", said=heard("a"), severity="severe", first="b"),
        played("a", said=heard("a"), severity="mild", first=""),
        played("a", "b", severity="mild", first="b"),
        played("g", shown_by=("nothing",), first="a"),
        played("a", first="b", valid=False),
        played(first="a"),
    ]
    found = score(plays)
    assert counted(found.whole.first_right) == (2, 3)
    assert counted(found.by_severity["severe"].first_right) == (1, 2)
    assert counted(found.by_severity["mild"].first_right) == (1, 1)


def test_hurt_clients_whom_nobody_called_for_are_missed_whether_or_not_the_play_counts():
    plays = [
        played("a", hurt=True, valid=False),
        played(mimics="a", hurt=True, said=heard(outcome="no-traffic")),
        played("a", hurt=True, said=UNSURE),
        played("a", hurt=True, said=heard("b"), alone=heard()),
        played("a", hurt=True, said=heard("overloaded-and-shedding", outcome="shedding")),
        played("a"),
        played(),
    ]
    found = score(plays)
    assert counted(found.missed) == (2, 5)
    assert found.silent == (plays[0], plays[1])
    assert found.whole.n == 6


def test_a_look_alike_that_is_another_cause_should_be_called_so():
    like = {"mimics": "a", "truth": ("b", "c")}
    plays = [
        *[played(**like, said=said) for said in (heard("b"), heard("c"), heard("a"), UNSURE)],
        played(**like, said=heard("b"), valid=False),
        played(**like, said=heard("b"), alone=heard("a"), shown_by=("engine", "host")),
        played(mimics="a", said=heard("b")),
    ]
    found = score(plays)
    assert counted(found.whole.lookalike_named) == (3, 5)
    assert counted(found.by_telemetry[LEVELS[0]].part.lookalike_named) == (2, 4)
    # b led rightly on two that are b, and on one in which nothing is wrong
    assert list(found.by_cause) == ["a"]
    assert counted(found.by_cause["a"].led_right) == (0, 1)
    assert counted(score([*plays, played("b", said=heard("b"))]).by_cause["b"].led_right) == (3, 4)


def test_intervals_by_row_are_wider_where_rows_stand_or_fall_as_one():
    plays = [played("a", row=row, said=heard("a" if right else "x")) for row, right in (("r", True), ("s", False))] * 10
    found = score([*plays, *[played(row="calm")] * 9])
    assert found.by_row == {"top1": (0.0, 1.0), "false_cause": None}
    assert found.whole.top1.interval == pytest.approx((0.30, 0.70), abs=0.005)


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
    # b led on a, on b, on its look-alike and on a healthy one; a once on itself, once where nothing is wrong
    assert counted(found.by_cause["b"].led_right) == (1, 4)
    assert counted(found.by_cause["a"].led_right) == (1, 2)
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


def test_a_look_alike_is_rightly_called_by_what_it_is_and_by_nothing_where_nothing_is_wrong():
    really_b = [played(mimics="a", truth=("b",), said=heard(cause)) for cause in "abc"]
    found = calibration([*really_b, played(mimics="a", said=heard("b")), played(mimics="a", said=heard("a"))])
    assert {c: counted(one.right) for c, one in found.by_cause.items()} == {"a": (0, 2), "b": (1, 2), "c": (0, 1)}


def test_a_verdict_of_shedding_is_as_sure_as_its_check(monkeypatch):
    row = replace(BY_CAUSE["overloaded-and-shedding"], confidence=0.61)
    monkeypatch.setitem(BY_CAUSE, row.cause, row)
    verdict = Verdict(Outcome.SHEDDING, "Load is refused.", None, (), (), ())
    assert hear(verdict) == Heard("shedding", "overloaded-and-shedding", calibrated(0.61))


def test_each_cause_gets_the_share_that_its_lead_was_right_and_a_rising_map():
    plays = [*stating(0.6, 1, 1), *stating(0.7, 1, 3), *stating(0.9, 3, 0), played("b", said=heard("b", 0.5))]
    found = calibration(plays)
    assert {cause: counted(share) for cause, share in suggest(plays).items()} == {"a": (5, 9), "b": (1, 1)}
    assert found.fitted["a"] == ((0.6, 1 / 3), (0.7, 1 / 3), (0.9, 1.0))
    assert found.by_cause["a"].mean == pytest.approx((2 * 0.6 + 4 * 0.7 + 3 * 0.9) / 9)
