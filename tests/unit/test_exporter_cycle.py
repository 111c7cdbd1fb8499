"""The cycle on given time and transport: window, history, single flight, isolation, replay, reload."""

from __future__ import annotations

import gc
import logging
import re
import threading
import weakref
from pathlib import Path

import pytest

from llmvitals.errors import SettingsError
from llmvitals.exporters import cycle as cycles
from llmvitals.exporters import judge, watch
from llmvitals.exporters.answer import deadline
from llmvitals.exporters.board import Board
from llmvitals.exporters.cycle import Engine, replay, replay_last
from llmvitals.series import series
from llmvitals.settings import Exporter, Settings, Target
from llmvitals.signals.window import scopes
from llmvitals.sources.capture import raw, read_capture
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.walk import diagnose
from support.hostile import vllm_page

FIXTURES = Path(__file__).parents[1] / "fixtures" / "captures"
URL, OTHER = "http://engine:8000", "http://engine-1:8000"
DCGM = b'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-1"} 0.5\n'


def settings(*targets: Target, **limits: float) -> Settings:
    return Settings(
        targets=targets or (Target(url=URL, name="a"),), exporter=Exporter(**{"timeout_seconds": 0.5, **limits})
    )


def serving(*bodies: bytes | None, at: float = 100.0, every: float = 5.0):
    """A fetch that gives these bodies one after the other, each ``every`` seconds later; the last one again and again."""
    count = iter(range(10**6))

    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        n = next(count)
        body = bodies[min(n, len(bodies) - 1)]
        return RawPage(at + n * every, 0.01, 200 if body else None, body, "" if body else "refused the connection")

    return fetch


def up(cycle, instance: str = "a") -> float | None:
    return next(
        (s.samples[k] for s in cycle.snapshots for k in s.samples if k == series("llm_target_up", instance=instance)),
        None,
    )


@pytest.mark.parametrize("capture", sorted(p.name for p in FIXTURES.iterdir()))
def test_a_replay_gives_the_verdict_of_the_capture_itself(capture, ran_recording):
    ran_recording(FIXTURES / capture)
    (recorded,), (direct,) = raw(FIXTURES / capture), read_capture(FIXTURES / capture)
    pages = list(recorded.pages)
    config = Settings(exporter=Exporter(window_seconds=pages[-1].t - pages[0].t + 1))
    target = Target(url=URL, name=recorded.name, kind=recorded.kind)
    wanted = {
        scope: diagnose(window, config, scope={"instance": scope[0], "model": scope[1]})
        for scope, window in scopes(direct.snapshots).items()
    }
    last = replay_last(pages, config, target=target)
    assert {(s.instance, s.model): s.verdict for s in last.scopes} == wanted
    *_, stepped = replay(pages, config, target=target)
    assert stepped.scopes == last.scopes
    assert stepped.page.split(b"# HELP llmvitals_")[0] == last.page.split(b"# HELP llmvitals_")[0]


def test_the_verdict_is_about_the_window_and_the_history_stays_bounded():
    config = settings(window_seconds=20.0, interval_seconds=5.0)
    engine = Engine(config, fetch=serving(vllm_page()), clock=lambda: 0.0)
    for n in range(50):
        cycle = engine.step(now=100.0 + 5.0 * n)
    (scoped,) = cycle.scopes
    assert scoped.verdict.window["start"] == 325.0  # closed: exactly 20 s back from 345
    assert scoped.verdict.window["end"] == 345.0
    assert cycle.history == {"a": 7}  # the window's 5 and two intervals of margin


@pytest.mark.parametrize("ahead", [86_400.0, 30.0])
def test_a_clock_that_was_ahead_leaves_no_page_of_the_future_behind(ahead):
    engine = Engine(settings(window_seconds=60.0), fetch=serving(vllm_page()), clock=lambda: 0.0)
    for n in range(20):
        t = 1000.0 + 5.0 * n + (ahead if n < 10 else 0.0)
        cycle = engine.publish(t, engine.record({"a": RawPage(t, 0.01, 200, vllm_page(tokens=1000 + 100 * n))}))
    (scoped,) = cycle.scopes
    assert scoped.verdict.window["end"] == t
    assert scoped.verdict.window["seconds"] <= 60.0
    assert scoped.readings["restarts"].value == 0


def test_the_number_of_snapshots_is_bounded_whatever_the_window():
    engine = Engine(settings(window_seconds=1e9), fetch=serving(vllm_page()), clock=lambda: 0.0)
    pages = [RawPage(float(n), 0.0, 200, vllm_page()) for n in range(watch.MAX_SNAPSHOTS + 5)]
    for page in pages:
        engine.record({"a": page})
    assert len(engine._watches["a"].history) == watch.MAX_SNAPSHOTS


