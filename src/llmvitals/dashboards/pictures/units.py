"""How a number is read: units by Grafana's ids, scaled and rounded for people."""

from __future__ import annotations

import math
from dataclasses import dataclass

_SUFFIX = "suffix:"
_ROUNDED = 1.0005
"""What becomes the next scale's first number in three digits is told in that scale: 1 s, not 1,000 ms."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From ``least`` (in the base unit) on, a number is told as so many times ``factor``, with ``suffix``."""

    least: float
    factor: float
    suffix: str


def _si(unit: str, *prefixes: str) -> tuple[Scale, ...]:
    return tuple(Scale(10.0 ** (3 * at), 10.0 ** (3 * at), f" {p}{unit}") for at, p in enumerate(prefixes))


_SECONDS = (
    Scale(1e-9, 1e-9, " ns"),
    Scale(1e-6, 1e-6, " µs"),
    Scale(1e-3, 1e-3, " ms"),
    Scale(1.0, 1.0, " s"),
    Scale(120.0, 60.0, " min"),
    Scale(7200.0, 3600.0, " h"),
    Scale(172_800.0, 86_400.0, " d"),
)
_PLAIN = (Scale(1.0, 1.0, ""),)
_SCALES: dict[str, tuple[Scale, ...]] = {
    "": _PLAIN,
    "none": _PLAIN,
    "bool": _PLAIN,
    "short": (*_PLAIN, Scale(1e3, 1e3, " K"), Scale(1e6, 1e6, " Mil"), Scale(1e9, 1e9, " Bil")),
    "s": _SECONDS,
    "dtdurations": _SECONDS,
    "percentunit": (Scale(0.01, 0.01, "%"),),
    "percent": (Scale(1.0, 1.0, "%"),),
    "bytes": tuple(Scale(1024.0**at, 1024.0**at, f" {u}") for at, u in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))),
    "decbytes": _si("B", "", "k", "M", "G", "T"),
    "binBps": tuple(Scale(1024.0**n, 1024.0**n, f" {u}/s") for n, u in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))),
    "Bps": _si("B/s", "", "k", "M", "G", "T"),
    "hertz": _si("Hz", "", "k", "M", "G"),
    "watt": _si("W", "", "k", "M"),
    "flops": _si("FLOP/s", "", "k", "M", "G", "T", "P"),
    "joule": _si("J", "", "k", "M", "G"),
    "celsius": (Scale(1.0, 1.0, " °C"),),
    "reqps": (Scale(1.0, 1.0, " req/s"),),
    "ops": (Scale(1.0, 1.0, " ops/s"),),
    "cps": (Scale(1.0, 1.0, " c/s"),),
}
"""Grafana's ids and what they mean: ``bytes`` counts in 1024, ``Bps`` in 1000 (its documentation on standard units)."""


def known(unit: str) -> bool:
    """Whether a unit's id is one of those that are told here."""
    return unit in _SCALES or unit.startswith(_SUFFIX)


def scale(value: float, unit: str) -> Scale:
    """The scale in which a number of that unit is told; 0 in the unit itself."""
    if unit.startswith(_SUFFIX):
        suffix = unit.removeprefix(_SUFFIX)
        return Scale(1.0, 1.0, suffix if suffix.startswith(" ") else f" {suffix}")
    steps = _SCALES.get(unit, (Scale(1.0, 1.0, f" {unit}"),))
    size = abs(value)
    base = next((one for one in steps if one.factor == 1.0), steps[0])
    if not size or not math.isfinite(size):
        return base
    return next((one for one in reversed(steps) if one.least <= size * _ROUNDED), steps[0])


def said(value: float, unit: str) -> str:
    """A number with its unit, to three digits."""
    mine = scale(value, unit)
    return number(value / mine.factor) + mine.suffix


def number(value: float) -> str:
    """A number to three digits, a large one to its last whole one, without needless zeros."""
    if not value:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.1e}"
    text = f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value)) + 1e-12))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ticks(low: float, high: float, most: int) -> tuple[float, ...]:
    """Round numbers between two, at most ``most``, evenly apart."""
    if not high > low:
        return (low,)
    raw = (high - low) / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    steps = (step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0, 20.0))
    step = next(s for s in steps if (high - low) / s <= most - 1 + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(round(n * step, 12) for n in range(first, last + 1))
