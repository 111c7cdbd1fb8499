"""Traces of the lab's plays: who is traced, and that what the receiver makes of them joins the engine's page."""

from __future__ import annotations

import pytest

from llmvitals.lab import tracing
from llmvitals.lab.play import SETTINGS, Job, watch
from llmvitals.lab.result import LEVELS
from llmvitals.lab.scenarios import SCENARIOS
from llmvitals.signals.catalogue import compute


def test_a_third_of_the_plays_is_traced_and_the_same_ones_each_time():
    seeds = [f"{row.name}/{seed}/0/0" for row in SCENARIOS for seed in range(5)]
    traced = [tracing.sending("vllm", seed) is not None for seed in seeds]
    assert traced == [tracing.sending("vllm", seed) is not None for seed in seeds]
    assert 0.25 < sum(traced) / len(traced) < 0.42


def test_an_engine_that_sends_no_such_spans_is_never_traced():
    assert not any(tracing.sending("sglang", str(seed)) for seed in range(30))


@pytest.fixture(scope="module")
def run():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracing, "SHARE", 1.1)
        return watch(Job("poor-but-harmless", 5, 0, "clear"))


def test_every_request_is_told_and_the_exact_share_lies_in_the_interval(run):
    found = compute(run.window(run.last, LEVELS[-1]), SETTINGS)
    assert found["span_coverage_ratio"].value == pytest.approx(1.0, abs=0.05)
    exact = found["slo_goodput_ratio"].value
    assert found["goodput_low_ratio"].value - 1e-9 <= exact <= found["goodput_high_ratio"].value + 1e-9


@pytest.mark.parametrize("level", LEVELS[:-1])
def test_traces_are_part_of_all_there_is_and_of_no_level_below(run, level):
    names = run.window(run.last, level).names()
    assert not [name for name in names if name.startswith(("llm_span_", "llm_slo_"))]
