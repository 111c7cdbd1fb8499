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


def test_t50_a_card_of_many_links_has_the_traffic_of_all_of_them() -> None:
    def link(number: int) -> str:
        return f'nvlink="{number}",gpu="0",gpu_uuid="GPU-a",device="nvidia0",model_name="Made GPU",hostname="n1"'

    each = "".join(
        f"DCGM_FI_PROF_NVLINK_{way}_BYTES{{{link(n)}}} {n + 1}e9\n" for n in range(3) for way in ("TX", "RX")
    )
    assert values(read(each), "llm_gpu_nvlink_bytes_per_second", gpu="GPU-a") == [12e9]
    whole = "".join(f"DCGM_FI_PROF_NVLINK_{way}_BYTES{{{AT}}} 7e9\n" for way in ("TX", "RX"))
    assert values(read(each + whole), "llm_gpu_nvlink_bytes_per_second", gpu="GPU-a") == [14e9], "the card's own wins"


@pytest.mark.parametrize("labels", ['cpu="0"', 'cpucore="3",cpu="0"', 'nvswitch="0"', 'nvlink="1",nvswitch="0"'])
def test_t50_processors_and_switches_are_no_gpus(labels: str) -> None:
    page = f'DCGM_FI_DEV_GPU_TEMP{{{labels},hostname="n1"}} 99\nDCGM_FI_DEV_GPU_TEMP{{{AT}}} 40\n'
    assert values(read(page), "llm_gpu_temperature_celsius") == [40.0]


@pytest.mark.parametrize(("shown", "wanted"), [("97", [0.97]), ("0", [0.0]), ("0.97", [0.97]), ("1", [])])
def test_t51_a_percentage_that_is_called_a_ratio_is_told_by_its_range(shown: str, wanted: list[float]) -> None:
    found = read(f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{AT}}} {shown}\n")
    assert values(found, "llm_gpu_busy_ratio") == pytest.approx(wanted)
    told = values(found, "llm_family_gap", family="llm_gpu_busy_ratio", gpu="GPU-a")
    assert bool(told) is not bool(wanted), "1 may be 1 % or all of the time: a gap, not a number"


def test_t51_since_dcgm_4_7_the_ratio_is_one() -> None:
    newer = f"DCGM_FI_DEV_FB_USED_BYTES{{{AT}}} 5\n"
    for shown, wanted in (("1.000000", 1.0), ("0.97", 0.97)):
        page = f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{AT}}} {shown}\n{newer}"
        assert values(read(page), "llm_gpu_busy_ratio") == [wanted]
    assert values(read(f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{AT}}} 97\n{newer}"), "llm_gpu_busy_ratio") == []


