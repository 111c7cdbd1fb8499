"""Conditions over courses that are written down: what holds at which moment."""

from __future__ import annotations

import msgspec
import pytest

from llmvitals.alerts.budgets import BY_ID, FINISHED, Counted
from llmvitals.alerts.conditions import (
    Burns,
    Busy,
    Compared,
    Concludes,
    Condition,
    Either,
    Every,
    Fell,
    Fires,
    Gone,
    Hurt,
    Steady,
    Unless,
    Written,
)
from llmvitals.alerts.counted import Counters
from llmvitals.alerts.course import Course
from llmvitals.alerts.holds import Answers, replayable
from llmvitals.alerts.policy import ALERTS
from llmvitals.alerts.watching import ALERTS as WATCHING
from llmvitals.series import series
from llmvitals.settings import Alerts, Burn, Settings
from llmvitals.signals.promql_ast import Number
from support.courses import answers, classes, course, finished, promise, sums

SETTINGS = Settings()


def held(condition: Condition, of: Course, settings: Settings = SETTINGS) -> list[bool]:
    known = Answers(of, settings)
    return [known.holds(condition, at) for at in range(len(of.moments))]


def shows(*values: float | None) -> Course:
    return course([{} if value is None else {"values": {"requests_waiting": value}} for value in values])


WAITS = Compared("requests_waiting", ">", 0)


# -- what the triage said ---------------------------------------------------------------------------------------------
def test_a_cause_fires_unless_the_verdict_is_healthy() -> None:
    thrash = frozenset({"preemption-thrash"})
    went = course(
        [
            {"firing": thrash, "outcome": "cause"},
            {"firing": thrash, "outcome": "healthy"},
            {"firing": thrash, "outcome": "undetermined"},
            {"outcome": "cause"},
        ]
    )
    assert held(Fires("preemption-thrash"), went) == [True, False, True, False]
    assert held(Fires("cold-start"), went) == [False] * 4


def test_hurt_and_outcomes_are_those_of_the_moment() -> None:
    went = course([{"hurt": True, "outcome": "cause"}, {"outcome": "shedding"}, {}])
    assert held(Hurt(), went) == [True, False, False]
    assert held(Concludes(("shedding", "cause")), went) == [True, True, False]


# -- numbers ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (">", [False, False, True]),
        (">=", [False, True, True]),
        ("<", [True, False, False]),
        ("<=", [True, True, False]),
    ],
)
def test_a_number_is_compared(op: str, expected: list[bool]) -> None:
    assert held(Compared("requests_waiting", op, 2.0), shows(1, 2, 3)) == expected


def test_no_number_does_not_hold_whichever_way_it_is_compared() -> None:
    assert held(Compared("requests_waiting", "<", 5.0), shows(None, 1)) == [False, True]
    assert held(Compared("requests_waiting", ">", -5.0), shows(None, 1)) == [False, True]


def test_a_bound_may_be_a_setting_of_a_list_and_multiplied() -> None:
    limits = msgspec.structs.replace(SETTINGS.thresholds, kv_lines=(0.5, 0.95))
    settings = msgspec.structs.replace(SETTINGS, thresholds=limits)
    asked = Compared("requests_waiting", ">", "thresholds.kv_lines.0", factor=2.0)
    assert held(asked, shows(0.95, 1.05), settings) == [False, True]
    assert held(Compared("requests_waiting", ">", "slo.ttft_seconds"), shows(1.9, 2.1)) == [False, True]


def test_what_fell_is_held_against_the_number_that_stood_so_long_ago() -> None:
    went = shows(100, 100, 69, 71, 50)
    assert held(Fell("requests_waiting", 0.7, "1m"), went) == [False, False, True, False, False]
    assert held(Steady("requests_waiting", 0.3, "1m"), went) == [False, False, False, True, True]


def test_what_rose_is_not_steady() -> None:
    assert held(Steady("requests_waiting", 0.3, "30s"), shows(100, 129, 129, 171)) == [False, True, True, False]


def test_the_past_is_the_newest_moment_before_but_none_older_than_five_minutes() -> None:
    def since(before: float, *, known: bool = True) -> bool:
        first = {"t": 1000.0 - before, "values": {"requests_waiting": 100.0} if known else {}}
        went = course([first, {"t": 1060.0, "values": {"requests_waiting": 10.0}}])
        return held(Fell("requests_waiting", 0.7, "1m"), went)[1]

    assert since(0.0)
    assert since(299.0)
    assert not since(300.0)
    assert not since(-1.0), "that moment is newer than a minute"
    assert not since(0.0, known=False)


