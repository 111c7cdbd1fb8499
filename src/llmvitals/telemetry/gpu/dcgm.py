"""A dcgm-exporter page: GPU activity, memory, power, clocks, links, throttling and errors in base units.

Names and units: the exporter's field lists (default and commented-out ones) and DCGM's field documentation; ratios of
``PROF`` fields are 0-1, ``GPU_UTIL`` is percent, framebuffer is MiB, clocks MHz, violations nanoseconds. Fields the GPU
cannot give used to come as DCGM's blank numbers, which are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llmvitals.gaps import GapKind
from llmvitals.schema import FAMILIES, Origin, origin_of
from llmvitals.series import Series
from llmvitals.telemetry.gpu.join import join_gpus
from llmvitals.telemetry.gpu.links import pcie_bytes_per_second
from llmvitals.telemetry.mapping import UNUSABLE, Adapter, Entry, FamilyGap, Parts, Row, Unused, Whose, plain_name

_MIB = 1024.0 * 1024.0
_NS = 1e-9  # older field lists say "in us"; DCGM hands on NVML's violation time, which is in ns
_BLANK = 140737488355328.0  # DCGM's fp64 blank; the int64 blanks lie above it
_BLANK_INT = float(0x7FFFFFFFFFFFFFF0)  # the first of them: a count of ns passes the other within two days
_PODS = ("pod", "exported_pod", "pod_name")
_LISTED = "its field in the exporter's list"
_CHOSEN = "its field in the exporter's list: the default one leaves it out"
_NEWER = "its field in the exporter's list: those of 3.x leave it out"
_WHOLE = "a card that is not split into MIG slices"
_PROFILED = "a data-centre GPU whose profiling counters DCGM may read"


def _row(
    field: str,
    family: str,
    scale: float = 1.0,
    note: str = "",
    *,
    needs: str = "",
    special: str = "",
    fallback: bool = False,
    **fixed: str,
) -> Row:
    return Row(
        f"DCGM_FI_{field}",
        family,
        scale=scale,
        ceiling=_BLANK_INT if scale == _NS else _BLANK,
        labels=(("index", "gpu"),),
        fixed=tuple(fixed.items()),
        note=note,
        needs=needs,
        special=special,
        fallback=fallback,
    )


ROWS: tuple[Row, ...] = (
    _row("PROF_GR_ENGINE_ACTIVE", "llm_gpu_engine_active_ratio", needs=_PROFILED),
    _row("PROF_SM_ACTIVE", "llm_gpu_sm_active_ratio", needs=_CHOSEN),
    _row("PROF_PIPE_TENSOR_ACTIVE", "llm_gpu_tensor_active_ratio", needs=_PROFILED),
    _row("PROF_DRAM_ACTIVE", "llm_gpu_dram_active_ratio", needs=_PROFILED),
    _row("DEV_GPU_UTIL", "llm_gpu_busy_ratio", 0.01, "says only that a kernel was resident", needs=_WHOLE),
    # the name of DCGM 4.6 for the same field; it still holds percent, whatever the name says
    _row("DEV_GPU_UTIL_RATIO", "llm_gpu_busy_ratio", special="range", needs=_CHOSEN),
    _row("DEV_BOARD_POWER_WATTS", "llm_gpu_power_watts", needs=_CHOSEN, fallback=True),
    _row("PROF_SM_UTIL_RATIO", "llm_gpu_sm_active_ratio", needs=_CHOSEN, fallback=True),
    _row("DEV_FB_USED", "llm_gpu_memory_used_bytes", _MIB, "reserved memory left out"),
    _row("DEV_FB_FREE", "llm_gpu_memory_free_bytes", _MIB),
    _row("DEV_FB_RESERVED", "llm_gpu_memory_reserved_bytes", _MIB, needs=_NEWER),
    _row("DEV_POWER_USAGE", "llm_gpu_power_watts"),
    _row("DEV_GPU_TEMP", "llm_gpu_temperature_celsius"),
    _row("DEV_SM_CLOCK", "llm_gpu_sm_clock_hertz", 1e6),
    _row("DEV_MAX_SM_CLOCK", "llm_gpu_sm_clock_max_hertz", 1e6, needs=_CHOSEN),
    _row("DEV_ENFORCED_POWER_LIMIT", "llm_gpu_power_limit_watts", needs=_CHOSEN),
    _row("DEV_POWER_MGMT_LIMIT", "llm_gpu_power_limit_watts", needs=_CHOSEN, fallback=True),
    # LOW_UTIL and the two totals are left out: an idle GPU's clocks are low by design
    *(
        _row(f"DEV_{field}", "llm_gpu_throttle_seconds_total", _NS, needs=_CHOSEN, reason=reason)
        for field, reason in (
            ("POWER_VIOLATION", "power"),
            ("THERMAL_VIOLATION", "thermal"),
            ("SYNC_BOOST_VIOLATION", "sync_boost"),
            ("BOARD_LIMIT_VIOLATION", "board_limit"),
            ("RELIABILITY_VIOLATION", "reliability"),
        )
    ),
    # a gauge that holds the last code for good. One page has no memory, so what becomes a sample is "this code was seen",
    # 1 from then on, beside a 0 that says that the field is there: a code that comes inside a window goes from absent to
    # 1, a code from before is 1 all along and no event. A repeat of the same code shows nowhere on such a page.
    _row(
        "DEV_XID_ERRORS", "llm_gpu_xid_events_total", note="a repeated code is not seen", needs=_LISTED, special="xid"
    ),
    _row("DEV_ECC_DBE_VOL_TOTAL", "llm_gpu_ecc_uncorrected_total", needs=_CHOSEN),
    _row("DEV_UNCORRECTABLE_REMAPPED_ROWS", "llm_gpu_ecc_uncorrected_total", needs=_LISTED, fallback=True),
    _row("DEV_ROW_REMAP_PENDING", "llm_gpu_row_remap_pending", needs=_CHOSEN, special="any"),
    _row("DEV_ROW_REMAP_FAILURE", "llm_gpu_row_remap_pending", needs=_LISTED, special="any"),
    # rates, whatever the TYPE line says; NVLINK_BANDWIDTH_TOTAL is left out, its unit is documented nowhere
    _row("PROF_NVLINK_TX_BYTES", "llm_gpu_nvlink_bytes_per_second", needs=_CHOSEN, special="sum"),
    _row("PROF_NVLINK_RX_BYTES", "llm_gpu_nvlink_bytes_per_second", needs=_CHOSEN, special="sum"),
    _row("PROF_PCIE_TX_BYTES", "llm_gpu_pcie_bytes_per_second", needs=_PROFILED, special="sum"),
    _row("PROF_PCIE_RX_BYTES", "llm_gpu_pcie_bytes_per_second", needs=_PROFILED, special="sum"),
    _row("DEV_PCIE_LINK_GEN", "llm_gpu_link_limit_bytes_per_second", needs=_CHOSEN, special="lanes", link="pcie"),
    _row("DEV_PCIE_LINK_WIDTH", "llm_gpu_link_limit_bytes_per_second", needs=_CHOSEN, special="lanes", link="pcie"),
)


def _identity(source: Mapping[str, str]) -> Whose | None:
    """One GPU, or one MIG instance of it. Series that repeat a GPU for a pod stand in for the device's own."""
    gpu = source.get("UUID") or source.get("uuid") or source.get("gpu_uuid")
    if not gpu:
        return None
    instance = source.get("GPU_I_ID")
    labels = {"gpu": f"{gpu}/{instance}" if instance else gpu}
    return Whose(labels, stand_in=any(source.get(label) for label in _PODS))


