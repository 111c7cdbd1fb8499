"""The reader on a real GPU. Without one every test is left out; what they prove the compiled double proves too."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from llmvitals.errors import LlmvitalsError
from llmvitals.schema import BY_NAME
from llmvitals.series import Snapshot
from llmvitals.telemetry.gpu.nvml import Reader
from llmvitals.telemetry.gpu.nvml.library import load as load_library
from support.nvml.columns import COLUMNS, number, table

sys.path.insert(0, str(Path(__file__).parent))
import load

# they change from moment to moment: how far two readings in a row may lie apart, as a part of the larger one
MOVING = {
    "llm_gpu_busy_ratio": None,  # a rate over the last moments
    "llm_gpu_memory_used_bytes": 0.02,
    "llm_gpu_power_watts": 0.35,
    "llm_gpu_temperature_celsius": 0.1,
    "llm_gpu_memory_temperature_celsius": 0.1,
    "llm_gpu_sm_clock_hertz": None,
    "llm_gpu_memory_clock_hertz": None,
}
EXACT = 1e-3
MIB = 1024.0**2


class Counted:
    """The real module, with a count of calls by function and arguments."""

    def __init__(self) -> None:
        self._module = load_library()
        self.calls: Counter[tuple[object, ...]] = Counter()

    def __getattr__(self, name: str) -> object:
        found = getattr(self._module, name)
        if not name.startswith("nvml"):
            return found

        def call(*arguments: object) -> object:
            self.calls[(name, *map(_plain, arguments))] += 1
            return found(*arguments)

        return call


def _plain(argument: object) -> object:
    """A handle by its address, a list by what is in it; a structure to be filled is another one each time."""
    if isinstance(argument, ctypes._Pointer):
        return ctypes.cast(argument, ctypes.c_void_p).value
    return argument if isinstance(argument, int) else str(argument) if isinstance(argument, list) else object()


@pytest.fixture(scope="module")
def counted() -> Counted:
    return Counted()


@pytest.fixture(scope="module")
def pages(counted: Counted) -> tuple[Snapshot, Snapshot, Counter[tuple[object, ...]]]:
    """Two reads half a second apart, and the calls of the second."""
    reader = Reader(library=counted)
    try:
        first = reader.read(time.time())
    except LlmvitalsError as error:
        pytest.skip(f"no GPU here: {error}")
    time.sleep(0.5)
    counted.calls.clear()
    second = reader.read(time.time())
    calls = Counter(counted.calls)
    reader.close()
    return first, second, calls


def test_the_page_is_of_the_schema(pages):
    for key in pages[1].samples:
        if key.name != "llm_family_gap":
            assert set(dict(key.labels)) <= {*BY_NAME[key.name].labels, "uuid"}


def test_nothing_is_asked_twice(pages):
    assert [call for call, count in pages[2].items() if count > 1] == []


def test_every_gap_has_a_reason_that_we_know(pages):
    for key in pages[1].samples:
        if key.name == "llm_family_gap":
            assert "answered with code" not in key.label("reason"), key


def test_what_every_card_can_say_is_there(pages):
    gpus = {key.label("gpu") for key in pages[1].samples if key.name == "llm_gpu_info" and "/" not in key.label("gpu")}
    assert gpus
    for family in ("llm_gpu_memory_total_bytes", "llm_gpu_memory_used_bytes", "llm_gpu_temperature_celsius"):
        shown = {key.label("gpu") for key in pages[1].samples if key.name == family}
        assert gpus <= shown, family


def test_profiling_is_shown_or_explained(pages):
    for key in pages[1].samples:
        if key.name != "llm_gpu_info" or "/" in key.label("gpu"):
            continue
        gpu = key.label("gpu")
        shown = any(k.name == "llm_gpu_sm_active_ratio" and k.label("gpu") == gpu for k in pages[1].samples)
        told = any(
            k.name == "llm_family_gap" and k.label("family") == "llm_gpu_sm_active_ratio" and k.label("gpu") == gpu
            for k in pages[1].samples
        )
        assert shown is not told


def test_a_read_costs_less_than_a_hundredth_of_a_core(counted, pages, record_property):
    reader = Reader()
    reader.read(time.time())
    reader.read(time.time())
    cpu, wall, reads = time.process_time(), time.perf_counter(), 20
    for _ in range(reads):
        reader.read(time.time())
    cpu, wall = (time.process_time() - cpu) / reads, (time.perf_counter() - wall) / reads
    reader.close()
    record_property("nvml read", f"{1000 * cpu:.2f} ms CPU, {1000 * wall:.2f} ms")
    sys.stderr.write(f"\none read: {1000 * cpu:.2f} ms of CPU in {1000 * wall:.2f} ms\n")
    assert cpu < 0.01 * 15.0


def test_the_numbers_are_those_of_nvidia_smi(pages):
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("nvidia-smi is not here")
    query = ",".join(("uuid", *(column for column, *_ in COLUMNS)))
    done = subprocess.run(
        [program, f"--query-gpu={query}", "--format=csv"], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        pytest.skip(f"this nvidia-smi refuses the query: {done.stdout[:200]}")
    reader = Reader()
    samples = reader.read(time.time()).samples
    reader.close()
    for printed in table(done.stdout):
        ours = {k.name: v for k, v in samples.items() if k.label("gpu") == printed["uuid"] and not k.label("reason")}
        for column, _, _, family, base in COLUMNS:
            value, apart = number(printed[column]), MOVING.get(family, EXACT)
            if value is None:
                assert family not in ours, column
            elif apart is not None:
                assert ours[family] == pytest.approx(
                    value * base, rel=apart, abs=MIB if "memory_" in family else 0.0
                ), column


def test_a_load_moves_activity_power_and_clocks(pages, tmp_path):
    folder = Path(os.environ.get("LLMVITALS_GPU_PAGES") or tmp_path)
    summary = load.record(folder, seconds=6.0)
    idle, busy = summary["before"], summary.get("products") or summary["memory"]
    if not busy:
        pytest.skip(f"no load could be made: {summary['missing']}")
    assert busy["llm_gpu_power_watts"] > 1.2 * idle["llm_gpu_power_watts"]
    assert busy["llm_gpu_sm_clock_hertz"] >= idle["llm_gpu_sm_clock_hertz"]
    if "llm_gpu_dram_active_ratio" in busy:
        assert summary["memory"]["llm_gpu_dram_active_ratio"] > 0.3
    if "products" in summary and "llm_gpu_tensor_active_ratio" in busy:
        assert busy["llm_gpu_sm_active_ratio"] > 0.5
        assert busy["llm_gpu_tensor_active_ratio"] > summary["memory"]["llm_gpu_tensor_active_ratio"]
    assert list(folder.glob("*.prom"))
