"""Which family comes from which question to NVML, in which unit, and what it needs: the table that the reader walks.

Several rows of one family are alternatives, the better one first: the first that answers is kept to, since two counters
of the same thing do not start at the same number. Units: NVML API reference; ``nvidia-smi`` prints the same fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from llmvitals.telemetry.gpu.nvml.codes import (
    ALL_LINKS,
    CLOCK_MEMORY,
    CLOCK_SM,
    CORE,
    CORRECTED,
    MEMORY_V2,
    UNCORRECTED,
    VOLATILE,
    Field,
    Metric,
)

KIB, MIB, MHZ, MILLI, NANO, PERCENT = 1024.0, 1024.0**2, 1e6, 1e-3, 1e-9, 0.01


class How(Enum):
    """The kind of question."""

    CALL = "call"  # a function of its own
    FIELDS = "fields"  # field values, all in one call
    METRICS = "metrics"  # profiling metrics between this read's sample and the one before (GPM)
    BITS = "bits"  # time in which the reason's bit was set on this read and the one before: an estimate


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One way to a family. ``scale`` makes base units. ``name``, ``arguments``, ``part``: the function, what it gets besides
    the handle, and the member or position of what it returns. ``ids``: fields or metrics, added up (the largest with
    ``largest``). ``growth``: per second since the read before. ``positive``: 0 stands for no reading. ``linked``: asked
    only where an NVLink is up."""

    family: str
    how: How
    name: str = ""
    arguments: tuple[int, ...] = ()
    part: str | int = ""
    ids: tuple[tuple[int, int], ...] = ()
    scale: float = 1.0
    ceiling: float = 1e18
    reason: str = ""  # the label, of throttling
    link: str = ""  # the label, of links
    mask: int = 0
    largest: bool = False
    growth: bool = False
    positive: bool = False
    linked: bool = False
    sliced: bool = False  # a MIG slice has it of its own

    @property
    def key(self) -> tuple[str, str]:
        """What the rows that are alternatives share."""
        return self.family, self.reason or self.link


def _call(
    family: str,
    name: str,
    *arguments: int,
    part: str | int = "",
    scale: float = 1.0,
    reason: str = "",
    sliced: bool = False,
) -> Row:
    ceiling = 1.0 if scale == PERCENT else 1e18
    return Row(family, How.CALL, name, arguments, part, scale=scale, ceiling=ceiling, reason=reason, sliced=sliced)


def _fields(
    family: str,
    *ids: Field,
    scope: int = 0,
    scale: float = 1.0,
    reason: str = "",
    link: str = "",
    largest: bool = False,
    growth: bool = False,
    positive: bool = False,
) -> Row:
    return Row(
        family,
        How.FIELDS,
        ids=tuple((int(field), scope) for field in ids),
        scale=scale,
        reason=reason,
        link=link,
        largest=largest,
        growth=growth,
        positive=positive,
        linked=link == "nvlink" or family == "llm_gpu_nvlink_bytes_per_second",
    )


def _metrics(family: str, *ids: Metric, scale: float = PERCENT, sliced: bool = True) -> Row:
    return Row(
        family,
        How.METRICS,
        ids=tuple((int(metric), 0) for metric in ids),
        scale=scale,
        ceiling=1.0 if scale == PERCENT else 1e18,
        linked=family == "llm_gpu_nvlink_bytes_per_second",
        sliced=sliced,
    )


_THROTTLED = "llm_gpu_throttle_seconds_total"


def _held(reason: str, field: Field, policy: int, mask: int) -> tuple[Row, ...]:
    estimate = (Row(_THROTTLED, How.BITS, reason=reason, mask=mask),) if mask else ()
    return (
        _fields(_THROTTLED, field, scale=NANO, reason=reason),
        _call(_THROTTLED, "nvmlDeviceGetViolationStatus", policy, part="violationTime", scale=NANO, reason=reason),
        *estimate,
    )


MEMORY = "nvmlDeviceGetMemoryInfo"

