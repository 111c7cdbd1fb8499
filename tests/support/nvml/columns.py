"""Columns of ``nvidia-smi --query-gpu``, with what NVML and the canonical families say for one of their units."""

from __future__ import annotations

import csv
import re

MIB = 1024**2

# column of --query-gpu | key of the double | NVML's unit for one of the column's | family | base units for one of them
COLUMNS: tuple[tuple[str, str, float, str, float], ...] = (
    ("utilization.gpu", "busy", 1, "llm_gpu_busy_ratio", 0.01),
    ("memory.total", "memory.total", MIB, "llm_gpu_memory_total_bytes", MIB),
    ("memory.used", "memory.used", MIB, "llm_gpu_memory_used_bytes", MIB),
    ("memory.reserved", "memory.reserved", MIB, "llm_gpu_memory_reserved_bytes", MIB),
    ("power.draw", "power", 1000, "llm_gpu_power_watts", 1),
    ("enforced.power.limit", "power.limit", 1000, "llm_gpu_power_limit_watts", 1),
    ("temperature.gpu", "temperature", 1, "llm_gpu_temperature_celsius", 1),
    ("temperature.memory", "field.82", 1, "llm_gpu_memory_temperature_celsius", 1),
    ("clocks.current.sm", "clock.sm", 1, "llm_gpu_sm_clock_hertz", 1e6),
    ("clocks.max.sm", "clock.sm.max", 1, "llm_gpu_sm_clock_max_hertz", 1e6),
    ("clocks.current.memory", "clock.memory", 1, "llm_gpu_memory_clock_hertz", 1e6),
    ("ecc.errors.corrected.volatile.total", "field.3", 1, "llm_gpu_ecc_corrected_total", 1),
    ("ecc.errors.uncorrected.volatile.total", "field.4", 1, "llm_gpu_ecc_uncorrected_total", 1),
)


def table(text: str) -> list[dict[str, str]]:
    """For each card: column without its unit, to what was printed."""
    names, *rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    plain = [re.sub(r" \[.*\]$", "", name) for name in names]
    return [dict(zip(plain, row, strict=True)) for row in rows]


def number(text: str) -> float | None:
    """The number in front of a unit; None for N/A."""
    found = re.match(r"-?[\d.]+", text)
    return float(found.group()) if found else None
