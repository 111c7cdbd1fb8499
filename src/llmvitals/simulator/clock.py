"""Simulated time: events in the order of their moments, and of their making where moments are equal."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Clock:
    """``now``: seconds of simulated time. Deterministic: the same events in the same order, however time is advanced."""

    __slots__ = ("_due", "_made", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Action]] = []
        self._made = 0

    def at(self, moment: float, action: Action) -> None:
        """Do ``action`` at ``moment``; at once, but after what is already due, when that has passed."""
        self._made += 1
        heapq.heappush(self._due, (max(moment, self.now), self._made, action))

    def run(self, until: float) -> None:
        """Let time pass up to and including ``until``."""
        due = self._due
        while due and due[0][0] <= until:
            self.now, _, action = heapq.heappop(due)
            action()
        self.now = max(self.now, until)
