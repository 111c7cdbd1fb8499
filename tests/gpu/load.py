"""A short load on a real GPU, read through the driver's library all the while, with the pages kept.

    python tests/gpu/load.py FOLDER [--seconds 8]

Phases: idle, memory traffic, matrix products (with PyTorch only), idle. Into FOLDER go one page per read, what nvidia-smi
printed at the end of each phase, and ``summary.json`` with the means of each phase. Without PyTorch the memory traffic is
made with the CUDA driver alone and the matrix products are left out; what is missing is said and stands in the summary.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import fmean

from llmvitals.errors import LlmvitalsError
from llmvitals.series import Snapshot
from llmvitals.telemetry.gpu.nvml import Reader

SHOWN = (
    *("llm_gpu_sm_active_ratio", "llm_gpu_tensor_active_ratio", "llm_gpu_dram_active_ratio", "llm_gpu_busy_ratio"),
    *("llm_gpu_power_watts", "llm_gpu_sm_clock_hertz", "llm_gpu_memory_used_bytes", "llm_gpu_pcie_bytes_per_second"),
)
BYTES = 1 << 30
Work = Callable[[threading.Event], None]


def exposition(snapshot: Snapshot) -> str:
    """The snapshot as a page in the text format, with its moment in ms."""
    lines = []
    for key, value in sorted(snapshot.samples.items()):
        labels = ",".join(f'{name}="{text}"' for name, text in key.labels)
        lines.append(f"{key.name}{{{labels}}} {value!r} {int(snapshot.t * 1000)}\n")
    return "".join(lines)


def idle(stop: threading.Event) -> None:
    stop.wait()


def copies_by_driver(stop: threading.Event) -> None:
    """Copies inside the card's memory through libcuda alone."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} answered {code}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    source, target = ctypes.c_uint64(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    for memory in (source, target):
        call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(BYTES))
    try:
        while not stop.is_set():
            for _ in range(50):
                call("cuMemcpyDtoDAsync_v2", target, source, ctypes.c_size_t(BYTES), None)
            call("cuCtxSynchronize")
    finally:
        for memory in (source, target):
            cuda.cuMemFree_v2(memory)
        cuda.cuDevicePrimaryCtxRelease_v2(device)


def torch_or_why() -> tuple[object, str]:
    """PyTorch with a card, or None and what is missing."""
    try:
        torch = import_module("torch")
    except ImportError:
        return None, "PyTorch is not installed (pip install torch)"
    if not torch.cuda.is_available():
        return None, f"PyTorch {torch.__version__} sees no CUDA device: its build and the driver do not fit"
    return torch, ""


def copies_by_torch(torch) -> Work:
    def work(stop: threading.Event) -> None:
        source = torch.empty(BYTES, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
        while not stop.is_set():
            for _ in range(50):
                target.copy_(source)
            torch.cuda.synchronize()

    return work


def products_by_torch(torch) -> Work:
    def work(stop: threading.Event) -> None:
        left = torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda")
        right = torch.randn_like(left)
        out = torch.empty_like(left)
        while not stop.is_set():
            for _ in range(20):
                torch.matmul(left, right, out=out)
            torch.cuda.synchronize()

    return work


def smi(folder: Path, phase: str) -> None:
    """What nvidia-smi prints at this moment."""
    program = shutil.which("nvidia-smi")
    for name, options in (("q", ["-q"]), ("topo", ["topo", "-m"]), ("nvlink", ["nvlink", "-s"])):
        if program:
            done = subprocess.run([program, *options], capture_output=True, text=True, check=False, timeout=60)
            (folder / f"nvidia-smi-{name}-{phase}.txt").write_text(done.stdout + done.stderr)


def watched(reader: Reader, folder: Path, phase: str, work: Work, seconds: float) -> dict[str, float]:
    """Means of the first card's values while ``work`` runs; its first second is left out."""
    stop = threading.Event()
    failure: list[BaseException] = []

    def run() -> None:
        try:
            work(stop)
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    values: dict[str, list[float]] = {}
    began = time.monotonic()
    try:
        while (passed := time.monotonic() - began) < seconds and not failure:
            time.sleep(0.5)
            snapshot = reader.read(time.time())
            (folder / f"{phase}-{passed:05.1f}.prom").write_text(exposition(snapshot))
            if passed >= 1.0:
                for key, value in snapshot.samples.items():
                    if key.name in SHOWN and key.label("index") == "0" and "/" not in key.label("gpu"):
                        values.setdefault(key.name, []).append(value)
        smi(folder, phase)
    finally:
        stop.set()
        thread.join(30.0)
    if failure:
        raise RuntimeError(f"the load of the phase {phase} failed: {failure[0]!r}") from failure[0]
    return {name: fmean(found) for name, found in values.items()}


def record(folder: Path, seconds: float) -> dict[str, object]:
    """All phases. Raises :class:`LlmvitalsError` where there is no driver or no card."""
    folder.mkdir(parents=True, exist_ok=True)
    torch, why = torch_or_why()
    phases: list[tuple[str, Work]] = [("before", idle)]
    phases.append(("memory", copies_by_torch(torch) if torch else copies_by_driver))
    if torch:
        phases.append(("products", products_by_torch(torch)))
    phases.append(("after", idle))
    summary: dict[str, object] = {"missing": [why] if why else []}
    reader = Reader()
    for number, (phase, work) in enumerate(phases):
        try:
            summary[phase] = watched(reader, folder, f"{number}-{phase}", work, seconds)
        except (RuntimeError, OSError, AttributeError) as error:
            summary[phase] = {}
            summary["missing"] = [*summary["missing"], str(error)]
    reader.close()
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each phase")
    options = parser.parse_args()
    try:
        summary = record(options.folder, options.seconds)
    except LlmvitalsError as error:
        sys.stderr.write(f"error: {error}\n")
        return 3
    sys.stdout.write(json.dumps(summary, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
