"""When clients come, how long they pause, and how often they may try again."""

from __future__ import annotations

import math
import random

from llmvitals.simulator.workload import Stream

BUDGET_MEMORY = 100.0
"""First attempts whose share of retries a budget keeps at most: 10 retries at once at a budget of 10 %, which is the least
that gRPC's retry throttling suggests (maxTokens 10)."""

TOLERANCE = 1e-9
"""Seconds to which the moment of an arrival is worked out."""


def spread_around(mean: float, spread: float, rng: random.Random) -> float:
    """A duration from a Gamma law with this mean and coefficient of variation; the mean itself for 0, exponential for 1."""
    if mean <= 0 or spread <= 0:
        return mean
    if spread == 1.0:
        return rng.expovariate(1.0 / mean)
    shape = 1.0 / spread**2
    return rng.gammavariate(shape, mean / shape)


def gap(stream: Stream, rng: random.Random, now: float) -> float:
    """Seconds from ``now`` to the stream's next arrival.

    The gap at the mean rate is stretched to the moment by which the swinging rate has brought as much (Çinlar 1975:
    a process of unit rate, run through the inverse of the cumulated rate).
    """
    usual = spread_around(1.0 / stream.rate, stream.burstiness, rng)
    return usual if not stream.swing else _stretched(usual, stream, now)


def _stretched(usual: float, stream: Stream, now: float) -> float:
    """Solve ``x + reach * (cos(angle) - cos(angle + x * pace)) = usual`` for x >= 0; the left side grows with x."""
    pace = 2.0 * math.pi / stream.period
    reach, angle = stream.swing / pace, (now + stream.phase) * pace
    low, high = max(0.0, usual - 2.0 * reach), usual + 2.0 * reach
    x = min(high, usual / max(0.1, 1.0 + stream.swing * math.sin(angle)))
    while high - low > TOLERANCE:
        over = x + reach * (math.cos(angle) - math.cos(angle + x * pace)) - usual
        low, high = (low, x) if over > 0 else (x, high)
        slope = 1.0 + stream.swing * math.sin(angle + x * pace)
        step = over / slope if slope > 0 else math.inf
        if abs(step) < TOLERANCE:
            break
        x = x - step if low < x - step < high else (low + high) / 2.0
    return x


class Budget:
    """Retries as a share of first attempts: a token bucket that each first attempt fills by ``share`` (0-1; inf: none)."""

    __slots__ = ("_left", "share")

    def __init__(self, share: float) -> None:
        self.share = share
        self._left = BUDGET_MEMORY * share

    def earn(self) -> None:
        """A first attempt was made."""
        self._left = min(BUDGET_MEMORY * self.share, self._left + self.share)

    def spend(self) -> bool:
        """Try again, if it may be."""
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
