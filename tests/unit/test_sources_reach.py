"""Pages that come seldom: the window reaches as far back as a verdict needs, and brings nobody back who is gone."""

from __future__ import annotations

import pytest

from llmvitals.series import Snapshot
from llmvitals.settings import Settings
from llmvitals.signals.window import scopes
from llmvitals.simulator.live import Live
from llmvitals.simulator.scenarios import SCENARIOS
from llmvitals.simulator.setup import Setup
from llmvitals.sources import Observed
from llmvitals.sources.reach import MOST_SECONDS, far_enough, interval, reaching
from llmvitals.sources.stored import read_stored
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.verdict import Outcome
from llmvitals.triage.walk import diagnose
from support.prometheus import PrometheusServer
from support.raw_store import store, stored

END = 1_800_001_000.0


class Store:
    """What a Prometheus holds of some targets, each scraped at its own interval until it was gone; what it was asked."""

    def __init__(self, **every: float | tuple[float, float]) -> None:
        self.asked: list[float] = []
        self._times: dict[str, list[float]] = {}
        for name, told in every.items():
            step, gone = told if isinstance(told, tuple) else (told, 0.0)
            self._times[name] = [END - gone - 1.0 - i * step for i in range(int(7200 / step))][::-1]

    def ask(self, seconds: float) -> tuple[Observed, ...]:
        self.asked.append(seconds)
        kept = {name: [t for t in times if t > END - seconds] for name, times in self._times.items()}
        return tuple(Observed(n, "vllm", tuple(Snapshot(t, {}) for t in times)) for n, times in kept.items() if times)


def read(store: Store, seconds: float = 60.0):
    found, span = reaching(store.ask, seconds, 5, END)
    return {one.name: len(one.snapshots) for one in found}, span


def test_what_is_scraped_often_is_asked_once_and_as_it_was():
    often = Store(a=5.0)
    assert read(often) == ({"a": 12}, 60.0)
    assert often.asked == [60.0]


@pytest.mark.parametrize("every", [15.0, 30.0, 60.0, 120.0])
def test_what_is_scraped_seldom_gets_its_pages_and_not_many_more(every):
    seldom = Store(a=every)
    pages, span = read(seldom)
    assert pages["a"] in {5, 6}
    assert span == pytest.approx(every * 5.5)
    assert len(seldom.asked) <= 3


def test_what_is_scraped_every_few_minutes_is_not_judged_from_half_an_hour():
    _, span = read(Store(a=240.0))
    assert span <= MOST_SECONDS


def test_beside_one_that_is_scraped_often_enough_nobody_s_window_grows():
    assert read(Store(a=5.0, b=60.0))[1] == 60.0


def test_the_window_is_that_of_whom_most_is_known():
    pages, span = read(Store(a=30.0, b=60.0))
    assert span == pytest.approx(165.0)
    assert (pages["a"], pages["b"]) == (6, 3)


def test_who_was_gone_is_not_brought_back():
    pages, _ = read(Store(a=60.0, b=(60.0, 200.0)))
    assert set(pages) == {"a"}


def test_nothing_stays_nothing_with_one_question():
    empty = Store()
    assert read(empty) == ({}, 60.0)
    assert empty.asked == [60.0]


def test_one_page_says_no_interval():
    assert interval([1.0]) == interval([]) == 0.0
    assert far_enough([END], 60.0, 5) == 60.0
    assert far_enough([END - 60, END], 60.0, 5) == 330.0
    assert far_enough([END - 60, END], 3600.0, 5) == 3600.0


@pytest.mark.prometheus
def test_a_prometheus_that_scrapes_engines_once_a_minute_gets_a_verdict(tmp_path):
    row = next(scenario for scenario in SCENARIOS if scenario.name == "preemption")
    live = Live(Setup(row.config, row.workload, uptime=600.0), origin=END - 900, dialect="vllm")
    pages = [RawPage(t, 0.02, 200, live.page_at(t)) for t in (END - 840 + 60 * i for i in range(15))]
    store(tmp_path / "p" / "data", stored(pages, {"instance": "a", "job": "engines"}))
    with PrometheusServer(tmp_path / "p") as server:
        short = read_stored(server.url, at=END, seconds=60)
        found = read_stored(server.url, at=END, seconds=60, pages=5)
        none = read_stored(server.url, at=END + 45, seconds=30, pages=5)

    def judged(seen):
        ((_, window),) = scopes(page for one in seen.observed for page in one.snapshots).items()
        return diagnose(window, Settings()), window

    assert judged(short)[0].outcome is Outcome.UNDETERMINED
    assert short.note == ""
    verdict, window = judged(found)
    assert verdict.outcome is Outcome.CAUSE
    assert len(window.snapshots) >= 5
    assert found.seconds >= window.seconds
    assert "every 60 s" in found.note
    assert len(judged(none)[1].snapshots) >= 5