def test_a_number_that_was_gone_a_minute_ago_is_not_taken_from_before() -> None:
    assert held(Fell("requests_waiting", 0.7, "1m"), shows(100, None, None, 10, 10)) == [False] * 5


# -- budgets ----------------------------------------------------------------------------------------------------------
ROW = Burn(severity="page", burn=6.0, long="2m", short="1m")


def budgets(*rows: Burn, least: int = 20) -> Settings:
    return msgspec.structs.replace(SETTINGS, alerts=Alerts(burns=rows, least_requests=least))


def burning(missed: list[float], judged: float = 10.0) -> Course:
    """So many more missed at each moment, of as many more that were judged."""
    kept = zip(sums([judged] * len(missed)), sums(missed), strict=True)
    return course([{"counts": promise("ttft", all_of, bad)} for all_of, bad in kept])


def test_a_budget_burns_while_both_windows_are_over() -> None:
    # 6 times 5 % is 30 %: of 40 requests in 2 minutes 12, of 20 in one minute 6
    went = burning([0, 0, 0, 0, 0, 6, 6, 0, 0, 0])
    long_over = [False] * 6 + [True, True, True, False]  # 6: 12 of 40 at 180 s, until 270 s
    short_over = [False] * 5 + [True, True, True, False, False]
    both = [a and b for a, b in zip(long_over, short_over, strict=True)]
    assert held(Burns("ttft", "page"), went, budgets(ROW)) == both


def test_just_under_the_limit_nothing_burns() -> None:
    assert not any(held(Burns("ttft", "page"), burning([2.9] * 8), budgets(ROW)))
    assert any(held(Burns("ttft", "page"), burning([3.1] * 8), budgets(ROW)))


def test_few_requests_say_nothing_of_their_share() -> None:
    assert not any(held(Burns("ttft", "page"), burning([4.0] * 8, judged=4.0), budgets(ROW)))  # 16 in two minutes
    assert any(held(Burns("ttft", "page"), burning([5.0] * 8, judged=5.0), budgets(ROW)))


def test_each_severity_has_its_rows_and_one_may_be_asked_for_alone() -> None:
    slow = Burn(severity="ticket", burn=2.0, long="2m", short="1m")
    went, settings = burning([1.5] * 8), budgets(ROW, slow)
    assert held(Burns("ttft", "ticket"), went, settings)[-1]
    assert not held(Burns("ttft", "page"), went, settings)[-1]
    assert not Answers(went, settings).holds(Burns("ttft", "ticket"), 7, ROW)


def test_a_page_without_the_histogram_never_burns() -> None:
    assert not any(held(Burns("tpot", "page"), burning([10.0] * 8), budgets(ROW)))
    assert not any(held(Burns("answers", "page"), burning([10.0] * 8), budgets(ROW)))


def test_a_restart_loses_nothing_but_what_was_not_yet_shown() -> None:
    counts = [(100, 0), (110, 5), (120, 10), (4, 3), (14, 8)]  # restarted, four served since
    went = course([{"counts": promise("ttft", *both)} for both in counts])
    settings = budgets(Burn(severity="page", burn=1.0, long="2m", short="1m"))
    known = Answers(went, settings)
    # over 2 minutes 10 + 10 + 4 + 10 = 34 judged, and 5 + 5 + 3 + 5 = 18 missed
    for share, expected in ((18 / 34 - 1e-6, True), (18 / 34 + 1e-6, False)):
        row = Burn(severity="page", burn=share / 0.05, long="2m", short="30s")
        assert known.holds(Burns("ttft", "page"), 4, row) is (expected and share <= 5 / 10)
        row = Burn(severity="page", burn=share / 0.05, long="2m", short="1m")
        assert known.holds(Burns("ttft", "page"), 4, row) is (expected and share <= 8 / 14)


def test_every_class_has_a_budget_and_a_promise_of_its_own() -> None:
    def judged(objective: float, **missed: float) -> bool:
        went = course(
            [
                {"counts": classes({name: (20.0 * at, bad * at) for name, bad in missed.items()}, objective)}
                for at in range(5)
            ]
        )
        return held(Burns("goodput", "page"), went, budgets(ROW))[-1]

    assert judged(0.95, chat=0.0, code=10.0)  # 10 of 30, with 30 % as the limit
    assert not judged(0.95, chat=0.0, code=8.0)
    assert judged(0.99, chat=0.0, code=2.0)  # 2 of 22, with 6 % as the limit
    assert not judged(0.95, chat=4.0, code=4.0)


