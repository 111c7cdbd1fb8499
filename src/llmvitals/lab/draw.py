"""Drawing a scenario's numbers from its seed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

LEVELS_OF_SEVERITY: tuple[str, ...] = ("mild", "clear", "severe")


@dataclass(frozen=True, slots=True)
class By:
    """A number by severity: drawn between ``low`` and ``high`` of the level."""

    mild: tuple[float, float]
    clear: tuple[float, float]
    severe: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Longer:
    """Seconds that a play lasts beyond what its verdict needs: ``calm`` before the onset, ``fault`` after it with the fault
    still there.
    """

    calm: float = 0.0
    fault: float = 0.0


AS_SCORED = Longer()


class Draw:
    """One scenario's source of chance; the same seed draws the same numbers in the same order, however long it is watched."""

    def __init__(self, seed: str, severity: str = "clear", longer: Longer = AS_SCORED) -> None:
        self.severity, self.longer = severity, longer
        self._rng = random.Random(seed)

    def between(self, low: float, high: float) -> float:
        """A number between two."""
        return self._rng.uniform(low, high)

    def log(self, low: float, high: float) -> float:
        """A number between two, each octave as likely as another: for sizes and rates."""
        return math.exp(self._rng.uniform(math.log(low), math.log(high)))

    def whole(self, low: int, high: int) -> int:
        """A whole number between two, both included."""
        return self._rng.randint(low, high)

    def one(self, values: Sequence[T]) -> T:
        """One of these."""
        return self._rng.choice(values)

    def by(self, levels: By) -> float:
        """A number for this scenario's severity."""
        low, high = getattr(levels, self.severity)
        return self._rng.uniform(low, high)
