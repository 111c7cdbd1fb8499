"""Values out of a decoded file; what is not there, or is no number, is None, and what must be there is named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from llmvitals.loadtest.model import LoadTestError

Document = Mapping[str, Any]

UNITS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "milliseconds": 1e-3,
    "nanoseconds": 1e-9,
    "microseconds": 1e-6,
}
"""Seconds of a unit of time, as the tools write it."""


def at(document: object, *path: str) -> Any:  # noqa: ANN401 - what somebody's JSON holds
    """What lies on a path of keys; None where it ends early."""
    found = document
    for key in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found


def number(value: object) -> float | None:
    """A finite number, from a JSON number or from a cell of a table; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        found = float(value)  # type: ignore[arg-type]  # what has no float is told by the exception
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def whole(value: object) -> int | None:
    """A whole number; None for anything else."""
    found = number(value)
    return int(found) if found is not None and found == int(found) else None


def listed(document: Document, key: str) -> Sequence[Any]:
    """A list of a document; empty where it is not there."""
    found = document.get(key)
    return found if isinstance(found, list) else ()


def needed(value: float | None, what: str, place: str) -> float:
    """A number that must be there and not be negative. Raises :class:`LoadTestError`."""
    if value is None or value < 0:
        raise LoadTestError(f"has no {what}", place=place, remedy="Give the result file as the tool wrote it.")
    return value


def lasting(value: float | None, place: str) -> float:
    """The seconds that a run took. Raises :class:`LoadTestError`."""
    found = needed(value, "duration", place)
    if found == 0:
        raise LoadTestError("took no time at all", place=place, remedy="Leave out runs that never began.")
    return found
