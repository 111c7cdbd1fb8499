"""What a read says of different cards, through the real pynvml and the compiled double: numbers, units, and gaps."""

from __future__ import annotations

import pytest

from llmvitals.schema import BY_NAME
from llmvitals.series import series
from llmvitals.telemetry.gpu.nvml.rows import FAMILIES, ROWS, How
from support.nvml.double import H100, H200, L40S, LOADED, MIB, RTX_4080S, SPLIT, T4, memory, mig_uuid, nvlinks, uuid
from support.nvml.reading import Watched

pytestmark = pytest.mark.cc

GPM_FAMILIES = {f"llm_gpu_{name}_active_ratio" for name in ("engine", "sm", "tensor", "dram")}
THROTTLE = "llm_gpu_throttle_seconds_total"


def test_a_loaded_h200_is_shown_in_base_units(nvml):
    nvml.cards({**H200, **LOADED, **memory(143771, 614, 100_000)})
    nvml.processes(0, "compute", [(7, 99_000 * MIB)])
    watched = Watched(nvml)
    watched.after(1)
    seen = watched.after(15)
    assert {name: pytest.approx(seen.value(name)) for name in GPM_FAMILIES} == {
        "llm_gpu_engine_active_ratio": 0.99,
        "llm_gpu_sm_active_ratio": 0.825,
        "llm_gpu_tensor_active_ratio": 0.41,
        "llm_gpu_dram_active_ratio": 0.63,
    }
    assert seen.value("llm_gpu_busy_ratio") == pytest.approx(0.97)
    assert seen.value("llm_gpu_memory_used_bytes") == 100_000 * MIB  # what the driver reserved is not in it
    assert seen.value("llm_gpu_memory_reserved_bytes") == 614 * MIB
    assert seen.value("llm_gpu_memory_free_bytes") == (143771 - 614 - 100_000) * MIB
    assert seen.value("llm_gpu_memory_total_bytes") == 143771 * MIB
    assert seen.value("llm_gpu_power_watts") == pytest.approx(640.5)
    assert seen.value("llm_gpu_power_limit_watts") == 700.0
    assert seen.value("llm_gpu_energy_joules_total") == 1000.0
    assert seen.value("llm_gpu_temperature_celsius") == 61.0
    assert seen.value("llm_gpu_memory_temperature_celsius") == 31.0
    assert seen.value("llm_gpu_sm_clock_hertz") == 1.755e9
    assert seen.value("llm_gpu_sm_clock_max_hertz") == 1.98e9
    assert seen.value("llm_gpu_memory_clock_hertz") == 3.201e9
    assert seen.value("llm_gpu_pcie_bytes_per_second") == pytest.approx(1000 * MIB)  # 100 MiB/s out, 900 in
    assert seen.value("llm_gpu_link_limit_bytes_per_second", link="nvlink") == pytest.approx(2 * 18 * 26.562e9)
    assert seen.value("llm_gpu_link_limit_bytes_per_second", link="pcie") == pytest.approx(2 * 16 * 3.938e9)
    assert seen.value("llm_gpu_info", product="NVIDIA H200", driver="590.48.01") == 1.0
    assert not seen.gaps()


def test_every_series_is_of_the_schema_and_without_labels_of_others(nvml):
    nvml.cards({**H200, **LOADED}, {**L40S})
    nvml.processes(0, "compute", [(7, 2e9)])
    watched = Watched(nvml)
    watched.after(1)
    for key in watched.after(15).snapshot.samples:
        if key.name == "llm_family_gap":
            assert key.label("family").startswith("llm_gpu_")
            continue
        assert key.name in BY_NAME
        assert {name for name, _ in key.labels} <= set(BY_NAME[key.name].labels)
        assert "join" not in dict(key.labels)  # nobody is joined yet


def test_all_families_of_rows_are_of_the_schema():
    assert set(FAMILIES) <= set(BY_NAME)
    assert all(row.ids or row.name or row.mask for row in ROWS)
    assert {row.how for row in ROWS} == set(How)