def test_a_class_that_nothing_was_promised_has_no_budget() -> None:
    counts = [
        {k: v for k, v in classes({"chat": (0.0, 20.0 * at)}).items() if k.name == "llm_slo_requests_total"}
        for at in range(5)
    ]
    assert not any(held(Burns("goodput", "page"), course([{"counts": one} for one in counts]), budgets(ROW)))


def test_answers_that_fail_are_judged_beside_those_that_did_not() -> None:
    def share(good: float, failed: float) -> bool:
        went = course([{"counts": answers(good * at, failed * at)} for at in range(6)])
        return held(Burns("answers", "page"), went, budgets(ROW))[-1]

    assert share(14, 6)
    assert not share(15, 6)


def test_a_target_that_went_down_burns_on_while_its_pages_are_in_the_window() -> None:
    went = burning([5.0] * 6)
    down = course([*({"counts": m.counts} for m in went.moments), *({"up": False} for _ in range(5))])
    # two pages are in the short window until a minute is over, less the distance of the two
    assert held(Burns("ttft", "page"), down, budgets(ROW)) == [False] * 2 + [True] * 5 + [False] * 4


def test_over_hours_the_windows_of_five_minutes_are_summed_that_end_in_them() -> None:
    missed = sums([10.0 if 20 <= at < 40 else 0.0 for at in range(300)])
    went = course([{"counts": promise("ttft", 10.0 * at, bad)} for at, bad in enumerate(missed)])
    counters = Counters(went)
    judged, bad = (
        counters.growth(what, 7200.0, ("objective",))["ttft",] for what in (BY_ID["ttft"].judged, BY_ID["ttft"].missed)
    )
    assert judged[:10] == [None] * 10, "the first five minutes are not over"
    assert (judged[10], judged[19], judged[20]) == (100.0, 100.0, 200.0)
    assert (bad[19], bad[20], bad[39], bad[40]) == (0.0, 10.0, 110.0, 200.0)
    assert (judged[240], judged[250], judged[255]) == (2400.0, 2500.0, 2400.0)  # at 7500 s one ends at either edge
    assert (bad[260], bad[261], bad[271]) == (200.0, 190.0, 90.0)  # 10 of them in the window that ended at 600 s


def test_over_hours_a_gap_counts_nothing_and_its_pages_once() -> None:
    shown = [{"counts": promise("ttft", 10.0 * at, 0.0)} for at in range(21)]
    gap = course([*shown, *({"t": 600.0 + 30 * at, "up": False} for at in range(1, 31))])
    silent = course([*shown, {"t": 1500.0, "up": False}])  # nobody asked for a quarter of an hour
    for went in (gap, silent):
        grown = Counters(went).growth(BY_ID["ttft"].judged, 7200.0)[()]
        assert grown[-1] == 200.0, "two windows of ten pages"


def test_busy_is_as_many_requests_in_five_minutes_as_the_settings_ask() -> None:
    def busy(per_step: float) -> list[bool]:
        return held(Busy(), course([{"counts": finished(per_step * at)} for at in range(12)]))

    assert busy(2.0)[-1]  # 10 steps
    assert busy(2.0)[10]
    assert not busy(2.0)[9]
    assert not any(busy(1.9))
    assert not any(held(Busy(), course([{}, {}])))


def test_a_short_window_of_pages_that_come_once_a_minute_is_wider() -> None:
    went = course([{"t": 60.0 * at, "counts": finished(10.0 * at)} for at in range(5)])
    grown = Counters(went).growth((Counted(FINISHED),), 59.0)[()]
    assert grown == [None, 10.0, 20.0, 30.0, 30.0]  # three minutes of it
    assert Counters(went).growth((Counted(FINISHED),), 60.0)[()] == [None, 10.0, 10.0, 10.0, 10.0]


# -- gone -------------------------------------------------------------------------------------------------------------
def served(*, steps: int = 3, per_step: float = 1.0) -> list[dict[str, object]]:
    return [{"counts": finished(per_step * at)} for at in range(steps)]


def test_a_target_without_a_page_is_missing_and_one_that_vanished_is_not() -> None:
    down = course([*served(), *({"up": False} for _ in range(70))])
    assert held(Gone(), down) == [False] * 3 + [True] * 70
    vanished = course([*served(), *({"up": False, "named": False} for _ in range(70))])
    assert not any(held(Gone(), vanished))