Values = Mapping[str, float]


def _by_range(value: float) -> float | None:
    """A field that is called a ratio and has always held whole percents: its range tells. 1 can be either."""
    if value == 1.0:
        return None
    return value * 0.01 if value > 1.0 else value


def _lanes(values: Values) -> float | None:
    return pcie_bytes_per_second(values["DCGM_FI_DEV_PCIE_LINK_GEN"], values["DCGM_FI_DEV_PCIE_LINK_WIDTH"])


_MADE_OF: Mapping[str, Callable[[Values], float | None]] = {
    "sum": lambda values: sum(values.values()),
    "any": lambda values: max(values.values()),
    "lanes": _lanes,
    "range": lambda values: _by_range(*values.values()),
}
"""How a family follows from several fields of one GPU; of a sum both parts are needed, or it is half the truth."""
_ALL = frozenset({"sum", "lanes"})
_UNCLEAR: Mapping[str, str] = {
    "lanes": "a PCIe generation that is not known",
    "range": "1 may be 1 % or all of the time",
}


def _derive(parts: Parts) -> None:
    """Families that are made of several fields, and the codes of XID errors."""
    found: dict[tuple[Series, str], dict[str, float]] = {}
    for entry, raw in _own_first(parts.specials):
        row = entry.row
        if not 0.0 <= raw < row.ceiling:
            parts.gaps.append(FamilyGap(row.family, GapKind.MISSING, UNUSABLE, (("gpu", entry.series.label("gpu")),)))
        elif row.special == "xid":
            parts.samples[entry.series] = 0.0
            if raw > 0.0:
                parts.samples[Series(row.family, tuple(sorted((*entry.series.labels, ("xid", f"{raw:.0f}")))))] = 1.0
        else:
            found.setdefault((entry.series, row.special), {})[row.source] = raw
    for (series, how), values in found.items():
        wanted = {row.source for row in ROWS if row.family == series.name}
        made = _MADE_OF[how](values) if how not in _ALL or set(values) == wanted else None
        if made is not None:
            parts.samples[series] = made
        else:
            absent = ", ".join(sorted(wanted - set(values))) if how in _ALL else ""
            reason = f"it needs {absent} as well" if absent else _UNCLEAR[how]
            parts.gaps.append(FamilyGap(series.name, GapKind.UNSUPPORTED, reason, (("gpu", series.label("gpu")),)))


