"""Metrics before they are anybody's messages: what :mod:`.values` makes, :mod:`.parts` splits and :mod:`.wire` sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmvitals.schema import Kind
from llmvitals.series import Exemplar, Labels


@dataclass(frozen=True, slots=True)
class Number:
    """A point of a gauge or counter. ``start``: unix nanoseconds since when a counter counts, 0 for a gauge."""

    attributes: Labels
    start: int
    value: float


@dataclass(frozen=True, slots=True)
class Bars:
    """A point of a histogram. ``counts``: in each bucket by itself, one more than there are ``bounds``.

    ``total``: the sum of what was observed, None where that is not known.
    """

    attributes: Labels
    start: int
    count: int
    total: float | None
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    exemplars: tuple[Exemplar, ...] = ()


Point = Number | Bars


@dataclass(frozen=True, slots=True)
class Metric:
    """One family at ``at`` (unix nanoseconds). ``unit``: in UCUM. Points of a histogram are :class:`Bars`, all others numbers."""

    name: str
    kind: Kind
    unit: str
    help: str
    at: int
    points: Sequence[Point]
