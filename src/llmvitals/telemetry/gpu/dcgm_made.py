"""Families of a dcgm-exporter page that are made of several of its fields, or whose number has to be judged first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llmvitals.gaps import GapKind
from llmvitals.series import Series
from llmvitals.telemetry.gpu.dcgm_rows import BASE_UNITS, RENAMED
from llmvitals.telemetry.gpu.links import pcie_bytes_per_second
from llmvitals.telemetry.gpu.xid import KINDS as XID
from llmvitals.telemetry.mapping import UNUSABLE, FamilyGap, Parts, nearest_last, usable

TOTAL = "llm_gpu_memory_total_bytes"
_PIECES = ("llm_gpu_memory_used_bytes", "llm_gpu_memory_free_bytes", "llm_gpu_memory_reserved_bytes")

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


def make(parts: Parts) -> None:
    """Add what the page's fields make together, or why they do not."""
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
    _whole_memory(parts)


def _parts_of(parts: Parts) -> dict[tuple[Series, str], dict[str, float]]:
    """The numbers of each made family. Of one field the GPU's own number goes before its links', which add up.

    A family with a number that cannot be is left out: from what is left of a sum it would come out too small. A blank one is
    what this card does not count.
    """
    links: dict[tuple[Series, str], dict[str, dict[str, float]]] = {}
    for entry, raw in nearest_last(parts.specials):
        row = entry.row
        if row.special in XID or (not (fine := usable(parts, entry, raw)) and row.blank(raw)):
            continue
        fields = links.setdefault((entry.series, row.special), {})
        numbers = fields.setdefault(RENAMED.get(row.source, row.source), {})
        numbers[entry.source.get("nvlink", "")] = raw * row.scale if fine else math.nan
    whole = {
        key: {field: numbers.get("", sum(numbers.values())) for field, numbers in fields.items()}
        for key, fields in links.items()
    }
    return {key: values for key, values in whole.items() if not any(map(math.isnan, values.values()))}


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
