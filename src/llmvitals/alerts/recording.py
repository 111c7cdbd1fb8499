"""Recording rules: every signal that compiles, over one range, and what missed each error budget, over the windows that burn.

They read the exporter's page only, sum ranks up, and keep no bucket. What reaches beyond an hour is summed from what was recorded
for 5 minutes and seldom, so that nothing reads days of raw series.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llmvitals.alerts import names, nodes
from llmvitals.alerts.budgets import BUDGETS, USED, Budget, Counted
from llmvitals.schema import SCOPE
from llmvitals.settings import Settings, seconds_of
from llmvitals.signals.algebra import Expr, Quantile
from llmvitals.signals.catalogue import SIGNALS, Signal
from llmvitals.signals.promql import to_promql
from llmvitals.signals.promql_ast import Call, Infix, Node, Number, Selector, show

LONGEST_RAW = 3600.0
"""Seconds: the longest range that is read from raw series."""

SELDOM = "2m"
"""How often long windows are summed: an alert takes a sample that is younger than 5 minutes for the newest one."""


def recording_groups(settings: Settings) -> list[dict[str, Any]]:
    """One group for what is of one moment and is compared with each other; one for short windows of budgets, one for long ones."""
    windows = sorted({w for row in settings.alerts.burns for w in (row.long, row.short)}, key=seconds_of)
    raw = [w for w in windows if seconds_of(w) <= LONGEST_RAW]
    long = [w for w in windows if seconds_of(w) > LONGEST_RAW]
    base = [names.WINDOW] if long and names.WINDOW not in raw else []
    short = [*_budgets([*raw, *base], settings), _used(settings)]
    groups = [
        {"name": "llmvitals-signals", "rules": _signals(settings)},
        {"name": "llmvitals-budgets", "rules": short},
        {"name": "llmvitals-budgets-long", "interval": SELDOM, "rules": _budgets(long, settings)},
    ]
    return [group for group in groups if group["rules"]]


def _signals(settings: Settings) -> list[dict[str, Any]]:
    return [
        {"record": names.recorded(signal), "expr": _recording(signal, signal.expr, settings)}
        for signal in SIGNALS
        if signal.expr is not None
    ]


def _recording(signal: Signal, expr: Expr, settings: Settings) -> str:
    """A quantile of nothing is NaN in Prometheus, which is no number: the comparison drops it."""
    text = to_promql(expr, window=names.WINDOW, by=names.kept(settings, signal.by))
    return f"{text} >= 0" if isinstance(expr, Quantile) else text


def _budgets(windows: list[str], settings: Settings) -> list[dict[str, Any]]:
    return [
        {"record": record(budget.id, window), "expr": show(_count(counted, record, budget, window, settings))}
        for window in windows
        for budget in BUDGETS
        for record, counted in ((names.missed, budget.missed), (names.judged, budget.judged))
    ]


def _count(
    counted: tuple[Counted, ...], record: Callable[[str, str], str], budget: Budget, window: str, settings: Settings
) -> Node:
    if seconds_of(window) > LONGEST_RAW:
        every = f"{window}:{names.WINDOW}"  # windows of 5 minutes that do not overlap
        return Call("sum_over_time", (Selector(record(budget.id, names.WINDOW), window=every),))
    found = _grown(counted, budget, window, settings)
    if seconds_of(window) >= seconds_of(names.WIDER):
        return found
    wider = _grown(counted, budget, names.WIDER, settings)
    return Infix("or", found, _while_up(wider, settings))


def _grown(counted: tuple[Counted, ...], budget: Budget, window: str, settings: Settings) -> Node:
    by = (*budget.scope, *budget.by)
    return nodes.folded("+", (nodes.grown(settings, by, one, window) for one in counted))


def _used(settings: Settings) -> dict[str, Any]:
    """What grew in the last minutes, while there is a page: requests, or tokens of those that run on. It ends with the page, for
    what a server did before it went is asked for as the last number that there was.
    """
    finished, tokens = (nodes.grown(settings, SCOPE, Counted(name), names.WINDOW) for name in USED)
    grown = Infix("or", Infix("or", Infix(">", finished, Number(0)), tokens), finished)
    return {"record": names.USED, "expr": show(_while_up(grown, settings))}


def _while_up(node: Node, settings: Settings) -> Node:
    return Infix("and", node, nodes.up(settings), names.joined(settings, names.INSTANCE))
