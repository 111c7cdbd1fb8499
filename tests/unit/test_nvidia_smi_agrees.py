"""A page of nvidia_gpu_exporter against what nvidia-smi printed of the same card in the same state: units, rounding, gaps.

The recorded outputs are read from the shared folder; a small pair of the same form travels with the tests.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmvitals.series import Snapshot
from support.page_text import read, values

MIB, MHZ, US = 2.0**20, 1e6, 1e-6

# column of --query-gpu: canonical family, its labels, what one of the column's units is, and half of what is rounded away
COLUMNS: tuple[tuple[tuple[str, ...], str, dict[str, str], float, float], ...] = (
    (("memory.total [MiB]",), "llm_gpu_memory_total_bytes", {}, MIB, 0.0),
    (("memory.used [MiB]",), "llm_gpu_memory_used_bytes", {}, MIB, 0.0),
    (("memory.free [MiB]",), "llm_gpu_memory_free_bytes", {}, MIB, 0.0),
    (("memory.reserved [MiB]",), "llm_gpu_memory_reserved_bytes", {}, MIB, 0.0),
    (("power.draw [W]",), "llm_gpu_power_watts", {}, 1.0, 0.005),
    (("enforced.power.limit [W]",), "llm_gpu_power_limit_watts", {}, 1.0, 0.005),
    (("temperature.gpu",), "llm_gpu_temperature_celsius", {}, 1.0, 0.0),
    (("temperature.memory",), "llm_gpu_memory_temperature_celsius", {}, 1.0, 0.0),
    (("clocks.current.sm [MHz]",), "llm_gpu_sm_clock_hertz", {}, MHZ, 0.0),
    (("clocks.max.sm [MHz]",), "llm_gpu_sm_clock_max_hertz", {}, MHZ, 0.0),
    (("clocks.current.memory [MHz]",), "llm_gpu_memory_clock_hertz", {}, MHZ, 0.0),
    (("utilization.gpu [%]",), "llm_gpu_busy_ratio", {}, 0.01, 0.0),
    (("ecc.errors.uncorrected.volatile.total",), "llm_gpu_ecc_uncorrected_total", {}, 1.0, 0.0),
    (("ecc.errors.corrected.volatile.total",), "llm_gpu_ecc_corrected_total", {}, 1.0, 0.0),
    *(
        (
            tuple(f"clocks_event_reasons_counters.{field} [us]" for field in fields),
            "llm_gpu_throttle_seconds_total",
            {"reason": reason},
            US,
            0.0,
        )
        for fields, reason in (
            (("sw_power_cap",), "power"),
            (("hw_power_brake_slowdown",), "power_brake"),
            (("sw_thermal_slowdown", "hw_thermal_slowdown"), "thermal"),
            (("sync_boost",), "sync_boost"),
        )
    ),
)
CARDS = {
    "geforce-rtx-4080-super": "geforce-rtx-4080-super__595.71.05",
    "h100-80gb-hbm3": "h100-80gb-hbm3__590.48.01",
    "h100-mig": "h100-mig__590.48.01",
    "h200": "h200__590.48.01",
    "h200-mig": "h200-mig__590.48.01",
    "l40s": "l40s__595.80",
}


def printed(text: str) -> dict[str, str]:
    """The one card of a ``--query-gpu`` output by column."""
    names, row = csv.reader(io.StringIO(text), skipinitialspace=True)
    return dict(zip(names, row, strict=True))


def number(text: str) -> float | None:
    """A printed value without its unit; None for what the driver calls not available."""
    found = re.match(r"-?\d[\d.]*", text)
    return float(found[0]) if found else None


def differences(card: dict[str, str], page: Snapshot) -> Iterator[str]:
    """Every column whose number, or absence, is not that of the page."""
    for columns, family, labels, unit, half in COLUMNS:
        numbers = [number(card[column]) for column in columns]
        wanted = None if None in numbers else sum(n for n in numbers if n is not None) * unit
        found = values(page, family, **labels)
        if wanted is None or len(found) != 1:
            if wanted is not None or found:
                yield f"{columns}: {[card[column] for column in columns]} is {found}"
        elif abs(found[0] - wanted) > half * unit + 1e-9 * max(1.0, abs(wanted)):
            yield f"{columns}: {wanted} is {found[0]}"


MADE_CARD = (
    "memory.total [MiB], memory.used [MiB], memory.free [MiB], memory.reserved [MiB], power.draw [W], "
    "enforced.power.limit [W], temperature.gpu, temperature.memory, clocks.current.sm [MHz], clocks.max.sm [MHz], "
    "clocks.current.memory [MHz], utilization.gpu [%], ecc.errors.uncorrected.volatile.total, "
    "ecc.errors.corrected.volatile.total, clocks_event_reasons_counters.sw_power_cap [us], "
    "clocks_event_reasons_counters.hw_power_brake_slowdown [us], clocks_event_reasons_counters.sw_thermal_slowdown [us], "
    "clocks_event_reasons_counters.hw_thermal_slowdown [us], clocks_event_reasons_counters.sync_boost [us]\n"
    "46068 MiB, 1235 MiB, 44295 MiB, 539 MiB, 110.23 W, 350.00 W, 54, N/A, 2520 MHz, 2535 MHz, 9001 MHz, 9 %, [N/A], 3, "
    "204642816 us, 0 us, 1500000 us, 250000 us, 7 us\n"
)
MADE_PAGE = "".join(
    f'nvidia_smi_{name}{{uuid="a"}} {text}\n'
    for name, text in (
        ("memory_total_bytes", "4.8305799168e+10"),
        ("memory_used_bytes", "1.29499136e+09"),
        ("memory_free_bytes", "4.644667392e+10"),
        ("memory_reserved_bytes", "5.65182464e+08"),
        ("power_draw_watts", "110.23"),
        ("enforced_power_limit_watts", "350"),
        ("temperature_gpu", "54"),
        ("clocks_current_sm_clock_hz", "2.52e+09"),
        ("clocks_max_sm_clock_hz", "2.535e+09"),
        ("clocks_current_memory_clock_hz", "9.001e+09"),
        ("utilization_gpu_ratio", "0.09"),
        ("ecc_errors_corrected_volatile_total", "3"),
        ("clocks_event_reasons_counters_sw_power_cap_seconds", "204.642816"),
        ("clocks_event_reasons_counters_hw_power_brake_slowdown_seconds", "0"),
        ("clocks_event_reasons_counters_sw_thermal_slowdown_seconds", "1.5"),
        ("clocks_event_reasons_counters_hw_thermal_slowdown_seconds", "0.25"),
        ("clocks_event_reasons_counters_sync_boost_seconds", "7e-06"),
    )
)


def test_a_made_page_and_the_card_it_was_made_of_agree() -> None:
    assert list(differences(printed(MADE_CARD), read(MADE_PAGE))) == []


@pytest.mark.parametrize("line", MADE_PAGE.splitlines())
def test_any_number_that_is_off_by_a_unit_or_left_out_is_told(line: str) -> None:
    name, _, text = line.rpartition(" ")
    if text == "0":
        return
    for spoiled in (f"{name} {float(text) * 0.9}", ""):
        page = read("\n".join(spoiled if kept == line else kept for kept in MADE_PAGE.splitlines()) + "\n")
        assert len(list(differences(printed(MADE_CARD), page))) == 1, line


def recorded(shared: Path, card: str, state: str) -> tuple[Path, Snapshot]:
    """The folder of nvidia-smi's outputs and the exporter's page of a card in a state."""
    pages = shared / "reference" / "pages"
    page = pages / "nvidia_gpu_exporter" / f"linux-x86_64__nvidia-{CARDS[card]}__{state}.prom"
    if not page.is_file():
        pytest.skip(f"no page of {card}")
    return pages / "nvidia-smi", read(page.read_text())


@pytest.mark.parametrize("state", ["idle", "load"])
@pytest.mark.parametrize("card", CARDS)
def test_a_recorded_page_is_what_nvidia_smi_printed(shared: Path, card: str, state: str) -> None:
    outputs, page = recorded(shared, card, state)
    told = printed((outputs / f"{card}__query-gpu-{state}.csv").read_text())
    assert list(differences(told, page)) == []
    (info,) = [series for series in page.samples if series.name == "llm_gpu_info"]
    assert (info.label("product"), info.label("driver"), info.label("index")) == (
        told["name"],
        told["driver_version"],
        told["index"],
    )
    lanes = number(told["pcie.link.width.current"])
    per_lane = {1.0: 0.25e9, 4.0: 1.969e9, 5.0: 3.938e9}[number(told["pcie.link.gen.current"]) or 0.0]
    assert values(page, "llm_gpu_link_limit_bytes_per_second") == [2.0 * per_lane * (lanes or 0.0)]


@pytest.mark.parametrize("card", CARDS)
def test_each_process_holds_what_nvidia_smi_printed_of_it(shared: Path, card: str) -> None:
    outputs, page = recorded(shared, card, "load")
    names, *rows = csv.reader(
        io.StringIO((outputs / f"{card}__compute-apps-load.csv").read_text()), skipinitialspace=True
    )
    told = {row[names.index("pid")]: float(row[-1].removesuffix(" MiB")) * MIB for row in rows}
    found = {s.label("pid"): v for s, v in page.samples.items() if s.name == "llm_gpu_process_memory_bytes"}
    assert found == told
    assert sum(found.values()) <= sum(values(page, "llm_gpu_memory_used_bytes"))


SECTION = re.compile(r"^ {4}(?P<name>\S.*?)\s*$")
LINE = re.compile(r"^ {8}(?P<name>\w.*?)\s*: (?P<text>.*?)\s*$")
LONG: tuple[tuple[str, str, str, float, float], ...] = (
    # section and line of -q, family, unit, and how far it moves between two moments
    ("FB Memory Usage", "Total", "llm_gpu_memory_total_bytes", MIB, 0.0),
    ("FB Memory Usage", "Reserved", "llm_gpu_memory_reserved_bytes", MIB, 0.0),
    ("FB Memory Usage", "Used", "llm_gpu_memory_used_bytes", MIB, 64.0),
    ("FB Memory Usage", "Free", "llm_gpu_memory_free_bytes", MIB, 64.0),
    ("Temperature", "GPU Current Temp", "llm_gpu_temperature_celsius", 1.0, 3.0),
    ("Temperature", "Memory Current Temp", "llm_gpu_memory_temperature_celsius", 1.0, 3.0),
    ("GPU Power Readings", "Average Power Draw", "llm_gpu_power_watts", 1.0, 60.0),
    ("GPU Power Readings", "Current Power Limit", "llm_gpu_power_limit_watts", 1.0, 0.005),
    ("Clocks", "SM", "llm_gpu_sm_clock_hertz", MHZ, 60.0),
    ("Clocks", "Memory", "llm_gpu_memory_clock_hertz", MHZ, 0.0),
    ("Max Clocks", "SM", "llm_gpu_sm_clock_max_hertz", MHZ, 0.0),
)


@pytest.mark.parametrize("card", CARDS)
def test_the_long_form_says_the_same_up_to_what_moved(shared: Path, card: str) -> None:
    outputs, page = recorded(shared, card, "load")
    told: dict[tuple[str, str], str] = {}
    section = ""
    for line in (outputs / f"{card}__q-load.txt").read_text().splitlines():
        if (found := LINE.match(line)) is not None:
            told[section, found["name"]] = found["text"]
        elif (found := SECTION.match(line)) is not None:
            section = found["name"]
    compared = 0
    for part, name, family, unit, moves in LONG:
        wanted = number(told[part, name])
        shown = values(page, family)
        assert (wanted is None) is not bool(shown), (part, name)
        if wanted is not None:
            assert shown == [pytest.approx(wanted * unit, abs=(moves + 1e-6) * unit)], (part, name)
            compared += 1
    assert compared >= 10


DMON: tuple[tuple[str, str, float, float], ...] = (
    ("pwr", "llm_gpu_power_watts", 1.0, 60.0),
    ("gtemp", "llm_gpu_temperature_celsius", 1.0, 8.0),
    ("mtemp", "llm_gpu_memory_temperature_celsius", 1.0, 8.0),
    ("mclk", "llm_gpu_memory_clock_hertz", MHZ, 0.0),
    ("pclk", "llm_gpu_sm_clock_hertz", MHZ, 60.0),
)


@pytest.mark.parametrize("card", CARDS)
def test_the_monitor_over_five_seconds_is_near_the_page(shared: Path, card: str) -> None:
    outputs, page = recorded(shared, card, "load")
    lines = (outputs / f"{card}__dmon-load.txt").read_text().splitlines()
    names = lines[0].lstrip("# ").split()
    rows = [dict(zip(names, line.split(), strict=True)) for line in lines if line.strip() and not line.startswith("#")]
    assert len(rows) == 5
    for column, family, unit, moves in DMON:
        seen = [number(row[column]) for row in rows]
        shown = values(page, family)
        assert (None in seen) is not bool(shown), column
        if shown:
            least, most = (pick(n for n in seen if n is not None) * unit for pick in (min, max))
            assert least - moves * unit <= shown[0] <= most + moves * unit, (column, seen, shown)
