"""Since when a cumulative number counts, as OTLP asks of each point: a later start says that it began anew."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

NS = 1_000_000_000

FORGET_SECONDS = 3600.0
"""How long a series that is not seen keeps its start. A target that fails for minutes comes back as what it was."""


@dataclass(slots=True)
class _Known:
    start: int
    at: int
    value: float


class Starts:
    """Remembers the start of every series. Times in unix nanoseconds."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}

    def of(self, key: Hashable, value: float, at: int, told: int = 0) -> int:
        """The start of a series whose value is ``value`` at ``at``. ``told``: when its process says that it started, 0 unknown.

        Unknown starts are the moment of first sight, the same as the point's own: what was counted before happened at some
        time (OpenTelemetry's data model, "Cumulative streams: handling unknown start time"). A value that fell, or a process
        younger than the point before, began anew: when the process says, but after that point.
        """
        known = self._known.get(key)
        if known is None:
            start = min(told or at, at)
        elif value < known.value or told > known.at:
            start = min(max(told, known.at + 1), at)
        else:
            start = known.start
        self._known[key] = _Known(start, at, value)
        return start

    def forget(self, at: int) -> None:
        """Drop what was not seen for :data:`FORGET_SECONDS`."""
        oldest = at - int(FORGET_SECONDS * NS)
        self._known = {key: known for key, known in self._known.items() if known.at >= oldest}
