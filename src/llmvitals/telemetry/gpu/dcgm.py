"""A dcgm-exporter page: GPU activity, memory, power, clocks, links, throttling, errors and pods in base units.

Its fields are in :mod:`llmvitals.telemetry.gpu.dcgm_rows`. Fields the GPU cannot give used to come as DCGM's blank numbers,
which are dropped. Series of switches and of the host's processors name no GPU and are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llmvitals.gaps import GapKind
from llmvitals.schema import FAMILIES, Origin, origin_of
from llmvitals.series import Series
from llmvitals.telemetry.gpu.dcgm_labels import pod_of, tell
from llmvitals.telemetry.gpu.dcgm_rows import BASE_UNITS, RENAMED, ROWS, UNUSED
from llmvitals.telemetry.gpu.links import pcie_bytes_per_second
from llmvitals.telemetry.gpu.xid import KINDS as XID
from llmvitals.telemetry.gpu.xid import XidCounts
from llmvitals.telemetry.mapping import (
    UNUSABLE,
    Adapter,
    Derived,
    FamilyGap,
    Parts,
    Whose,
    nearest_last,
    plain_name,
    usable,
)

TOTAL = "llm_gpu_memory_total_bytes"
_PIECES = ("llm_gpu_memory_used_bytes", "llm_gpu_memory_free_bytes", "llm_gpu_memory_reserved_bytes")

VERSIONS: tuple[tuple[frozenset[str], str], ...] = (
    (BASE_UNITS, "4.9+"),
    (frozenset({"label:hostname"}), "4.8.3+"),
    (frozenset({"label:Hostname"}), "2.x-4.8.2"),
)
"""What on a page tells the exporter's releases apart: names of DCGM 4.7, and how the label of the host is spelled."""
_ANY = "2.x-4.9"


def _identity(source: Mapping[str, str]) -> Whose | None:
    """One GPU, or one MIG instance of it. Series that repeat a GPU for a pod stand in for the device's own."""
    gpu = source.get("UUID") or source.get("uuid") or source.get("gpu_uuid")
    if not gpu:
        return None
    instance = source.get("GPU_I_ID")
    labels = {"gpu": f"{gpu}/{instance}" if instance else gpu}
    return Whose(labels, stand_in=pod_of(source) is not None)


# -- families that are made of several fields --------------------------------------------------------------------------
Values = Mapping[str, float]
"""The parts of one family: a field's older name and its number, in the unit of the family."""


@dataclass(frozen=True, slots=True)
class _Made:
    """How a family follows from fields of one GPU. ``needs``: those without which it would be half the truth.

    ``how`` gives None where the numbers do not say it, and ``unclear`` is the reason then.
    """

    how: Callable[[Values], float | None]
    needs: tuple[str, ...] = ()
    unclear: str = ""


def _sum(values: Values) -> float:
    return sum(values.values())


def _lanes(values: Values) -> float | None:
    return pcie_bytes_per_second(values["DCGM_FI_DEV_PCIE_LINK_GEN"], values["DCGM_FI_DEV_PCIE_LINK_WIDTH"])


def _by_range(values: Values) -> float | None:
    """In DCGM 4.6 this name holds whole percents, since 4.7 a ratio: its range tells. 1 can be either."""
    (value,) = values.values()
    if value == 1.0 or value > 100.0:
        return None
    return value * 0.01 if value > 1.0 else value


def _both_ways(field: str) -> _Made:
    return _Made(_sum, (f"DCGM_FI_{field}_TX_BYTES", f"DCGM_FI_{field}_RX_BYTES"))


_MADE: Mapping[str, _Made] = {
    "any": _Made(lambda values: max(values.values())),
    "errors": _Made(_sum),
    "nvlink": _both_ways("PROF_NVLINK"),
    "pcie": _both_ways("PROF_PCIE"),
    "lanes": _Made(
        _lanes, ("DCGM_FI_DEV_PCIE_LINK_GEN", "DCGM_FI_DEV_PCIE_LINK_WIDTH"), "a PCIe generation that is not known"
    ),
    "thermal": _Made(_sum, tuple(f"DCGM_FI_DEV_CLOCKS_EVENT_REASON_{way}_THERM_SLOWDOWN_NS" for way in ("SW", "HW"))),
    "range": _Made(_by_range, unclear="1 may be 1 % or all of the time, more than 100 is neither"),
    "sensor": _Made(lambda values: next(iter(values.values())) or None, unclear="0 °C: the card has no sensor there"),
}
_RATIO = _Made(lambda values: next((value for value in values.values() if value <= 1.0), None), unclear=UNUSABLE)
"""The busy ratio on a page of DCGM 4.7, where its name says what it is."""


def _derive(parts: Parts) -> None:
    """Families that are made of several fields, what the labels tell, and the whole of the memory."""
    made = {**_MADE, "range": _RATIO} if parts.marks & BASE_UNITS else _MADE
    for (series, special), values in _parts_of(parts).items():
        rule = made[special]
        absent = ", ".join(sorted(set(rule.needs) - set(values)))
        value = None if absent else rule.how(values)
        if value is not None:
            parts.samples.setdefault(series, value)
        elif series not in parts.samples:
            reason = f"it needs {absent} as well" if absent else rule.unclear
            parts.gaps.append(FamilyGap(series.name, GapKind.UNSUPPORTED, reason, (("gpu", series.label("gpu")),)))
    tell(parts)
    _whole_memory(parts)


