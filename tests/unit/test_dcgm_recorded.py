"""Recorded pages of dcgm-exporter (two T4, an A100 whole, split and busy): every number of theirs, by a table of its own."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from llmvitals.telemetry.ingest import RawPage
from llmvitals.telemetry.ingest.check import check
from support.page_text import read

MIB, MHZ, PERCENT, MILLI = 2.0**20, 1e6, 0.01, 1e-3
UNITS: dict[str, tuple[str, float]] = {
    "DEV_SM_CLOCK": ("sm_clock_hertz", MHZ),
    "DEV_MEM_CLOCK": ("memory_clock_hertz", MHZ),
    "DEV_MEMORY_TEMP": ("memory_temperature_celsius", 1.0),
    "DEV_GPU_TEMP": ("temperature_celsius", 1.0),
    "DEV_POWER_USAGE": ("power_watts", 1.0),
    "DEV_TOTAL_ENERGY_CONSUMPTION": ("energy_joules_total", MILLI),
    "DEV_PCIE_REPLAY_COUNTER": ("link_errors_total", 1.0),
    "DEV_GPU_UTIL": ("busy_ratio", PERCENT),
    "DEV_XID_ERRORS": ("xid_events_total", 1.0),
    "DEV_FB_FREE": ("memory_free_bytes", MIB),
    "DEV_FB_USED": ("memory_used_bytes", MIB),
    "DEV_UNCORRECTABLE_REMAPPED_ROWS": ("ecc_uncorrected_total", 1.0),
    "DEV_ROW_REMAP_FAILURE": ("row_remap_pending", 1.0),
    "PROF_GR_ENGINE_ACTIVE": ("engine_active_ratio", 1.0),
    "PROF_PIPE_TENSOR_ACTIVE": ("tensor_active_ratio", 1.0),
    "PROF_DRAM_ACTIVE": ("dram_active_ratio", 1.0),
    "PROF_PCIE_TX_BYTES": ("pcie_bytes_per_second", 1.0),  # both ways become one
    "PROF_PCIE_RX_BYTES": ("pcie_bytes_per_second", 1.0),
}
LEFT_ALONE = {
    "DEV_NVLINK_BANDWIDTH_TOTAL",
    "DEV_MEM_COPY_UTIL",
    "DEV_ENC_UTIL",
    "DEV_DEC_UTIL",
    "DEV_CORRECTABLE_REMAPPED_ROWS",
}
LINE = re.compile(r"DCGM_FI_(?P<field>\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')
NAMES = (
    "3.x-t4-x2-driver525",
    "3.x-a100-mig-disabled",
    "3.x-a100-mig-enabled-empty",
    "3.x-a100-mig-idle-1g5gb",
    "3.x-a100-mig-active-1g5gb",
    "3.x-a100-mig-2x1g5gb-2g10gb",
    "3.x-a100-mig-4-workloads-driver520",
)


def page(shared: Path, name: str) -> str:
    path = shared / "reference" / "pages" / "dcgm-exporter" / f"{name}.prom"
    if not path.is_file():
        pytest.skip(f"no recorded page {name}")
    return path.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_number_is_there_once_in_its_base_unit(shared: Path, name: str) -> None:
    text = page(shared, name)
    wanted: Counter[tuple[str, str, str]] = Counter()
    cards: dict[tuple[str, str], tuple[str, str, str]] = {}
    pods: set[tuple[str, str, str, str]] = set()
    for line in text.splitlines():
        found = LINE.match(line)
        if found is None:
            assert line.startswith("#") or not line.strip(), line
            continue
        labels = dict(LABEL.findall(found["labels"]))
        gpu = labels["UUID"] + (f"/{labels['GPU_I_ID']}" if "GPU_I_ID" in labels else "")
        cards[gpu, labels["gpu"]] = (
            labels["modelName"],
            labels.get("GPU_I_PROFILE", ""),
            labels["DCGM_FI_DRIVER_VERSION"],
        )
        if labels.get("pod"):
            pods.add((gpu, labels["namespace"], labels["pod"], labels["container"]))
        if found["field"] in LEFT_ALONE:
            continue
        family, unit = UNITS[found["field"]]
        wanted[f"llm_gpu_{family}", gpu, labels["gpu"]] += float(found["value"]) * unit  # type: ignore[assignment]
    shown = read(text).samples
    told = {
        (s.name, s.label("gpu"), s.label("index")): value
        for s, value in shown.items()
        if s.name.startswith("llm_gpu_") and s.name not in {"llm_gpu_info", "llm_gpu_pod"}
    }
    assert told == pytest.approx(dict(wanted), rel=1e-12)
    info = {
        (s.label("gpu"), s.label("index")): (s.label("product"), s.label("mig_profile"), s.label("driver"))
        for s in shown
        if s.name == "llm_gpu_info"
    }
    assert info == cards
    held = {
        (s.label("gpu"), s.label("namespace"), s.label("pod"), s.label("container"))
        for s in shown
        if s.name == "llm_gpu_pod"
    }
    assert held == pods
    without = {s.label("gpu") for s in shown if s.label("family") == "llm_gpu_pod" and s.label("gpu")}
    assert without == {gpu for gpu, _ in cards} - {gpu for gpu, *_ in pods}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_on_it_is_unknown_or_odd(shared: Path, name: str) -> None:
    report = check(RawPage(0.0, None, None, page(shared, name).encode()), place=name)
    assert (report.kind, report.refused, report.unknown, report.warnings) == ("dcgm", "", (), ())
