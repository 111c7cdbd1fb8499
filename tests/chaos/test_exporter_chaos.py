"""What one target shows that cannot be, or two hundred at once: gaps instead of numbers, and a page in time."""

from __future__ import annotations

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families as parse_text

from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Target
from support.hostile import MIB, Hostile
from support.prometheus import free_port, wait_for
from support.reliability import Part

TIMEOUT = 1.0


@pytest.fixture
def hostile():
    with Hostile() as server:
        yield server


def settings(*targets: Target, interval: float = 0.2, timeout: float = TIMEOUT) -> Settings:
    limits = Limits(
        listen="127.0.0.1:0",
        interval_seconds=interval,
        timeout_seconds=timeout,
        max_page_bytes=4 * MIB,
        window_seconds=60.0,
    )
    return Settings(targets=targets, exporter=limits)


def samples(body: str, name: str) -> dict[str, float]:
    """The values of one family by instance."""
    return {s.labels["instance"]: s.value for f in parse_text(body) for s in f.samples if s.name == name}


def test_a_number_that_is_none_is_a_gap_and_no_sample(hostile):
    cycle = Engine(settings(Target(url=hostile.url("/nan"), name="a"))).step()
    page = cycle.page.decode()
    assert samples(page, "llm_requests_running") == {}
    assert 'family="llm_requests_running",gap="missing"' in page
    assert "NaN" not in [line.rsplit(" ", 1)[-1] for line in page.splitlines()]


def test_a_restart_passes_the_counters_fall_through_and_reads_no_negative_rate(hostile):
    engine = Engine(settings(Target(url=hostile.url("/restarted"), name="a")))
    tokens = []
    for _ in range(8):
        cycle = engine.step()
        tokens.append(samples(cycle.page.decode(), "llm_generation_tokens_total")["a"])
    assert tokens == [1010.0, 1020.0, 1030.0, 40.0, 50.0, 60.0, 70.0, 80.0]
    (scoped,) = cycle.scopes
    rate = scoped.readings["generation_tokens_rate"]
    assert rate.value is None or rate.value >= 0.0


def test_a_model_that_changes_gets_a_scope_of_its_own(hostile):
    engine = Engine(settings(Target(url=hostile.url("/renamed"), name="a")))
    for _ in range(5):
        cycle = engine.step()
    assert {(s.instance, s.model) for s in cycle.scopes} == {("a", "m"), ("a", "other")}
    running = [line for line in cycle.page.decode().splitlines() if line.startswith("llm_requests_running{")]
    assert ['model="other"' in line for line in running] == [True]  # the page itself shows what runs now


def test_two_hundred_targets_half_of_them_dead(hostile, reliability):
    closed = free_port()
    dead = [Target(url=f"http://127.0.0.1:{closed}/{n}", name=f"dead-{n}") for n in range(60)]
    dead += [Target(url=hostile.url(f"/hang?{n}"), name=f"hangs-{n}") for n in range(40)]
    alive = [Target(url=hostile.url(f"/fine?{n}"), name=f"alive-{n}") for n in range(100)]
    expected = {**{t.name: 0.0 for t in dead}, **{t.name: 1.0 for t in alive}}
    with Exporter(settings(*dead, *alive, interval=1.0, timeout=8.0)) as running:
        wait_for(lambda: running.newest, "the first cycle")

        def up() -> dict[str, float]:
            answer = requests.get(running.url + "/metrics", timeout=10)  # the time that a Prometheus gives it
            assert answer.status_code == 200
            return samples(answer.text, "llm_target_up")

        wait_for(lambda: up() == expected, "each as it is")
    reliability(
        Part.MANY,
        "200 targets, 60 of them closed and 40 silent",
        "the page is there in a scrape's time, each target as it is",
        "100 up, 100 down",
    )
