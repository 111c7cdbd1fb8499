"""The newest finished cycle, handed from the cycle's thread to everybody who asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from llmvitals.exporters.cycle import Cycle
from llmvitals.exporters.trail import Trail

STUCK_INTERVALS = 3
"""Intervals (beside the scrape's own time limit) after which a cycle that has not finished counts as stuck."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A cycle and the monotonic moment at which it was posted."""

    cycle: Cycle
    at: float


class Board:
    """One writer, many readers. ``monotonic`` gives seconds that never step, so that ages survive a clock change."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._posted: Posted | None = None
        self._first = threading.Event()
        self.cycles = 0
        self.reload_ok = True
        self.trail = Trail()

    def post(self, cycle: Cycle) -> None:
        """Publish a finished cycle."""
        self.trail.remember(cycle)
        self._posted = Posted(cycle, self._monotonic())
        self.cycles += 1
        self._first.set()

    @property
    def newest(self) -> Cycle | None:
        """The newest finished cycle, or None before the first."""
        return self._posted.cycle if self._posted else None

    def age(self) -> float:
        """Seconds since the newest cycle was finished, or since the start before the first."""
        return self._monotonic() - (self._posted.at if self._posted else self._began)

    def stuck(self, interval_seconds: float, timeout_seconds: float) -> bool:
        """Whether the newest cycle is older than a working exporter lets it become."""
        return self.age() > STUCK_INTERVALS * interval_seconds + timeout_seconds

    def wait(self, seconds: float) -> Cycle | None:
        """The newest cycle, waiting up to ``seconds`` for the first one."""
        self._first.wait(seconds)
        return self.newest
