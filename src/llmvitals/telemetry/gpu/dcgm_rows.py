"""What the fields of a dcgm-exporter page become, by their names in DCGM before 4.6, since 4.6 and since 4.7.

Units: the exporter's field lists and DCGM's reference of fields. ``PROF`` ratios are 0-1, ``GPU_UTIL`` is percent,
framebuffer MiB, clocks MHz, energy mJ, violations ns (older lists say "in us"; DCGM hands on NVML's time, which is in ns).
DCGM 4.6 gave fields new names and left their units alone. DCGM 4.7 added fields in base units (bytes, hertz, joules,
seconds, real ratios), which dcgm-exporter lists since 4.9.
"""

from __future__ import annotations

from dataclasses import replace

from llmvitals.telemetry.mapping import Row, Unused, plain_name

MIB = 1024.0 * 1024.0
NS, MJ = 1e-9, 1e-3
BLANK = 140737488355328.0  # DCGM's fp64 blank; "not found", "not supported" and "not permitted" follow it, so do the int64 ones
BLANK_INT = float(0x7FFFFFFFFFFFFFF0)  # the first int64 blank: a count of ns passes the other within two days

_LISTED = "its field in the exporter's list"
_CHOSEN = "its field in the exporter's list: the default one leaves it out"
_NEWER = "its field in the exporter's list: those of 3.x leave it out"
_WHOLE = "a card that is not split into MIG slices"
_PROFILED = "a data-centre GPU whose profiling counters DCGM may read"
_SENSOR = "a card with a sensor in its memory"
_HELD = "llm_gpu_throttle_seconds_total"


def _row(
    field: str,
    family: str,
    scale: float = 1.0,
    note: str = "",
    *,
    needs: str = "",
    special: str = "",
    fallback: bool = False,
    xid: bool = False,
    **fixed: str,
) -> Row:
    return Row(
        f"DCGM_{field}" if field.startswith("EXP_") else f"DCGM_FI_{field}",
        family,
        scale=scale,
        ceiling=BLANK_INT if scale in (NS, MJ) else BLANK,
        labels=(("index", "gpu"), *((("xid", "xid"),) if xid else ())),
        fixed=tuple(fixed.items()),
        note=note,
        needs=needs,
        special=special,
        fallback=fallback,
    )


