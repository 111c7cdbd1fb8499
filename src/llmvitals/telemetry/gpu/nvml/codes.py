"""Numbers of NVML: return codes and what they mean for a reading, field ids, profiling metrics and other constants.

Source: ``nvml.h`` and the NVML API reference. Field ids are stable up to 250. Those above moved between driver branches
(R570 and R580 number the slowdown counters 251-253, the headers of CUDA 13 number them 269-271, where R580 has settings of
power smoothing), so none of them is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from llmvitals.gaps import GapKind


class Code(IntEnum):
    """``nvmlReturn_t``, as far as one is told from another here."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    NO_DATA = 21
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    UNKNOWN = 999
    # our own, for what is no answer although the call was made
    UNUSABLE = 10001
    ZERO = 10002
    NO_SECOND = 10003
    SHORT_COUNTER = 10004
    WENT_BACK = 10005
    NO_LINKS = 10006
    NO_PROFILING = 10007


# A refusal that lasts is how this machine is set up, and no verdict waits for it; what may pass by itself is missing.
REASONS: Mapping[int, tuple[GapKind, str]] = {
    Code.INVALID_ARGUMENT: (GapKind.UNSUPPORTED, "this driver does not know what is asked for"),
    Code.NOT_SUPPORTED: (GapKind.UNSUPPORTED, "the driver does not support it on this card"),
    Code.NO_PERMISSION: (GapKind.UNSUPPORTED, "the driver gives no permission: run as root, or with CAP_SYS_ADMIN"),
    Code.NOT_FOUND: (GapKind.UNSUPPORTED, "the driver finds no such thing on this card"),
    Code.TIMEOUT: (GapKind.MISSING, "the driver gave no answer within its own time limit"),
    Code.IRQ_ISSUE: (GapKind.MISSING, "the driver has a problem with the card's interrupts"),
    Code.FUNCTION_NOT_FOUND: (GapKind.UNSUPPORTED, "this driver is too old to have it"),
    Code.CORRUPTED_INFOROM: (GapKind.MISSING, "the card's infoROM is damaged"),
    Code.GPU_IS_LOST: (GapKind.MISSING, "the card is lost: it fell off the bus. Drain the node and reset or reboot it"),
    Code.RESET_REQUIRED: (GapKind.MISSING, "the card needs a reset before it works again (nvidia-smi --gpu-reset)"),
    Code.OPERATING_SYSTEM: (GapKind.UNSUPPORTED, "the operating system blocked the request"),
    Code.IN_USE: (GapKind.UNSUPPORTED, "the card is in use by what rules this out"),
    Code.NO_DATA: (GapKind.MISSING, "the driver has no data yet"),
    Code.ARGUMENT_VERSION_MISMATCH: (GapKind.UNSUPPORTED, "this driver does not know this version of the request"),
    Code.DEPRECATED: (GapKind.UNSUPPORTED, "this driver has dropped it"),
    Code.NOT_READY: (GapKind.MISSING, "the card is not ready yet"),
    Code.GPU_NOT_FOUND: (GapKind.MISSING, "the driver no longer finds the card"),
    Code.UNKNOWN: (GapKind.MISSING, "the driver failed without saying why"),
    Code.UNUSABLE: (GapKind.MISSING, "the driver's number is outside its range"),
    Code.ZERO: (GapKind.UNSUPPORTED, "the driver says 0, which stands for no sensor"),
    Code.NO_SECOND: (GapKind.TOO_SHORT, "it takes two reads, and this is the first"),
    Code.SHORT_COUNTER: (GapKind.UNSUPPORTED, "the driver's counter is too short: it wraps between two reads"),
    Code.WENT_BACK: (GapKind.TOO_SHORT, "its counter went back since the read before"),
    Code.NO_LINKS: (GapKind.UNSUPPORTED, "the card has no NVLink that is up"),
    Code.NO_PROFILING: (
        GapKind.UNSUPPORTED,
        "the driver profiles Hopper and newer; older data-centre cards take dcgm-exporter",
    ),
}
"""What a return code says of the number that was asked for."""

FOR_GOOD = frozenset(
    {
        Code.INVALID_ARGUMENT,
        Code.NOT_SUPPORTED,
        Code.FUNCTION_NOT_FOUND,
        Code.ARGUMENT_VERSION_MISMATCH,
        Code.DEPRECATED,
        Code.SHORT_COUNTER,
        Code.ZERO,
    }
)
"""Asked again only when the facts of the cards are."""
LOST = frozenset({Code.GPU_IS_LOST, Code.RESET_REQUIRED, Code.GPU_NOT_FOUND})
"""Nothing more is asked of this card in this read."""

