"""GPU memory beside the pool, the links of GPUs that share a layer, error codes in words: worked out by hand."""

from __future__ import annotations

from itertools import combinations

import pytest

from llmvitals.gaps import GapKind
from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.signals.derived.xids import APPLICATION, told
from llmvitals.signals.reading import Standing
from llmvitals.triage.walk import diagnose
from support.made import Server, changed, healthy, read, run, value, without
from support.recordings import name_of
from support.situations_hardware import (
    CARD,
    GIB,
    Beside,
    beside,
    crowded,
    linked,
    replays,
    restarted,
    slow_for_the_batch,
    xid,
)

SETTINGS = Settings()


def kind(window: Window, signal: str) -> GapKind:
    gap = read(window, signal).gap
    assert gap is not None
    return gap.kind


def held(apart: Beside, size: float, owner: str, *, gpu: int = 0, pid: str = "100") -> None:
    """What one process holds on a card, in bytes."""
    mine = {"gpu": f"GPU-{gpu}", "index": str(gpu), "join": "configured"}
    apart.set("llm_gpu_process_memory_bytes", size, pid=pid, owner=owner, **mine)


# -- memory -----------------------------------------------------------------------------------------------------------
def test_what_stays_free_is_told_in_bytes_at_the_fullest_moment_of_the_fullest_card():
    def each(apart: Beside, i: int) -> None:
        apart.card(0, free=0.25)
        apart.card(1, free=0.05 if i == 3 else 0.5)

    found = read(beside(healthy, each), "gpu_memory_free_low_bytes")
    assert found.value == pytest.approx(4 * GIB)  # 5 % of 80 GiB
    assert found.standing is Standing.UPPER


def test_the_engines_own_memory_is_that_of_its_processes_and_what_exceeds_its_setting_lies_beside_the_pool():
    def each(apart: Beside, _: int) -> None:
        apart.card(free=0.02)
        held(apart, 0.60 * CARD, "engine", pid="1")
        held(apart, 0.35 * CARD, "engine", pid="2")  # 0.95 together, and the setting is 0.92
        held(apart, 0.01 * CARD, "unknown", pid="3")

    window = beside(healthy, each)
    assert value(window, "gpu_memory_engine_ratio") == pytest.approx(0.95)
    assert value(window, "gpu_memory_beside_pool_ratio") == pytest.approx(0.03)
    assert kind(without(window, "llm_gpu_memory_utilization_setting"), "gpu_memory_beside_pool_ratio") is (
        GapKind.UNSUPPORTED
    )


def test_the_whole_card_is_what_it_says_itself():
    def each(apart: Beside, _: int) -> None:
        apart.card(free=0.1)
        apart.set("llm_gpu_memory_total_bytes", 2 * CARD, gpu="GPU-0", index="0", join="configured")
        held(apart, 0.5 * CARD, "engine")

    assert value(beside(healthy, each), "gpu_memory_engine_ratio") == pytest.approx(0.25)


def test_other_processes_stand_in_for_what_a_source_does_not_sum_up():
    def each(apart: Beside, _: int) -> None:
        apart.card(free=0.1)
        held(apart, 0.8 * CARD, "engine", pid="1")
        held(apart, 0.06 * CARD, "other", pid="2")
        held(apart, 0.02 * CARD, "other", pid="3")

    window = without(beside(healthy, each), "llm_gpu_memory_other_bytes")
    assert value(window, "gpu_memory_other_ratio") == pytest.approx(0.08)
    alone = changed(window, lambda k, v: None if k.label("owner") == "other" else v)
    assert value(alone, "gpu_memory_other_ratio") == 0.0
    nobodys = changed(window, lambda k, v: None if k.label("owner") in {"other", "engine"} else v)
    assert read(nobodys, "gpu_memory_other_ratio").value is None


def test_memory_that_the_engine_takes_later_is_growth_and_a_new_process_begins_anew():
    def growing(apart: Beside, i: int) -> None:
        apart.card()
        held(apart, 60 * GIB + i * GIB / 2, "engine")

    assert value(beside(healthy, growing), "gpu_memory_engine_growth_bytes") == pytest.approx(14 * GIB / 2)

    server = Server()
    apart = Beside(server)
    for i in range(10):
        if i == 5:
            server.restart()
        healthy(server, i)
        apart.card()
        held(apart, (10 if i == 5 else 12) * GIB + (i < 5) * 50 * GIB, "engine")
        server.page()
    assert value(server.window(), "gpu_memory_engine_growth_bytes") == pytest.approx(2 * GIB)