_FIRST: tuple[Row, ...] = (
    _row("PROF_GR_ENGINE_ACTIVE", "llm_gpu_engine_active_ratio", needs=_PROFILED),
    _row("PROF_SM_ACTIVE", "llm_gpu_sm_active_ratio", needs=_CHOSEN),
    _row("PROF_PIPE_TENSOR_ACTIVE", "llm_gpu_tensor_active_ratio", needs=_PROFILED),
    _row("PROF_DRAM_ACTIVE", "llm_gpu_dram_active_ratio", needs=_PROFILED),
    _row("DEV_GPU_UTIL", "llm_gpu_busy_ratio", 0.01, "says only that a kernel was resident", needs=_WHOLE),
    _row("DEV_FB_USED", "llm_gpu_memory_used_bytes", MIB, "reserved memory left out"),
    _row("DEV_FB_FREE", "llm_gpu_memory_free_bytes", MIB),
    _row("DEV_FB_RESERVED", "llm_gpu_memory_reserved_bytes", MIB, needs=_NEWER),
    _row("DEV_FB_TOTAL", "llm_gpu_memory_total_bytes", MIB, needs=_CHOSEN),
    _row("DEV_POWER_USAGE", "llm_gpu_power_watts", note="on most newer cards a mean over a second"),
    _row("DEV_GPU_TEMP", "llm_gpu_temperature_celsius"),
    _row("DEV_MEMORY_TEMP", "llm_gpu_memory_temperature_celsius", needs=_SENSOR, special="sensor"),
    _row("DEV_SM_CLOCK", "llm_gpu_sm_clock_hertz", 1e6),
    _row("DEV_MAX_SM_CLOCK", "llm_gpu_sm_clock_max_hertz", 1e6, needs=_CHOSEN),
    _row("DEV_MEM_CLOCK", "llm_gpu_memory_clock_hertz", 1e6, needs=_LISTED),
    _row("DEV_TOTAL_ENERGY_CONSUMPTION", "llm_gpu_energy_joules_total", MJ, needs=_LISTED),
    _row("DEV_ENFORCED_POWER_LIMIT", "llm_gpu_power_limit_watts", needs=_CHOSEN),
    _row("DEV_POWER_MGMT_LIMIT", "llm_gpu_power_limit_watts", needs=_CHOSEN, fallback=True),
    # LOW_UTIL and the two totals are left out: an idle GPU's clocks are low by design
    *(
        _row(f"DEV_{field}", _HELD, NS, needs=_CHOSEN, reason=reason)
        for field, reason in (
            ("POWER_VIOLATION", "power"),
            ("THERMAL_VIOLATION", "thermal"),
            ("SYNC_BOOST_VIOLATION", "sync_boost"),
            ("BOARD_LIMIT_VIOLATION", "board_limit"),
            ("RELIABILITY_VIOLATION", "reliability"),
        )
    ),
    # the same times by the driver's own reasons, which DCGM 4 has beside them
    *(
        _row(f"DEV_CLOCKS_EVENT_REASON_{field}_NS", _HELD, NS, needs=_CHOSEN, fallback=True, special=how, reason=reason)
        for field, reason, how in (
            ("SW_POWER_CAP", "power", ""),
            ("SYNC_BOOST", "sync_boost", ""),
            ("HW_POWER_BRAKE_SLOWDOWN", "power_brake", ""),
            ("SW_THERM_SLOWDOWN", "thermal", "thermal"),
            ("HW_THERM_SLOWDOWN", "thermal", "thermal"),
        )
    ),
    # the last code, which stays: what came is counted over the pages, by the exporter (TOTAL, since 4.8.3) or here
    _row(
        "DEV_XID_ERRORS", "llm_gpu_xid_events_total", note="a repeated code is not seen", needs=_LISTED, special="xid"
    ),
    _row("EXP_XID_ERRORS_COUNT", "llm_gpu_xid_events_total", needs=_CHOSEN, special="xid-window", xid=True),
    _row("EXP_XID_ERRORS_TOTAL", "llm_gpu_xid_events_total", needs=_CHOSEN, special="xid-total", xid=True),
    _row("DEV_ECC_DBE_VOL_TOTAL", "llm_gpu_ecc_uncorrected_total", needs=_CHOSEN),
    _row("DEV_UNCORRECTABLE_REMAPPED_ROWS", "llm_gpu_ecc_uncorrected_total", needs=_LISTED, fallback=True),
    _row("DEV_ECC_SBE_VOL_TOTAL", "llm_gpu_ecc_corrected_total", needs=_CHOSEN),
    _row("DEV_ROW_REMAP_PENDING", "llm_gpu_row_remap_pending", needs=_CHOSEN, special="any"),
    _row("DEV_ROW_REMAP_FAILURE", "llm_gpu_row_remap_pending", needs=_LISTED, special="any"),
    # rates, whatever the TYPE line says; a series of a single link (label nvlink) is one part of its GPU's
    _row("PROF_NVLINK_TX_BYTES", "llm_gpu_nvlink_bytes_per_second", needs=_CHOSEN, special="nvlink"),
    _row("PROF_NVLINK_RX_BYTES", "llm_gpu_nvlink_bytes_per_second", needs=_CHOSEN, special="nvlink"),
    _row("PROF_PCIE_TX_BYTES", "llm_gpu_pcie_bytes_per_second", needs=_PROFILED, special="pcie"),
    _row("PROF_PCIE_RX_BYTES", "llm_gpu_pcie_bytes_per_second", needs=_PROFILED, special="pcie"),
    _row("DEV_PCIE_LINK_GEN", "llm_gpu_link_limit_bytes_per_second", needs=_CHOSEN, special="lanes", link="pcie"),
    _row("DEV_PCIE_LINK_WIDTH", "llm_gpu_link_limit_bytes_per_second", needs=_CHOSEN, special="lanes", link="pcie"),
    _row("DEV_PCIE_REPLAY_COUNTER", "llm_gpu_link_errors_total", note="PCIe replays", needs=_LISTED, link="pcie"),
    # the totals over all links; which of them a card counts differs by its generation (DL: Hopper and newer)
    *(
        _row(f"DEV_NVLINK_{field}", "llm_gpu_link_errors_total", needs=_CHOSEN, special="errors", link="nvlink")
        for field in (
            "CRC_FLIT_ERROR_COUNT_TOTAL",
            "CRC_DATA_ERROR_COUNT_TOTAL",
            "REPLAY_ERROR_COUNT_TOTAL",
            "RECOVERY_ERROR_COUNT_TOTAL",
            "ERROR_DL_CRC",
            "ERROR_DL_REPLAY",
            "ERROR_DL_RECOVERY",
        )
    ),
)

