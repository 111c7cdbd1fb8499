"""A play that is watched longer: the same fault, still there, and who is told of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from llmvitals.alerts.course import Course, Moment
from llmvitals.alerts.firing import all_episodes
from llmvitals.backtest.incidents import LONGER, PAST_SECONDS, incident, planned, with_past
from llmvitals.lab.draw import AS_SCORED, Draw
from llmvitals.lab.play import Job
from llmvitals.lab.scenarios import BY_NAME
from llmvitals.lab.truth import told
from llmvitals.series import series
from llmvitals.settings import Settings
from llmvitals.signals import budget
from llmvitals.simulator.clients import Answer
from llmvitals.simulator.workload import Request

ONSET = 1000.0
JUDGED = series(budget.JUDGED, instance="a", model="m", objective="ttft")
MISSED = series(budget.MISSED, instance="a", model="m", objective="ttft", edge="2")


@pytest.mark.parametrize("name", ["batch-too-small", "rollout-and-probes", "vram-headroom", "noisy-tenant"])
def test_a_longer_play_is_the_same_deployment_and_its_fault_goes_on(name) -> None:
    short, long = (BY_NAME[name].draw(Draw("7/x", "severe", longer)).bad for longer in (AS_SCORED, LONGER))
    assert replace(short.setup.engine) == long.setup.engine
    assert long.times.onset == pytest.approx(short.times.onset + LONGER.calm)
    assert long.times.end == pytest.approx(short.times.end + LONGER.calm + LONGER.fault)
    downs = long.setup.faults.restarts
    assert len(downs) == len(short.setup.faults.restarts) * (1 + LONGER.fault // short.times.window)
    assert all(one.down < long.times.end for one in downs)
    if downs:
        assert downs[-1].up > long.times.onset + LONGER.fault - short.times.window


def test_what_is_judged_when_its_fault_is_over_is_not_watched() -> None:
    names = {job.scenario for job in planned(1, None, 0.1)}
    assert "after-restart" not in names
    assert {"batch-too-small", "chat", "one-burst", "seats+outputs"} <= names


def test_only_the_severe_ones_are_the_same_plays_without_the_others() -> None:
    severe = planned(1, None, 0.25, "severe")
    assert {job.severity for job in severe} == {"severe"}
    assert severe == tuple(job for job in planned(1, None, 0.25) if job.severity == "severe")


def test_a_server_that_dies_wakes_somebody_and_tickets_stay_quiet() -> None:
    found = incident(Job("engine-died", 3, 2, "severe"), Settings())
    assert found.why == ""
    assert found.lasted
    assert found.broke is not None
    assert {one.receiver for one in found.sent} == {"pager"}
    first, *others = found.sent
    assert first.after - found.broke <= 300
    assert [one.alerts for one in others] in ([("LLMTargetGone",)], [])
    assert all(one.leading == "not-serving" for one in found.sent)
    (gone,) = (one for one in found.fired if one.alert == "LLMTargetGone")
    assert 120 <= gone.after <= 180  # it waits for two minutes, and is asked every half


def test_a_day_on_which_nothing_happens_tells_nobody_anything() -> None:
    found = incident(Job("chat", 3, 0, "clear"), Settings())
    assert (found.why, found.truth, found.fired, found.sent) == ("", frozenset(), (), ())


def course(missed: float) -> Course:
    """A request a second; of those after the onset this share is late."""
    moments = []
    for step in range(41):
        t = ONSET - 600 + 30 * step
        late = max(0.0, t - ONSET) * missed
        moments.append(Moment(t, counts={JUDGED: 600.0 + 30 * step, MISSED: late}))
    return Course("a", "m", tuple(moments))


def test_the_hour_before_is_as_busy_as_the_calm_and_misses_nothing() -> None:
    whole = with_past(course(0.5), ONSET)
    first, last = whole.moments[0], whole.moments[-1]
    assert last.t - first.t == pytest.approx(1200 + PAST_SECONDS)
    assert last.counts[JUDGED] - first.counts[JUDGED] == pytest.approx(1200 + PAST_SECONDS)
    assert last.counts[MISSED] - first.counts[MISSED] == pytest.approx(300)


def test_an_hours_budget_is_not_burnt_by_ten_minutes_of_a_fault() -> None:
    """3 times over an hour are 540 missed of 3600; 300 are missed in the ten minutes. Of ten minutes alone it would be half."""
    hour = [one for one in all_episodes(with_past(course(0.5), ONSET), Settings()) if one.window == "1h"]
    assert hour == []
    assert [one.window for one in all_episodes(course(0.5), Settings()) if one.window == "1h"]


def answer(outcome: str, first: float | None, ended: float, tokens: int) -> Answer:
    return Answer(Request(1, 0, 100, 100), 10.0, first, ended, tokens, outcome, "t")


@pytest.mark.parametrize(
    ("one", "t", "broke"),
    [
        (answer("ok", 10.5, 12.5, 100), 12.5, ""),
        (answer("ok", 13.0, 15.0, 100), 12.0, "ttft"),  # known when two seconds have passed
        (answer("ok", 10.5, 30.0, 100), 30.0, "tpot"),
        (answer("error", None, 10.1, 0), 10.1, "answers"),
        (answer("rejected", None, 10.1, 0), 10.1, "answers"),
        (answer("cut", 10.5, 11.0, 20), 11.0, "answers"),
        (answer("timeout", 10.5, 14.0, 100), 14.0, ""),  # it came in time and at its pace
        (answer("timeout", None, 14.0, 0), 12.0, "ttft"),
        (answer("left", 10.5, 14.0, 100), 14.0, ""),
        (answer("left", None, 14.0, 0), 12.0, "ttft"),
    ],
)
def test_a_client_knows_when_its_promise_is_broken(one, t, broke) -> None:
    world = SimpleNamespace(now=100.0, clients=SimpleNamespace(log=(one,), open={}))
    (found,) = told(world)
    assert (found.t, found.broke) == (t, broke)
