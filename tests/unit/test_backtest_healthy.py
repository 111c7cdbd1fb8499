"""Healthy days: what is judged again, what stands meanwhile, and whose hours they are."""

from __future__ import annotations

from llmvitals.alerts.course import Course, Moment
from llmvitals.alerts.firing import Episode
from llmvitals.backtest import healthy
from llmvitals.backtest.healthy import MONDAY, WARM, Hour, Noise
from llmvitals.backtest.report import noise_sheets
from llmvitals.series import Snapshot, series

FINISHED = series("llm_requests_finished_total", instance="a", model="m", reason="stop")
UP = series("llm_target_up", instance="a")


def pages(*values: float) -> list[Snapshot]:
    """A page every 15 s, from an hour after the first one of all."""
    return [Snapshot(MONDAY + 3600 + 15 * i, {FINISHED: value, UP: 1.0}) for i, value in enumerate(values)]


def after(moments: list[float]) -> list[float]:
    return [t - MONDAY - 3600 for t in moments]


def test_what_stands_still_for_as_long_as_anybody_looks_back_is_judged_once() -> None:
    seen = pages(*[5.0] * 40)
    at = [MONDAY + 3600 + 30.0 * i for i in range(20)]
    assert after(healthy._moving(seen, at, 100.0)) == [0]
    seen = pages(*[5.0] * 20, *[6.0] * 20)  # one request ends 300 s later
    assert after(healthy._moving(seen, at, 100.0)) == [0, 300, 330, 360, 390]


def test_at_the_very_beginning_every_moment_is_judged() -> None:
    at = [MONDAY + WARM + 30.0 * i for i in range(10)]
    assert healthy._moving([], at, 100.0) == at[:4]


def test_a_target_that_goes_moves() -> None:
    seen = pages(*[5.0] * 40)
    gone = [Snapshot(one.t, {UP: 0.0}) for one in seen[20:]]
    at = [MONDAY + 3600 + 30.0 * i for i in range(20)]
    assert after(healthy._moving([*seen[:20], *gone], at, 60.0)) == [0, 300, 330, 360]


def test_between_verdicts_the_last_one_stands_and_counters_go_on() -> None:
    first, second = Moment(100.0, outcome="cause", leading="fan-out"), Moment(160.0, outcome="healthy")
    other = series("llm_requests_finished_total", instance="a", model="other", reason="stop")
    counted = {t: healthy._Counted(t != 130.0, {FINISHED: t, other: 1.0}) for t in (70.0, 100.0, 130.0, 160.0, 190.0)}
    found = healthy._finer(Course("a", "m", (first, second)), counted).moments
    assert [one.t for one in found] == [100, 130, 160, 190]
    assert [one.outcome for one in found] == ["cause", "cause", "healthy", "healthy"]
    assert [one.up for one in found] == [True, False, True, True]
    assert found[1].counts == {FINISHED: 130.0}  # another model's are none of its own


def test_hours_are_those_of_a_model_over_its_replicas() -> None:
    found = healthy._together([Hour("m", 0.0, 10, 1), Hour("x", 0.0, 5, 0), Hour("m", 0.0, 20, 0)])
    assert found == (Hour("m", 0.0, 30, 1), Hour("x", 0.0, 5, 0))


def test_the_sheets_say_what_woke_somebody_and_how_the_worst_hour_was() -> None:
    page = Episode("LLMUsersHurt", "page", "", "chat-0", "chat", MONDAY, MONDAY + 93_780, None)
    hours = (Hour("m", 0.0, 1000, 10), Hour("m", 90_000.0, 200, 8), Hour("m", 93_600.0, 4, 2))
    first, second = noise_sheets(Noise(2, 7, 30.0, hours, (page,), (), 1204, 5760))
    told = dict(first.rows)
    assert told["calls of clients"] == "1,204"
    assert told["- that missed a promise"] == "20 (1.66%)"
    assert told["- in the worst hour"] == "4.0% (m, day 2 at 1:00)"  # of four calls there is no share to speak of
    assert told["pages"] == "1"
    assert second.rows == (("`LLMUsersHurt`", "page", "1", "chat-0", "day 2 at 2:03"),)
