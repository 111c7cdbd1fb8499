"""A dcgm-exporter page in base units, its quirks, and how its GPUs are joined to an engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llmvitals.series import Snapshot
from llmvitals.telemetry.gpu.dcgm import ROWS
from llmvitals.telemetry.gpu.join import join_gpus
from llmvitals.telemetry.identity.match import match_page
from llmvitals.telemetry.ingest import Ingest, RawPage

FIELD = re.compile(r"(?P<name>DCGM_FI_\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+)")
AT = 'gpu="0",UUID="GPU-a",device="nvidia0",modelName="Made GPU",Hostname="n1"'
OTHER = 'gpu="1",UUID="GPU-b",device="nvidia1",modelName="Made GPU",hostname="n1"'
PAGE = f"""# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{AT}}} 0.93
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{OTHER}}} 0.11
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{{{AT}}} 0.71
# TYPE DCGM_FI_PROF_PIPE_TENSOR_ACTIVE gauge
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{AT}}} 0.22
# TYPE DCGM_FI_PROF_DRAM_ACTIVE gauge
DCGM_FI_PROF_DRAM_ACTIVE{{{AT}}} 0.64
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{{AT}}} 100
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{{{AT}}} 71200
# TYPE DCGM_FI_DEV_FB_FREE gauge
DCGM_FI_DEV_FB_FREE{{{AT}}} 9000
# TYPE DCGM_FI_DEV_FB_RESERVED gauge
DCGM_FI_DEV_FB_RESERVED{{{AT}}} 720
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{{{AT}}} 411.25
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{{{AT}}} 63
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{{{AT}}} 1410
"""


def read(text: str) -> Snapshot:
    return Ingest(instance="gpus").read(RawPage(10.0, 0.01, 200, text.encode()))


def values(snapshot: Snapshot, name: str, **labels: str) -> list[float]:
    return [
        v for s, v in snapshot.samples.items() if s.name == name and all(s.label(k) == x for k, x in labels.items())
    ]


def gap_reasons(snapshot: Snapshot, family: str) -> list[str]:
    return [s.label("reason") for s in snapshot.samples if s.name == "llm_family_gap" and s.label("family") == family]


@pytest.mark.parametrize(
    ("family", "value"),
    [
        ("llm_gpu_engine_active_ratio", 0.93),
        ("llm_gpu_sm_active_ratio", 0.71),
        ("llm_gpu_tensor_active_ratio", 0.22),
        ("llm_gpu_dram_active_ratio", 0.64),
        ("llm_gpu_busy_ratio", 1.0),  # percent
        ("llm_gpu_memory_used_bytes", 74_658_611_200.0),  # 71200 MiB
        ("llm_gpu_memory_free_bytes", 9_437_184_000.0),  # 9000 MiB
        ("llm_gpu_memory_reserved_bytes", 754_974_720.0),  # 720 MiB
        ("llm_gpu_power_watts", 411.25),
        ("llm_gpu_temperature_celsius", 63.0),
        ("llm_gpu_sm_clock_hertz", 1.41e9),  # MHz
    ],
)
def test_fields_become_base_units(family: str, value: float) -> None:
    assert values(read(PAGE), family, gpu="GPU-a", index="0") == [value]


def test_both_spellings_of_the_host_label_are_fine_and_left_out() -> None:
    snapshot = read(PAGE)
    assert values(snapshot, "llm_gpu_engine_active_ratio", gpu="GPU-b", index="1") == [0.11]
    assert all("ostname" not in dict(s.labels) for s in snapshot.samples)


def test_blank_numbers_are_unknown_and_not_saturation() -> None:
    page = (
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 37\n'
        'DCGM_FI_DEV_SM_CLOCK{gpu="0", UUID="GPU-a"} 9223372036854775794\n'
        'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 9223372036854775792\n'
        'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a"} 140737488355328.0\n'
        'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 1.40737488355328e+16\n'
        'DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-a"} 1.7\n'
    )
    snapshot = read(page)
    assert values(snapshot, "llm_gpu_busy_ratio") == [0.37]
    for family in ("sm_clock_hertz", "memory_used_bytes", "sm_active_ratio", "power_watts", "dram_active_ratio"):
        assert values(snapshot, f"llm_gpu_{family}") == []
        assert len(gap_reasons(snapshot, f"llm_gpu_{family}")) == 1


def test_a_space_after_the_comma_is_the_same_series() -> None:
    snapshot = read('DCGM_FI_DEV_SM_CLOCK{gpu="0", UUID="GPU-a"} 139\n')
    assert values(snapshot, "llm_gpu_sm_clock_hertz", gpu="GPU-a", index="0") == [139e6]


def test_absent_fields_are_unknown() -> None:
    (reason,) = gap_reasons(read(f"DCGM_FI_DEV_GPU_TEMP{{{AT}}} 40\n"), "llm_gpu_sm_active_ratio")
    assert reason.startswith("DCGM_FI_PROF_SM_ACTIVE is not among this exporter's fields")


def test_one_gpu_with_several_pods_is_one_gpu_and_its_own_series_wins() -> None:
    gpu = 'gpu="0",UUID="GPU-a",Hostname="w1"'
    old, new = f'{gpu},exported_pod="llm-old"', f'{gpu},exported_pod="llm-new"'
    lines = [f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {v}\n" for labels, v in ((gpu, 88), (old, 12), (new, 34))]
    for order in (lines, lines[::-1]):
        assert values(read("".join(order)), "llm_gpu_busy_ratio") == [0.88]
    assert values(read("".join(lines[1:])), "llm_gpu_busy_ratio") == [0.34]  # the newest when the device has none


def test_an_empty_pod_label_is_the_device_itself() -> None:
    page = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",container="",namespace="",pod=""} 5\n'
    page += 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",container="c",namespace="n",pod="p"} 90\n'
    assert values(read(page), "llm_gpu_busy_ratio") == [0.05]


MIG = (
    'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 51\n'
    'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a",GPU_I_PROFILE="3g.40gb",GPU_I_ID="1"} 0.93\n'
    'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="12"} 0.02\n'
)


def test_mig_slices_stay_apart() -> None:
    snapshot = read(MIG)
    assert values(snapshot, "llm_gpu_engine_active_ratio", gpu="GPU-a/1") == [0.93]
    assert values(snapshot, "llm_gpu_engine_active_ratio", gpu="GPU-a/12") == [0.02]


# -- clocks, throttling, errors, links --------------------------------------------------------------------------------
MORE = f"""# TYPE DCGM_FI_DEV_MAX_SM_CLOCK gauge
DCGM_FI_DEV_MAX_SM_CLOCK{{{AT}}} 1980
# TYPE DCGM_FI_DEV_ENFORCED_POWER_LIMIT gauge
DCGM_FI_DEV_ENFORCED_POWER_LIMIT{{{AT}}} 650.000000
# TYPE DCGM_FI_DEV_POWER_MGMT_LIMIT gauge
DCGM_FI_DEV_POWER_MGMT_LIMIT{{{AT}}} 700.000000
# TYPE DCGM_FI_DEV_POWER_VIOLATION counter
DCGM_FI_DEV_POWER_VIOLATION{{{AT}}} 2500000000
# TYPE DCGM_FI_DEV_THERMAL_VIOLATION counter
DCGM_FI_DEV_THERMAL_VIOLATION{{{AT}}} 864000000000000
# TYPE DCGM_FI_DEV_LOW_UTIL_VIOLATION counter
DCGM_FI_DEV_LOW_UTIL_VIOLATION{{{AT}}} 9000000000
# TYPE DCGM_FI_DEV_ECC_DBE_VOL_TOTAL counter
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{AT}}} 3
# TYPE DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS counter
DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{{{AT}}} 1
# TYPE DCGM_FI_PROF_NVLINK_TX_BYTES gauge
DCGM_FI_PROF_NVLINK_TX_BYTES{{{AT}}} 30000000000
# TYPE DCGM_FI_PROF_NVLINK_RX_BYTES gauge
DCGM_FI_PROF_NVLINK_RX_BYTES{{{AT}}} 20000000000
# TYPE DCGM_FI_PROF_PCIE_TX_BYTES counter
DCGM_FI_PROF_PCIE_TX_BYTES{{{AT}}} 1500
# TYPE DCGM_FI_PROF_PCIE_RX_BYTES counter
DCGM_FI_PROF_PCIE_RX_BYTES{{{AT}}} 500
# TYPE DCGM_FI_DEV_PCIE_LINK_GEN gauge
DCGM_FI_DEV_PCIE_LINK_GEN{{{AT}}} 4
# TYPE DCGM_FI_DEV_PCIE_LINK_WIDTH gauge
DCGM_FI_DEV_PCIE_LINK_WIDTH{{{AT}}} 16
"""


@pytest.mark.parametrize(
    ("family", "labels", "value"),
    [
        ("llm_gpu_sm_clock_max_hertz", {}, 1.98e9),
        ("llm_gpu_power_limit_watts", {}, 650.0),  # what is enforced, not what was asked for
        ("llm_gpu_throttle_seconds_total", {"reason": "power"}, 2.5),
        ("llm_gpu_throttle_seconds_total", {"reason": "thermal"}, 864_000.0),  # ten days: no blank number
        ("llm_gpu_ecc_uncorrected_total", {}, 3.0),  # the errors, not the rows that were lost to them
        ("llm_gpu_nvlink_bytes_per_second", {}, 50e9),
        ("llm_gpu_pcie_bytes_per_second", {}, 2000.0),  # a rate, whatever its TYPE line says
        ("llm_gpu_link_limit_bytes_per_second", {"link": "pcie"}, 63.008e9),  # 16 lanes of 1.969 GB/s, both ways
    ],
)
def test_what_an_operator_has_switched_on_is_read(family: str, labels: dict[str, str], value: float) -> None:
    assert values(read(MORE), family, gpu="GPU-a", index="0", **labels) == [pytest.approx(value)]


def test_an_idle_gpu_is_not_held_down() -> None:
    reasons = {s.label("reason") for s in read(MORE).samples if s.name == "llm_gpu_throttle_seconds_total"}
    assert reasons == {"power", "thermal"}


@pytest.mark.parametrize(
    ("page", "family", "value"),
    [
        (f"DCGM_FI_DEV_POWER_MGMT_LIMIT{{{AT}}} 700\n", "llm_gpu_power_limit_watts", [700.0]),
        (f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{{{AT}}} 2\n", "llm_gpu_ecc_uncorrected_total", [2.0]),
        (f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{AT}}} 1\n", "llm_gpu_row_remap_pending", [1.0]),
        (
            f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{AT}}} 1\nDCGM_FI_DEV_ROW_REMAP_PENDING{{{AT}}} 0\n",
            "llm_gpu_row_remap_pending",
            [1.0],
        ),
        (f"DCGM_FI_DEV_ROW_REMAP_PENDING{{{AT}}} 0\n", "llm_gpu_row_remap_pending", [0.0]),
        (f"DCGM_FI_PROF_PCIE_TX_BYTES{{{AT}}} 5\n", "llm_gpu_pcie_bytes_per_second", []),  # half of it is not it
        (f"DCGM_FI_DEV_PCIE_LINK_GEN{{{AT}}} 4\n", "llm_gpu_link_limit_bytes_per_second", []),
        (
            f"DCGM_FI_DEV_PCIE_LINK_GEN{{{AT}}} 12\nDCGM_FI_DEV_PCIE_LINK_WIDTH{{{AT}}} 16\n",
            "llm_gpu_link_limit_bytes_per_second",
            [],
        ),
        (
            f"DCGM_FI_PROF_PCIE_TX_BYTES{{{AT}}} 5\nDCGM_FI_PROF_PCIE_RX_BYTES{{{AT}}} 9223372036854775794\n",
            "llm_gpu_pcie_bytes_per_second",
            [],
        ),
    ],
)
def test_what_is_made_of_several_fields(page: str, family: str, value: list[float]) -> None:
    snapshot = read(page)
    assert values(snapshot, family) == value
    assert value or gap_reasons(snapshot, family)


def test_a_code_is_a_sample_of_its_own_beside_the_field_itself() -> None:
    clean, broken = (read(f"DCGM_FI_DEV_XID_ERRORS{{{AT}}} {code}\n") for code in (0, 79))
    assert values(clean, "llm_gpu_xid_events_total") == [0.0]
    assert values(broken, "llm_gpu_xid_events_total", xid="") == [0.0]
    assert values(broken, "llm_gpu_xid_events_total", xid="79") == [1.0]


def test_a_gpu_that_only_its_pods_show_is_summed_once() -> None:
    pod = f'{AT},pod="p"'
    page = "".join(f"DCGM_FI_PROF_PCIE_{way}_BYTES{{{pod}}} {n}\n" for way, n in (("TX", 7), ("RX", 5)))
    assert values(read(page), "llm_gpu_pcie_bytes_per_second") == [12.0]
    own = "".join(f"DCGM_FI_PROF_PCIE_{way}_BYTES{{{AT}}} {n}\n" for way, n in (("TX", 70), ("RX", 50)))
    assert values(read(page + own), "llm_gpu_pcie_bytes_per_second") == [120.0]


@pytest.mark.parametrize(
    ("family", "gap"),
    [
        ("llm_gpu_xid_events_total", "unsupported"),
        ("llm_gpu_throttle_seconds_total", "unsupported"),
        ("llm_gpu_tensor_active_ratio", "unsupported"),
        ("llm_gpu_memory_other_bytes", "unsupported"),
        ("llm_gpu_sm_clock_hertz", "missing"),  # every list has it
        ("llm_gpu_memory_free_bytes", "missing"),
    ],
)
def test_no_verdict_waits_for_what_a_list_of_fields_leaves_out(family: str, gap: str) -> None:
    snapshot = read(f"DCGM_FI_DEV_GPU_TEMP{{{AT}}} 40\n")
    found = [s.label("gap") for s in snapshot.samples if s.name == "llm_family_gap" and s.label("family") == family]
    assert found == [gap]


def test_a_join_keeps_every_label_of_a_family() -> None:
    snapshot = joined(read(MORE + f"DCGM_FI_DEV_XID_ERRORS{{{AT}}} 48\n"), "GPU-a")
    assert values(snapshot, "llm_gpu_throttle_seconds_total", reason="power", join="configured") == [2.5]
    assert values(snapshot, "llm_gpu_throttle_seconds_total", reason="thermal") == [864_000.0]
    assert values(snapshot, "llm_gpu_xid_events_total", xid="48") == [1.0]
    assert len(values(snapshot, "llm_gpu_link_limit_bytes_per_second", link="pcie")) == 1


def test_recorded_pages_are_read_without_loss(shared: Path) -> None:
    """Every field that has a row gives a sample for each GPU of the page, in number and value."""
    pages = sorted((shared / "reference" / "pages" / "dcgm-exporter").glob("*.prom"))
    if not pages:
        pytest.skip("no recorded pages of dcgm-exporter")
    plain = {row.source: row for row in ROWS if not row.special and not row.fallback}
    seen = 0
    for path in pages:
        text = path.read_text()
        if "DCGM_FI_" not in text:
            continue
        snapshot = read(text)
        told = [parts for line in text.splitlines() if (parts := FIELD.match(line))]
        for source, row in plain.items():
            raw = [float(m["value"]) for m in told if m["name"] == source]
            usable = sorted(v * row.scale for v in raw if v < row.ceiling)
            if usable:
                assert sorted(values(snapshot, row.family)) == pytest.approx(usable), (path.name, source)
                seen += len(usable)
    assert seen > 100


# -- the join ------------------------------------------------------------------------------------------------------
ENGINE = Ingest(instance="vllm-0").read(
    RawPage(11.0, 0.01, 200, b'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.9\n')
)


def joined(gpus: Snapshot, *wanted: str, model: str = "m") -> Snapshot:
    return join_gpus(ENGINE, gpus, match_page(gpus, wanted), instance="vllm-0", model=model)


def test_configured_gpus_stand_next_to_the_engine() -> None:
    snapshot = joined(read(PAGE), "GPU-a")
    found = {dict(s.labels)["gpu"] for s in snapshot.samples if s.name.startswith("llm_gpu_")}
    assert found == {"GPU-a"}
    assert values(snapshot, "llm_gpu_sm_active_ratio", instance="vllm-0", model="m", join="configured") == [0.71]
    assert values(snapshot, "llm_kv_usage_ratio") == [0.9]
    assert values(snapshot, "llm_target_up") == [1.0]  # the engine's alone
    assert snapshot.t == 11.0


def test_gpus_are_named_by_uuid_or_index_and_all_without_a_name() -> None:
    assert values(joined(read(PAGE), "1"), "llm_gpu_engine_active_ratio") == [0.11]
    assert sorted(values(joined(read(PAGE)), "llm_gpu_engine_active_ratio")) == [0.11, 0.93]
    assert values(joined(read(PAGE), "0", model=""), "llm_gpu_sm_active_ratio", model="") == [0.71]


def test_what_the_gpu_page_cannot_say_is_told_of_the_engine() -> None:
    page = 'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 9\nDCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b"} NaN\n'
    snapshot = joined(read(page), "GPU-a")
    told = [
        s for s in snapshot.samples if s.name == "llm_family_gap" and s.label("family") == "llm_gpu_sm_active_ratio"
    ]
    assert [(s.label("instance"), s.label("model"), s.label("gap")) for s in told] == [("vllm-0", "m", "unsupported")]
    assert gap_reasons(snapshot, "llm_gpu_power_watts") == []  # the other GPU's


def test_a_join_that_fails_is_a_gap_and_the_rest_stays() -> None:
    snapshot = joined(read(PAGE), "GPU-a", "GPU-z")
    assert gap_reasons(snapshot, "llm_gpu_*") == ["GPU GPU-z is not on the GPU page"]
    assert values(snapshot, "llm_gpu_power_watts") == [411.25]
    down = Ingest(instance="gpus", kind="dcgm").snapshot(RawPage(10.0, None, None, None, "refused the connection"))
    (reason,) = gap_reasons(joined(down, "GPU-a"), "llm_gpu_*")
    assert "refused the connection" in reason


def test_a_split_gpu_must_be_named_by_its_slice() -> None:
    snapshot = joined(read(MIG), "GPU-a/1")
    assert values(snapshot, "llm_gpu_engine_active_ratio") == [0.93]
    whole = joined(read(MIG), "GPU-a")
    assert values(whole, "llm_gpu_engine_active_ratio") == []
    assert values(whole, "llm_gpu_temperature_celsius") == [51.0]
    (reason,) = gap_reasons(whole, "llm_gpu_*")
    assert "GPU-a/1, GPU-a/12" in reason
