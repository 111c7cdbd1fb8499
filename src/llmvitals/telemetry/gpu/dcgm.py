"""A dcgm-exporter page: GPU activity, memory, power, temperature and clock in base units.

Field list of the exporter's default counters; ratios of ``PROF`` fields are 0-1, ``GPU_UTIL`` is percent, framebuffer is
MiB, clocks MHz. Fields the GPU cannot give used to come as DCGM's blank numbers, which are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.gaps import GapKind
from llmvitals.telemetry.gpu.join import join_gpus
from llmvitals.telemetry.mapping import Adapter, FamilyGap, Parts, Row, Whose, plain_name

_MIB = 1024.0 * 1024.0
_BLANK = 140737488355328.0  # DCGM's fp64 blank; the int64 blanks (0x7ffffffffffffff0 and up) lie above it
_PODS = ("pod", "exported_pod", "pod_name")


def _row(field: str, family: str, scale: float = 1.0, note: str = "") -> Row:
    return Row(f"DCGM_FI_{field}", family, scale=scale, ceiling=_BLANK, labels=(("index", "gpu"),), note=note)


ROWS: tuple[Row, ...] = (
    _row("PROF_GR_ENGINE_ACTIVE", "llm_gpu_engine_active_ratio"),
    _row("PROF_SM_ACTIVE", "llm_gpu_sm_active_ratio", note="off in the exporter's default field list"),
    _row("PROF_PIPE_TENSOR_ACTIVE", "llm_gpu_tensor_active_ratio"),
    _row("PROF_DRAM_ACTIVE", "llm_gpu_dram_active_ratio"),
    _row("DEV_GPU_UTIL", "llm_gpu_busy_ratio", 0.01, "says only that a kernel was resident; absent under MIG"),
    _row("DEV_FB_USED", "llm_gpu_memory_used_bytes", _MIB, "reserved memory left out"),
    _row("DEV_FB_FREE", "llm_gpu_memory_free_bytes", _MIB),
    _row("DEV_FB_RESERVED", "llm_gpu_memory_reserved_bytes", _MIB),
    _row("DEV_POWER_USAGE", "llm_gpu_power_watts"),
    _row("DEV_GPU_TEMP", "llm_gpu_temperature_celsius"),
    _row("DEV_SM_CLOCK", "llm_gpu_sm_clock_hertz", 1e6),
)


def _identity(source: Mapping[str, str]) -> Whose | None:
    """One GPU, or one MIG instance of it. Series that repeat a GPU for a pod stand in for the device's own."""
    gpu = source.get("UUID") or source.get("uuid")
    if not gpu:
        return None
    instance = source.get("GPU_I_ID")
    labels = {"gpu": f"{gpu}/{instance}" if instance else gpu}
    return Whose(labels, stand_in=any(source.get(label) for label in _PODS))


def _derive(parts: Parts) -> None:
    """Nothing: every family is one field."""


def _static(marks: frozenset[str]) -> tuple[str, tuple[FamilyGap, ...]]:
    absent = [row for row in ROWS if plain_name(row.source) not in marks]
    gaps = tuple(
        FamilyGap(r.family, GapKind.MISSING, f"{r.source} is not among this exporter's fields") for r in absent
    )
    return "3.x-4.x", gaps


def _hint(keyword: str, name: str, text: str) -> str:
    return ""


ADAPTER = Adapter(
    kind="dcgm",
    title="dcgm-exporter",
    claims=(b"DCGM_FI_",),
    rows=ROWS,
    prefixes=(),
    identity=_identity,
    derive=_derive,
    static=_static,
    hint=_hint,
    none_found="Point at dcgm-exporter's port, 9400 by default.",
)

__all__ = ["ADAPTER", "ROWS", "join_gpus"]