def test_profiling_takes_two_reads_and_says_so(nvml):
    nvml.cards({**H100, **LOADED})
    watched = Watched(nvml)
    first = watched.after(1)
    for family in GPM_FAMILIES:
        assert not first.has(family)
        assert first.gap(family)[0] == "too-short"
    assert GPM_FAMILIES.isdisjoint(watched.after(15).gaps())


def test_samples_nearer_than_a_tenth_of_a_second_are_not_compared(nvml):
    nvml.cards({**H100, **LOADED})
    watched = Watched(nvml)
    watched.after(1)
    assert watched.after(0.05).gap("llm_gpu_sm_active_ratio")[0] == "too-short"
    del nvml.gpm["0.gpm.2"]  # from here on the card idles
    seen = watched.after(0.95)
    # it was busy for 0.05 s of the second since the first sample: that one counts, not the one in between
    assert seen.value("llm_gpu_sm_active_ratio") == pytest.approx(0.825 * 0.05)


def test_a_card_without_profiling_says_where_it_comes_from(nvml):
    nvml.cards(L40S)
    watched = Watched(nvml)
    watched.after(1)
    seen = watched.after(15)
    for family in GPM_FAMILIES:
        assert not seen.has(family)
        kind, reason = seen.gap(family)
        assert kind == "unsupported"
        assert "Hopper" in reason
    assert seen.value("llm_gpu_busy_ratio") == 0.0
    assert seen.gap("llm_gpu_nvlink_bytes_per_second") == ("unsupported", "the card has no NVLink that is up")
    assert seen.gap("llm_gpu_memory_temperature_celsius")[0] == "unsupported"


def test_pcie_traffic_of_an_older_card_comes_from_its_byte_counters(nvml):
    nvml.cards(L40S)
    watched = Watched(nvml)
    watched.after(1)
    nvml.set("0.field.197", 30e9)
    nvml.set("0.field.198", 15e9)
    assert watched.after(15).value("llm_gpu_pcie_bytes_per_second") == pytest.approx(3e9)
    nvml.set("0.field.197", 0.0)  # reset
    seen = watched.after(15)
    assert not seen.has("llm_gpu_pcie_bytes_per_second")
    assert seen.gap("llm_gpu_pcie_bytes_per_second")[0] == "too-short"


def test_a_byte_counter_of_32_bits_is_no_rate(nvml):
    nvml.cards({**L40S, "field.197:type": 1, "field.198:type": 1})
    watched = Watched(nvml)
    watched.after(1)
    nvml.set("0.field.197", 30e9)
    seen = watched.after(15)
    assert not seen.has("llm_gpu_pcie_bytes_per_second")
    assert seen.gap("llm_gpu_pcie_bytes_per_second")[0] == "unsupported"


def test_a_card_without_ecc_gives_gaps_and_no_zeros(nvml):
    nvml.cards(RTX_4080S)
    seen = Watched(nvml).after(1)
    for family in ("llm_gpu_ecc_corrected_total", "llm_gpu_ecc_uncorrected_total", "llm_gpu_row_remap_pending"):
        assert not seen.has(family)
        assert seen.gap(family)[0] == "unsupported"


def test_a_memory_temperature_of_zero_is_no_sensor(nvml):
    nvml.cards(T4)
    seen = Watched(nvml).after(1)
    assert not seen.has("llm_gpu_memory_temperature_celsius")
    assert "no sensor" in seen.gap("llm_gpu_memory_temperature_celsius")[1]


def test_the_pcie_limit_is_the_fastest_that_was_seen(nvml):
    family = "llm_gpu_link_limit_bytes_per_second"
    nvml.cards(RTX_4080S)
    watched = Watched(nvml)
    assert watched.after(1).value(family) == pytest.approx(2 * 16 * 0.25e9)  # it idles
    nvml.set("0.pcie.generation", 4)
    assert watched.after(15).value(family) == pytest.approx(2 * 16 * 1.969e9)
    nvml.set("0.pcie.generation", 1)
    assert watched.after(15).value(family) == pytest.approx(2 * 16 * 1.969e9)
    nvml.set("0.pcie.width", 8)  # no card does that to save power
    assert watched.after(15).value(family) == pytest.approx(2 * 8 * 1.969e9)