SAME: tuple[tuple[str, str, str, float, float], ...] = (
    # a field, its name in DCGM 4.6, the family, a number and what it is
    ("PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO", "llm_gpu_engine_active_ratio", 0.5, 0.5),
    ("PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO", "llm_gpu_sm_active_ratio", 0.5, 0.5),
    ("PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO", "llm_gpu_tensor_active_ratio", 0.5, 0.5),
    ("PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO", "llm_gpu_dram_active_ratio", 0.5, 0.5),
    ("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS", "llm_gpu_power_watts", 300, 300),
    ("DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", "llm_gpu_power_limit_watts", 650, 650),
    ("DEV_POWER_MGMT_LIMIT", "DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", "llm_gpu_power_limit_watts", 700, 700),
    ("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS", "llm_gpu_temperature_celsius", 61, 61),
    ("DEV_MEMORY_TEMP", "DEV_MEMORY_TEMP_CELSIUS", "llm_gpu_memory_temperature_celsius", 71, 71),
    ("DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", "llm_gpu_ecc_uncorrected_total", 2, 2),
    ("DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED", "llm_gpu_row_remap_pending", 1, 1),
    ("DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL", "llm_gpu_link_errors_total", 9, 9),
    ("DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", "llm_gpu_link_errors_total", 4, 4),
    ("DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_DATA_ERROR_TOTAL", "llm_gpu_link_errors_total", 4, 4),
    ("DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DEV_NVLINK_REPLAY_ERROR_TOTAL", "llm_gpu_link_errors_total", 4, 4),
    ("DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DEV_NVLINK_RECOVERY_ERROR_TOTAL", "llm_gpu_link_errors_total", 4, 4),
    ("DEV_NVLINK_ERROR_DL_CRC", "DEV_NVLINK_CRC_ERROR_TOTAL", "llm_gpu_link_errors_total", 4, 4),
    ("DEV_NVLINK_ERROR_DL_REPLAY", "DEV_NVLINK_REPLAY_TOTAL", "llm_gpu_link_errors_total", 4, 4),
    ("DEV_NVLINK_ERROR_DL_RECOVERY", "DEV_NVLINK_RECOVERY_TOTAL", "llm_gpu_link_errors_total", 4, 4),
)
BASE: tuple[tuple[str, float, str, float, str], ...] = (
    # a field and its number in the old unit, and the same in the base unit that DCGM has since 4.7
    ("DEV_FB_USED", 71680, "DEV_FB_USED_BYTES", 75161927680, "llm_gpu_memory_used_bytes"),
    ("DEV_FB_FREE", 9000, "DEV_FB_FREE_BYTES", 9437184000, "llm_gpu_memory_free_bytes"),
    ("DEV_FB_RESERVED", 720, "DEV_FB_RESERVED_BYTES", 754974720, "llm_gpu_memory_reserved_bytes"),
    ("DEV_FB_TOTAL", 81559, "DEV_FB_CAPACITY_BYTES", 85520809984, "llm_gpu_memory_total_bytes"),
    ("DEV_SM_CLOCK", 1410, "DEV_SM_CLOCK_HERTZ", 1.41e9, "llm_gpu_sm_clock_hertz"),
    ("DEV_MAX_SM_CLOCK", 1980, "DEV_MAX_SM_CLOCK_HERTZ", 1.98e9, "llm_gpu_sm_clock_max_hertz"),
    ("DEV_MEM_CLOCK", 2619, "DEV_MEMORY_CLOCK_HERTZ", 2.619e9, "llm_gpu_memory_clock_hertz"),
    ("DEV_TOTAL_ENERGY_CONSUMPTION", 57585000, "DEV_GPU_ENERGY_JOULES_TOTAL", 57585, "llm_gpu_energy_joules_total"),
    *(
        (f"DEV_{old}_VIOLATION", 2.5e9, f"DEV_{new}_THROTTLE_SECONDS_TOTAL", 2.5, "llm_gpu_throttle_seconds_total")
        for old, new in (
            ("POWER", "GPU_POWER"),
            ("THERMAL", "GPU_THERMAL"),
            ("SYNC_BOOST", "GPU_SYNC_BOOST"),
            ("BOARD_LIMIT", "BOARD_LIMIT"),
            ("RELIABILITY", "GPU_RELIABILITY"),
        )
    ),
)


def field(name: str, value: float, labels: str = AT) -> str:
    return f"DCGM_FI_{name}{{{labels}}} {value}\n"


@pytest.mark.parametrize(("old", "new", "family", "raw", "wanted"), SAME, ids=[new for _, new, *_ in SAME])
def test_t51_a_field_by_its_newer_name_is_the_same_one(
    old: str, new: str, family: str, raw: float, wanted: float
) -> None:
    held = f'{AT},pod="p",namespace="n",container="c"'  # on Kubernetes every series of a card may carry its pod
    for page in (
        field(old, raw),
        field(new, raw),
        field(new, raw, held),
        field(old, raw) + field(new, raw),
        field(new, raw) + field(new, raw / 2, held),
        field(new, raw / 2, held) + field(new, raw),
    ):
        assert values(read(page), family) == [wanted], page


@pytest.mark.parametrize(("old", "before", "new", "since", "family"), BASE, ids=[new for _, _, new, *_ in BASE])
def test_t51_a_field_in_its_base_unit_is_the_same_one(
    old: str, before: float, new: str, since: float, family: str
) -> None:
    (wanted,) = values(read(field(new, since)), family)
    assert wanted == since
    assert values(read(field(old, before)), family) == [pytest.approx(since)]
    assert values(read(field(old, before) + field(new, since)), family) == [pytest.approx(since)]


