"""Lines from cycle to cycle: what the gauges showed, gaps kept, old points and gone scopes forgotten."""

from dataclasses import replace

import pytest

from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.judge import Scoped
from llmvitals.exporters.trail import POINTS, Trail
from llmvitals.settings import Settings, Slo, Target
from llmvitals.signals.reading import Reading
from llmvitals.triage import course
from llmvitals.triage.history import VITALS, decode
from llmvitals.triage.walk import diagnose
from support.made import healthy, run
from support.situations import thrash

SETTINGS = Settings(targets=(Target(url="http://127.0.0.1:9", name="a"),), slo=Slo(ttft_seconds=1.5))
SCOPE = ("a", "m")


@pytest.fixture
def remember():
    """A trail, and a way to add a cycle whose only scope shows these numbers."""
    trail, empty = Trail(), Engine(SETTINGS).publish(0.0)

    def add(t, scope=SCOPE, **values):
        scoped = Scoped(*scope, readings={k: Reading(v) for k, v in values.items()}, verdict=None, **_rest())
        trail.remember(replace(empty, ended=t, scopes=(scoped,)))
        return trail

    return add


def _rest():
    """What else a scope holds; none of it is read here."""
    return {name: None for name in Scoped.__slots__ if name not in ("instance", "model", "readings", "verdict")}


def lines(trail, *signals, scope=SCOPE):
    return decode(trail.document(scope, signals, SETTINGS), place="here")


def test_a_line_holds_each_cycle_s_number_and_its_gaps(remember):
    remember(10.0, seats=4.0)
    remember(15.0)
    trail = remember(20.0, seats=5.0, requests_running=2.0)
    found = lines(trail, "seats")
    assert found["seats"].times == (10.0, 15.0, 20.0)
    assert found["seats"].values == (4.0, None, 5.0)
    assert found["requests_running"].values == (None, None, 2.0)


def test_vital_signs_come_unasked_with_the_exporter_s_own_promises(remember):
    found = lines(remember(1.0))
    assert list(found) == [vital.signal for vital in VITALS]
    assert found["ttft_p95_seconds"].bound == 1.5


def test_what_is_no_signal_is_left_out(remember):
    assert "no_such_signal" not in lines(remember(1.0), "no_such_signal")


def test_it_is_bounded_and_forgets_scopes_that_are_gone(remember):
    for t in range(POINTS + 5):
        trail = remember(float(t), seats=1.0)
    assert len(lines(trail, "seats")["seats"].times) == POINTS
    trail = remember(1000.0, scope=("b", "m"))
    assert lines(trail, "seats")["seats"].times == ()
    assert lines(trail, scope=("b", "m"))["requests_running"].times == (1000.0,)


def judged(trail, t, verdict, scope=SCOPE):
    empty = Engine(SETTINGS).publish(0.0)
    scoped = Scoped(*scope, readings={}, **(_rest() | {"verdict": verdict}))
    trail.remember(replace(empty, ended=t, scopes=(scoped,)))


def test_what_checks_said_reaches_back_farther_than_the_lines(remember):
    trail = Trail()
    well, ill = diagnose(run(8, healthy), SETTINGS), diagnose(thrash(), SETTINGS)
    for i in range(POINTS * 2):
        judged(trail, float(i), well if i < 20 else ill)
    document = trail.document(SCOPE, (), SETTINGS)
    told = course.decode(document, place="here")
    assert (told.start, told.end, told.seconds) == (0.0, POINTS * 2 - 1.0, SETTINGS.exporter.window_seconds)
    assert course.began(told)["preemption-thrash"].t == 20.0
    assert told.leading == ((0.0, ""), (20.0, "preemption-thrash"))
    judged(trail, 1000.0, well, scope=("b", "m"))
    assert trail.document(SCOPE, (), SETTINGS)["course"] is None


def test_a_cycle_whose_walk_failed_says_nothing_of_checks(remember):
    trail = remember(1.0, seats=2.0)
    assert trail.document(SCOPE, (), SETTINGS)["course"] is None


def test_all_signals_that_have_a_number_come_for_the_asking(remember):
    found = lines(remember(1.0, seats=2.0, restarts=0.0), "*")
    assert {"seats", "restarts"} <= set(found)
    assert set(found) == {"seats", "restarts"} | {vital.signal for vital in VITALS}