DRIVER: Mapping[int, tuple[str, str]] = {
    Code.UNINITIALIZED: (
        "the NVIDIA driver was reset or reloaded",
        "The next read connects anew; if this stays, look at the kernel log for the driver's name",
    ),
    Code.NO_PERMISSION: (
        "the NVIDIA driver may not be used",
        "Give the process /dev/nvidiactl (the NVIDIA container runtime does, with NVIDIA_VISIBLE_DEVICES=all)",
    ),
    Code.DRIVER_NOT_LOADED: (
        "the NVIDIA driver is not loaded",
        "Load it (modprobe nvidia), or set no GPU reading for this machine",
    ),
    Code.LIBRARY_NOT_FOUND: (
        "the NVIDIA driver's library libnvidia-ml.so.1 is not there",
        "Install the driver; in a container use the NVIDIA runtime with NVIDIA_DRIVER_CAPABILITIES=utility",
    ),
    Code.LIB_RM_VERSION_MISMATCH: (
        "the loaded NVIDIA driver and its library have different versions",
        "The driver was updated under a running system: restart this process, and if that does not help reboot",
    ),
}
"""What ends the connection to the driver: what is wrong and what to do about it."""
OVER = frozenset({Code.UNINITIALIZED, Code.DRIVER_NOT_LOADED, Code.LIB_RM_VERSION_MISMATCH})


class Field(IntEnum):
    """``NVML_FI_DEV_*``: ids of :func:`nvmlDeviceGetFieldValues`, with their units."""

    ECC_SBE_VOL_TOTAL = 3
    ECC_DBE_VOL_TOTAL = 4
    NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL = 38
    NVLINK_CRC_DATA_ERROR_COUNT_TOTAL = 45
    NVLINK_REPLAY_ERROR_COUNT_TOTAL = 52
    NVLINK_RECOVERY_ERROR_COUNT_TOTAL = 59
    PERF_POLICY_POWER = 74  # ns
    PERF_POLICY_THERMAL = 75
    PERF_POLICY_SYNC_BOOST = 76
    PERF_POLICY_BOARD_LIMIT = 77
    PERF_POLICY_RELIABILITY = 79
    MEMORY_TEMP = 82  # degrees C
    TOTAL_ENERGY_CONSUMPTION = 83  # mJ since the driver was loaded
    NVLINK_SPEED_MBPS_COMMON = 90  # 10^6 bytes/s of one link and direction, protocol included
    NVLINK_LINK_COUNT = 91
    PCIE_REPLAY_COUNTER = 94
    NVLINK_THROUGHPUT_DATA_TX = 138  # KiB since the driver was loaded; scope is the link, or all of them
    NVLINK_THROUGHPUT_DATA_RX = 139
    REMAPPED_PENDING = 144
    REMAPPED_FAILURE = 145
    NVLINK_ERROR_DL_REPLAY = 161  # scope is the link, or all of them
    NVLINK_ERROR_DL_RECOVERY = 162
    NVLINK_ERROR_DL_CRC = 163
    NVLINK_GET_SPEED = 164  # as NVLINK_SPEED_MBPS_COMMON, of the link in scope
    PCIE_COUNT_TX_BYTES = 197
    PCIE_COUNT_RX_BYTES = 198
    NVLINK_COUNT_XMIT_BYTES = 202  # NVLink 5; scope is the link, or all of them
    NVLINK_COUNT_RCV_BYTES = 204
    NVLINK_COUNT_RCV_ERRORS = 208
    NVLINK_COUNT_LINK_RECOVERY_EVENTS = 215


ALL_LINKS = 0xFFFFFFFF
"""The scope of a field that stands for the sum over all links."""


class Metric(IntEnum):
    """``NVML_GPM_METRIC_*``: percent 0-100, or MiB/s."""

    GRAPHICS_UTIL = 1
    SM_UTIL = 2
    ANY_TENSOR_UTIL = 5
    DRAM_BW_UTIL = 10
    PCIE_TX_PER_SEC = 20
    PCIE_RX_PER_SEC = 21
    NVLINK_TOTAL_RX_PER_SEC = 60
    NVLINK_TOTAL_TX_PER_SEC = 61


GPM_VERSION = 1
GPM_SECONDS = 0.1
"""Two samples have to lie further apart than this (NVML API reference, GPM)."""
MEMORY_V2 = 0x02000028
CLOCK_SM, CLOCK_MEMORY = 1, 2
CORE = 0  # the temperature sensor
CORRECTED, UNCORRECTED, VOLATILE = 0, 1, 0
XID_EVENT = 8
REMOTE_GPU, REMOTE_SWITCH = 0, 2

ANCESTORS: Mapping[int, str] = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""``nvmlGpuTopologyLevel_t`` in the words of ``nvidia-smi topo -m``; 0 is two GPUs on one board, behind its own bridge."""