def _own_first(specials: Sequence[tuple[Entry, float]]) -> list[tuple[Entry, float]]:
    """Series that repeat a GPU for a pod only where the device's own field is absent."""
    own = {(entry.series, entry.row.source) for entry, _ in specials if not _repeats(entry)}
    return [(e, v) for e, v in specials if not _repeats(e) or (e.series, e.row.source) not in own]


def _repeats(entry: Entry) -> bool:
    return any(entry.source.get(label) for label in _PODS)


def _static(marks: frozenset[str]) -> tuple[str, tuple[FamilyGap, ...]]:
    gaps = (_gap(f.name, marks) for f in FAMILIES if origin_of(f.name) is Origin.GPU)
    return "3.x-4.x", tuple(gap for gap in gaps if gap is not None)


def _gap(family: str, marks: frozenset[str]) -> FamilyGap | None:
    """Why this page has none of a family; None where it has.

    What a list of fields or a card may well lack is UNSUPPORTED: no verdict waits for it.
    """
    rows = [row for row in ROWS if row.family == family]
    if any(plain_name(row.source) in marks for row in rows):
        return None
    if not rows:
        return FamilyGap(family, GapKind.UNSUPPORTED, "no field of dcgm-exporter says it")
    first = next((row for row in rows if not row.needs), rows[0])
    reason = f"{first.source} is not among this exporter's fields"
    kind = GapKind.UNSUPPORTED if all(row.needs for row in rows) else GapKind.MISSING
    return FamilyGap(family, kind, f"{reason}; it needs {first.needs}" if first.needs else reason)


UNUSED: tuple[Unused, ...] = tuple(
    Unused(f"DCGM_{name}", why)
    for name, why in (
        ("FI_DEV_NVLINK_BANDWIDTH_TOTAL", "its unit is documented nowhere"),
        ("FI_DEV_NVLINK_*", "errors of single links"),
        ("FI_DEV_GPU_NVLINK_ERRORS", "errors of single links"),
        ("FI_DEV_MEM_CLOCK", "the SM clock is what falls when a card is held down"),
        ("FI_DEV_MEM_COPY_UTIL", "time in which memory was touched, not how much of its bandwidth"),
        ("FI_DEV_ENC_UTIL", "video engines, which no language model uses"),
        ("FI_DEV_DEC_UTIL", "video engines, which no language model uses"),
        ("FI_DEV_MEMORY_TEMP", "the core's temperature is taken"),
        ("FI_DEV_TOTAL_ENERGY_CONSUMPTION", "power is taken"),
        ("FI_DEV_PCIE_REPLAY_COUNTER", "retries on PCIe are not told apart from a busy link"),
        ("FI_DEV_CORRECTABLE_REMAPPED_ROWS", "what was corrected harms nothing"),
        ("FI_DEV_FB_*", "used, free and reserved say it"),
        ("FI_DEV_ECC_*", "what was corrected, or over the card's life"),
        ("FI_DEV_CLOCKS_EVENT_REASONS", "a moment's flags; the time is taken where it is counted"),
        ("FI_DEV_CLOCK_THROTTLE_REASONS", "a moment's flags; the time is taken where it is counted"),
        ("FI_DEV_LOW_UTIL_VIOLATION", "an idle GPU's clocks are low by design"),
        ("FI_DEV_TOTAL_*_VIOLATION", "the sum of reasons that are taken apart"),
        ("FI_DEV_VGPU_LICENSE_STATUS", "a licence"),
        ("FI_DEV_RETIRED_*", "pages of cards before row remapping"),
        ("FI_DRIVER_VERSION", "a fact that decides nothing here"),
        ("FI_PROF_SM_OCCUPANCY", "activity of the SMs is taken"),
        ("FI_PROF_PIPE_*", "the tensor pipes are taken"),
        ("EXP_CLOCK_EVENTS_COUNT", "events inside a moving window, which fall again"),
        ("EXP_XID_ERRORS_COUNT", "events inside a moving window, which fall again"),
        ("EXP_*", "health checks of their own"),
    )
)


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
    origin=Origin.GPU,
    versions="3.x-4.8",
    unused=UNUSED,
)

__all__ = ["ADAPTER", "ROWS", "join_gpus"]
