"""Whether a stated confidence is one: of the verdicts that state 0.8, four in five should name the right cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from llmvitals.lab.result import Played, fullest
from llmvitals.lab.stats import Share, monotone

BINS = 10
ENOUGH = 50
"""Verdicts from which on a bin is held to its mean: with fewer, Wilson's interval is wider than the bin itself by far."""
_EDGE = 1e-9  # 0.8 stays in the bin that starts there when it comes as 0.1 + 0.7

Stated = tuple[float, bool]
"""A confidence as the verdict stated it, and whether the cause was one that is there."""


@dataclass(frozen=True, slots=True)
class Bin:
    """The verdicts whose confidence lies in ``[low, high)``, with their mean confidence and the share that was right."""

    low: float
    high: float
    mean: float
    right: Share

    @property
    def ok(self) -> bool:
        """Whether the share's 95 % interval holds the mean, or the verdicts are too few to say."""
        low, high = self.right.interval
        return self.right.n < ENOUGH or low <= self.mean <= high


@dataclass(frozen=True, slots=True)
class Calibration:
    """The bins that hold a verdict; by cause, what it states and what it holds, and the map between them."""

    bins: tuple[Bin, ...]
    by_cause: Mapping[str, Bin]
    fitted: Mapping[str, tuple[tuple[float, float], ...]]

    @property
    def ok(self) -> bool:
        """Whether every bin is."""
        return all(one.ok for one in self.bins)


def calibration(played: Iterable[Played]) -> Calibration:
    """Hold the stated confidences of leading causes against how often they were right, over valid scenarios.

    On a look-alike that is really another cause, that one is right. Where nothing is wrong, no cause is.
    """
    led = [one for one in played if one.valid and fullest(one).leading]
    causes = sorted({fullest(one).leading for one in led})
    by_cause = {cause: [_stated(one) for one in led if fullest(one).leading == cause] for cause in causes}
    return Calibration(
        bins=_bins([_stated(one) for one in led]),
        by_cause={cause: _bin(0.0, 1.0, stated) for cause, stated in by_cause.items()},
        fitted={cause: _fitted(stated) for cause, stated in by_cause.items()},
    )


def suggest(played: Iterable[Played]) -> dict[str, Share]:
    """By leading cause, how often it was right: what its confidence in the table of checks should say on average."""
    return {cause: one.right for cause, one in calibration(played).by_cause.items()}


def _stated(one: Played) -> Stated:
    heard = fullest(one)
    return heard.confidence, heard.leading in one.real


def _bins(stated: Sequence[Stated]) -> tuple[Bin, ...]:
    found: dict[int, list[Stated]] = {}
    for one in stated:
        found.setdefault(min(BINS - 1, int(one[0] * BINS + _EDGE)), []).append(one)
    return tuple(_bin(at / BINS, (at + 1) / BINS, found[at]) for at in sorted(found))


def _bin(low: float, high: float, stated: Sequence[Stated]) -> Bin:
    return Bin(low, high, fmean(confidence for confidence, _ in stated), Share.of(right for _, right in stated))


def _fitted(stated: Sequence[Stated]) -> tuple[tuple[float, float], ...]:
    """(stated confidence, share that was right), never falling: the map from one to the other."""
    at: dict[float, list[bool]] = {}
    for confidence, right in stated:
        at.setdefault(round(confidence, 3), []).append(right)
    return monotone([(confidence, Share.of(answers)) for confidence, answers in at.items()])