def test_t51_both_names_of_an_xid_are_one_code() -> None:
    for page in (field("DEV_XID_ERROR", 79), field("DEV_XID_ERROR", 79) + field("DEV_XID_ERRORS", 79)):
        assert values(read(page), "llm_gpu_xid_events_total", xid="79") == [1.0]


def test_t51_old_and_new_names_of_one_field_are_not_added() -> None:
    page = f"DCGM_FI_DEV_POWER_USAGE{{{AT}}} 300\nDCGM_FI_DEV_BOARD_POWER_WATTS{{{AT}}} 301\n"
    assert values(read(page), "llm_gpu_power_watts") == [300.0]
    assert values(read(f"DCGM_FI_DEV_BOARD_POWER_WATTS{{{AT}}} 301\n"), "llm_gpu_power_watts") == [301.0]


def test_t52_a_kernel_that_is_there_all_the_time_is_not_the_work_of_all_sms() -> None:
    found = read(field("DEV_GPU_UTIL", 100))
    assert values(found, "llm_gpu_busy_ratio") == [1.0]
    for family in ("llm_gpu_sm_active_ratio", "llm_gpu_engine_active_ratio", "llm_gpu_tensor_active_ratio"):
        assert values(found, family) == []
    (told,) = [s for s in found.samples if s.label("family") == "llm_gpu_sm_active_ratio"]
    assert told.label("gap") == "unsupported"
    assert "DCGM_FI_PROF_SM_ACTIVE" in told.label("reason")
    assert "the default one leaves it out" in told.label("reason")


def test_t53_pcie_traffic_is_a_rate_whatever_its_type_line_says() -> None:
    page = (
        "# TYPE DCGM_FI_PROF_PCIE_TX_BYTES counter\n"
        f"DCGM_FI_PROF_PCIE_TX_BYTES{{{AT}}} 4e8\nDCGM_FI_PROF_PCIE_RX_BYTES{{{AT}}} 1e8\n"
    )
    assert values(read(page), "llm_gpu_pcie_bytes_per_second") == [5e8]


def test_t54_the_last_code_stays_and_is_one_event() -> None:
    ingest = Ingest(instance="gpus")
    for _ in range(3):
        found = ingest.read(RawPage(10.0, 0.01, 200, field("DEV_XID_ERRORS", 79).encode()))
    assert values(found, "llm_gpu_xid_events_total", xid="79") == [1.0]


def test_t54_what_leaves_the_moving_window_is_not_taken_back() -> None:
    ingest = Ingest(instance="gpus")
    counts = []
    for shown in (1, 4, 2, 0, 1):
        page = f'DCGM_EXP_XID_ERRORS_COUNT{{{AT},window_size_in_ms="300000",xid="31"}} {shown}\n'
        found = ingest.read(RawPage(10.0, 0.01, 200, (page + field("DEV_SM_CLOCK", 900)).encode()))
        counts += values(found, "llm_gpu_xid_events_total", xid="31")
    assert counts == [1.0, 4.0, 4.0, 4.0, 5.0]


def test_t55_what_pods_have_of_a_card_is_not_added_to_it() -> None:
    pods = [f'{AT},pod="p{n}",namespace="n",container="c",vgpu="{n}"' for n in range(3)]
    shares = [field("DEV_GPU_UTIL", 30, pod) + field("DEV_FB_USED", 10000, pod) for pod in pods]
    own = field("DEV_GPU_UTIL", 90) + field("DEV_FB_USED", 31000)
    for page in ("".join(shares) + own, own + "".join(shares)):
        assert values(read(page), "llm_gpu_busy_ratio") == [0.9]
        assert values(read(page), "llm_gpu_memory_used_bytes") == [31000 * 2.0**20]


