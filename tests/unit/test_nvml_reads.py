"""From read to read: calls are counted, events and time add up, cards and drivers fail, and a hung call holds nobody up."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from llmvitals.errors import LlmvitalsError
from llmvitals.telemetry.flight import Flight, Late
from llmvitals.telemetry.gpu.nvml import Reader
from llmvitals.telemetry.gpu.nvml.facts import FACTS_SECONDS
from support.nvml.double import H100, H200, L40S, LOADED, MIB, T4, uuid
from support.nvml.reading import START, Watched

pytestmark = pytest.mark.cc

XID = "llm_gpu_xid_events_total"
THROTTLE = "llm_gpu_throttle_seconds_total"
FACTS = (
    "UUID",
    "Name",
    "PciInfo",
    "MaxClock",
    "MigMode",
    "Topology",
    "NvLink",
    "GpmQuery",
    "Count",
    "Handle",
    "Driver",
)
RESOURCES = ("nvmlEventSetCreate", "nvmlGpmSampleAlloc")  # one for each card: they take no card


def twice(calls) -> list[str]:
    return [call for call, count in calls.items() if count > 1 and not call.startswith(RESOURCES)]


@pytest.mark.parametrize("card", [{**H200, **LOADED}, L40S, T4], ids=["h200", "l40s", "t4"])
def test_nothing_is_asked_twice_in_a_read(nvml, card):
    nvml.cards(*[card] * 8)
    watched = Watched(nvml)
    for seconds in (1, 15, 15, FACTS_SECONDS):
        watched.after(seconds)
        assert twice(nvml.calls()) == []


def test_facts_are_asked_once_in_five_minutes(nvml):
    nvml.cards(H200, H200)
    watched = Watched(nvml)
    watched.after(1)
    first = nvml.calls()
    assert any("GetName" in call for call in first)
    watched.after(15)
    assert [call for call in nvml.calls() if any(fact in call for fact in FACTS)] == []
    watched.after(FACTS_SECONDS)
    again = nvml.calls()
    assert any("GetName" in call for call in again)
    assert not any(call.startswith(RESOURCES) for call in again)  # what is held is kept


def test_what_the_driver_lacks_is_not_asked_on_each_read(nvml):
    nvml.cards({key: value for key, value in L40S.items() if key != "busy"})
    watched = Watched(nvml)
    watched.after(1)
    assert any("Utilization" in call for call in nvml.calls())
    seen = watched.after(15)
    assert not any("Utilization" in call for call in nvml.calls())
    assert seen.gap("llm_gpu_busy_ratio")[0] == "unsupported"  # and is still told
    nvml.put(0, {"busy": 50})
    assert watched.after(FACTS_SECONDS).value("llm_gpu_busy_ratio") == 0.5


def test_a_read_of_eight_cards_makes_few_calls(nvml):
    nvml.cards(*[{**H200, **LOADED}] * 8)
    watched = Watched(nvml)
    watched.after(1)
    watched.after(15)
    nvml.calls()
    watched.after(15)
    assert sum(nvml.calls().values()) <= 8 * 18


# -- clocks held down ---------------------------------------------------------------------------------------------------


def test_time_of_held_clocks_comes_from_the_drivers_counters(nvml):
    nvml.cards({**H100, "field.74": 12.5e9, "field.75": 0.25e9})
    seen = Watched(nvml).after(1)
    assert seen.value(THROTTLE, reason="power") == pytest.approx(12.5)
    assert seen.value(THROTTLE, reason="thermal") == pytest.approx(0.25)


def test_without_those_fields_the_older_counters_are_asked(nvml):
    card = {key: value for key, value in H100.items() if key not in {"field.74", "field.75"}}
    nvml.cards({**card, "violation.0": 3e9, "violation.1": 4e9})
    seen = Watched(nvml).after(1)
    assert seen.value(THROTTLE, reason="power") == pytest.approx(3.0)
    assert seen.value(THROTTLE, reason="thermal") == pytest.approx(4.0)


def test_what_nothing_counts_is_added_up_from_bits_that_two_reads_saw(nvml):
    card = {key: value for key, value in H100.items() if key != "field.74"}
    nvml.cards(card)
    watched = Watched(nvml)
    held = []
    for bits in (0x0, 0x4, 0x4 | 0x80, 0x4 | 0x80, 0x80, 0x0, 0x40, 0x40):
        nvml.set("0.reasons", bits)
        seen = watched.after(10)
        held.append(tuple(seen.value(THROTTLE, reason=reason) for reason in ("power", "power_brake", "hw_thermal")))
    assert held == [(0, 0, 0), (0, 0, 0), (10, 0, 0), (20, 10, 0), (20, 20, 0), (20, 20, 0), (20, 20, 0), (20, 20, 10)]


def test_an_idle_cards_low_clocks_are_no_throttling(nvml):
    nvml.cards({**H100, "reasons": 0x1 | 0x2})
    watched = Watched(nvml)
    watched.after(1)
    assert set(watched.after(15).values(THROTTLE).values()) == {0.0}


# -- XID errors ---------------------------------------------------------------------------------------------------------


def fail(nvml, card: int, *codes: int) -> None:
    for position, code in enumerate(codes):
        nvml.set(f"{card}.xid.{position}", code)
    nvml.set(f"{card}.xid", len(codes))


def test_xid_errors_are_counted_as_they_come(nvml):
    nvml.cards(H100, H100)
    watched = Watched(nvml)
    assert watched.after(1).values(XID) == {(): 0.0}
    fail(nvml, 1, 31, 31, 94)
    seen = watched.after(15)
    assert seen.values(XID, 0) == {(): 0.0}
    assert seen.values(XID, 1) == {(): 0.0, (("xid", "31"),): 2.0, (("xid", "94"),): 1.0}
    fail(nvml, 1, 31, 31, 94, 31)
    assert watched.after(15).value(XID, 1, xid="31") == 3.0  # the same code again


def test_a_flood_of_errors_does_not_hold_a_read_up(nvml):
    nvml.cards(H100)
    watched = Watched(nvml)
    watched.after(1)
    fail(nvml, 0, *[13] * 1000)
    assert watched.after(15).value(XID, xid="13") == 64.0
    assert watched.after(15).value(XID, xid="13") == 128.0


def test_where_events_are_not_supported_there_is_no_zero(nvml):
    nvml.cards({**H100, "events!": 3})
    seen = Watched(nvml).after(1)
    assert not seen.has(XID)
    assert seen.gap(XID)[0] == "unsupported"


# -- cards that fail ----------------------------------------------------------------------------------------------------


def test_a_lost_card_is_told_and_the_others_go_on(nvml):
    nvml.cards({**H100, **LOADED}, {**H100, **LOADED})
    watched = Watched(nvml)
    watched.after(1)
    fail(nvml, 1, 79)
    nvml.set("1.lost", 15)
    seen = watched.after(15)
    assert seen.value("llm_gpu_power_watts", 0) == pytest.approx(640.5)
    assert not seen.has("llm_gpu_power_watts", 1)
    kind, reason = seen.gap("llm_gpu_power_watts", 1)
    assert kind == "missing"
    assert "fell off the bus" in reason
    assert "llm_gpu_*" in seen.gaps(1)
    assert seen.value(XID, 1, xid="79") == 1.0  # why it fell
    nvml.calls()
    watched.after(15)
    assert sum("(1," in call for call in nvml.calls()) <= 3  # a lost card may answer slowly


def test_the_processes_of_a_lost_card_are_still_named_without_a_number(nvml):
    nvml.cards(H100)
    nvml.processes(0, "compute", [(4242, 50_000 * MIB)])
    watched = Watched(nvml)
    watched.after(1)
    nvml.set("0.lost", 15)
    seen = watched.after(15)
    held = [key for key in seen.snapshot.samples if key.label("family") == "llm_gpu_process_memory_bytes"]
    assert "4242" in {key.label("pid") for key in held}
    assert not seen.has("llm_gpu_process_memory_bytes")


def test_a_number_that_stands_for_none_is_a_gap(nvml):
    nvml.cards({**H100, "power": 2**32 - 1, "field.83": 2**32 - 1})
    seen = Watched(nvml).after(1)
    assert not seen.has("llm_gpu_power_watts")
    assert "outside its range" in seen.gap("llm_gpu_power_watts")[1]
    assert not seen.has("llm_gpu_energy_joules_total")


def test_a_lost_card_is_still_named_when_it_cannot_even_be_opened(nvml):
    nvml.cards(H100, H100)
    watched = Watched(nvml)
    watched.after(1)
    nvml.set("1.lost", 15)
    nvml.set("1.open!", 15)
    seen = watched.after(FACTS_SECONDS)
    assert "fell off the bus" in seen.gap("llm_gpu_power_watts", 1)[1]
    nvml.set("1.lost", 0)
    nvml.set("1.open!", 0)
    seen = watched.after(15)  # it was reset
    assert seen.has("llm_gpu_power_watts", 1)
    assert seen.gaps(1) == gaps_of_a_first_read()


def gaps_of_a_first_read() -> set[str]:
    return {f"llm_gpu_{name}_active_ratio" for name in ("engine", "sm", "tensor", "dram")} | {
        "llm_gpu_pcie_bytes_per_second"
    }


def test_a_card_lost_in_the_middle_of_a_read_leaves_no_half_of_it(nvml):
    nvml.cards({**H100, "clock.memory!": 15})
    seen = Watched(nvml).after(1)
    assert not seen.has("llm_gpu_power_watts")
    assert not seen.has("llm_gpu_memory_used_bytes")


def test_a_card_hidden_by_permissions_names_the_remedy(nvml):
    nvml.cards(H100, {**H100, "open!": 4})
    seen = Watched(nvml).after(1)
    assert seen.has("llm_gpu_power_watts", 0)
    kind, reason = seen.gap("llm_gpu_*", None)
    assert kind == "unsupported"
    assert "/dev/nvidia1" in reason


# -- drivers that fail --------------------------------------------------------------------------------------------------


def test_a_reset_driver_is_told_and_the_next_read_connects_anew(nvml):
    nvml.cards({**H100, **LOADED})
    watched = Watched(nvml)
    watched.after(1)
    fail(nvml, 0, 62)
    watched.after(15)
    nvml.set("over", 1)
    with pytest.raises(LlmvitalsError, match="reset or reloaded"):
        watched.after(15)
    seen = watched.after(15)
    assert seen.has("llm_gpu_power_watts")
    assert seen.value(XID, xid="62") == 1.0  # what was counted is not forgotten
    assert seen.gap("llm_gpu_sm_active_ratio")[0] == "too-short"  # old samples are no use
    assert watched.after(15).value("llm_gpu_sm_active_ratio") == pytest.approx(0.825)


@pytest.mark.parametrize(
    ("code", "thing", "remedy"),
    [
        (9, "is not loaded", "modprobe nvidia"),
        (12, "libnvidia-ml.so.1 is not there", "NVIDIA_DRIVER_CAPABILITIES"),
        (18, "different versions", "restart this process"),
        (4, "may not be used", "/dev/nvidiactl"),
        (999, "code 999", "kernel log"),
    ],
)
def test_without_a_driver_the_error_says_what_to_do(nvml, code, thing, remedy):
    nvml.set("init!", code)
    watched = Watched(nvml)
    with pytest.raises(LlmvitalsError) as caught:
        watched.after(1)
    assert thing in caught.value.thing
    assert remedy in caught.value.remedy
    nvml.set("init!", 0)
    nvml.cards(H100)
    assert watched.after(15).has("llm_gpu_power_watts")  # it came back


def test_a_driver_without_cards_is_no_empty_page(nvml):
    nvml.cards()
    with pytest.raises(LlmvitalsError, match="shows no GPU"):
        Watched(nvml).after(1)


def test_closing_gives_everything_back_and_a_later_read_opens_again(nvml):
    nvml.cards(H100)
    watched = Watched(nvml)
    watched.after(1)
    watched.after(15)
    watched.reader.close()
    assert watched.after(15).has("llm_gpu_power_watts")


def test_a_library_with_few_functions_is_enough():
    class RefusalError(Exception):
        def __init__(self, value: int) -> None:
            self.value = value

    class Small:
        NVMLError = RefusalError

        def nvmlInit(self):  # noqa: N802
            return None

        def nvmlDeviceGetCount(self):  # noqa: N802
            return 1

        def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
            return "card"

        def nvmlDeviceGetUUID(self, handle):  # noqa: N802
            return uuid(0)

        def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
            return 250_000

    seen = Reader(library=Small()).read(START)
    shown = {key.name for key in seen.samples}
    assert shown == {"llm_family_gap", "llm_gpu_power_watts", "llm_gpu_info"}


# -- calls that hang ----------------------------------------------------------------------------------------------------


def test_a_hung_call_holds_up_neither_the_flight_nor_the_interpreter(nvml):
    nvml.cards(H100)
    watched = Watched(nvml)
    watched.after(1)
    nvml.set("sleep.nvmlDeviceGetPowerUsage", 800.0)
    flight: Flight[object] = Flight()
    flight.start(lambda: watched.reader.read(START), "gpu")
    turns, began = 0, time.monotonic()
    while time.monotonic() - began < 0.1:
        turns += 1
        time.sleep(0.001)
    assert turns > 5  # other threads went on: ctypes had given up the lock
    with pytest.raises(Late):
        flight.result(time.monotonic() + 0.05)
    flight.start(lambda: watched.reader.read(START), "gpu")  # the next cycle
    with pytest.raises(Late, match="still busy"):
        flight.result(time.monotonic() + 0.05)
    assert sum(thread.name == "gpu" for thread in threading.enumerate()) == 1
    nvml.set("sleep.nvmlDeviceGetPowerUsage", 0.0)
    deadline = time.monotonic() + 5.0
    while any(thread.name == "gpu" for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert watched.after(15).has("llm_gpu_power_watts")  # it goes on where it was


def test_a_second_reader_is_not_held_up_by_a_hung_one(nvml):
    nvml.cards(H100)
    hung, free = Watched(nvml), Watched(nvml)
    hung.after(1)
    free.after(1)
    nvml.set("sleep.nvmlDeviceGetPowerUsage", 800.0)
    thread = threading.Thread(target=lambda: hung.reader.read(START), daemon=True)
    thread.start()
    time.sleep(0.05)  # it is inside the call
    nvml.set("sleep.nvmlDeviceGetPowerUsage", 0.0)
    assert free.after(15).has("llm_gpu_power_watts")
    assert thread.is_alive()
    thread.join()


# -- the loader ---------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from support.nvml.double import Double, H200, LOADED
from llmvitals.telemetry.gpu.nvml import Reader
assert "pynvml" not in sys.modules  # nothing is loaded before it is needed
double = Double(Path(sys.argv[1]))
double.cards({**H200, **LOADED})
found = Reader().read(0.0)
print(sum(key.name == "llm_gpu_power_watts" and value == 640.5 for key, value in found.samples.items()))
"""


def test_the_systems_loader_finds_the_library_by_its_name(nvml_path):
    path = nvml_path()
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(path.parent),
            "PYTHONPATH": f"{root / 'tests'}{os.pathsep}{root / 'src'}",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (result.stdout.strip(), result.returncode) == ("1", 0), result.stderr


def test_without_the_library_the_error_names_it(tmp_path):
    code = "from llmvitals.telemetry.gpu.nvml import Reader; Reader().read(0.0)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    if result.returncode == 0:
        pytest.skip("this machine has the NVIDIA driver")
    assert "NVML: the NVIDIA driver" in result.stderr