def test_a_number_outside_its_range_is_a_gap(nvml):
    nvml.cards({**H100, "busy": 4_294_967_295})
    seen = Watched(nvml).after(1)
    assert not seen.has("llm_gpu_busy_ratio")
    assert seen.gap("llm_gpu_busy_ratio") == ("missing", "the driver's number is outside its range")


@pytest.mark.parametrize("kind", range(7))
def test_a_field_is_read_by_the_type_it_says(nvml, kind):
    nvml.cards({**H100, "field.82": 77, "field.82:type": kind})
    assert Watched(nvml).after(1).value("llm_gpu_memory_temperature_celsius") == 77.0


def test_an_old_driver_degrades_field_by_field(nvml_loaded):
    nvml = nvml_loaded(True)
    nvml.cards({**H100, **LOADED, **memory(81559, 479, 1000), "reasons": 0x4})
    watched = Watched(nvml)
    watched.after(1)
    seen = watched.after(15)
    assert seen.value("llm_gpu_memory_used_bytes") == (1000 + 479) * MIB  # version 1 counts what is reserved as used
    assert not seen.has("llm_gpu_memory_reserved_bytes")
    assert "too old" in seen.gap("llm_gpu_memory_reserved_bytes")[1]
    assert seen.value("llm_gpu_temperature_celsius") == 61.0  # by the older function
    assert seen.value(THROTTLE, reason="hw_thermal") == 0.0  # the older name of the reasons
    assert "too old" in seen.gap("llm_gpu_sm_active_ratio")[1]
    assert seen.value("llm_gpu_busy_ratio") == pytest.approx(0.97)


def test_the_links_between_cards_are_named_as_nvidia_smi_names_them(nvml):
    cards = [{**L40S} for _ in range(5)]
    for other, level in ((1, 10), (2, 20), (3, 30), (4, 40)):
        cards[0][f"topology.{other}"] = level
    nvml.cards(*cards)
    for other, level in ((1, 10), (2, 20), (3, 30), (4, 40)):
        nvml.put(0, {f"topology.{other}": level})
    seen = Watched(nvml).after(1)
    words = {uuid(1): "PIX", uuid(2): "PXB", uuid(3): "PHB", uuid(4): "NODE"}
    assert set(seen.values("llm_gpu_peer_link", 0)) == {
        (("link", word), ("peer", peer)) for peer, word in words.items()
    }
    assert seen.value("llm_gpu_peer_link", 1, peer=uuid(0), link="PIX") == 1.0
    assert seen.value("llm_gpu_peer_link", 1, peer=uuid(2), link="SYS") == 1.0


def test_bridges_count_links_card_by_card_and_switches_all_of_them(nvml):
    two_apart = {**nvlinks(4, 25781, kind=0), "link.0.bus": 17, "link.1.bus": 17, "link.2.bus": 18, "link.3.bus": 18}
    back = {n: {**nvlinks(2, 25781, kind=0), "link.0.bus": 16, "link.1.bus": 16} for n in (1, 2)}
    nvml.cards({**H100, **two_apart}, {**H100, **back[1]}, {**H100, **back[2]}, {**H100, **nvlinks(18, 26562)}, H100)
    seen = Watched(nvml).after(1)
    assert seen.value("llm_gpu_peer_link", 0, peer=uuid(1), link="NV2") == 1.0
    assert seen.value("llm_gpu_peer_link", 1, peer=uuid(2), link="SYS") == 1.0
    assert seen.value("llm_gpu_peer_link", 3, peer=uuid(4), link="NV18") == 1.0
    assert seen.value("llm_gpu_link_limit_bytes_per_second", 1, link="nvlink") == pytest.approx(2 * 2 * 25.781e9)


def test_a_link_that_is_down_lowers_the_limit(nvml):
    nvml.cards({**H100, "link.17.state": 0})
    seen = Watched(nvml).after(1)
    assert seen.value("llm_gpu_link_limit_bytes_per_second", link="nvlink") == pytest.approx(2 * 17 * 26.562e9)


