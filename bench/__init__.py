"""Measurements that hold a bar, each a ratio of two costs taken in the same run on the same machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """One line of the table: ``ours`` and ``theirs`` in the same ``unit``; the bar holds while ours/theirs <= ``bar``.

    An infinite bar is none: the ratio is there to be known.
    """

    what: str
    ours: float
    theirs: float
    unit: str
    bar: float

    @property
    def ratio(self) -> float:
        """What we cost for each one of theirs."""
        return self.ours / self.theirs

    @property
    def holds(self) -> bool:
        """Whether the bar is kept."""
        return self.ratio <= self.bar


@dataclass(frozen=True)
class Bench:
    """A named measurement. ``run(short)`` takes it; a short one repeats less."""

    name: str
    run: Callable[[bool], list[Measured]]