def test_what_nobody_ever_named_is_not_gone() -> None:
    assert not any(held(Gone(), course([{"up": False, "named": False}] * 3)))


def test_gone_alone_takes_users_and_nobody_else_to_serve_them() -> None:
    def alone(per_step: float = 1.0, *, elsewhere: bool = False) -> list[bool]:
        after = [{"up": False, "elsewhere": elsewhere} for _ in range(62)]
        return held(Gone(alone=True), course([*served(per_step=per_step), *after]))

    assert alone() == [False] * 3 + [True] * 62
    assert not any(alone(per_step=0.0))
    assert not any(alone(elsewhere=True))


def test_a_server_that_was_in_use_is_missed_for_six_hours_and_one_that_vanished_for_half_an_hour() -> None:
    used, after = served(steps=30), 15 * 60 * 2  # of half a minute each
    down = held(Gone(alone=True), course([*used, *({"up": False} for _ in range(after))]))
    assert down[:30] == [False] * 30
    assert down[30:] == [True] * (6 * 60 * 2) + [False] * (after - 6 * 60 * 2)
    vanished = held(Gone(alone=True), course([*used, *({"up": False, "named": False} for _ in range(after))]))
    assert sum(vanished) == 60


def test_tokens_tell_of_use_where_a_page_counts_no_requests() -> None:
    def tokens(per_step: float) -> list[bool]:
        key = series("llm_generation_tokens_total", instance="a:8000", model="m")
        pages = [{"counts": {key: per_step * at}} for at in range(3)]
        return held(Gone(alone=True), course([*pages, {"up": False}]))

    assert tokens(7.0)[-1]
    assert not tokens(0.0)[-1]


def test_a_server_that_nobody_used_any_more_was_switched_off() -> None:
    def alone(idle: int, **went: object) -> list[bool]:
        """Used for ten pages of half a minute, then ``idle`` for so many, then gone."""
        pages = [{"counts": finished(float(min(at, 9)))} for at in range(10 + idle)]
        return held(Gone(alone=True), course([*pages, *({"up": False, **went} for _ in range(20))]))[-20:]

    for went in ({}, {"named": False}):
        assert alone(9, **went) == [True] * 20
        assert not any(alone(10, **went))  # the last five minutes it only stood there


def test_a_request_that_runs_on_is_use_though_none_ended() -> None:
    def pages(tokens: float) -> list[dict[str, object]]:
        key = series("llm_generation_tokens_total", instance="a:8000", model="m")
        return [{"counts": {**finished(5.0), key: tokens * at}} for at in range(12)]

    assert held(Gone(alone=True), course([*pages(30.0), {"up": False}]))[-1]
    assert not held(Gone(alone=True), course([*pages(0.0), {"up": False}]))[-1]


# -- put together -----------------------------------------------------------------------------------------------------
def test_parts_are_put_together() -> None:
    went = course(
        [
            {"hurt": True, "values": {"requests_waiting": 1.0}},
            {"hurt": True},
            {"values": {"requests_waiting": 1.0}},
            {},
        ]
    )
    assert held(Every((Hurt(), WAITS)), went) == [True, False, False, False]
    assert held(Either((Hurt(), WAITS)), went) == [True, True, True, False]
    assert held(Unless(Hurt(), WAITS), went) == [False, True, False, False]
    assert held(Unless(WAITS, Hurt()), went) == [False, False, True, False]


def test_what_asks_of_the_watching_itself_is_told_apart_however_deep() -> None:
    asks = Written(lambda _settings: Number(1.0))
    assert not replayable(asks)
    assert not replayable(Every((Hurt(), Either((WAITS, asks)))))
    assert not replayable(Unless(Hurt(), asks))
    assert not replayable(Unless(asks, Hurt()))
    assert replayable(Unless(Every((Hurt(),)), Either((WAITS, Busy()))))
    with pytest.raises(ValueError, match="watching"):
        held(asks, course([{}]))


def test_all_but_the_alerts_on_the_watching_itself_can_be_replayed() -> None:
    assert {row.name for row in ALERTS if not replayable(row.when)} == {row.name for row in WATCHING}


def test_a_course_without_moments_asks_nothing() -> None:
    known = Answers(course([]), SETTINGS)
    assert all(known.over(row.when) == [] for row in ALERTS if replayable(row.when))