RENAMED: dict[str, str] = {
    f"DCGM_FI_{new}": f"DCGM_FI_{old}"
    for new, old in (
        ("PROF_GR_ENGINE_UTIL_RATIO", "PROF_GR_ENGINE_ACTIVE"),
        ("PROF_SM_UTIL_RATIO", "PROF_SM_ACTIVE"),
        ("PROF_TENSOR_UTIL_RATIO", "PROF_PIPE_TENSOR_ACTIVE"),
        ("PROF_DRAM_UTIL_RATIO", "PROF_DRAM_ACTIVE"),
        ("DEV_BOARD_POWER_WATTS", "DEV_POWER_USAGE"),
        ("DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", "DEV_ENFORCED_POWER_LIMIT"),
        ("DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", "DEV_POWER_MGMT_LIMIT"),
        ("DEV_GPU_TEMP_CELSIUS", "DEV_GPU_TEMP"),
        ("DEV_MEMORY_TEMP_CELSIUS", "DEV_MEMORY_TEMP"),
        ("DEV_XID_ERROR", "DEV_XID_ERRORS"),
        ("DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", "DEV_UNCORRECTABLE_REMAPPED_ROWS"),
        ("DEV_ROW_REMAP_FAILED", "DEV_ROW_REMAP_FAILURE"),
        ("DEV_PCIE_REPLAY_TOTAL", "DEV_PCIE_REPLAY_COUNTER"),
        ("DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
        ("DEV_NVLINK_CRC_DATA_ERROR_TOTAL", "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"),
        ("DEV_NVLINK_REPLAY_ERROR_TOTAL", "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"),
        ("DEV_NVLINK_RECOVERY_ERROR_TOTAL", "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"),
        ("DEV_NVLINK_CRC_ERROR_TOTAL", "DEV_NVLINK_ERROR_DL_CRC"),
        ("DEV_NVLINK_REPLAY_TOTAL", "DEV_NVLINK_ERROR_DL_REPLAY"),
        ("DEV_NVLINK_RECOVERY_TOTAL", "DEV_NVLINK_ERROR_DL_RECOVERY"),
    )
}
"""New names of DCGM 4.6 and the older ones of the same fields, in the same unit."""

# Fields of DCGM 4.7 in base units; of a field that the page shows in both, the older one is taken.
_BASE: tuple[Row, ...] = tuple(
    replace(_row(f"DEV_{field}", family, needs=_CHOSEN, fallback=True), fixed=fixed)
    for field, family, fixed in (
        ("FB_USED_BYTES", "llm_gpu_memory_used_bytes", ()),
        ("FB_FREE_BYTES", "llm_gpu_memory_free_bytes", ()),
        ("FB_RESERVED_BYTES", "llm_gpu_memory_reserved_bytes", ()),
        ("FB_CAPACITY_BYTES", "llm_gpu_memory_total_bytes", ()),
        ("SM_CLOCK_HERTZ", "llm_gpu_sm_clock_hertz", ()),
        ("MAX_SM_CLOCK_HERTZ", "llm_gpu_sm_clock_max_hertz", ()),
        ("MEMORY_CLOCK_HERTZ", "llm_gpu_memory_clock_hertz", ()),
        ("GPU_ENERGY_JOULES_TOTAL", "llm_gpu_energy_joules_total", ()),
        ("NVLINK_THROUGHPUT_BYTES_PER_SECOND", "llm_gpu_nvlink_bytes_per_second", ()),
        ("GPU_POWER_THROTTLE_SECONDS_TOTAL", _HELD, (("reason", "power"),)),
        ("GPU_THERMAL_THROTTLE_SECONDS_TOTAL", _HELD, (("reason", "thermal"),)),
        ("GPU_SYNC_BOOST_THROTTLE_SECONDS_TOTAL", _HELD, (("reason", "sync_boost"),)),
        ("BOARD_LIMIT_THROTTLE_SECONDS_TOTAL", _HELD, (("reason", "board_limit"),)),
        ("GPU_RELIABILITY_THROTTLE_SECONDS_TOTAL", _HELD, (("reason", "reliability"),)),
    )
)

ROWS: tuple[Row, ...] = (
    *_FIRST,
    *(
        replace(row, source=new, needs=row.needs or _CHOSEN, fallback=True)
        for new, old in RENAMED.items()
        for row in _FIRST
        if row.source == old
    ),
    *_BASE,
    # In 4.6 the new name of GPU_UTIL, and percent as before; since 4.7 a field of its own, and a ratio: see _by_range.
    _row("DEV_GPU_UTIL_RATIO", "llm_gpu_busy_ratio", special="range", needs=_CHOSEN),
)

BASE_UNITS: frozenset[str] = frozenset(plain_name(row.source) for row in _BASE)
"""Names that say that DCGM is 4.7 or newer."""

UNUSED: tuple[Unused, ...] = tuple(
    Unused(f"DCGM_{name}", why)
    for name, why in (
        (
            "FI_DEV_NVLINK_BANDWIDTH_*",
            "a rate by steps of 1,000 or of 1,024 KiB: DCGM's code and what was measured differ",
        ),
        ("FI_DEV_NVLINK_THROUGHPUT_*", "the same in its newer name, or of single links"),
        ("FI_DEV_NVLINK_*_BYTES*", "bytes since the driver was loaded: the rates are taken"),
        ("FI_DEV_NVLINK_*", "of single links, or no count of errors"),
        ("FI_DEV_GPU_NVLINK_ERRORS", "a code of the last error, no count"),
        ("FI_PROF_NVLINK_*", "traffic of single links"),
        ("FI_PROF_PCIE_*_TOTAL", "bytes since the driver was loaded: the rates are taken"),
        ("FI_PROF_C2C_*", "the link to the host's processor inside one module"),
        ("FI_DEV_C2C_*", "the link to the host's processor inside one module"),
        ("FI_DEV_PCIE_*_THROUGHPUT", "an NVML sample of 20 ms that DCGM has deprecated"),
        ("FI_DEV_PCIE_MAX_LINK_*", "the link as it is now is taken"),
        ("FI_DEV_MEM_COPY_UTIL", "time in which memory was touched, not how much of its bandwidth"),
        ("FI_DEV_MEMORY_UTIL_RATIO", "time in which memory was touched, not how much of its bandwidth"),
        ("FI_DEV_ENC_*", "video engines, which no language model uses"),
        ("FI_DEV_DEC_*", "video engines, which no language model uses"),
        ("FI_PROF_NV*_ACTIVE", "video engines, which no language model uses"),
        ("FI_PROF_NV*_RATIO", "video engines, which no language model uses"),
        ("FI_DEV_VIDEO_CLOCK*", "video engines, which no language model uses"),
        ("FI_DEV_MAX_*_CLOCK*", "the SM clock's maximum is taken"),
        ("FI_DEV_APP_*_CLOCK*", "what was asked for; the clocks as they are are taken"),
        ("FI_DEV_POWER_*", "the draw and the enforced limit are taken"),
        ("FI_DEV_BOARD_POWER_*", "the draw and the enforced limit are taken"),
        ("FI_DEV_*_TEMP*", "limits of temperatures, or those of other parts"),
        ("FI_DEV_FAN_SPEED*", "the temperature is taken"),
        ("FI_DEV_CORRECTABLE_REMAPPED_ROWS", "rows that are remapped already"),
        ("FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", "rows that are remapped already"),
        ("FI_DEV_BANK*_REMAP_*", "spare rows that are left"),
        ("FI_DEV_FB_*", "total, used, free and reserved say it"),
        ("FI_DEV_BAR1_*", "the window through which the host sees the memory"),
        ("FI_DEV_ECC_*", "by place, or over the card's life"),
        ("FI_DEV_CLOCKS_EVENT_REASONS", "a moment's flags; the time is taken where it is counted"),
        ("FI_DEV_CLOCK_THROTTLE_REASONS", "a moment's flags; the time is taken where it is counted"),
        ("FI_DEV_*LOW_UTIL_*", "an idle GPU's clocks are low by design"),
        ("FI_DEV_TOTAL_*_VIOLATION", "the sum of reasons that are taken apart"),
        ("FI_DEV_*_THROTTLE_SECONDS_TOTAL", "the sum of reasons that are taken apart"),
        ("FI_DEV_VGPU_*", "virtual GPUs and their licence"),
        ("FI_DEV_RETIRED_*", "pages of cards before row remapping"),
        ("FI_DEV_PAGE_RETIRED_*", "pages of cards before row remapping"),
        ("FI_DEV_CPU_*", "the host's processors"),
        ("FI_DEV_NVSWITCH_*", "the switches between GPUs, which no engine holds"),
        ("FI_DEV_SXID_*", "the switches between GPUs, which no engine holds"),
        ("FI_DEV_CONNECTX_*", "network cards"),
        ("FI_DEV_FABRIC_*", "the state of the fabric between machines"),
        ("FI_DEV_*PSTATE", "the clocks are taken"),
        ("FI_DEV_*_MODE", "a setting of the card"),
        ("FI_DEV_COUNT", "the cards are on the page"),
        ("FI_DRIVER_VERSION", "the label of this name is taken"),
        ("FI_SYSTEM_*", "facts of the machine; the driver is taken from the label of its name"),
        ("FI_PROF_SM_OCCUPANCY*", "activity of the SMs is taken"),
        ("FI_PROF_SM_CYCLES_*", "activity of the SMs is taken"),
        ("FI_PROF_*_CYCLES_ACTIVE_TOTAL", "the tensor pipes' share of the time is taken"),
        ("FI_PROF_PIPE_*", "the tensor pipes are taken"),
        ("FI_PROF_*_UTIL_RATIO", "the tensor pipes are taken"),
        ("EXP_CLOCK_EVENTS_*", "how often flags were up, not for how long"),
        ("EXP_P2P_STATUS", "whether peers can reach each other, not over which link"),
        ("EXP_GPU_HEALTH_STATUS", "DCGM's own judgement; what it is made of is taken"),
        ("EXP_*", "of the exporter's own making"),
    )
)
