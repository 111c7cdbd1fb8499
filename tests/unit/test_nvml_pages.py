"""The reader's units and gaps held against what nvidia-smi printed of the same cards.

The double is given NVML's raw numbers for what each column shows (mW for W, MHz, bytes for MiB), and a column that says N/A
is not supported by it; what the reader then says has to be what the column said, or a gap.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.nvml.columns import COLUMNS, number, table
from support.nvml.double import ECC, HOPPER, MIB, Keys, mig_uuid, nvlinks, uuid
from support.nvml.reading import Seen, Watched

pytestmark = pytest.mark.cc

CARDS = ("h100-80gb-hbm3", "h200", "h100-mig", "h200-mig", "l40s", "geforce-rtx-4080-super")

COUNTERS = (
    ("sw_power_cap", "field.74", "power"),
    ("sw_thermal_slowdown", "field.75", "thermal"),
    ("sync_boost", "field.76", "sync_boost"),
)


def printed(shared: Path, card: str, state: str) -> dict[str, str]:
    """Column without its unit, to what was printed."""
    return table((shared / f"reference/pages/nvidia-smi/{card}__query-gpu-{state}.csv").read_text())[0]


def raw(columns: dict[str, str]) -> Keys:
    """What NVML must have said for these columns to be printed."""
    keys: dict[str, float | str] = {k: v for k, v in HOPPER.items() if k not in ECC and k != "busy" and k[0] != "m"}
    keys |= {"name": columns["name"], "mig": 1 if columns["mig.mode.current"] == "Enabled" else 0}
    keys |= {"pcie.generation": number(columns["pcie.link.gen.current"]) or 0, "pcie.width": 16}
    for column, key, unit, _, _ in COLUMNS:
        if (value := number(columns[column])) is not None:
            keys[key] = value * unit
    for column, key, _ in COUNTERS:
        keys[key] = (number(columns[f"clocks_event_reasons_counters.{column}"]) or 0.0) * 1000  # us, and ns
    for column, key in (("pending", "field.144"), ("failure", "field.145")):
        if columns[f"remapped_rows.{column}"] in {"Yes", "No"}:
            keys[key] = columns[f"remapped_rows.{column}"] == "Yes"
    return keys


@pytest.mark.parametrize("state", ["idle", "load"])
@pytest.mark.parametrize("card", CARDS)
def test_the_reader_says_what_nvidia_smi_printed(nvml, shared, card, state):
    columns = printed(shared, card, state)
    nvml.cards(raw(columns))
    seen = Watched(nvml).after(1)
    for column, _, _, family, base in COLUMNS:
        value = number(columns[column])
        if value is None:
            assert not seen.has(family), column
            assert seen.gap(family)[0] == "unsupported", column
        else:
            assert seen.value(family) == pytest.approx(value * base), column
    for column, _, reason in COUNTERS:
        seconds = (number(columns[f"clocks_event_reasons_counters.{column}"]) or 0.0) * 1e-6
        assert seen.value("llm_gpu_throttle_seconds_total", reason=reason) == pytest.approx(seconds)
    assert seen.has("llm_gpu_row_remap_pending") is (columns["remapped_rows.pending"] in {"Yes", "No"})
    # nvidia-smi rounds each of the three up or down
    assert seen.value("llm_gpu_memory_free_bytes") == pytest.approx(number(columns["memory.free"]) * MIB, abs=2 * MIB)


@pytest.mark.parametrize(("card", "links"), [("h100-80gb-hbm3", 18), ("h200", 18), ("a100-sxm4-80gb", 12)])
def test_the_limit_of_nvlink_is_what_its_links_add_up_to(nvml, shared, card, links):
    text = (shared / f"reference/pages/nvidia-smi/{card}__nvlink-s.txt").read_text().split("GPU 1:")[0]
    speeds = [float(speed) for speed in re.findall(r"Link \d+: ([\d.]+) GB/s", text)]
    assert len(speeds) == links
    nvml.cards({**HOPPER, **nvlinks(links, speeds[0] * 1000)})
    limit = Watched(nvml).after(1).value("llm_gpu_link_limit_bytes_per_second", link="nvlink")
    assert limit == pytest.approx(2 * sum(speeds) * 1e9)


def slices(shared: Path, card: str) -> list[tuple[int, dict[str, float]]]:
    """GPU instance and memory in MiB of each MIG device that ``nvidia-smi -q`` printed."""
    text = (shared / f"reference/pages/nvidia-smi/{card}__q-load.txt").read_text()
    found = []
    for part in text.split("    MIG Device\n")[1:]:
        instance = re.search(r"GPU Instance ID +: (\d+)", part)
        memory = part.partition("Shared FB Memory Usage")[2].partition("BAR1")[0]
        assert instance is not None
        found.append((int(instance[1]), {k: float(v) for k, v in re.findall(r"(\w+) +: (\d+) MiB", memory)}))
    return found


@pytest.mark.parametrize("card", ["h100-mig", "h200-mig"])
def test_slices_hold_what_nvidia_smi_printed_of_them(nvml, shared, card):
    nvml.cards({**raw(printed(shared, card, "load")), "slices": 7})
    parts = slices(shared, card)
    profiles = re.findall(r"MIG (\S+) ", (shared / f"reference/pages/nvidia-smi/{card}__list.txt").read_text())
    for position, ((instance, memory), profile) in enumerate(zip(parts, profiles, strict=True)):
        keys = {f"memory.{key.lower()}": value * MIB for key, value in memory.items() if key != "Free"}
        nvml.slice(0, position, instance, {**keys, "name": f"NVIDIA MIG {profile}"})
    watched = Watched(nvml)
    seen: Seen = watched.after(1)
    for position, (instance, memory) in enumerate(parts):
        label = f"{uuid(0)}/{instance}"
        assert seen.value("llm_gpu_memory_used_bytes", label) == memory["Used"] * MIB
        assert seen.value("llm_gpu_memory_total_bytes", label) == memory["Total"] * MIB
        assert watched.reader.slices[mig_uuid(position)] == label
        profile = re.sub(r"^\dc\.", "", profiles[position])  # of the GPU instance, not of a part of its compute
        assert seen.value("llm_gpu_info", label, mig_profile=profile, uuid=mig_uuid(position)) == 1.0