def _parts_of(parts: Parts) -> dict[tuple[Series, str], dict[str, float]]:
    """The usable numbers of each made family. Of one field the GPU's own number goes before its links', which add up."""
    links: dict[tuple[Series, str], dict[str, dict[str, float]]] = {}
    for entry, raw in nearest_last(parts.specials):
        row = entry.row
        if row.special in XID:
            continue
        if not usable(parts, entry, raw):
            continue
        fields = links.setdefault((entry.series, row.special), {})
        numbers = fields.setdefault(RENAMED.get(row.source, row.source), {})
        numbers[entry.source.get("nvlink", "")] = raw * row.scale
    return {
        key: {field: numbers.get("", sum(numbers.values())) for field, numbers in fields.items()}
        for key, fields in links.items()
    }


def _whole_memory(parts: Parts) -> None:
    """Used, free and reserved make the whole, to a MiB for each; without what is reserved it would come out too small."""
    for series in [series for series in parts.samples if series.name == _PIECES[0]]:
        whole = Series(TOTAL, series.labels)
        if whole in parts.samples:
            continue
        numbers = [parts.samples.get(Series(name, series.labels)) for name in _PIECES]
        known = [number for number in numbers if number is not None]
        if len(known) == len(_PIECES):
            parts.samples[whole] = sum(known)
            continue
        absent = ", ".join(name for name, number in zip(_PIECES, numbers, strict=True) if number is None)
        reason = f"it needs DCGM_FI_DEV_FB_TOTAL, or {absent} as well"
        parts.gaps.append(FamilyGap(TOTAL, GapKind.UNSUPPORTED, reason, (("gpu", series.label("gpu")),)))
    names = {series.name for series in parts.samples}
    if TOTAL not in names and not any(gap.family == TOTAL for gap in parts.gaps):
        parts.gaps.append(FamilyGap(TOTAL, GapKind.UNSUPPORTED, "no field of the page says how much memory there is"))
    if "llm_gpu_info" not in names:
        parts.gaps.append(FamilyGap("llm_gpu_info", GapKind.UNSUPPORTED, "no label names the card or its driver"))


# -- what the page cannot say ------------------------------------------------------------------------------------------
DERIVED: tuple[Derived, ...] = (
    Derived("llm_gpu_info", "modelName, GPU_I_PROFILE, DCGM_FI_DRIVER_VERSION", "", "labels of every series"),
    Derived(
        "llm_gpu_pod", "namespace, pod, container", "", "labels, also as exported_pod or pod_name; one for each holder"
    ),
    Derived(
        TOTAL,
        "DCGM_FI_DEV_FB_TOTAL",
        "",
        "else used, free and reserved added, to a MiB each, where all three are there",
    ),
)
_BY_PAGE = frozenset(told.family for told in DERIVED)

CANNOT: Mapping[str, str] = {
    "llm_gpu_process_memory_bytes": "no field of dcgm-exporter tells the memory of a process",
    "llm_gpu_memory_other_bytes": "no field of dcgm-exporter tells the memory of a process",
    "llm_gpu_peer_link": "no field of dcgm-exporter tells over which link GPUs reach each other",
    "llm_tensor_parallel_size": "it is the engine's: its settings, its arguments or the GPUs joined to it tell",
}


def _static(marks: frozenset[str]) -> tuple[str, tuple[FamilyGap, ...]]:
    version = next((version for told, version in VERSIONS if told & marks), _ANY)
    asked = (f.name for f in FAMILIES if origin_of(f.name) is Origin.GPU and f.name not in _BY_PAGE)
    return version, tuple(gap for name in asked if (gap := _gap(name, marks)) is not None)


def _gap(family: str, marks: frozenset[str]) -> FamilyGap | None:
    """Why this page has none of a family; None where it has.

    What a list of fields or a card may well lack is UNSUPPORTED: no verdict waits for it.
    """
    rows = [row for row in ROWS if row.family == family]
    if any(plain_name(row.source) in marks for row in rows):
        return None
    if not rows:
        return FamilyGap(family, GapKind.UNSUPPORTED, CANNOT.get(family, "no field of dcgm-exporter says it"))
    first = next((row for row in rows if not row.needs), rows[0])
    reason = f"{first.source} is not among this exporter's fields"
    kind = GapKind.UNSUPPORTED if all(row.needs for row in rows) else GapKind.MISSING
    return FamilyGap(family, kind, f"{reason}; it needs {first.needs}" if first.needs else reason)


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
    telling=("Hostname", "hostname"),
    origin=Origin.GPU,
    versions=_ANY,
    derived=DERIVED,
    cannot=CANNOT,
    unused=UNUSED,
    counting=XidCounts,
)

__all__ = ["ADAPTER", "ROWS"]
