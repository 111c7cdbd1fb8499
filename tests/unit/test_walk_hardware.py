"""What a verdict about hardware, the host or connections advises, how sure it is, and what it leaves to others."""

from __future__ import annotations

import pytest

from llmvitals.series import Snapshot, Window, series
from llmvitals.settings import Settings
from llmvitals.triage.verdict import State
from llmvitals.triage.walk import diagnose, states
from support.made import healthy, run, without
from support.recordings import name_of
from support.situations import batch_too_large
from support.situations_hardware import (
    beside,
    crowded,
    held_down,
    linked,
    many_files,
    restarted,
    slow_for_the_batch,
    well_card,
)

SETTINGS = Settings()


@pytest.mark.parametrize(
    ("free", "advised"),
    [(0.02, 0.89), (0.0, 0.87), (0.045, 0.91)],  # 0.92 less what is short of 5 %, at least a point, rounded down
)
def test_memory_is_lowered_by_what_is_short_of_the_margin(free, advised):
    verdict = diagnose(restarted("oom", free=free), SETTINGS)
    assert verdict.leading is not None
    assert verdict.leading.action.setting == "--gpu-memory-utilization"
    assert verdict.leading.action.value == pytest.approx(advised)
    assert f"Set --gpu-memory-utilization to {advised:g}." in verdict.sentence


def test_without_the_setting_the_advice_has_no_number():
    verdict = diagnose(without(restarted("oom"), "llm_gpu_memory_utilization_setting"), SETTINGS)
    assert name_of(verdict) == "vram-headroom"
    assert verdict.leading is not None
    assert verdict.leading.action.value is None


def test_a_link_whose_limit_is_not_shown_is_believed_less():
    known, unknown = (diagnose(linked(use=use), SETTINGS).leading for use in (0.6, None))
    assert known is not None
    assert unknown is not None
    assert unknown.confidence < known.confidence


def test_a_held_down_card_explains_the_batch_that_looks_too_large():
    verdict = diagnose(held_down(load=slow_for_the_batch), SETTINGS)
    assert name_of(verdict) == "hardware-event"
    assert states(verdict)["batch-too-large"].state is State.SHADOWED


def test_a_card_that_is_well_leaves_the_cause_to_the_batch_and_makes_it_surer():
    alone, seen = (
        diagnose(batch_too_large(), SETTINGS).leading,
        diagnose(well_card(slow_for_the_batch), SETTINGS).leading,
    )
    assert alone is not None
    assert seen is not None
    assert (alone.cause, seen.cause) == ("batch-too-large", "batch-too-large")
    assert seen.confidence > alone.confidence


@pytest.mark.parametrize("cause", ["hardware-event", "vram-headroom", "interconnect-bound", "connection-exhaustion"])
def test_without_its_telemetry_a_check_does_not_apply_and_doubts_nobody(cause):
    verdict = diagnose(batch_too_large(), SETTINGS)
    assert states(verdict)[cause].state is State.NOT_APPLICABLE
    assert name_of(verdict) == "batch-too-large"


def test_what_can_be_seen_decides_where_the_rest_is_not_shown():
    """Descriptors stand on the engine's own page: with room there, nothing says that ports or connections run out."""
    assert states(diagnose(many_files(0.5), SETTINGS))["connection-exhaustion"].state is State.CLEAR


def test_telemetry_that_is_not_joined_is_told_once():
    told = [b.series for b in diagnose(run(8, healthy), SETTINGS).blind]
    for source in ("llm_gpu_*", "llm_host_*", "llm_gateway_*"):
        assert told.count(source) == 1


def test_a_gpu_page_that_failed_is_told_with_its_reason_and_doubts_nobody():
    gap = series("llm_family_gap", instance="made", family="llm_gpu_*", gap="missing", reason="refused the connection")
    window = batch_too_large()
    told = Window.of(Snapshot(s.t, {**s.samples, gap: 1.0}, s.detail) for s in window.snapshots)
    verdict = diagnose(told, SETTINGS)
    assert name_of(verdict) == "batch-too-large"
    assert any("refused the connection" in b.why for b in verdict.blind)


def test_a_family_that_a_joined_page_lacks_leaves_the_verdict_open():
    """Without the clocks, what holds the card down could not be told from a batch that is too large."""
    window = without(held_down(load=slow_for_the_batch), "llm_gpu_sm_clock_hertz")
    assert name_of(diagnose(window, SETTINGS)) == "undetermined"


def test_one_error_is_enough_even_on_few_pages():
    def each(apart, i):
        apart.card()
        if i == 2:
            apart.event("xid_events_total", 1, xid="79")

    window = beside(healthy, each)
    short = window.slice(window.start, window.start + 15)
    assert name_of(diagnose(short, SETTINGS)) == "hardware-event"


def test_a_crowded_card_with_a_full_pool_is_no_reason_to_make_the_pool_smaller():
    def full(server, i):
        server.serve(10, ttft=6.0, prompt=3000, output=200, queue=5.6, prefill=0.4, max_tokens=500)
        server.gauges(running=5 - i % 2, waiting=5, kv=0.97)

    assert name_of(diagnose(crowded(full), SETTINGS)) == "kv-cache-saturation"
