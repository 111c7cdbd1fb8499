"""A page of nvidia_gpu_exporter: what ``nvidia-smi --query-gpu`` prints, in base units (bytes, hertz, watts, ratios 0-1).

Its UUIDs lack the ``GPU-`` in front, and the card's number stands only on ``nvidia_smi_gpu_info``. There is no profiling
on it: ``utilization_gpu`` says only that a kernel was resident. MIG slices are not told apart: of a card that is split the
page has the whole card's memory, power and clocks, and no utilisation.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.gaps import GapKind
from llmvitals.schema import Origin
from llmvitals.series import Series
from llmvitals.telemetry.gpu.links import pcie_bytes_per_second
from llmvitals.telemetry.mapping import FamilyGap, Parts, Row, Unused, Whose
from llmvitals.telemetry.simple import source

KIND = "nvidia-smi"

_AMPERE = "a card with row remapping (Ampere and newer) that is not split into MIG slices"
_ECC = "a card with ECC memory"
_WHOLE = "a card that is not split into MIG slices"
_LISTED = "its field in the exporter's list"
_SPLIT = "the card is split into MIG slices, which nvidia_gpu_exporter does not tell apart"


def _row(
    name: str,
    family: str = "",
    *,
    note: str = "",
    needs: str = "",
    special: str = "",
    add: bool = False,
    late: bool = False,
    labels: tuple[tuple[str, str], ...] = (),
    **fixed: str,
) -> Row:
    return Row(
        f"nvidia_smi_{name}",
        family,
        labels=labels,
        late=late,
        note=note,
        needs=needs,
        special=special,
        add=add,
        fixed=tuple(fixed.items()),
        typed="gauge",  # the exporter says it of everything
    )


ROWS: tuple[Row, ...] = (
    _row("utilization_gpu_ratio", "llm_gpu_busy_ratio", note="says only that a kernel was resident", needs=_WHOLE),
    _row("memory_used_bytes", "llm_gpu_memory_used_bytes", note="reserved memory left out"),
    _row("memory_free_bytes", "llm_gpu_memory_free_bytes"),
    _row("memory_reserved_bytes", "llm_gpu_memory_reserved_bytes"),
    _row("memory_total_bytes", "llm_gpu_memory_total_bytes", needs=_LISTED),
    _row(
        "compute_app_used_memory_bytes",
        "llm_gpu_process_memory_bytes",
        note="process ids of the host",
        labels=(("pid", "pid"),),
        late=True,
    ),
    _row("power_draw_watts", "llm_gpu_power_watts", note="on most newer cards a mean over a second"),
    _row("temperature_gpu", "llm_gpu_temperature_celsius"),
    _row("temperature_memory", "llm_gpu_memory_temperature_celsius", needs="a card with a sensor in its memory"),
    _row("clocks_current_sm_clock_hz", "llm_gpu_sm_clock_hertz"),
    _row("clocks_current_memory_clock_hz", "llm_gpu_memory_clock_hertz", needs=_LISTED),
    _row("clocks_max_sm_clock_hz", "llm_gpu_sm_clock_max_hertz"),
    _row("enforced_power_limit_watts", "llm_gpu_power_limit_watts"),
    *(
        _row(
            f"clocks_event_reasons_counters_{field}_seconds",
            "llm_gpu_throttle_seconds_total",
            note="a total in a gauge",
            add=True,
            reason=reason,
        )
        for field, reason in (
            ("sw_power_cap", "power"),
            ("hw_power_brake_slowdown", "power_brake"),
            ("sw_thermal_slowdown", "thermal"),
            ("hw_thermal_slowdown", "thermal"),
            ("sync_boost", "sync_boost"),
        )
    ),
    _row(
        "ecc_errors_uncorrected_volatile_total", "llm_gpu_ecc_uncorrected_total", note="a total in a gauge", needs=_ECC
    ),
    _row("ecc_errors_corrected_volatile_total", "llm_gpu_ecc_corrected_total", note="a total in a gauge", needs=_ECC),
    _row("remapped_rows_pending", "llm_gpu_row_remap_pending", needs=_AMPERE, special="any"),
    _row("remapped_rows_failure", "llm_gpu_row_remap_pending", needs=_AMPERE, special="any"),
    _row("pcie_link_gen_current", "llm_gpu_link_limit_bytes_per_second", special="lanes", link="pcie"),
    _row("pcie_link_width_current", "llm_gpu_link_limit_bytes_per_second", special="lanes", link="pcie"),
    _row("gpu_info", "llm_gpu_info", needs=_LISTED, special="info"),
    _row("mig_mode_current", special="mig"),
)

_GENERATION, _WIDTH = "nvidia_smi_pcie_link_gen_current", "nvidia_smi_pcie_link_width_current"


def _identity(labels: Mapping[str, str]) -> Whose | None:
    """One card; series without a UUID are the exporter's own."""
    uuid = labels.get("uuid")
    if not uuid:
        return None
    return Whose({"gpu": uuid if uuid[:4].upper() in {"GPU-", "MIG-"} else f"GPU-{uuid}"})


