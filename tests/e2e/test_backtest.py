"""One past, replayed from the simulator's pages, and from Prometheus servers that scraped the exporter, or the engine."""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import cache

import pytest

from llmvitals.alerts.course import Course
from llmvitals.backtest.history import History
from llmvitals.backtest.moments import RECORDED_SECONDS
from llmvitals.backtest.replay import Replay, courses, grid
from llmvitals.backtest.summary import summary
from llmvitals.cli import backtest, main
from llmvitals.settings import Settings, Slo
from llmvitals.signals.catalogue import BY_ID
from llmvitals.signals.evaluate import evaluate
from llmvitals.signals.window import scopes
from llmvitals.sources.promql_api import Endpoint
from llmvitals.triage.verdict import State
from llmvitals.triage.walk import diagnose, states
from support import past
from support.prometheus import PrometheusServer

START, END = past.ORIGIN, past.ORIGIN + past.LASTS
SETTINGS = Settings()


@cache
def replayed() -> tuple[Course, ...]:
    return courses([past.observed()], SETTINGS, start=START, end=END, processes=1)


def after(t: float) -> float:
    """Seconds since the fault began."""
    return t - START - past.BEGINS


def test_every_moment_holds_the_verdict_of_the_pages_before_it():
    (course,) = replayed()
    assert (course.instance, course.model) == ("a:8000", "sim-8b")
    assert [moment.t for moment in course.moments] == list(grid(START, END))
    for moment in course.moments[4::12]:
        # scraped every 15 s, a window of 90 s holds at least the five pages that a verdict asks for
        pages = [page for page in past.snapshots() if moment.t - 90 <= page.t <= moment.t]
        (window,) = scopes(pages).values()
        verdict = diagnose(window, SETTINGS)
        assert (moment.outcome, moment.hurt) == (verdict.outcome.value, verdict.hurt)
        assert moment.leading == (verdict.leading.cause if verdict.leading else "")
        assert moment.firing == {c for c, check in states(verdict).items() if check.state is State.FIRING}


def test_what_rules_record_is_read_over_their_range_and_other_signals_over_the_verdicts():
    (course,) = replayed()
    moment = next(one for one in course.moments if after(one.t) == 300)
    (window,) = scopes(past.snapshots()).values()
    recorded = window.slice(moment.t - RECORDED_SECONDS, moment.t)
    assert moment.values["ttft_p95_seconds"] == evaluate(BY_ID["ttft_p95_seconds"].expr, recorded).value
    assert moment.values["preemptions_per_completion"] > 0.3
    finished = [v for key, v in moment.counts.items() if key.name == "llm_requests_finished_total"]
    assert sum(finished) > 100


def test_users_are_hurt_while_the_fault_lasts_and_its_cause_leads():
    (course,) = replayed()
    assert {one.outcome for one in course.moments if 120 < one.t - START < past.BEGINS} == {"healthy"}
    during = [one for one in course.moments if 90 <= after(one.t) <= past.ENDS - past.BEGINS]
    assert all(one.hurt for one in during)
    assert {one.leading for one in during} == {past.CAUSE}
    assert {one.outcome for one in course.moments if after(one.t) > past.ENDS - past.BEGINS + 300} == {"healthy"}


def test_processes_and_pieces_change_nothing():
    steps = []
    several = courses([past.observed()], SETTINGS, start=START, end=START + 1200, processes=2)
    with Replay(SETTINGS, on_step=lambda: steps.append(1), processes=1) as replay:
        for begin in range(0, 1200, 300):
            moments = [t for t in grid(START, START + 1200) if begin <= t - START < begin + 300 + (begin == 900)]
            replay.feed([past.observed()], moments)
        pieces = replay.courses()
    (whole,) = replayed()
    cut = Course(whole.instance, whole.model, whole.moments[: len(pieces[0].moments)])
    assert (several, pieces) == ((cut,), (cut,))
    assert len(steps) == len(cut.moments) == 41


@pytest.mark.prometheus
@pytest.mark.parametrize(("store", "raw"), [(past.store_exported, False), (past.store_raw, True)])
def test_a_prometheus_gives_the_course_of_the_pages_and_the_command_the_page_of_the_fault(store, raw, tmp_path, capsys):
    store(tmp_path / "p" / "data")
    with PrometheusServer(tmp_path / "p") as server:
        with Endpoint(server.url) as endpoint, Replay(SETTINGS, processes=1) as replay:
            history = History(endpoint, SETTINGS, start=START, end=END)
            pieces = list(history.pieces())
            for piece in pieces:
                replay.feed(piece.observed, [t for t in grid(START, END) if piece.begin < t <= piece.end])
            found = replay.courses()
        with pytest.raises(SystemExit) as ended:
            main(["backtest", "--prometheus", server.url, "--from", str(START), "--to", str(END), "--json"])
    assert history.raw is raw
    assert len(pieces) > 1
    assert found == replayed()
    assert ended.value.code == 0
    told = capsys.readouterr()
    assert ("engines that it scrapes itself" in told.err) is raw
    document = json.loads(told.out)
    (incident,) = document["incidents"]
    assert (incident["instance"], incident["causes"][0]) == ("a:8000", past.CAUSE)
    assert 0 <= after(incident["start"]) <= 60
    # hurt users page after two minutes, and the fault hurts within one
    assert incident["paged"] == document["delay_seconds"]["worst"] == 120
    fired = {one["alert"]: one for one in document["alerts"]}
    assert fired["LLMUsersHurt"]["leading"] == [past.CAUSE]
    assert fired["LLMPreemptionThrash"]["severity"] == "ticket"
    assert document["pages_without_hurt"] == []
    assert document["pages_per_week"] is None
    assert document["verdicts"] == len(grid(START, END))
    blind = {one["family"]: one["why"] for one in document["budgets_not_judged"]}
    assert set(blind) == {"llm_slo_requests_total", "llm_gateway_requests_total"}
    assert "no traces" in blind["llm_slo_requests_total"]
    assert "no gateway" in blind["llm_gateway_requests_total"]
    assert "LLMNobodyWatches" in document["not_replayed"]


@pytest.mark.prometheus
def test_the_bar_advances_by_every_moment_of_the_range(tmp_path, monkeypatch, capsys):
    seen: list[object] = []

    @contextmanager
    def bar(title: str, total: int, *, of: str, quiet: bool):
        seen.append((total, of, quiet))
        yield seen.append

    monkeypatch.setattr(backtest, "progress", bar)
    past.store_exported(tmp_path / "p" / "data")
    with PrometheusServer(tmp_path / "p") as server, pytest.raises(SystemExit) as ended:
        main(["backtest", "--prometheus", server.url, "--from", str(START), "--to", str(START + 600), "--every", "60s"])
    assert ended.value.code == 0
    assert seen == [(11, "moments", False), *[""] * 11]
    shown = capsys.readouterr().out
    assert "no alert would have fired" in shown
    assert "2027-01-15 08:00:00Z" in shown


def test_settings_that_promise_less_page_nobody():
    mild = Slo(ttft_seconds=60.0, tpot_seconds=1.0)
    settings = Settings(slo=mild)
    found = courses([past.observed()], settings, start=START, end=END, processes=1)
    told = summary(found, settings, start=START, end=END)
    assert not told.incidents
    assert not any(one.severity == "page" for one in told.alerts)
    strict = summary(replayed(), SETTINGS, start=START, end=END)
    assert any(one.severity == "page" for one in strict.alerts)
