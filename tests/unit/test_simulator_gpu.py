"""What a dcgm-exporter page shows of simulated GPUs: their links, what holds them down, and what goes wrong with them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.hardware import pcie
from llmvitals.simulator.live import Live
from llmvitals.simulator.roofline import GPU_8B, Link, Machine
from llmvitals.simulator.setup import Faults, Restart, Setup, Slow
from llmvitals.simulator.workload import Lengths, Stream, Workload
from llmvitals.telemetry.ingest import Ingest, RawPage

CHAT = Stream(rate=3.0, prompt=Lengths(400), output=Lengths(150), max_tokens=512)
CROWD = Stream(clients=32, prompt=Lengths(300), output=Lengths(200), max_tokens=512)
NVLINK = Link("NVLink 4", 450e9, 8e-6)
SLOW_PCIE = Link("PCIe 3.0 x4", 3e9, 200e-6)


def machine(link: Link | None = NVLINK, gpus: int = 2, **changes: float) -> Machine:
    return replace(GPU_8B, gpus=gpus, link=link, **changes)


def live(stream: Stream | None = CHAT, on: Machine = GPU_8B, faults: Faults | None = None, **config: object) -> Live:
    streams = (stream,) if stream else ()
    engine = EngineConfig(machine=on, **config)  # type: ignore[arg-type]
    return Live(Setup(engine, Workload(streams, seed=5), faults=faults or Faults()))


def page(server: Live, t: float) -> dict[tuple[str, int], float]:
    found = re.findall(r'^DCGM_FI_(\w+)\{gpu="(\d+)",.*\} (\S+)$', server.gpu_page_at(t).decode(), re.M)
    return {(name, int(index)): float(value) for name, index, value in found}


def mean(server: Live, name: str, first: int, last: int, index: int = 0) -> float:
    return sum(page(server, t)[name, index] for t in range(first, last + 1)) / (last - first + 1)


def test_every_gpu_of_an_engine_has_its_own_series():
    text = live(on=machine(gpus=4)).gpu_page_at(20.0).decode()
    rows = re.findall(r'^DCGM_FI_PROF_SM_ACTIVE\{gpu="(\d)",UUID="([^"]+)",pci_bus_id="([^"]+)"', text, re.M)
    assert [row[0] for row in rows] == ["0", "1", "2", "3"]
    assert len({row[1] for row in rows}) == len({row[2] for row in rows}) == 4
    assert text.count("# TYPE DCGM_FI_PROF_SM_ACTIVE gauge") == 1


def test_nvlink_carries_what_the_steps_exchange_and_the_slot_nothing():
    server = live(CROWD, machine())
    sent = sum(page(server, t)["PROF_NVLINK_TX_BYTES", 1] for t in range(1, 31))
    assert sent == pytest.approx(server.engine.counters.link_bytes)
    now = page(server, 30)
    assert now["PROF_NVLINK_RX_BYTES", 0] == now["PROF_NVLINK_TX_BYTES", 1] > 0
    assert now["PROF_PCIE_TX_BYTES", 0] == 0
    assert (now["DEV_PCIE_LINK_GEN", 0], now["DEV_PCIE_LINK_WIDTH", 1]) == (5, 16)  # an H200's own slot


def test_the_page_names_the_slot_that_the_gpus_exchange_over():
    now = page(live(CROWD, machine(pcie(3, 4, 90e-6))), 5)
    assert (now["DEV_PCIE_LINK_GEN", 1], now["DEV_PCIE_LINK_WIDTH", 1]) == (3, 4)


def test_the_pod_that_holds_the_gpus_is_on_the_page_only_where_the_exporter_knows_of_pods():
    server = live(on=machine(), faults=Faults(restarts=(Restart(20.0, 25.0, "probe"), Restart(40.0, 45.0, "rollout"))))

    def pods(t: float) -> set[str]:
        text = server.gpu_page_at(t, pods=True).decode()
        return set(re.findall(r'gpu="\d".*container="engine",namespace="serving",pod="([^"]+)"', text))

    first, after_probe, after_rollout = pods(10), pods(30), pods(50)
    assert len(first) == len(after_rollout) == 1
    assert after_probe == first != after_rollout
    assert b"pod=" not in server.gpu_page_at(50)


def test_a_slow_link_keeps_the_processors_busy_and_everything_else_idle():
    bound, well = live(CROWD, machine(SLOW_PCIE)), live(CROWD, machine())
    active, tensor, memory = (mean(bound, f"PROF_{name}_ACTIVE", 10, 30) for name in ("SM", "PIPE_TENSOR", "DRAM"))
    assert active > 0.7
    assert tensor < 0.1
    assert memory < 0.5 * mean(well, "PROF_DRAM_ACTIVE", 10, 30)
    now = page(bound, 31)
    assert now["PROF_PCIE_TX_BYTES", 0] > 0
    assert ("PROF_NVLINK_TX_BYTES", 0) not in now


def test_work_is_split_so_two_gpus_are_each_less_active():
    one, two = live(CROWD), live(replace(CROWD), machine())
    assert mean(two, "PROF_DRAM_ACTIVE", 10, 20) < 0.75 * mean(one, "PROF_DRAM_ACTIVE", 10, 20)


def test_heat_holds_the_first_gpu_down_and_the_page_says_for_how_long():
    faults = Faults(slow=(Slow(20.0, 50.0, 0.4, "thermal"),))
    hot, cool = live(CROWD, machine(), faults), live(CROWD, machine())
    before, during = page(hot, 15), page(hot, 40)
    assert before["DEV_SM_CLOCK", 0] == before["DEV_MAX_SM_CLOCK", 0] == 1980
    assert (during["DEV_SM_CLOCK", 0], during["DEV_SM_CLOCK", 1]) == (792, 1980)
    assert before["DEV_THERMAL_VIOLATION", 0] == 0
    assert during["DEV_THERMAL_VIOLATION", 0] == 20e9  # nanoseconds
    assert during["DEV_THERMAL_VIOLATION", 1] == during["DEV_POWER_VIOLATION", 0] == 0
    assert during["DEV_POWER_USAGE", 0] < page(cool, 40)["DEV_POWER_USAGE", 0]
    assert during["DEV_GPU_TEMP", 0] > before["DEV_GPU_TEMP", 0] + 10
    after = page(hot, 60)
    assert after["DEV_THERMAL_VIOLATION", 0] == 30e9
    assert after["DEV_SM_CLOCK", 0] == 1980
    page(cool, 60)
    assert hot.engine.counters.generated_tokens < 0.85 * cool.engine.counters.generated_tokens


def test_a_power_limit_is_drawn_in_full_and_holds_only_work_down():
    faults = Faults(slow=(Slow(0.0, 60.0, 0.5, "power"),))
    busy, idle = live(CROWD, faults=faults), live(None, faults=faults)
    now = page(busy, 30)
    assert now["DEV_ENFORCED_POWER_LIMIT", 0] < page(live(CROWD), 30)["DEV_ENFORCED_POWER_LIMIT", 0] == 700
    assert now["DEV_POWER_USAGE", 0] <= now["DEV_ENFORCED_POWER_LIMIT", 0]
    assert now["DEV_POWER_USAGE", 0] > 0.6 * now["DEV_ENFORCED_POWER_LIMIT", 0]
    assert now["DEV_POWER_VIOLATION", 0] > 15e9
    assert now["DEV_SM_CLOCK", 0] < 1500
    still = page(idle, 30)
    assert (still["DEV_POWER_VIOLATION", 0], still["DEV_POWER_USAGE", 0], still["DEV_SM_CLOCK", 0]) == (0, 75, 345)


def test_an_xid_stays_until_another_comes_and_belongs_to_one_gpu():
    server = live(on=machine(), faults=Faults(xid=((10.0, 79), (30.0, 48)), ecc=(30.0, 31.0), row_remap_at=31.0))
    shown = [page(server, t)["DEV_XID_ERRORS", 0] for t in (5, 10, 25, 30, 60)]
    assert shown == [0, 79, 79, 48, 48]
    now = page(server, 60)
    assert (now["DEV_ECC_DBE_VOL_TOTAL", 0], now["DEV_ROW_REMAP_PENDING", 0]) == (2, 1)
    assert (now["DEV_XID_ERRORS", 1], now["DEV_ECC_DBE_VOL_TOTAL", 1], now["DEV_ROW_REMAP_PENDING", 1]) == (0, 0, 0)


def test_memory_of_another_process_is_counted_as_used():
    server = live(on=machine(), faults=Faults(other_memory=((20.0, 40.0, 8e9),)))
    before, during, after = (page(server, t) for t in (10, 30, 50))
    assert during["DEV_FB_USED", 0] - before["DEV_FB_USED", 0] == pytest.approx(8e9 / 2**20, abs=2)
    assert during["DEV_FB_USED", 1] == before["DEV_FB_USED", 1] == after["DEV_FB_USED", 0]
    for shown in (before, during, after):
        whole = sum(shown[f"DEV_FB_{part}", 0] for part in ("USED", "FREE", "RESERVED"))
        assert whole == pytest.approx(141e9 / 2**20, abs=3)


def test_more_memory_than_there_is_cannot_be_taken():
    server = live(faults=Faults(other_memory=((0.0, 40.0, 90e9),)))
    assert page(server, 30)["DEV_FB_FREE", 0] == 0


def test_while_it_loads_an_engine_holds_its_weights_and_no_activity_is_negative():
    faults = Faults(restarts=(Restart(20.4, 28.0),), slow=(Slow(5.0, 15.0, 0.5),))
    server = live(CROWD, faults=faults)
    pages = [page(server, t) for t in range(1, 50)]
    assert min(p["PROF_SM_ACTIVE", 0] for p in pages) == 0
    assert max(p["PROF_SM_ACTIVE", 0] for p in pages[30:]) > 0.1
    loading, serving = pages[23]["DEV_FB_USED", 0], pages[35]["DEV_FB_USED", 0]
    assert loading == 16.06e9 // 2**20 < serving  # the weights of 8.03e9 parameters in 2 bytes
    energy = [p["DEV_TOTAL_ENERGY_CONSUMPTION", 0] for p in pages]
    assert energy == sorted(energy)
    assert pages[-1]["DEV_THERMAL_VIOLATION", 0] == 10e9  # the driver's, and not the process's


def test_steps_longer_than_a_sample_lose_nothing():
    slow = machine(gpus=1, link=None, bandwidth=10e9)  # two seconds of reading weights a step
    server = live(Stream(clients=2, prompt=Lengths(100), output=Lengths(40), max_tokens=64), slow)
    shown = [page(server, t) for t in range(1, 101)]
    assert sum(p["PROF_SM_ACTIVE", 0] for p in shown) == pytest.approx(server.engine.counters.busy_seconds, abs=3)
    assert sum(p["PROF_DRAM_ACTIVE", 0] for p in shown) == pytest.approx(server.engine.counters.memory_seconds, abs=3)
    assert all(p["PROF_SM_ACTIVE", 0] <= 1 for p in shown)


def test_the_adapter_reads_it_in_base_units():
    server = live(CROWD, machine(), Faults(slow=(Slow(10.0, 40.0, 0.5, "thermal"),), xid=((15.0, 79),)))
    shown = Ingest(instance="gpus", kind="dcgm").read(RawPage(30.0, 0.01, 200, server.gpu_page_at(30.0)))
    values = {(k.name, k.label("index"), k.label("reason") or k.label("xid")): v for k, v in shown.samples.items()}
    assert values["llm_gpu_throttle_seconds_total", "0", "thermal"] == pytest.approx(20.0)
    assert values["llm_gpu_xid_events_total", "0", "79"] == 1
    assert values["llm_gpu_sm_clock_hertz", "0", ""] == pytest.approx(990e6)
    assert values["llm_gpu_sm_clock_max_hertz", "1", ""] == pytest.approx(1980e6)
    assert values["llm_gpu_power_limit_watts", "1", ""] == 700
    link = page(server, 30)
    both = link["PROF_NVLINK_TX_BYTES", 1] + link["PROF_NVLINK_RX_BYTES", 1]
    assert values["llm_gpu_nvlink_bytes_per_second", "1", ""] == pytest.approx(both)