def _derive(parts: Parts) -> None:
    """The cards' numbers and what they are, what follows from several fields, and every sample under its card's number."""
    found: dict[tuple[Series, str], dict[str, float]] = {}
    index: dict[str, str] = {}
    split: list[str] = []
    for entry, value in parts.specials:
        gpu = entry.series.label("gpu")
        if entry.row.special == "info":
            index[gpu] = entry.source.get("index", "")
            _tell(parts, gpu, entry.source)
        elif entry.row.special == "mig":
            split.extend([gpu] if value == 1.0 else [])
        elif 0.0 <= value < float("inf"):
            found.setdefault((entry.series, entry.row.special), {})[entry.row.source] = value
    for (series, how), values in found.items():
        made = (
            max(values.values()) if how == "any" else pcie_bytes_per_second(values.get(_GENERATION), values.get(_WIDTH))
        )
        if made is not None:
            parts.samples[series] = made
    busy = {series.label("gpu") for series in parts.samples if series.name == "llm_gpu_busy_ratio"}
    for gpu in split:
        if gpu not in busy:
            parts.gaps.append(FamilyGap("llm_gpu_busy_ratio", GapKind.UNSUPPORTED, _SPLIT, (("gpu", gpu),)))
    for series in [s for s in parts.samples if index.get(s.label("gpu"))]:
        labels = dict(series.labels) | {"index": index[series.label("gpu")]}
        parts.samples[Series(series.name, tuple(sorted(labels.items())))] = parts.samples.pop(series)


def _tell(parts: Parts, gpu: str, source: Mapping[str, str]) -> None:
    """What the card is; a field that the driver does not know is bracketed text."""
    told = {"product": source.get("name", ""), "driver": source.get("driver_version", "")}
    known = {name: text for name, text in told.items() if text and not text.startswith("[")}
    parts.put("llm_gpu_info", 1.0, {"gpu": gpu, **known})


_SETTING = "a setting or a fact of the card that decides nothing here"
_CODEC = "video engines, which no language model uses"

UNUSED: tuple[Unused, ...] = (
    Unused("nvidia_smi_utilization_memory_ratio", "time in which memory was touched, not how much of its bandwidth"),
    Unused("nvidia_smi_compute_app_info", "the names of processes; their ids and memory are taken"),
    Unused("nvidia_smi_compute_apps*", "the processes are taken one by one"),
    Unused("nvidia_smi_protected_memory_*", "confidential computing"),
    Unused("nvidia_smi_power_*", "the enforced limit and the plain draw are taken"),
    Unused("nvidia_smi_clocks_event_reasons_*", "a moment's flag; the time is taken where it is counted"),
    Unused("nvidia_smi_clocks_*", "the clocks of the SMs and of the memory are taken"),
    Unused("nvidia_smi_ecc_errors_*", "by place, or over the card's life"),
    Unused("nvidia_smi_remapped_rows_*", "rows that are remapped already"),
    Unused("nvidia_smi_temperature_*", "the temperatures of the core and of the memory are taken"),
    Unused("nvidia_smi_pcie_link_*", "the link as it is now is taken"),
    *(Unused(f"nvidia_smi_utilization_{name}_ratio", _CODEC) for name in ("decoder", "encoder", "jpeg", "ofa")),
    Unused("nvidia_smi_encoder_stats_*", _CODEC),
    Unused("nvidia_smi_fan_speed_ratio", "the temperature is taken"),
    Unused("nvidia_smi_command_exit_code", "the exporter's own"),
    Unused("nvidia_smi_failed_scrapes", "the exporter's own"),
    Unused("nvidia_smi_last_collect_success", "the exporter's own"),
    *(
        Unused(f"nvidia_smi_{name}", _SETTING)
        for name in (
            *(
                "accounting_*",
                "c2c_mode",
                "compute_cap",
                "compute_mode",
                "count",
                "display_*",
                "driver_*",
                "ecc_mode_*",
            ),
            *("edpp_multiplier_ratio", "fabric_*", "gpu_recovery_action", "gsp_mode_*", "index", "inforom_*"),
            *("kmd_version", "mig_mode_pending", "name", "pci_*", "persistence_mode", "platform_*", "pstate", "serial"),
            *("gom_*", "vbios_version", "gpu_reset_status_*", "retired_pages_*", "dramEncryption_*", "hostname"),
        )
    ),
    Unused("nvidia_gpu_exporter_build_info", "the exporter's own"),
)

_NO_PROFILING = "nvidia-smi does not profile; dcgm-exporter shows it"

ADAPTER = source(
    KIND,
    "nvidia_gpu_exporter",
    ROWS,
    claims=(b"nvidia_smi_",),
    versions="1.x",
    none_found="Point at nvidia_gpu_exporter's port, 9835 by default.",
    origin=Origin.GPU,
    identity=_identity,
    derive=_derive,
    cannot={
        "llm_gpu_engine_active_ratio": _NO_PROFILING,
        "llm_gpu_sm_active_ratio": _NO_PROFILING,
        "llm_gpu_tensor_active_ratio": _NO_PROFILING,
        "llm_gpu_dram_active_ratio": _NO_PROFILING,
        "llm_gpu_nvlink_bytes_per_second": _NO_PROFILING,
        "llm_gpu_pcie_bytes_per_second": _NO_PROFILING,
        "llm_gpu_xid_events_total": "nvidia-smi prints no XID errors",
        "llm_gpu_memory_other_bytes": "which process is the engine's is not on the page",
        "llm_gpu_pod": "nvidia_gpu_exporter knows no pods",
        "llm_gpu_energy_joules_total": "nvidia-smi prints no energy",
        "llm_gpu_link_errors_total": "the exporter does not ask for the replays of PCIe",
        "llm_gpu_peer_link": "the exporter does not ask for the topology",
        "llm_tensor_parallel_size": "it is the engine's: its settings, its arguments or the GPUs joined to it tell",
    },
    unused=UNUSED,
)