ROWS: tuple[Row, ...] = (
    # -- activity: GPM, on Hopper and newer. Utilisation says only that a kernel was resident --
    _metrics("llm_gpu_engine_active_ratio", Metric.GRAPHICS_UTIL),
    _metrics("llm_gpu_sm_active_ratio", Metric.SM_UTIL),
    _metrics("llm_gpu_tensor_active_ratio", Metric.ANY_TENSOR_UTIL),
    _metrics("llm_gpu_dram_active_ratio", Metric.DRAM_BW_UTIL),
    _call("llm_gpu_busy_ratio", "nvmlDeviceGetUtilizationRates", part="gpu", scale=PERCENT),
    # -- memory: version 2 leaves what the driver reserved out of what is used, version 1 counts it as used --
    _call("llm_gpu_memory_used_bytes", MEMORY, MEMORY_V2, part="used", sliced=True),
    _call("llm_gpu_memory_used_bytes", MEMORY, part="used", sliced=True),
    _call("llm_gpu_memory_free_bytes", MEMORY, MEMORY_V2, part="free", sliced=True),
    _call("llm_gpu_memory_free_bytes", MEMORY, part="free", sliced=True),
    _call("llm_gpu_memory_total_bytes", MEMORY, MEMORY_V2, part="total", sliced=True),
    _call("llm_gpu_memory_total_bytes", MEMORY, part="total", sliced=True),
    _call("llm_gpu_memory_reserved_bytes", MEMORY, MEMORY_V2, part="reserved", sliced=True),
    # -- power, heat, clocks. The draw is a mean over a second on Ampere (GA100 aside) and newer --
    _call("llm_gpu_power_watts", "nvmlDeviceGetPowerUsage", scale=MILLI),
    _call("llm_gpu_power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", scale=MILLI),
    _fields("llm_gpu_energy_joules_total", Field.TOTAL_ENERGY_CONSUMPTION, scale=MILLI),
    _call("llm_gpu_temperature_celsius", "nvmlDeviceGetTemperatureV", CORE),
    _call("llm_gpu_temperature_celsius", "nvmlDeviceGetTemperature", CORE),
    _fields("llm_gpu_memory_temperature_celsius", Field.MEMORY_TEMP, positive=True),
    _call("llm_gpu_sm_clock_hertz", "nvmlDeviceGetClockInfo", CLOCK_SM, scale=MHZ),
    _call("llm_gpu_memory_clock_hertz", "nvmlDeviceGetClockInfo", CLOCK_MEMORY, scale=MHZ),
    # -- clocks held down, as time. Low utilisation is left out: an idle card's clocks are low by design --
    *_held("power", Field.PERF_POLICY_POWER, 0, 0x4),
    *_held("thermal", Field.PERF_POLICY_THERMAL, 1, 0x20),
    *_held("sync_boost", Field.PERF_POLICY_SYNC_BOOST, 2, 0x10),
    *_held("board_limit", Field.PERF_POLICY_BOARD_LIMIT, 3, 0),
    *_held("reliability", Field.PERF_POLICY_RELIABILITY, 5, 0),
    Row(_THROTTLED, How.BITS, reason="hw_thermal", mask=0x40),
    Row(_THROTTLED, How.BITS, reason="power_brake", mask=0x80),
    # -- errors --
    _fields("llm_gpu_ecc_corrected_total", Field.ECC_SBE_VOL_TOTAL),
    _call("llm_gpu_ecc_corrected_total", "nvmlDeviceGetTotalEccErrors", CORRECTED, VOLATILE),
    _fields("llm_gpu_ecc_uncorrected_total", Field.ECC_DBE_VOL_TOTAL),
    _call("llm_gpu_ecc_uncorrected_total", "nvmlDeviceGetTotalEccErrors", UNCORRECTED, VOLATILE),
    _fields("llm_gpu_row_remap_pending", Field.REMAPPED_PENDING, Field.REMAPPED_FAILURE, largest=True),
    _fields("llm_gpu_link_errors_total", Field.PCIE_REPLAY_COUNTER, link="pcie"),
    _fields(
        "llm_gpu_link_errors_total",
        *(Field.NVLINK_REPLAY_ERROR_COUNT_TOTAL, Field.NVLINK_RECOVERY_ERROR_COUNT_TOTAL),
        *(Field.NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, Field.NVLINK_CRC_DATA_ERROR_COUNT_TOTAL),
        link="nvlink",
    ),
    _fields(
        "llm_gpu_link_errors_total",
        *(Field.NVLINK_ERROR_DL_REPLAY, Field.NVLINK_ERROR_DL_RECOVERY, Field.NVLINK_ERROR_DL_CRC),
        scope=ALL_LINKS,
        link="nvlink",
    ),
    _fields(
        "llm_gpu_link_errors_total",
        *(Field.NVLINK_COUNT_RCV_ERRORS, Field.NVLINK_COUNT_LINK_RECOVERY_EVENTS),
        scope=ALL_LINKS,
        link="nvlink",
    ),
    # -- traffic, both ways. nvmlDeviceGetPcieThroughput is not asked: it holds the call for 20 ms a direction, and what it
    # says is those 20 ms --
    _fields(
        "llm_gpu_nvlink_bytes_per_second",
        *(Field.NVLINK_THROUGHPUT_DATA_TX, Field.NVLINK_THROUGHPUT_DATA_RX),
        scope=ALL_LINKS,
        scale=KIB,
        growth=True,
    ),
    _fields(
        "llm_gpu_nvlink_bytes_per_second",
        *(Field.NVLINK_COUNT_XMIT_BYTES, Field.NVLINK_COUNT_RCV_BYTES),
        scope=ALL_LINKS,
        growth=True,
    ),
    _metrics(
        "llm_gpu_nvlink_bytes_per_second",
        *(Metric.NVLINK_TOTAL_TX_PER_SEC, Metric.NVLINK_TOTAL_RX_PER_SEC),
        scale=MIB,
        sliced=False,
    ),
    _metrics("llm_gpu_pcie_bytes_per_second", Metric.PCIE_TX_PER_SEC, Metric.PCIE_RX_PER_SEC, scale=MIB, sliced=False),
    _fields("llm_gpu_pcie_bytes_per_second", Field.PCIE_COUNT_TX_BYTES, Field.PCIE_COUNT_RX_BYTES, growth=True),
)

SLICED: tuple[Row, ...] = tuple(row for row in ROWS if row.sliced)
"""What a MIG slice has of its own: memory, and activity where the driver profiles slices."""

OTHER_FAMILIES: tuple[str, ...] = (
    "llm_gpu_sm_clock_max_hertz",
    "llm_gpu_process_memory_bytes",
    "llm_gpu_link_limit_bytes_per_second",
)
"""Families of a card that do not come from a row; XID errors are counted here and outlive the card."""
FAMILIES: tuple[str, ...] = tuple(dict.fromkeys((*(row.family for row in ROWS), *OTHER_FAMILIES)))