# -- tensor parallelism and its links -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("said", "expected", "standing"),
    [
        ({}, 4, Standing.ESTIMATE),
        ({"gpus": 4}, 4, Standing.ESTIMATE),
        ({"gpus": 4, "arguments": 2}, 2, Standing.EXACT),
        ({"gpus": 4, "arguments": 2, "settings": 1}, 1, Standing.EXACT),
    ],
)
def test_who_knows_best_says_how_many_share_a_layer(said, expected, standing):
    def each(apart: Beside, _: int) -> None:
        for gpu in range(4):
            apart.card(gpu)
        for source, size in said.items():
            apart.set("llm_tensor_parallel_size", size, source=source)

    found = read(beside(healthy, each), "tensor_parallel_gpus")
    assert (found.value, found.standing) == (expected, standing)


def paths(*links: str, size: int = 0, gpus: int = 4) -> Window:
    """Four cards; the links of their pairs in order (0-1, 0-2, 0-3, 1-2, 1-3, 2-3), each told by one end only."""

    def each(apart: Beside, _: int) -> None:
        for gpu in range(gpus):
            apart.card(gpu)
        for (a, b), link in zip(combinations(range(gpus), 2), links, strict=False):
            mine = {"gpu": f"GPU-{a}", "index": str(a), "join": "configured"}
            apart.set("llm_gpu_peer_link", 1, peer=f"GPU-{b}", link=link, **mine)
        apart.set("llm_gpu_peer_link", 1, gpu="GPU-3", index="3", join="configured", peer="GPU-9", link="SYS")
        if size:
            apart.set("llm_tensor_parallel_size", size, source="arguments")

    return beside(healthy, each)


@pytest.mark.parametrize(
    ("links", "size", "level"),
    [
        (("NV18",) * 6, 4, 0),
        (("NV12",) * 5 + ("PHB",), 4, 3),
        (("PIX", "SYS", "SYS", "SYS", "SYS", "PXB"), 2, 2),  # pairs 0-1 and 2-3 share layers, the rest does not
        (("PIX", "NODE", "NODE", "NODE", "NODE", "PIX"), 0, 4),
        (("SYS",) + ("NV4",) * 5, 3, 5),  # three of four share a layer, and nobody says which
    ],
)
def test_the_worst_link_is_that_of_gpus_which_share_a_layer(links, size, level):
    assert value(paths(*links, size=size), "gpu_peer_link_level") == level


def test_the_worst_link_is_named():
    assert read(paths(*(("NV12",) * 5 + ("SYS",)), size=4), "gpu_peer_link_level").note == "SYS between its GPUs"


def test_gpus_that_exchange_nothing_have_no_worst_link():
    assert kind(paths(*(("SYS",) * 6), size=1), "gpu_peer_link_level") is GapKind.UNSUPPORTED


def test_a_pair_whose_link_is_not_told_is_no_nvlink():
    assert kind(linked(), "gpu_peer_link_level") is GapKind.UNSUPPORTED


def test_a_size_of_one_leaves_the_verdict_to_the_others_though_two_gpus_are_joined():
    assert name_of(diagnose(linked(), SETTINGS)) == "interconnect-bound"
    assert name_of(diagnose(linked(size=1), SETTINGS)) != "interconnect-bound"


def test_a_slow_path_makes_a_slow_link_surer_and_nvlink_less_sure():
    slow, fast = (diagnose(linked(path=path), SETTINGS).leading for path in ("SYS", "NV18"))
    assert slow is not None
    assert fast is not None
    assert slow.confidence > fast.confidence
    assert "SYS between its GPUs." in slow.note


def test_errors_of_links_are_held_against_what_a_sound_one_shows():
    assert value(replays(12), "gpu_link_error_excess") == pytest.approx(1.5)  # of 8 a minute
    assert value(replays(3000, link="nvlink"), "gpu_link_error_excess") == pytest.approx(0.5)  # of 100 a second
    assert kind(replays(12, link="c2c"), "gpu_link_error_excess") is GapKind.UNSUPPORTED


def test_the_link_that_errs_is_named_in_the_verdict():
    leading = diagnose(replays(), SETTINGS).leading
    assert leading is not None
    assert (leading.cause, "pcie of GPU 0" in leading.note) == ("hardware-event", True)


# -- errors in words --------------------------------------------------------------------------------------------------
def test_codes_are_told_in_words_the_lowest_first():
    assert told(["79", "48", "79"]) == (
        "XID 48 (memory): an uncorrectable memory error; XID 79 (link): the card has fallen off the bus"
    )
    assert told(["999"]) == "XID 999"
    assert {"43", "45"} == APPLICATION


def test_a_verdict_says_which_error_it_was():
    leading = diagnose(xid("94"), SETTINGS).leading
    assert leading is not None
    assert "XID 94 (memory): an uncorrectable memory error, contained to one program." in leading.note


def test_a_repeat_of_one_code_counts_where_codes_are_counted():
    def each(apart: Beside, i: int) -> None:
        apart.card()
        if i in {4, 8}:
            apart.event("xid_events_total", 1, xid="63")

    assert value(beside(healthy, each), "gpu_xid_errors") == 2


