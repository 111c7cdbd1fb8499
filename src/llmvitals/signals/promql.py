"""The compiler that prints: an algebra expression as PromQL, valid from Prometheus 2.42 on.

It says what :func:`llmvitals.signals.evaluate.evaluate` computes: where that gives a gap, this yields nothing (or NaN).
"""

from __future__ import annotations

from llmvitals.schema import SCOPE
from llmvitals.signals.algebra import (
    Binary,
    Const,
    Expr,
    FractionBelow,
    Gauge,
    Increase,
    Match,
    Op,
    OverTime,
    Quantile,
    Rate,
    Slope,
    Stat,
)
from llmvitals.signals.arithmetic import OPERATORS
from llmvitals.signals.edges import edge_spellings
from llmvitals.signals.promql_ast import Aggregate, Call, Infix, Matcher, Node, Number, Selector, show


def to_promql(expr: Expr, *, window: str = "1m", by: tuple[str, ...] = SCOPE, selector: str = "") -> str:
    """The expression as PromQL text.

    ``window``: the range, a duration (``60s``) or a dashboard's variable (``$__rate_interval``). ``by``: the labels
    that are kept; both sides of an arithmetic keep the same ones, so they match one to one. ``selector``: further
    matchers for every series, with or without braces (``{namespace="a"}``), taken as they stand.
    """
    return show(lower(expr, window=window, by=by, selector=selector))


def lower(expr: Expr, *, window: str, by: tuple[str, ...] = SCOPE, selector: str = "") -> Node:
    """The expression as a tree of PromQL nodes."""
    return _Lowering(window, by, selector.strip().removeprefix("{").removesuffix("}").strip()).node(expr)


class _Lowering:
    def __init__(self, window: str, by: tuple[str, ...], extra: str) -> None:
        self._window, self._by, self._extra = window, by, extra

    def node(self, expr: Expr) -> Node:
        match expr:
            case Const(value):
                return Number(value)
            case Gauge(name, match, agg):
                return Aggregate(agg.value, self._by, Selector(name, _matchers(match), self._extra))
            case OverTime(stat, name, match, agg, q):
                arguments = (Number(q),) if stat is Stat.QUANTILE else ()
                ranged = self._ranged(name, _matchers(match))
                return Aggregate(agg.value, self._by, Call(f"{stat.value}_over_time", (*arguments, ranged)))
            case Increase(name, match):
                return self._sum("increase", name, _matchers(match))
            case Rate(name, match):
                return self._sum("rate", name, _matchers(match))
            case Slope(name, match):
                return self._sum("deriv", name, _matchers(match))
            case Quantile(q, family):
                buckets = Aggregate("sum", (*self._by, "le"), Call("increase", (self._ranged(f"{family}_bucket"),)))
                return Call("histogram_quantile", (Number(q), buckets))
            case FractionBelow(bound, family):
                edge = (Matcher("le", edge_spellings(bound)),)
                below = self._sum("increase", f"{family}_bucket", edge)
                return _infix(Op.DIV, below, self._sum("increase", f"{family}_count"))
            case Binary(op, left, right):
                return _infix(op, self.node(left), self.node(right))

    def _ranged(self, name: str, matchers: tuple[Matcher, ...] = ()) -> Selector:
        return Selector(name, matchers, self._extra, self._window)

    def _sum(self, function: str, name: str, matchers: tuple[Matcher, ...] = ()) -> Aggregate:
        return Aggregate("sum", self._by, Call(function, (self._ranged(name, matchers),)))


def _matchers(match: Match) -> tuple[Matcher, ...]:
    return tuple(Matcher(label, (value,)) for label, value in match)


def _infix(op: Op, left: Node, right: Node) -> Node:
    """Arithmetic; a divisor is compared away where it is 0 or less. Literals cannot be, so they are computed here."""
    if op is Op.DIV and not isinstance(right, Number):
        return Infix(op.value, left, Infix(">", right, Number(0)))
    if op is Op.DIV and isinstance(right, Number) and not right.value > 0:
        return Infix(op.value, left, Infix(">", Call("vector", (right,)), Number(0)))
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(OPERATORS[op](left.value, right.value))
    return Infix(op.value, left, right)