def test_nvlink_traffic_is_the_growth_of_counters_in_kib(nvml):
    nvml.cards(H100)
    watched = Watched(nvml)
    watched.after(1)
    nvml.set("0.field.138@all", 10_000_000)
    nvml.set("0.field.139@all", 5_000_000)
    assert watched.after(10).value("llm_gpu_nvlink_bytes_per_second") == pytest.approx(15_000_000 * 1024 / 10)


def test_newer_links_count_bytes_and_profiling_stands_in_where_nothing_counts(nvml):
    blackwell = {k: v for k, v in H100.items() if not k.startswith(("field.138", "field.139", "field.16"))}
    counted = {**blackwell, "field.202@all": 0, "field.204@all": 0, "field.208@all": 3, "field.215@all": 1}
    nvml.cards(counted, {**blackwell, "gpm.60": 300.0, "gpm.61": 200.0})
    watched = Watched(nvml)
    watched.after(1)
    nvml.set("0.field.202@all", 6e9)
    nvml.set("0.field.204@all", 4e9)
    seen = watched.after(10)
    assert seen.value("llm_gpu_nvlink_bytes_per_second", 0) == pytest.approx(1e9)
    assert seen.value("llm_gpu_link_errors_total", 0, link="nvlink") == 4.0
    assert seen.value("llm_gpu_nvlink_bytes_per_second", 1) == pytest.approx(500 * MIB)


def split_h100(nvml) -> None:
    nvml.cards({**H100, **SPLIT, **memory(81559, 479, 11125)})
    nvml.slice(
        0, 0, 2, {"name": "NVIDIA H100 80GB HBM3 MIG 3g.40gb", **memory(40448, 0, 11100), "gpm.2": 50.0, "gpm.10": 25.0}
    )
    nvml.slice(
        0, 2, 9, {"name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb", **memory(9984, 0, 9), "gpm.2": 0.0, "gpm.10": 0.0}
    )
    nvml.processes("0/0", "compute", [(21180, 2296 * MIB), (21198, 7484 * MIB)])


def test_a_split_card_is_shown_by_slice(nvml):
    split_h100(nvml)
    watched = Watched(nvml)
    watched.after(1)
    seen = watched.after(15)
    big, small = f"{uuid(0)}/2", f"{uuid(0)}/9"
    assert seen.value("llm_gpu_memory_used_bytes", big) == 11100 * MIB
    assert seen.value("llm_gpu_memory_total_bytes", small) == 9984 * MIB
    assert seen.value("llm_gpu_sm_active_ratio", big) == pytest.approx(0.5)
    assert seen.value("llm_gpu_dram_active_ratio", big) == pytest.approx(0.25)
    assert seen.value("llm_gpu_info", big, mig_profile="3g.40gb", product="NVIDIA H100 80GB HBM3") == 1.0
    assert seen.values("llm_gpu_process_memory_bytes", big) == {
        (("pid", "21180"),): 2296 * MIB,
        (("pid", "21198"),): 7484 * MIB,
    }
    assert not seen.has("llm_gpu_process_memory_bytes", 0)  # or each would count twice
    assert not seen.has("llm_gpu_busy_ratio", 0)
    assert seen.gap("llm_gpu_busy_ratio")[0] == "unsupported"
    assert seen.has("llm_gpu_power_watts", 0)
    assert not seen.has("llm_gpu_power_watts", big)  # the card's, not the slice's
    assert watched.reader.slices == {mig_uuid(0): big, mig_uuid(2): small}


def test_slices_come_and_go(nvml):
    split_h100(nvml)
    watched = Watched(nvml)
    watched.after(1)
    nvml.unset("0/2.instance")
    nvml.slice(0, 5, 4, {"name": "NVIDIA H100 80GB HBM3 MIG 2g.20gb", **memory(19968, 0, 5)})
    seen = watched.after(15)
    assert seen.has("llm_gpu_memory_used_bytes", f"{uuid(0)}/4")
    assert not seen.has("llm_gpu_memory_used_bytes", f"{uuid(0)}/9")


