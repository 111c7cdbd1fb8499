"""What a signal yields: a number with its standing, or a gap that says why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmvitals.gaps import Gap


class Standing(StrEnum):
    """How far a number may be trusted; shown wherever the number is shown."""

    EXACT = "exact"
    ESTIMATE = "estimate"
    LOWER = "lower bound"
    UPPER = "upper bound"


@dataclass(frozen=True, slots=True)
class Reading:
    """One signal at one moment. Exactly one of ``value`` and ``gap`` is set. ``note`` explains a bound or estimate.

    ``low``/``high``: the real bucket edges around an interpolated quantile, where there are such.
    """

    value: float | None
    gap: Gap | None = None
    standing: Standing = Standing.EXACT
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def known(self) -> bool:
        """Whether there is a number."""
        return self.value is not None
