"""A simulated engine under load whose truth its settings make plain, through the pages it would show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.roofline import CPU_TINY
from llmvitals.simulator.scenarios import scenario
from llmvitals.simulator.workload import Lengths, Stream, Workload
from llmvitals.triage.walk import diagnose
from support.recordings import LESS, cuts, name_of
from support.simulated import simulate

SETTINGS = Settings()
CHAT = Stream("chat", rate=2.0, prompt=Lengths(400, 0.4), output=Lengths(120, 0.4), max_tokens=512)
DOCUMENTS = Stream(rate=14.0, prompt=Lengths(6000, 0.3), output=Lengths(10, 0.5), max_tokens=50)
SHARED = Stream(rate=8.0, prompt=Lengths(2500, 0.1), output=Lengths(60, 0.3), max_tokens=100, prefix_tokens=1500)
TINY = EngineConfig(machine=CPU_TINY)


def of(name: str) -> tuple[EngineConfig, Workload, float]:
    found = scenario(name)
    return found.config, found.workload, found.settles + 5.0


LOADS: dict[str, tuple[str, tuple[EngineConfig, Workload, float]]] = {
    "nobody calls": ("no-traffic", of("idle")),
    "chat with room": ("healthy", of("healthy")),
    "eight seats": ("batch-too-small", of("queue")),
    "documents fill the pool": ("kv-cache-saturation", of("kv-full")),
    "long answers in a small pool": ("preemption-thrash", of("preemption")),
    "more prompt tokens than compute": ("prefill-bound", (EngineConfig(), Workload((DOCUMENTS,)), 20.0)),
    "the same, all of one length": (
        "prefill-bound",
        (EngineConfig(), Workload((replace(DOCUMENTS, prompt=Lengths(6000)),)), 20.0),
    ),
    "500 at once": (
        "batch-too-large",
        (
            EngineConfig(max_num_seqs=512, max_num_batched_tokens=8192),
            Workload(
                (replace(CHAT, rate=0.0, clients=500, ramp=5.0, prompt=Lengths(60, 0.3), output=Lengths(300, 0.3)),)
            ),
            20.0,
        ),
    ),
    "no max_tokens": (
        "unbounded-output",
        (EngineConfig(), Workload((replace(CHAT, output=Lengths(150, 1.2), max_tokens=None),)), 20.0),
    ),
    "a shared beginning, computed each time": (
        "prefix-caching-off",
        (EngineConfig(prefix_caching=False), Workload((SHARED,)), 10.0),
    ),
    "documents between chats": (
        "prefill-decode-interference",
        (
            EngineConfig(machine=CPU_TINY, max_num_batched_tokens=8192),
            Workload(
                (
                    Stream("chat", rate=1.5, prompt=Lengths(60, 0.4), output=Lengths(120, 0.3), max_tokens=256),
                    Stream("documents", rate=0.9, prompt=Lengths(3000, 0.3), output=Lengths(20, 0.3), max_tokens=50),
                )
            ),
            20.0,
        ),
    ),
    # look-alikes: the same sights, nobody hurt
    "a shared beginning, computed once": ("healthy", (EngineConfig(), Workload((SHARED,)), 10.0)),
    "64 at once with seats for all": (
        "healthy",
        (EngineConfig(), Workload((replace(CHAT, rate=0.0, clients=64, ramp=3.0),)), 10.0),
    ),
    "a pool nearly full, nobody waits": (
        "healthy",
        (
            EngineConfig(blocks=1400),
            Workload((replace(CHAT, rate=0.0, clients=40, ramp=3.0, prompt=Lengths(300, 0.3)),)),
            10.0,
        ),
    ),
    "a burst that drains": (
        "healthy",
        (
            EngineConfig(max_num_seqs=32),
            Workload((CHAT, replace(CHAT, name="burst", start=25.0, end=26.0, rate=60.0, prompt=Lengths(300)))),
            10.0,
        ),
    ),
    "long prompts with room": (
        "healthy",
        (
            EngineConfig(),
            Workload((replace(CHAT, rate=1.0, prompt=Lengths(4000, 0.5), output=Lengths(200, 0.5)),)),
            10.0,
        ),
    ),
    "a benchmark of one length": (
        "healthy",
        (EngineConfig(), Workload((replace(CHAT, rate=4.0, prompt=Lengths(1024), output=Lengths(128)),)), 10.0),
    ),
    "a request now and then": ("healthy", (EngineConfig(), Workload((replace(CHAT, rate=0.15),)), 10.0)),
}


def window_of(name: str, *, step: float = 5.0, seconds: float = 60.0) -> Window:
    config, workload, begin = LOADS[name][1]
    return simulate(config, workload, begin=begin, step=step, seconds=seconds)


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize(("step", "seconds"), [(5.0, 60.0), (3.0, 90.0), (15.0, 120.0)])
def test_a_load_is_called_by_its_name_at_any_scrape_interval(name, step, seconds):
    verdict = diagnose(window_of(name, step=step, seconds=seconds), SETTINGS)
    assert name_of(verdict) == LOADS[name][0], verdict.sentence


@pytest.mark.parametrize("name", LOADS)
def test_less_of_a_load_is_never_another_cause(name):
    for cut, part in cuts(window_of(name, step=3.0, seconds=90.0)):
        assert name_of(diagnose(part, SETTINGS)) in {LOADS[name][0], *LESS}, cut


def test_unshared_prompts_that_wait_for_compute_are_no_cache_miss():
    # 3,000 unshared tokens each, 12 a second: the pool turns over in seconds, and 500 wait for prefill
    busy = Stream(rate=12.0, prompt=Lengths(3000), output=Lengths(100, 1.0), max_tokens=1024)
    config = EngineConfig(blocks=4000, max_num_seqs=256, max_num_batched_tokens=512)
    verdict = diagnose(simulate(config, Workload((busy,), 1), begin=40.0), SETTINGS)
    assert name_of(verdict) in {"prefill-bound", "kv-cache-saturation"}, verdict.sentence


def test_a_new_process_whose_first_requests_are_fast_is_healthy():
    config, workload, _ = LOADS["chat with room"][1]
    window = simulate(config, workload, begin=1.0, uptime=2.0)
    assert name_of(diagnose(window, SETTINGS)) == "healthy"