def test_compute_instances_share_the_numbers_of_their_gpu_instance(nvml):
    nvml.cards({**H200, **SPLIT})
    for position, name in enumerate(("1c.3g.71gb", "2c.3g.71gb")):
        nvml.slice(0, position, 2, {"name": f"NVIDIA H200 MIG {name}", **memory(71424, 0, 16925), "gpm.2": 70.0})
        nvml.processes(f"0/{position}", "compute", [(500 + position, 8e9)])
    watched = Watched(nvml)
    for seconds in (1, 15):
        seen = watched.after(seconds)
        assert not [call for call, count in nvml.calls().items() if count > 1 and "SampleAlloc" not in call]
    both = f"{uuid(0)}/2"
    assert seen.value("llm_gpu_memory_used_bytes", both) == 16925 * MIB
    assert seen.value("llm_gpu_sm_active_ratio", both) == pytest.approx(0.7)
    told = [dict(labels) for labels in seen.values("llm_gpu_info", both)]  # what the kubelet calls each of them
    assert {(facts["uuid"], facts["mig_profile"]) for facts in told} == {(mig_uuid(n), "3g.71gb") for n in (0, 1)}
    assert {dict(labels)["pid"] for labels in seen.values("llm_gpu_process_memory_bytes", both)} == {"500", "501"}
    assert watched.reader.slices == {mig_uuid(0): both, mig_uuid(1): both}


def test_slices_that_the_driver_does_not_profile_keep_their_memory(nvml):
    split_h100(nvml)
    nvml.set("gpm.slices!", 4)
    watched = Watched(nvml)
    watched.after(1)
    seen = watched.after(15)
    assert seen.has("llm_gpu_memory_used_bytes", f"{uuid(0)}/2")
    kind, reason = seen.gap("llm_gpu_sm_active_ratio", f"{uuid(0)}/2")
    assert kind == "unsupported"
    assert "CAP_SYS_ADMIN" in reason


def test_a_split_card_without_slices_says_so(nvml):
    nvml.cards({**H100, **SPLIT})
    assert Watched(nvml).after(1).gap("llm_gpu_*") == ("unsupported", "MIG is on, and the card has no slice")


def test_processes_of_both_kinds_count_once(nvml):
    nvml.cards(H100)
    nvml.processes(0, "compute", [(10, 3e9), (11, 1e9)])
    nvml.processes(0, "graphics", [(11, 1e9), (12, 5e7)])
    assert Watched(nvml).after(1).values("llm_gpu_process_memory_bytes") == {
        (("pid", "10"),): 3e9,
        (("pid", "11"),): 1e9,
        (("pid", "12"),): 5e7,
    }


def test_memory_of_a_process_that_is_not_told_is_a_gap_that_names_it(nvml):
    nvml.cards(H100)
    nvml.processes(0, "compute", [(10, None)])
    seen = Watched(nvml).after(1)
    assert not seen.has("llm_gpu_process_memory_bytes")
    told = [k for k in seen.snapshot.samples if k.label("family") == "llm_gpu_process_memory_bytes"]
    assert [key.label("pid") for key in told] == ["10"]


def test_memory_in_use_without_a_process_asks_for_the_hosts_pids(nvml):
    nvml.cards({**H100, **memory(81559, 479, 60_000)}, {**H100, **memory(81559, 479, 520)})
    seen = Watched(nvml).after(1)
    kind, reason = seen.gap("llm_gpu_process_memory_bytes", 0)
    assert kind == "unsupported"
    assert "hostPID" in reason
    assert seen.gap("llm_gpu_process_memory_bytes", 1) == ("", "")  # a driver alone takes some


def test_a_card_keeps_its_place_in_the_series(nvml):
    nvml.cards(H100, H100)
    seen = Watched(nvml).after(1)
    assert series("llm_gpu_power_watts", gpu=uuid(1), index="1") in seen.snapshot.samples
