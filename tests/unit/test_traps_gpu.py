"""What GPU pages say otherwise than their names suggest: each test fails when the conversion is taken away."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from llmvitals.series import Snapshot
from llmvitals.telemetry.ingest import Ingest, RawPage

AT = 'gpu="0",UUID="GPU-a",device="nvidia0",modelName="Made GPU",hostname="n1"'
SHARED = Path(os.environ.get("LLMVITALS_SHARED", Path(__file__).resolve().parents[3] / "shared"))
LAYOUTS = SHARED / "reference" / "pages" / "dcgm-exporter"


def read(text: str) -> Snapshot:
    return Ingest(instance="gpus").read(RawPage(10.0, 0.01, 200, text.encode()))


def values(snapshot: Snapshot, name: str, **labels: str) -> list[float]:
    return [
        v for s, v in snapshot.samples.items() if s.name == name and all(s.label(k) == x for k, x in labels.items())
    ]


def test_t2_percent_and_ratio_of_two_exporters_are_one_unit() -> None:
    dcgm = read(f"DCGM_FI_DEV_GPU_UTIL{{{AT}}} 97\n")
    smi = read('nvidia_smi_utilization_gpu_ratio{uuid="a"} 0.97\n')
    assert values(dcgm, "llm_gpu_busy_ratio") == values(smi, "llm_gpu_busy_ratio") == [pytest.approx(0.97)]


@pytest.mark.parametrize("label", ["Hostname", "hostname"])
def test_t50_links_name_their_gpu_otherwise_and_the_host_has_two_spellings(label: str) -> None:
    link = f'nvlink="0",gpu="0",gpu_uuid="GPU-a",device="nvidia0",model_name="Made GPU",{label}="n1"'
    page = f"DCGM_FI_PROF_NVLINK_TX_BYTES{{{link}}} 3e9\nDCGM_FI_PROF_NVLINK_RX_BYTES{{{link}}} 2e9\n"
    assert values(read(page), "llm_gpu_nvlink_bytes_per_second", gpu="GPU-a", index="0") == [5e9]


@pytest.mark.parametrize(("shown", "wanted"), [("97", [0.97]), ("0", [0.0]), ("0.97", [0.97]), ("1", [])])
def test_t51_a_percentage_that_is_called_a_ratio_is_told_by_its_range(shown: str, wanted: list[float]) -> None:
    found = read(f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{AT}}} {shown}\n")
    assert values(found, "llm_gpu_busy_ratio") == pytest.approx(wanted)
    told = values(found, "llm_family_gap", family="llm_gpu_busy_ratio", gpu="GPU-a")
    assert bool(told) is not bool(wanted), "1 may be 1 % or all of the time: a gap, not a number"


def test_t51_old_and_new_names_of_one_field_are_not_added() -> None:
    page = f"DCGM_FI_DEV_POWER_USAGE{{{AT}}} 300\nDCGM_FI_DEV_BOARD_POWER_WATTS{{{AT}}} 301\n"
    assert values(read(page), "llm_gpu_power_watts") == [300.0]
    assert values(read(f"DCGM_FI_DEV_BOARD_POWER_WATTS{{{AT}}} 301\n"), "llm_gpu_power_watts") == [301.0]


def test_t53_pcie_traffic_is_a_rate_whatever_its_type_line_says() -> None:
    page = (
        "# TYPE DCGM_FI_PROF_PCIE_TX_BYTES counter\n"
        f"DCGM_FI_PROF_PCIE_TX_BYTES{{{AT}}} 4e8\nDCGM_FI_PROF_PCIE_RX_BYTES{{{AT}}} 1e8\n"
    )
    assert values(read(page), "llm_gpu_pcie_bytes_per_second") == [5e8]


def test_t56_framebuffer_of_both_exporters_is_in_bytes() -> None:
    dcgm = read(f"DCGM_FI_DEV_FB_USED{{{AT}}} 71680\n")
    smi = read('nvidia_smi_memory_used_bytes{uuid="a"} 75161927680\n')
    assert values(dcgm, "llm_gpu_memory_used_bytes") == values(smi, "llm_gpu_memory_used_bytes") == [71680 * 2.0**20]


def test_a_card_of_nvidia_smi_is_named_as_everywhere_else() -> None:
    page = (
        'nvidia_smi_gpu_info{index="3",uuid="0a-1"} 1\n'
        'nvidia_smi_power_draw_watts{uuid="0a-1"} 200\n'
        'nvidia_smi_power_draw_watts{uuid="MIG-9"} 50\n'
    )
    found = read(page)
    assert values(found, "llm_gpu_power_watts", gpu="GPU-0a-1", index="3") == [200.0]
    assert values(found, "llm_gpu_power_watts", gpu="MIG-9") == [50.0]


def test_a_flag_of_the_moment_is_not_time_held_down() -> None:
    page = (
        'nvidia_smi_clocks_event_reasons_sw_thermal_slowdown{uuid="a"} 1\n'
        'nvidia_smi_clocks_event_reasons_counters_sw_thermal_slowdown_seconds{uuid="a"} 12.5\n'
        'nvidia_smi_clocks_event_reasons_counters_hw_thermal_slowdown_seconds{uuid="a"} 0.5\n'
    )
    assert values(read(page), "llm_gpu_throttle_seconds_total", reason="thermal") == [13.0]


@pytest.mark.skipif(not LAYOUTS.is_dir(), reason="the reference pages are not beside the project")
@pytest.mark.parametrize("name", ["gpu", "nvlink"])
def test_labels_as_the_exporter_itself_renders_them(name: str) -> None:
    (page,) = LAYOUTS.glob(f"golden-*-{name}.prom")
    text = re.sub("TEST_METRIC", "DCGM_FI_DEV_GPU_TEMP", page.read_text()).replace("test-uuid", "UUID")
    assert values(read(text), "llm_gpu_temperature_celsius") == [42.0]