def test_t55_each_slice_is_a_gpu_of_its_own() -> None:
    slices = [f'{AT},GPU_I_PROFILE="1g.10gb",GPU_I_ID="{n}"' for n in (7, 8)]
    page = "".join(field("DEV_FB_USED", 1000 * n, labels) for n, labels in enumerate(slices, 1))
    found = {s.label("gpu"): v for s, v in read(page).samples.items() if s.name == "llm_gpu_memory_used_bytes"}
    assert found == {"GPU-a/7": 1000 * 2.0**20, "GPU-a/8": 2000 * 2.0**20}


BLANKS = [f"{0x7FFFFFFFFFFFFFF0 + n}" for n in range(4)] + [f"{2**47 + n}.000000" for n in range(4)]


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("DEV_POWER_USAGE", "llm_gpu_power_watts"),
        ("DEV_FB_USED", "llm_gpu_memory_used_bytes"),
        ("DEV_MEMORY_TEMP", "llm_gpu_memory_temperature_celsius"),
        ("PROF_SM_ACTIVE", "llm_gpu_sm_active_ratio"),
        ("DEV_GPU_UTIL_RATIO", "llm_gpu_busy_ratio"),
        ("DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "llm_gpu_link_errors_total"),
    ],
)
def test_t55_a_blank_is_what_the_card_cannot_give(name: str, family: str, blank: str) -> None:
    found = read(f"DCGM_FI_{name}{{{AT}}} {blank}\n" + field("DEV_SM_CLOCK", 900))
    assert values(found, family) == []
    assert values(found, "llm_family_gap", family=family, gap="unsupported", gpu="GPU-a") == [1.0]


@pytest.mark.parametrize("text", ["N/A", "", "ERROR - FAILED TO CONVERT TO STRING", "<nil>"])
def test_t55_a_text_is_no_number_and_the_rest_of_the_page_stays(text: str) -> None:
    found = read(f"DCGM_FI_DEV_POWER_USAGE{{{AT}}} {text}\n" + field("DEV_SM_CLOCK", 900))
    assert values(found, "llm_gpu_power_watts") == []
    assert values(found, "llm_gpu_sm_clock_hertz") == [900e6]
    assert values(found, "llm_family_gap", family="llm_gpu_power_watts", gap="missing") == [1.0]


def test_a_sum_that_lacks_a_part_is_withheld_and_a_blank_part_is_none() -> None:
    """A counter that came out smaller for one page would look as if it had been reset."""
    flits, replays = "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"
    broken = read(field(flits, 5) + f"DCGM_FI_{replays}{{{AT}}} NaN\n")
    assert values(broken, "llm_gpu_link_errors_total") == []
    assert values(broken, "llm_family_gap", family="llm_gpu_link_errors_total", gap="missing") == [1.0]
    blank = read(field(flits, 5) + f"DCGM_FI_{replays}{{{AT}}} {BLANKS[2]}\n")
    assert values(blank, "llm_gpu_link_errors_total", link="nvlink") == [5.0]


def test_t55_a_count_of_nanoseconds_passes_the_smaller_blank() -> None:
    days = 30 * 86400
    found = read(field("DEV_THERMAL_VIOLATION", days * 10**9) + field("DEV_TOTAL_ENERGY_CONSUMPTION", 2**48))
    assert values(found, "llm_gpu_throttle_seconds_total") == [pytest.approx(days)]
    assert values(found, "llm_gpu_energy_joules_total") == [pytest.approx(2**48 / 1000)]


def test_a_memory_without_a_sensor_has_no_temperature() -> None:
    found = read(field("DEV_MEMORY_TEMP", 0))
    assert values(found, "llm_gpu_memory_temperature_celsius") == []
    assert values(found, "llm_family_gap", family="llm_gpu_memory_temperature_celsius", gap="unsupported") == [1.0]


def test_nvlink_bandwidth_is_left_alone() -> None:
    """The field is a rate in steps that are 1,000 or 1,024 KiB, by DCGM's code and by what was measured."""
    found = read(field("DEV_NVLINK_BANDWIDTH_TOTAL", 386586) + field("DEV_SM_CLOCK", 900))
    assert values(found, "llm_gpu_nvlink_bytes_per_second") == []


