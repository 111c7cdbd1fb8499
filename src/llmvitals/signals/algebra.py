"""Nodes of the signal algebra: one definition that two compilers read (``promql.py`` prints it, ``evaluate.py`` computes it).

All nodes yield one number per scope (:data:`llmvitals.schema.SCOPE`). Leaves read one exposed sample name (a family, or a
histogram's ``_sum``/``_count``), keep the series whose labels equal ``match``, and aggregate over everything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Match = tuple[tuple[str, str], ...]


class Agg(StrEnum):
    """How the series of one scope become one number."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    AVG = "avg"


class Stat(StrEnum):
    """A statistic of one series over the window, taken before the aggregation over series."""

    MAX = "max"
    MIN = "min"
    AVG = "avg"
    QUANTILE = "quantile"


class Op(StrEnum):
    """Arithmetic between two expressions. A division by nothing (0 or less) yields no number: NO_TRAFFIC."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"


@dataclass(frozen=True, slots=True)
class Const:
    """A fixed number."""

    value: float


@dataclass(frozen=True, slots=True)
class Gauge:
    """The newest value of a gauge (or of a counter as it stands)."""

    name: str
    match: Match = ()
    agg: Agg = Agg.SUM


@dataclass(frozen=True, slots=True)
class OverTime:
    """A statistic of a gauge over the window; ``q`` (0-1) for the quantile only."""

    stat: Stat
    name: str
    match: Match = ()
    agg: Agg = Agg.SUM
    q: float = 0.0


@dataclass(frozen=True, slots=True)
class Increase:
    """By how much counters grew in the window; resets are summed step by step, each series by itself."""

    name: str
    match: Match = ()


@dataclass(frozen=True, slots=True)
class Rate:
    """Growth of counters per second of the window."""

    name: str
    match: Match = ()


@dataclass(frozen=True, slots=True)
class Quantile:
    """Quantile ``q`` (0-1) of a histogram family: buckets are summed over the scope before it is taken.

    In the ``+Inf`` bucket the last finite bound is returned (and ``evaluate`` marks it as a lower bound).
    """

    q: float
    family: str


@dataclass(frozen=True, slots=True)
class FractionBelow:
    """Share of a histogram's observations at or below ``bound``, which must be a real bucket edge; never interpolated."""

    bound: float
    family: str


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic between two expressions of the same scope."""

    op: Op
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Slope:
    """Least-squares slope per second of a gauge over the window, summed over the scope."""

    name: str
    match: Match = ()


Expr = Const | Gauge | OverTime | Increase | Rate | Quantile | FractionBelow | Binary | Slope


def ratio(part: Expr, whole: Expr) -> Binary:
    """``part / whole``, absent (NO_TRAFFIC) where ``whole`` is 0 or less."""
    return Binary(Op.DIV, part, whole)


def mean(family: str) -> Binary:
    """Mean of a histogram's observations in the window: growth of ``_sum`` over growth of ``_count``."""
    return ratio(Increase(f"{family}_sum"), Increase(f"{family}_count"))
