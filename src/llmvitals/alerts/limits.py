"""The numbers that conditions are held against, the same in both readings of them."""

from __future__ import annotations

from typing import Any

from llmvitals.settings import Settings

_ROUND = 6
"""Digits of a limit: 6 times 5 % is 30 %, whatever floats make of it."""


def number_of(settings: Settings, bound: float | str) -> float:
    """The number that a bound means: itself, or that of the setting with this dotted name."""
    if not isinstance(bound, str):
        return bound
    found: Any = settings
    for part in bound.split("."):
        found = found[int(part)] if part.isdecimal() else getattr(found, part)
    return float(found)


def bounded(settings: Settings, bound: float | str, factor: float) -> float:
    """What a signal is compared with: so many times the number that a bound means."""
    return round(number_of(settings, bound) * factor, _ROUND)


def limit(burn: float, objective: float) -> float:
    """The share of requests that misses where a budget burns so fast. No share exceeds 1, so no limit does."""
    return round(min(1.0, burn * (1 - objective)), _ROUND)