def test_flags_of_the_moment_are_no_time() -> None:
    for name in ("DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCK_THROTTLE_REASONS"):
        assert values(read(field(name, 4) + field("DEV_SM_CLOCK", 900)), "llm_gpu_throttle_seconds_total") == []


def test_times_by_the_drivers_own_reasons() -> None:
    parts = {
        "SW_THERM_SLOWDOWN": 1.5e9,
        "HW_THERM_SLOWDOWN": 0.5e9,
        "SW_POWER_CAP": 4e9,
        "HW_POWER_BRAKE_SLOWDOWN": 1e9,
    }
    page = "".join(field(f"DEV_CLOCKS_EVENT_REASON_{name}_NS", value) for name, value in parts.items())
    held = {s.label("reason"): v for s, v in read(page).samples.items() if s.name == "llm_gpu_throttle_seconds_total"}
    assert held == {"thermal": pytest.approx(2.0), "power": 4.0, "power_brake": 1.0}
    both = read(page + field("DEV_POWER_VIOLATION", 5e9) + field("DEV_THERMAL_VIOLATION", 3e9))
    assert values(both, "llm_gpu_throttle_seconds_total", reason="power") == [5.0], "one time by two names"
    assert values(both, "llm_gpu_throttle_seconds_total", reason="thermal") == [3.0]
    half = read(field("DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", 1e9))
    assert values(half, "llm_gpu_throttle_seconds_total") == [], "without the hardware's part it is too short"


def test_t56_used_free_and_reserved_make_the_whole_and_nothing_less_does() -> None:
    pieces = {"FB_USED": 19818, "FB_FREE": 61263, "FB_RESERVED": 479}
    page = "".join(field(f"DEV_{name}", value) for name, value in pieces.items())
    assert values(read(page), "llm_gpu_memory_total_bytes") == [81560 * 2.0**20]
    assert values(read(page + field("DEV_FB_TOTAL", 81559)), "llm_gpu_memory_total_bytes") == [81559 * 2.0**20]
    short = read(field("DEV_FB_USED", 128) + field("DEV_FB_FREE", 14831))
    assert values(short, "llm_gpu_memory_total_bytes") == [], "a card of 15360 MiB, as lists of 3.x show it"
    (told,) = [s for s in short.samples if s.label("family") == "llm_gpu_memory_total_bytes"]
    assert "reserved" in told.label("reason")


def test_t56_energy_is_in_millijoules() -> None:
    assert values(read(field("DEV_TOTAL_ENERGY_CONSUMPTION", 57585599)), "llm_gpu_energy_joules_total") == [
        pytest.approx(57585.599)
    ]


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


def test_a_split_card_of_nvidia_smi_has_no_utilisation_and_says_why() -> None:
    found = read('nvidia_smi_mig_mode_current{uuid="a"} 1\nnvidia_smi_power_draw_watts{uuid="a"} 200\n')
    assert values(found, "llm_gpu_power_watts", gpu="GPU-a") == [200.0]
    (told,) = [s for s in found.samples if s.label("family") == "llm_gpu_busy_ratio"]
    assert (told.label("gap"), told.label("gpu")) == ("unsupported", "GPU-a")
    assert "MIG" in told.label("reason")


def test_each_process_of_nvidia_smi_under_its_own_id() -> None:
    page = "".join(
        f'nvidia_smi_compute_app_used_memory_bytes{{pid="{pid}",process_name="x",uuid="a"}} {held}\n'
        for pid, held in ((11, 5e9), (12, 7e9))
    )
    found = read(page + 'nvidia_smi_gpu_info{index="2",name="Made",driver_version="[N/A]",uuid="a"} 1\n')
    assert values(found, "llm_gpu_process_memory_bytes", gpu="GPU-a", index="2", pid="11") == [5e9]
    assert values(found, "llm_gpu_process_memory_bytes", gpu="GPU-a", index="2", pid="12") == [7e9]
    assert values(found, "llm_gpu_info", gpu="GPU-a", index="2", product="Made", driver="") == [1.0]


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
