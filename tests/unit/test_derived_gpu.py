"""Signals of GPUs beside an engine: numbers worked out by hand, and what they say where something is not shown."""

from __future__ import annotations

import pytest

from llmvitals.gaps import GapKind
from llmvitals.series import Window
from llmvitals.signals.reading import Standing
from support.made import Server, changed, healthy, read, run, value, without
from support.situations_hardware import GIB, Beside, beside, crowded, held_down, linked, xid


def cards(*shares: dict[str, float]) -> Window:
    """A healthy window with one GPU for each set of arguments of ``card``."""

    def each(apart: Beside, _: int) -> None:
        for gpu, own in enumerate(shares):
            apart.card(gpu, **own)  # type: ignore[arg-type]

    return beside(healthy, each)


def kind(window: Window, signal: str) -> GapKind:
    gap = read(window, signal).gap
    assert gap is not None
    return gap.kind


# -- one of several ---------------------------------------------------------------------------------------------------
def test_gpus_are_counted_for_each_rank():
    assert value(cards({}, {}), "gpus_per_rank") == 2
    two = Server(ranks=2)
    apart = Beside(two)

    def each(server: Server, _: int) -> None:
        server.serve(20)
        for gpu in range(4):
            apart.card(gpu)

    assert value(run(6, each, two), "gpus_per_rank") == 2


def test_the_fullest_card_counts_at_its_fullest_moment():
    def each(apart: Beside, i: int) -> None:
        apart.card(0, free=0.2)
        apart.card(1, free=0.03 if i == 4 else 0.3)

    assert value(beside(healthy, each), "gpu_memory_free_low_ratio") == pytest.approx(0.03)


def test_reserved_memory_belongs_to_the_card():
    def each(apart: Beside, _: int) -> None:
        apart.card(free=0.1)
        apart.set("llm_gpu_memory_reserved_bytes", 20 * GIB, gpu="GPU-0", index="0", join="configured")

    assert value(beside(healthy, each), "gpu_memory_free_low_ratio") == pytest.approx(8 / 100)


def test_memory_of_others_is_a_share_of_the_worst_card():
    assert value(cards({"other": 0.01}, {"other": 0.08}), "gpu_memory_other_ratio") == pytest.approx(0.08)


# -- clocks -----------------------------------------------------------------------------------------------------------
def test_the_slowest_busy_card_counts():
    window = cards({"clock": 0.9}, {"clock": 0.5})
    assert read(window, "gpu_clock_ratio").value == pytest.approx(0.5)
    assert read(window, "gpu_clock_ratio").standing is Standing.EXACT


def test_without_the_highest_clock_the_fastest_card_stands_in():
    window = cards({"clock": 0.8, "top": False}, {"clock": 0.4, "top": False})
    found = read(window, "gpu_clock_ratio")
    assert found.value == pytest.approx(0.5)
    assert found.standing is Standing.UPPER


def test_clocks_of_an_idle_card_say_nothing():
    assert kind(cards({"clock": 0.2, "sm": 0.1}), "gpu_clock_ratio") is GapKind.NO_TRAFFIC
    window = cards({"clock": 0.2, "sm": 0.1}, {"clock": 0.95})
    assert value(window, "gpu_clock_ratio") == pytest.approx(0.95)


def test_any_measure_of_activity_tells_a_busy_card():
    bare = without(cards({"clock": 0.5}), "llm_gpu_engine_active_ratio")
    assert value(bare, "gpu_clock_ratio") == pytest.approx(0.5)
    blind = without(bare, "llm_gpu_sm_active_ratio")
    assert kind(blind, "gpu_clock_ratio") is GapKind.MISSING


def test_time_held_down_is_a_share_of_the_window_on_the_worst_card():
    assert value(held_down(share=0.5), "gpu_throttle_ratio") == pytest.approx(0.5)
    assert value(held_down(share=0.5), "gpu_power_cap_ratio") == 0.0
    assert value(held_down("power", share=0.9), "gpu_power_cap_ratio") == pytest.approx(0.9)
    assert value(held_down("power", share=0.9), "gpu_throttle_ratio") == 0.0


def test_a_reason_that_is_not_counted_is_not_0():
    only_power = changed(held_down(), lambda k, v: None if k.label("reason") == "thermal" else v)
    assert kind(only_power, "gpu_throttle_ratio") is GapKind.UNSUPPORTED
    assert value(only_power, "gpu_power_cap_ratio") == 0.0


# -- errors -----------------------------------------------------------------------------------------------------------
def test_a_code_that_comes_in_the_window_is_an_event_and_one_from_before_is_none():
    assert value(xid(), "gpu_xid_errors") == 1
    assert value(xid(since=0), "gpu_xid_errors") == 0