def test_counters_pass_through_as_they_are():
    engine = Engine(settings(), fetch=serving(vllm_page(tokens=1000), vllm_page(tokens=1500)), clock=lambda: 0.0)
    lines = [
        next(x for x in engine.step(100.0).page.decode().splitlines() if x.startswith("llm_generation")) for _ in "12"
    ]
    at = 'llm_generation_tokens_total{engine="vllm",instance="a",model="m",rank="0"}'
    assert lines == [f"{at} 1000.0", f"{at} 1500.0"]


def test_a_target_that_fails_is_down_and_its_old_families_leave_the_page():
    engine = Engine(settings(), fetch=serving(vllm_page(), None), clock=lambda: 0.0)
    assert up(engine.step(100.0)) == 1.0
    cycle = engine.step(105.0)
    assert up(cycle) == 0.0
    assert b"llm_requests_running" not in cycle.page
    assert [(c.collector, c.ok) for c in cycle.collected] == [("engine", False), ("triage", True)]


def test_one_call_at_a_time_and_a_late_answer_is_dropped(monkeypatch):
    monkeypatch.setattr(cycles, "GRACE_SECONDS", 0.0)
    gate, calls = threading.Event(), []

    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        calls.append(url)
        gate.wait(30)
        return RawPage(1.0, 0.0, 200, vllm_page(tokens=float(len(calls))))

    engine = Engine(settings(timeout_seconds=0.05), fetch=fetch, clock=lambda: 100.0)
    first, second = engine.step(), engine.step()
    assert (len(calls), up(first), up(second)) == (1, 0.0, 0.0)
    assert "no whole answer" in first.snapshots[0].detail
    assert "still busy" in second.snapshots[0].detail
    gate.set()
    while not engine._watches["a"].flight._pending.done():
        pass
    assert b"llm_generation_tokens_total{" in Engine.step(engine).page
    assert len(calls) == 2


def test_a_fetch_that_raises_costs_its_own_target_only():
    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        if "bad" in url:
            raise RuntimeError("broken transport")
        return RawPage(100.0, 0.0, 200, vllm_page())

    config = settings(Target(url="http://bad:1", name="bad"), Target(url=URL, name="a"))
    cycle = Engine(config, fetch=fetch, clock=lambda: 100.0).step()
    assert (up(cycle, "bad"), up(cycle, "a")) == (0.0, 1.0)
    assert "broken transport" in cycle.snapshots[0].detail


def test_a_walk_that_fails_costs_the_verdict_of_its_scope_and_nothing_else(monkeypatch):
    def broken(window, config, *, scope):
        if scope["instance"] == "b":
            raise ZeroDivisionError
        return working(window, config, scope=scope)

    working = judge.diagnose_with
    monkeypatch.setattr(judge, "diagnose_with", broken)
    config = settings(Target(url=URL, name="a"), Target(url=OTHER, name="b"))
    cycle = Engine(
        config, fetch=lambda url, timeout_s, access: RawPage(100.0, 0.0, 200, vllm_page()), clock=lambda: 100.0
    ).step()
    page = cycle.page.decode()
    assert 'llm_triage_verdict{instance="a"' in page
    assert 'llm_triage_verdict{instance="b"' not in page
    assert 'llm_signal_gap{gap="too-short",instance="b"' in page or 'instance="b",model="m",window=' in page
    assert 'llmvitals_collector_success{collector="triage",instance="b"} 0.0' in page


def test_an_ingest_that_breaks_is_a_target_that_is_down(monkeypatch):
    engine = Engine(settings(), fetch=serving(vllm_page()), clock=lambda: 0.0)
    monkeypatch.setattr(engine._watches["a"].ingest, "snapshot", lambda page: 1 / 0)
    assert up(engine.step(100.0)) == 0.0


def test_gpus_are_joined_from_one_page_for_all_targets_that_share_it():
    asked = []

    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        asked.append(url)
        return RawPage(100.0, 0.0, 200, DCGM if "9400" in url else vllm_page())

    gpu = "http://node:9400"
    config = settings(*(Target(url=f"{URL}/{n}", name=n, gpu_url=gpu, gpus=("0",)) for n in "ab"))
    cycle = Engine(config, fetch=fetch, clock=lambda: 100.0).step()
    assert asked.count("http://node:9400/metrics") == 1
    for name in "ab":
        line = f'llm_gpu_sm_active_ratio{{gpu="GPU-1",index="0",instance="{name}",join="configured"}} 0.5'
        assert line in cycle.page.decode()
    assert {(c.instance, c.ok) for c in cycle.collected if c.collector == "gpu"} == {("a", True), ("b", True)}


