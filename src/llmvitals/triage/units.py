"""Numbers for people: base units in, a number with the unit a person reads out."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """A display unit: base values are multiplied by ``factor``, and ``unit`` is written behind them."""

    factor: float
    unit: str


_NAMED: dict[str, Scale] = {
    "ratio": Scale(100.0, "%"),
    "tokens": Scale(1.0, "tokens"),
    "celsius": Scale(1.0, "°C"),
    "watts": Scale(1.0, "W"),
    "requests/second": Scale(1.0, "requests/s"),
    "tokens/second": Scale(1.0, "tokens/s"),
    "1/minute": Scale(1.0, "/min"),
    "probability": Scale(1.0, ""),
    "": Scale(1.0, ""),
}

# From this base value up, that display unit; the first row that fits wins.
_BY_SIZE: dict[str, tuple[tuple[float, Scale], ...]] = {
    "seconds": (
        (7200.0, Scale(1 / 3600, "h")),
        (180.0, Scale(1 / 60, "min")),
        (1.0, Scale(1.0, "s")),
        (0.0, Scale(1000.0, "ms")),
    ),
    "bytes": (
        (2.0**30, Scale(2.0**-30, "GiB")),
        (2.0**20, Scale(2.0**-20, "MiB")),
        (0.0, Scale(1.0, "B")),
    ),
    "hertz": ((1e9, Scale(1e-9, "GHz")), (0.0, Scale(1e-6, "MHz"))),
}

_TINY = 1e-4
"""Below this a number is written with its power of ten: its zeros could not be counted by eye."""


def scale(unit: str, largest: float) -> Scale:
    """The display unit for base unit ``unit`` where the largest number shown is ``largest`` (same base unit)."""
    rows = _BY_SIZE.get(unit)
    if rows is None:
        return _NAMED.get(unit, Scale(1.0, unit))
    size = abs(largest) if math.isfinite(largest) else 0.0
    return next(found for bound, found in rows if size >= bound)


def digits(value: float) -> str:
    """Three significant digits, whole numbers whole, thousands set apart; a power of ten for what is tiny."""
    if not math.isfinite(value):
        return "unbounded" if value > 0 else "not a number"
    if value == 0:
        return "0"
    if abs(value) < _TINY:
        return f"{value:.0e}"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_FLOOR: dict[str, float] = {"probability": 1e-6}
"""Below this a number of that unit says no more than that it is smaller."""


def with_unit(value: float, unit: str) -> str:
    """``0.34, seconds`` gives "340 ms"; ``0.97, ratio`` gives "97 %"; a chance of 3e-40 gives "< 0.000001"."""
    if value < _FLOOR.get(unit, -math.inf):
        return f"< {_FLOOR[unit]:.6f}"
    found = scale(unit, value)
    return f"{digits(value * found.factor)} {found.unit}".rstrip()


def inside(title: str) -> str:
    """A title inside a sentence: its first letter small, unless it begins with an abbreviation."""
    return title if title[:2].isupper() else title[0].lower() + title[1:]
