"""Now beside before: what moved between two moments of one scope, what matters first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Moment:
    """One scope at one moment ``t`` (unix seconds).

    ``values``: signal to value in base units, None or absent where there was none. ``noise``: how much a signal varies by itself
    around that moment (robust standard deviation, base units); absent where not known. ``outcome``, ``cause``: slugs of the
    verdict then, '' where not known or none leads. ``facts``: what was set, as text (version, KV capacity).
    """

    t: float
    values: Mapping[str, float | None]
    noise: Mapping[str, float] = field(default_factory=dict)
    outcome: str = ""
    cause: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One signal then and now (base ``unit``).

    ``worse``: whether it moved to the side that checks call bad; None where they do not say, or it did not move.
    ``changed``: beyond noise; None where the noise is not known. ``decides``: whether the verdict of now, or of then, rests on it.
    """

    signal: str
    title: str
    unit: str
    before: float | None
    now: float | None
    worse: bool | None = None
    changed: bool | None = None
    decides: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was set, then and now; '' where not known."""

    name: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two moments side by side. ``rows``: what decides and changed first. ``facts``: only those that differ."""

    before: Moment
    now: Moment
    rows: tuple[Row, ...] = ()
    facts: tuple[Fact, ...] = ()


def compare(before: Moment, now: Moment) -> Comparison:
    """Two moments of one scope side by side."""
    return Comparison(before, now)
