"""Courses from pages made by hand: who is up, who serves the same model, whose page it is; and what a summary says of courses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmvitals.alerts.course import Course, Moment
from llmvitals.backtest.moments import width_of
from llmvitals.backtest.replay import beside, courses, grid
from llmvitals.backtest.shown import document, moment, sheets, span
from llmvitals.backtest.spread import BacktestError, Spread
from llmvitals.backtest.summary import summary
from llmvitals.series import Snapshot, series
from llmvitals.settings import Exporter, Service, Settings
from llmvitals.sources import Observed
from llmvitals.sources.assemble import joined

T = 1_800_000_000.0
SETTINGS = Settings()


def page(t: float, instance: str, *models: str, up: bool = True) -> Snapshot:
    samples = {series("llm_target_up", instance=instance): float(up)}
    for model in models if up else ():
        own = {"instance": instance, "model": model, "engine": "vllm", "rank": "0"}
        samples[series("llm_requests_running", **own)] = 1.0
        samples[series("llm_requests_finished_total", **own, reason="stop")] = t - T
        samples[series("llm_generation_tokens_total", **own)] = 10 * (t - T)
    if up:
        samples[series("llm_http_requests_total", instance=instance, status="2xx")] = t - T
    return Snapshot(t, samples)


def target(name: str, *models: str, until: float = 600, down: tuple[float, float] = (0, 0)) -> Observed:
    """Scraped every 15 s, gone for good after ``until``; its scrapes fail between two moments (seconds)."""
    moments = [15.0 * i for i in range(round(until / 15) + 1)]
    pages = tuple(page(T + t, name, *models, up=not down[0] <= t < down[1]) for t in moments)
    return Observed(name, "vllm", pages)


def replay(*observed: Observed, start: float = 60, end: float = 600) -> dict[tuple[str, str], dict[float, Moment]]:
    found = courses(observed, SETTINGS, start=T + start, end=T + end, processes=1)
    return {(one.instance, one.model): {m.t - T: m for m in one.moments} for one in found}


def test_a_window_holds_enough_pages_of_servers_that_are_scraped_rarely():
    every = {seconds: tuple(page(T + seconds * i, "a") for i in range(20)) for seconds in (5.0, 15.0, 60.0)}
    assert {seconds: width_of(pages, SETTINGS) for seconds, pages in every.items()} == {
        5.0: 60.0,
        15.0: 90.0,
        60.0: 360.0,
    }
    longer = Settings(exporter=Exporter(window_seconds=120.0))
    assert width_of(every[15.0], longer) == 120.0
    assert width_of(every[5.0][:1], SETTINGS) == 60.0


def test_the_grid_has_both_ends():
    assert grid(0.0, 90.0) == (0.0, 30.0, 60.0, 90.0)
    assert grid(0.0, 89.9) == (0.0, 30.0, 60.0)
    assert len(grid(0.0, 0.3, 0.1)) == 4


def test_a_scrape_that_failed_is_not_a_target_that_vanished():
    found = replay(target("a", "m", down=(300, 360)), target("b", "m", until=300))
    down = found["a", "m"][330]
    assert (down.up, down.named) == (False, True)
    assert not down.counts
    assert found["a", "m"][390].up
    gone = found["b", "m"][480]
    assert (gone.up, gone.named, gone.outcome) == (False, False, "")


def test_a_target_that_fails_from_the_start_is_told_by_its_model_once_it_has_named_one():
    found = replay(target("a", "m", down=(0, 300)))
    assert set(found) == {("a", "m")}
    assert [found["a", "m"][t].up for t in (60, 270, 330)] == [False, False, True]


def test_who_else_serves_a_model_is_another_target_that_is_up():
    found = replay(target("a", "m"), target("b", "m", down=(300, 360)), target("c", "other"))
    assert found["a", "m"][240].elsewhere
    assert not found["a", "m"][330].elsewhere
    assert found["b", "m"][330].elsewhere
    assert not found["c", "other"][240].elsewhere


def test_a_course_begins_where_its_target_was_first_seen():
    late = replace(target("b", "m"), snapshots=target("b", "m").snapshots[20:])
    assert min(replay(target("a", "m"), late)["b", "m"]) == 300


def test_two_models_of_one_server_have_a_course_each_and_count_their_own():
    found = replay(target("a", "one", "two"))
    assert set(found) == {("a", "one"), ("a", "two")}
    told = {key.label("model") for key in found["a", "one"][120].counts}
    assert told == {"one", ""}  # answers name no model


def test_the_engines_of_a_service_count_and_the_service_is_judged_beside_them():
    service = Service(name="chat", engines=("a", "b"))
    found = replay(*joined((target("a", "m"), target("b", "m")), (service,)))
    assert set(found) == {("chat", "m"), ("a", "m"), ("b", "m")}
    assert found["chat", "m"][120].up
    assert not found["chat", "m"][120].counts
    assert found["a", "m"][120].counts
    # a service is its engines once more, and nobody else
    alone = replay(*joined((target("a", "m", down=(300, 360)), target("b", "m", down=(300, 360))), (service,)))
    assert not alone["a", "m"][330].elsewhere


def odd(number: int) -> int:
    if number == 3:
        raise ValueError("no threes")
    return number


def test_work_that_fails_in_another_process_is_named():
    heard: list[int] = []

    def spread() -> None:
        with Spread[int, int](odd, heard.append, processes=2) as work:
            for number in range(8):
                work.give(number)
            work.finish()

    with pytest.raises(BacktestError, match="no threes"):
        spread()
    assert set(heard) <= {0, 1, 2, 4, 5, 6, 7}


def course(
    *hurt: tuple[float, float], name: str = "a", seconds: float = 7200, leading: str = "preemption-thrash"
) -> Course:
    """Two hours in which users are hurt between moments (seconds)."""

    def at(t: float) -> Moment:
        ill = any(begin <= t < end for begin, end in hurt)
        return Moment(T + t, outcome="cause" if ill else "healthy", hurt=ill, leading=leading if ill else "")

    return Course(name, "m", tuple(at(t) for t in grid(0, seconds)))


def test_targets_that_were_watched_apart_stand_in_for_each_other():
    def of(instance: str, model: str, *up: bool) -> Course:
        return Course(instance, model, tuple(Moment(float(i), up=one) for i, one in enumerate(up)))

    first, second, other = beside(
        [of("a", "m", True, False, True), of("b", "m", True, True, False), of("c", "x", True, True, True)]
    )
    assert [one.elsewhere for one in first.moments] == [True, True, False]
    assert [one.elsewhere for one in second.moments] == [True, False, True]
    assert [one.elsewhere for one in other.moments] == [False, False, False]


def test_a_summary_counts_incidents_pages_and_how_soon():
    # of eight minutes each; one of a minute, for which nobody is woken
    whole = course((600, 1080), (3000, 3060), (6000, 6480))
    found = summary([whole], SETTINGS, start=T, end=T + 7200)
    assert [(one.start - T, one.end - T, one.paged) for one in found.incidents] == [
        (600, 1050, 120.0),
        (3000, 3030, None),
        (6000, 6450, 120.0),
    ]
    assert (found.median_delay, found.delays) == (120.0, (120.0, 120.0))
    (hurt,) = (one for one in found.alerts if one.alert == "LLMUsersHurt")
    # told after 2 of 8 minutes, until the verdict has been well for 5
    assert (hurt.severity, hurt.episodes, hurt.seconds) == ("page", 2, 2 * (360.0 + 300.0))
    (named,) = found.causes
    assert (named.cause, named.scopes) == ("preemption-thrash", 1)
    assert named.share == pytest.approx((16 + 2 + 16) / 241)
    assert {one.receiver: one.notices for one in found.told} == {"pager": 2, "tickets": 0}
    assert found.unhurt == ()


def test_what_comes_back_soon_is_one_incident():
    found = summary([course((600, 720), (900, 1200))], SETTINGS, start=T, end=T + 7200)
    assert [(one.start - T, one.end - T) for one in found.incidents] == [(600, 1170)]


def test_a_page_in_whose_time_nobody_was_seen_to_be_hurt_is_listed():
    moments = tuple(
        Moment(m.t, outcome="cause", leading="not-serving", firing=frozenset({"not-serving"}))
        if 900 <= m.t - T < 1500
        else m
        for m in course().moments
    )
    found = summary([Course("a", "m", moments)], SETTINGS, start=T, end=T + 7200)
    (one,) = found.unhurt
    assert (one.alert, one.instance, one.leading, one.fired - T) == ("LLMNotServing", "a", "not-serving", 960.0)
    assert found.incidents == ()


def test_a_week_is_told_only_of_ranges_that_have_a_whole_day():
    day = summary([course((600, 1080), seconds=86_400)], SETTINGS, start=T, end=T + 86_400)
    assert {one.receiver: one.per_week for one in day.told}["pager"] == 7.0
    assert document(day)["pages_per_week"] == 7.0
    assert document(summary([course()], SETTINGS, start=T, end=T + 7200))["pages_per_week"] is None


def test_tables_and_document_say_what_was_not_judged_and_why():
    lacks = {("a", "m"): {"tpot": "TGI does not show it"}, ("b", "m"): {"tpot": "TGI does not show it"}}
    found = summary([course()], SETTINGS, start=T, end=T + 7200, lacks=lacks)
    assert {(one.family, one.why) for one in found.blind} == {("llm_request_tpot_seconds", "TGI does not show it")}
    told = {sheet.title: sheet for sheet in sheets(found)}
    assert told["Budgets that could not be judged"].rows == (
        ("pace of tokens", "llm_request_tpot_seconds", "TGI does not show it", "a (m), b (m)"),
    )
    assert told["Alerts"].note == "no alert would have fired"
    assert document(found)["delay_seconds"] == {"median": None, "worst": None}


def test_moments_and_durations_for_people():
    assert moment(1_800_000_000.0) == "2027-01-15 08:00:00Z"
    assert [span(s) for s in (0, 59.6, 3725, 90_000, None)] == ["0s", "1m", "1h 2m", "1d 1h", "-"]
