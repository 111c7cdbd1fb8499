"""Live scrapes on a clock that does not wait: cadence, single flight, and what a down target becomes."""

from __future__ import annotations

import queue
import threading

import pytest

from llmvitals.errors import SettingsError, UnreachableError
from llmvitals.settings import Target
from llmvitals.sources.live import Arrived, observe, pages
from llmvitals.sources.place import base_url, is_url, name_of, without_secrets
from llmvitals.sources.probe import probe
from llmvitals.telemetry.ingest import RawPage
from support.hostile import vllm_page


class Steps:
    """A clock that jumps to the next turn as soon as nothing more can arrive before it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.flying = threading.Semaphore(0)
        self.started: list[tuple[str, float]] = []
        self.held: dict[str, float] = {}  # URL to the moment at which its answer comes

    def monotonic(self) -> float:
        return self.now

    def fetch(self, url: str, *, timeout_s: float, **_: object) -> RawPage:
        began = self.now
        self.started.append((url, began))
        self.flying.release()
        while self.held.get(url, 0.0) > self.now:
            self.tick.wait(0.001)
        return RawPage(self.now, self.now - began, 200, vllm_page(tokens=1000 + self.now))

    tick = threading.Event()

    def take(self, arrived: queue.SimpleQueue[Arrived], seconds: float) -> Arrived:
        try:
            return arrived.get(timeout=0.03)
        except queue.Empty:
            self.now += max(seconds, 0.0)
            raise


def urls(clock: Steps, url: str) -> list[float]:
    return [moment for asked, moment in clock.started if asked == url]


def test_pages_come_at_an_exact_cadence_from_all_targets():
    clock = Steps()
    seen = observe(
        [Target(url="http://a:1"), Target(url="b:2", name="bee")],
        seconds=9,
        interval=3,
        fetch=clock.fetch,
        clock=clock,
    )
    assert urls(clock, "http://a:1/metrics") == urls(clock, "http://b:2/metrics") == [0, 3, 6, 9]
    assert [(one.name, [s.t for s in one.snapshots]) for one in seen] == [("a:1", [0, 3, 6, 9]), ("bee", [0, 3, 6, 9])]


def test_a_slow_target_is_asked_once_at_a_time_and_never_in_a_burst():
    clock = Steps()
    clock.held["http://slow:1/metrics"] = 7.0
    got: list[tuple[str, float]] = []
    pages(
        [Target(url="http://slow:1"), Target(url="http://a:1")],
        seconds=12,
        interval=3,
        timeout_s=10,
        on_page=lambda target, page: got.append((target.url, page.t)),
        fetch=clock.fetch,
        clock=clock,
    )
    assert urls(clock, "http://a:1/metrics") == [0, 3, 6, 9, 12]
    # It answers at 7 s, so the turns at 3, 6 and 9 (where the answer is found) pass it by.
    assert urls(clock, "http://slow:1/metrics") == [0, 12]


def test_an_interval_shorter_than_a_turn_takes_does_not_last_for_ever():
    class Slow(Steps):
        def monotonic(self) -> float:
            self.now += 0.01
            return self.now

    clock = Slow()
    pages(
        [Target(url="http://a:1")],
        seconds=1,
        interval=1e-9,  # a thousand million turns
        timeout_s=1,
        on_page=lambda target, page: None,
        fetch=clock.fetch,
        clock=clock,
    )
    assert clock.now < 10


def test_pages_are_handed_over_in_the_callers_thread():
    clock = Steps()
    threads: set[int] = set()
    pages(
        [Target(url="http://a:1")],
        seconds=3,
        interval=3,
        timeout_s=1,
        on_page=lambda target, page: threads.add(threading.get_ident()),
        fetch=clock.fetch,
        clock=clock,
    )
    assert threads == {threading.get_ident()}


def test_a_target_that_is_down_is_a_failed_scrape_and_not_an_error():
    clock = Steps()

    def refused(url: str, *, timeout_s: float, **_: object) -> RawPage:
        return RawPage(clock.now, 0.01, None, None, "refused the connection")

    (seen,) = observe([Target(url="http://a:1")], seconds=3, interval=3, fetch=refused, clock=clock)
    assert [{k.name: v for k, v in s.samples.items()}["llm_target_up"] for s in seen.snapshots] == [0.0, 0.0]
    assert "refused the connection" in seen.snapshots[0].detail


DCGM = b"""# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",UUID="GPU-b"} 0.75
"""


def test_the_gpus_of_a_target_are_scraped_and_joined_to_it():
    clock = Steps()

    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        return RawPage(clock.now, 0.01, 200, DCGM if "9400" in url else vllm_page())

    target = Target(url="http://a:1", gpu_url="http://a:9400", gpus=("GPU-b",))
    (seen,) = observe([target], seconds=3, interval=3, fetch=fetch, clock=clock)
    active = {k: v for k, v in seen.snapshots[0].samples.items() if k.name == "llm_gpu_engine_active_ratio"}
    assert [(k.label("instance"), k.label("gpu"), v) for k, v in active.items()] == [("a:1", "GPU-b", 0.75)]


def test_the_gpus_of_any_gpu_exporter_are_joined():
    page = b'nvidia_smi_gpu_info{index="1",uuid="b"} 1\nnvidia_smi_utilization_gpu_ratio{uuid="b"} 0.75\n'
    clock = Steps()

    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        return RawPage(clock.now, 0.01, 200, page if "9835" in url else vllm_page())

    target = Target(url="http://a:1", gpu_url="http://a:9835", gpus=("1",))
    (seen,) = observe([target], seconds=3, interval=3, fetch=fetch, clock=clock)
    busy = {k: v for k, v in seen.snapshots[0].samples.items() if k.name == "llm_gpu_busy_ratio"}
    assert [(k.label("instance"), k.label("gpu"), v) for k, v in busy.items()] == [("a:1", "GPU-b", 0.75)]


def test_two_targets_of_one_name_are_refused():
    with pytest.raises(SettingsError, match="two targets are named 'x'"):
        observe([Target(url="a:1", name="x"), Target(url="b:1", name="x")], seconds=1, interval=1)


@pytest.mark.parametrize("wrong", ["ftp://h", "http://", "http://h:99999", "h:0"])
def test_what_is_no_url_is_named(wrong):
    with pytest.raises(SettingsError, match="is not a URL"):
        base_url(wrong)


def test_words_that_mean_a_url():
    assert [is_url(w) for w in ("http://h", "h:8000", "h.x:1/metrics", "[::1]:9")] == [True] * 4
    assert [is_url(w) for w in ("captures/healthy", "page.prom", "vllm-0", "C:x")] == [False] * 4


def test_names_and_secrets():
    assert name_of(Target(url="http://me:pw@h:8000/metrics")) == "h:8000"
    assert name_of(Target(url="http://h:8000", name="chat")) == "chat"
    assert without_secrets("http://me:pw@h:8000/x?token=1") == "http://h:8000/x"


def test_the_first_look_tells_engine_exporter_and_error_apart():
    answers = {
        "http://e:1/metrics": RawPage(1.0, 0.1, 200, vllm_page()),
        "http://x:1/metrics": RawPage(1.0, 0.1, 200, b'llm_triage_verdict{verdict="healthy"} 1\n'),
        "http://d:1/metrics": RawPage(1.0, 0.1, 401, b""),
    }

    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        return answers[url]

    engine, exporter, denied = probe([Target(url=f"http://{h}:1") for h in "exd"], fetch=fetch)
    assert (engine.error, engine.exporter) == (None, False)
    assert (exporter.error, exporter.exporter) == (None, True)
    assert isinstance(denied.error, UnreachableError)
    assert denied.error.place == "http://d:1/metrics"