def test_a_mig_slice_is_told_with_its_profile():
    def each(apart: Beside, _: int) -> None:
        apart.card()
        apart.set("llm_gpu_info", 1, gpu="GPU-0", index="0", join="configured", product="A100", mig_profile="1g.10gb")

    found = read(beside(healthy, each), "gpu_mig_slices")
    assert (found.value, found.note) == (1, "MIG 1g.10gb")
    whole = changed(beside(healthy, each), lambda k, v: None if k.label("mig_profile") else v)
    assert kind(whole, "gpu_mig_slices") is GapKind.UNSUPPORTED


# -- symptoms ---------------------------------------------------------------------------------------------------------
def test_an_under_used_card_counts_only_while_somebody_waits():
    def load(server: Server, i: int) -> None:
        healthy(server, i)
        server.gauges(running=5, waiting=3 if i > 7 else 0, kv=0.2)

    def each(apart: Beside, i: int) -> None:
        apart.card(0, sm=0.9 if i > 11 else 0.3)
        apart.card(1, sm=0.9 if i > 11 else 0.5)

    # 15 pages from 0 to 14: somebody waits from 8 on, the cards are under-used until 11
    assert value(beside(load, each), "gpu_idle_while_waiting_ratio") == pytest.approx(4 / 15)


def test_a_full_pool_counts_only_while_somebody_waits():
    def load(server: Server, i: int) -> None:
        healthy(server, i)
        server.gauges(running=5, waiting=3 if i > 7 else 0, kv=0.95 if i > 4 else 0.5)

    assert value(run(14, load), "kv_high_while_waiting_ratio") == pytest.approx(7 / 15)


def test_utilisation_is_a_signal_of_its_own_and_no_activity():
    def each(apart: Beside, _: int) -> None:
        apart.set("llm_gpu_busy_ratio", 1.0, gpu="GPU-0", index="0", join="configured")

    window = beside(healthy, each)
    assert value(window, "gpu_busy_mean_ratio") == 1.0
    assert read(window, "gpu_sm_active_mean_ratio").value is None


# -- nobody is doubted for it -------------------------------------------------------------------------------------------
QUIET = (
    "gpu_memory_free_low_bytes",
    "gpu_memory_engine_ratio",
    "gpu_memory_beside_pool_ratio",
    "gpu_memory_engine_growth_bytes",
    "gpu_peer_link_level",
    "gpu_link_error_excess",
    "gpu_mig_slices",
    "gpu_idle_while_waiting_ratio",
)


@pytest.mark.parametrize("signal", QUIET)
def test_what_a_joined_page_does_not_show_raises_no_doubt(signal):
    def each(apart: Beside, _: int) -> None:
        apart.set("llm_gpu_power_watts", 300, gpu="GPU-0", index="0", join="configured")

    assert kind(beside(healthy, each), signal) is GapKind.UNSUPPORTED
    assert kind(run(6, healthy), signal) is GapKind.UNSUPPORTED


def test_what_settings_say_of_gpus_joins_none():
    """A tensor-parallel size without any GPU telemetry leaves the verdict what it is on the engine's page alone."""

    def each(apart: Beside, _: int) -> None:
        apart.set("llm_tensor_parallel_size", 2, source="settings")
        apart.set("llm_host_info", 1, join="port")
        apart.set("llm_host_ready", 1)

    window = beside(slow_for_the_batch, each)
    alone = without(window, "llm_tensor_parallel_size", "llm_host_info", "llm_host_ready")
    assert name_of(diagnose(window, SETTINGS)) == name_of(diagnose(alone, SETTINGS)) == "batch-too-large"
    assert read(window, "gpu_xid_errors").gap == read(alone, "gpu_xid_errors").gap
    assert read(window, "api_cpu_full_ratio").gap == read(alone, "api_cpu_full_ratio").gap


def test_old_errors_are_no_events_because_a_fact_was_there_before_the_gpus():
    def each(apart: Beside, i: int) -> None:
        apart.set("llm_tensor_parallel_size", 1, source="settings")
        if i > 4:
            apart.card()
            apart.event("ecc_uncorrected_total", 7 if i == 5 else 0)

    assert value(beside(healthy, each), "gpu_ecc_errors") == 0


def test_a_pool_reserved_by_design_says_nothing_though_all_is_shown():
    def each(apart: Beside, _: int) -> None:
        apart.card(free=0.01)
        held(apart, 0.97 * CARD, "engine")

    assert name_of(diagnose(beside(healthy, each), SETTINGS)) == "healthy"
    assert name_of(diagnose(crowded(healthy), SETTINGS)) == "healthy"


def test_the_hosts_memory_is_named_where_it_ended_the_container():
    verdict = diagnose(restarted("oom", host=0.98), SETTINGS)
    assert name_of(verdict) != "vram-headroom"
    assert "The container was ended for want of memory, at 98 % of its limit: the host's memory" in verdict.sentence
    assert name_of(diagnose(restarted("oom", host=0.5), SETTINGS)) == "vram-headroom"
