"""Since when: the moment from which a check holds without an end, and what is said where that was not seen."""

from __future__ import annotations

import json

import pytest

from llmvitals.errors import PageError
from llmvitals.triage.course import MOST_RUNS, Course, began, course, decode, encode, extended
from llmvitals.triage.verdict import Action, CheckResult, Finding, Outcome, State, Step, Verdict

WINDOW = 60.0
LETTERS = {"F": State.FIRING, "c": State.CLEAR, "?": State.UNKNOWN, "s": State.SHADOWED, "-": State.NOT_APPLICABLE}


def told(state: State) -> Verdict:
    fires = state is State.FIRING
    leading = Finding("x", 0.9, (), Action("Do it."), "runbooks/x.md") if fires else None
    step = Step(1, "", (CheckResult("x", state, (), ""), CheckResult("y", State.CLEAR, (), "")))
    return Verdict(Outcome.CAUSE if fires else Outcome.HEALTHY, "", leading, (), (step,), ())


def played(letters: str, every: float = 10.0) -> Course:
    """A course from one letter per moment, ``every`` seconds from 1000 on."""
    found = course(((1000.0 + i * every, told(LETTERS[x])) for i, x in enumerate(letters)), WINDOW)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("letters", "at", "before", "after", "broken"),
    [
        ("cccFFF", 1030.0, False, "clear", 0),
        ("FFFF", 1000.0, True, "", 0),
        ("??FF", 1020.0, False, "unknown", 0),
        ("ccssFF", 1020.0, False, "clear", 0),  # it held already, and another explained it
        ("ccFFcFF", 1020.0, False, "clear", 1),  # a moment's pause is shorter than the window that it is told from
        ("ccFc?FcF", 1020.0, False, "clear", 2),
        ("cFFcccccccFF", 1100.0, False, "clear", 0),  # a window and more without it was an end
        ("FcFF", 1000.0, True, "", 1),
    ],
)
def test_it_began_where_it_last_did_not_hold_for_a_window(letters, at, before, after, broken):
    found = began(played(letters))["x"]
    assert (found.t, found.before, found.after, found.broken) == (at, before, after, broken)


@pytest.mark.parametrize("letters", ["FFc", "FF?", "ccc", "FF-"])
def test_what_does_not_hold_now_did_not_begin(letters):
    assert began(played(letters)) == {}


def test_a_course_says_what_was_named_and_when():
    found = played("ccFFc")
    assert (found.start, found.end, found.seconds) == (1000.0, 1040.0, WINDOW)
    assert found.states["x"] == ((1000.0, "clear"), (1020.0, "firing"), (1040.0, "clear"))
    assert found.states["y"] == ((1000.0, "clear"),)
    assert found.outcomes == ((1000.0, "healthy"), (1020.0, "cause"), (1040.0, "healthy"))
    assert found.leading == ((1000.0, ""), (1020.0, "x"), (1040.0, ""))


def test_what_flutters_is_bounded_and_its_beginning_is_then_not_known():
    found = played("cF" * 100)
    assert len(found.states["x"]) == MOST_RUNS
    assert began(found)["x"].before


def test_a_quiet_moment_costs_nothing_but_its_time():
    first = played("cc")
    assert extended(first, 2000.0, told(State.CLEAR), WINDOW).states is first.states


def test_it_travels_as_json():
    found = played("c?FFcF")
    assert decode(json.loads(json.dumps({"course": encode(found)})), place="here") == found


def test_an_exporter_that_does_not_tell_is_no_error_and_nonsense_is_one():
    assert decode({"signals": {}}, place="here") is None
    assert decode({"course": None}, place="here") is None
    with pytest.raises(PageError, match="course"):
        decode({"course": {"start": "now"}}, place="here")


def test_no_moment_is_no_course():
    assert course((), WINDOW) is None