@pytest.mark.parametrize("code", ["43", "45"])
def test_the_programs_own_errors_are_not_the_cards(code):
    assert value(xid(code), "gpu_xid_errors") == 0


def test_a_code_is_no_event_because_its_page_came_late():
    """The GPU page is joined from the middle of the window on, and shows an old code from its first page on."""
    server = Server()
    apart = Beside(server)

    def each(s: Server, i: int) -> None:
        healthy(s, i)
        if i >= 5:
            apart.card()
            apart.set("llm_gpu_xid_events_total", 1, gpu="GPU-0", index="0", join="configured", xid="79")

    assert value(run(10, each, server), "gpu_xid_errors") == 0


def test_a_second_code_is_a_second_event():
    def each(apart: Beside, i: int) -> None:
        apart.card()
        for at, code in ((4, "63"), (8, "94")):
            if i == at:
                apart.event("xid_events_total", 1, xid=code)

    assert value(beside(healthy, each), "gpu_xid_errors") == 2


def test_uncorrectable_errors_are_those_of_the_window():
    def each(apart: Beside, i: int) -> None:
        apart.card()
        apart.event("ecc_uncorrected_total", 7 if i == 0 else 2 if i == 5 else 0)

    assert value(beside(healthy, each), "gpu_ecc_errors") == 2


# -- links ------------------------------------------------------------------------------------------------------------
def test_the_fullest_link_counts_against_its_own_limit():
    assert value(linked(use=0.6), "gpu_link_use_ratio") == pytest.approx(0.6)
    assert value(linked(use=0.6), "gpu_links_unknown") == 0


def test_a_link_without_a_limit_is_unknown_and_not_idle():
    window = linked(use=None)
    assert read(window, "gpu_link_use_ratio").value is None
    assert value(window, "gpu_links_unknown") == 1


def test_traffic_is_held_against_the_limit_of_the_same_link():
    def each(apart: Beside, _: int) -> None:
        apart.card()
        mine = {"gpu": "GPU-0", "index": "0", "join": "configured"}
        apart.set("llm_gpu_pcie_bytes_per_second", 50e9, **mine)
        apart.set("llm_gpu_nvlink_bytes_per_second", 90e9, **mine)
        apart.set("llm_gpu_link_limit_bytes_per_second", 900e9, link="nvlink", **mine)

    assert value(beside(healthy, each), "gpu_link_use_ratio") == pytest.approx(0.1)


# -- not there --------------------------------------------------------------------------------------------------------
SIGNALS = (
    "gpus_per_rank",
    "gpu_tensor_active_mean_ratio",
    "gpu_dram_active_mean_ratio",
    "gpu_memory_free_low_ratio",
    "gpu_memory_other_ratio",
    "gpu_link_use_ratio",
    "gpu_links_unknown",
    "gpu_clock_ratio",
    "gpu_throttle_ratio",
    "gpu_power_cap_ratio",
    "gpu_xid_errors",
    "gpu_ecc_errors",
    "gpu_remap_pending",
)


@pytest.mark.parametrize("signal", SIGNALS)
def test_without_a_gpu_page_every_signal_says_that_none_is_joined(signal):
    gap = read(run(6, healthy), signal).gap
    assert gap is not None
    assert gap.kind is GapKind.UNSUPPORTED
    assert gap.why == "no GPU is joined: set gpu_url, or run on the engine's machine"
    assert gap.series == "llm_gpu_*"


@pytest.mark.parametrize(
    ("family", "signal"),
    [
        ("llm_gpu_tensor_active_ratio", "gpu_tensor_active_mean_ratio"),
        ("llm_gpu_dram_active_ratio", "gpu_dram_active_mean_ratio"),
        ("llm_gpu_memory_free_bytes", "gpu_memory_free_low_ratio"),
        ("llm_gpu_memory_other_bytes", "gpu_memory_other_ratio"),
        ("llm_gpu_sm_clock_hertz", "gpu_clock_ratio"),
        ("llm_gpu_xid_events_total", "gpu_xid_errors"),
        ("llm_gpu_ecc_uncorrected_total", "gpu_ecc_errors"),
        ("llm_gpu_row_remap_pending", "gpu_remap_pending"),
    ],
)
def test_what_a_joined_page_lacks_without_a_word_is_missing(family, signal):
    assert kind(without(crowded(), family), signal) is GapKind.MISSING


def test_impossible_numbers_were_not_measured():
    window = changed(cards({"clock": 0.5}), lambda k, v: -1.0 if k.name == "llm_gpu_sm_clock_max_hertz" else v)
    found = read(window, "gpu_clock_ratio")
    assert found.value == 1.0  # against the highest seen
    assert found.standing is Standing.UPPER