def test_one_gpu_page_of_two_targets_gives_neither_all_its_gpus():
    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        return RawPage(100.0, 0.0, 200, DCGM if "9400" in url else vllm_page())

    config = settings(*(Target(url=f"{URL}/{n}", name=n, gpu_url="http://node:9400") for n in "ab"))
    page = Engine(config, fetch=fetch, clock=lambda: 100.0).step().page.decode()
    assert "llm_gpu_sm_active_ratio{" not in page
    gaps = [line for line in page.splitlines() if 'family="llm_gpu_*"' in line]
    assert ['instance="a"' in gaps[0], 'instance="b"' in gaps[1], len(gaps)] == [True, True, 2]


def test_a_gpu_page_that_is_gone_is_a_failed_collector_and_a_gap():
    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        gone = "9400" in url
        return RawPage(100.0, 0.0, None if gone else 200, None if gone else vllm_page(), "refused" if gone else "")

    cycle = Engine(
        settings(Target(url=URL, name="a", gpu_url="http://n:9400")), fetch=fetch, clock=lambda: 100.0
    ).step()
    assert [(c.collector, c.ok) for c in cycle.collected] == [("engine", True), ("gpu", False), ("triage", True)]
    assert 'family="llm_gpu_*"' in cycle.page.decode()


def test_a_gpu_page_without_gpus_is_told_with_its_address_in_gap_and_log_and_once(caplog):
    caplog.set_level(logging.INFO)
    bodies = {"": vllm_page()}

    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        body = bodies[""] if "9400" in url else vllm_page()
        return RawPage(100.0, 0.0, 200 if body else None, body, "" if body else "refused the connection")

    target = Target(url=URL, name="a", gpu_url="http://me:secret@n:9400")
    engine = Engine(settings(target), fetch=fetch, clock=lambda: 100.0)
    page = engine.step(100.0).page.decode()
    assert "http://n:9400/metrics: shows no GPU" in page
    assert caplog.text.count("event=gpu-page-down") == 1
    bodies[""] = None
    assert "http://n:9400/metrics: refused the connection" in engine.step(105.0).page.decode()
    assert caplog.text.count("event=gpu-page-down") == 1
    bodies[""] = DCGM
    assert "llm_gpu_sm_active_ratio{" in engine.step(110.0).page.decode()
    assert caplog.text.count("event=gpu-page-up") == 1
    assert "secret" not in caplog.text + page


@pytest.mark.parametrize("url", ["ftp://n:9400", "http://[n:9400", "http://n:99999"])
@pytest.mark.parametrize("key", ["gpu_url", "probe_url"])
def test_an_address_beside_a_target_that_is_none_is_refused_before_the_first_cycle(key, url):
    with pytest.raises(SettingsError, match=f"{re.escape(url)}: is not a URL"):
        Engine(settings(Target(url=URL, name="a", probe_seconds=30.0, **{key: url})))


def test_two_targets_of_one_name_are_refused():
    with pytest.raises(SettingsError, match="two targets are named 'engine:8000'"):
        Engine(settings(Target(url=URL), Target(url=f"{URL}/metrics")))


def test_a_reload_keeps_the_history_of_what_did_not_change():
    old = Engine(
        settings(Target(url=URL, name="a"), Target(url=OTHER, name="b")), fetch=serving(vllm_page()), clock=lambda: 0.0
    )
    for t in (100.0, 105.0):
        old.step(t)
    changed = settings(Target(url=URL, name="a"), Target(url=f"{URL}/other", name="b"))
    new = Engine(changed, fetch=serving(vllm_page(), at=110.0), clock=lambda: 0.0, previous=old)
    assert new.step(110.0).history == {"a": 3, "b": 1}


def test_a_reload_lets_go_of_what_went():
    """A target with a page of many thousands of series is remembered no longer than until the next cycle."""
    engine = Engine(settings(Target(url=URL, name="a"), Target(url=OTHER, name="b")), fetch=serving(vllm_page()))
    engine.step(100.0)
    gone = weakref.ref(engine._watches["b"].ingest)
    engine = Engine(settings(Target(url=URL, name="a")), fetch=serving(vllm_page()), previous=engine)
    engine.step(105.0)
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("header", "wanted"),
    [(None, 4.0), ("10", 4.0), ("2", 1.5), ("0.1", 0.0), ("-1", 0.0), ("nan", 4.0), ("inf", 4.0), ("soon", 4.0)],
)
def test_a_scrape_has_the_scrapers_time_less_an_offset_and_at_most_our_own(header, wanted):
    assert deadline(header, 4.0) == wanted


def test_a_cycle_that_does_not_finish_grows_old_until_it_counts_as_stuck():
    now = [0.0]
    board = Board(monotonic=lambda: now[0])
    now[0] = 18.9
    assert not board.stuck(5.0, 4.0)
    now[0] = 19.1  # three intervals and the time limit
    assert board.stuck(5.0, 4.0)
    board.post(Engine(Settings()).publish(0.0))
    assert (board.age(), board.stuck(5.0, 4.0)) == (0.0, False)
    now[0] += 7.0
    assert board.age() == 7.0
