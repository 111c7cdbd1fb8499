"""Pieces of PromQL that recording rules and alerts share: growth, aggregation by the labels that rules keep, targets."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from llmvitals.alerts import names
from llmvitals.alerts.budgets import Counted
from llmvitals.alerts.model import GONE_MEMORY, REQUESTS_RUNNING, TARGET_UP, USED_MEMORY
from llmvitals.alerts.names import INSTANCE
from llmvitals.schema import SCOPE
from llmvitals.settings import Settings
from llmvitals.signals.promql_ast import Aggregate, Call, Infix, Matcher, Node, Number, Selector


def most(settings: Settings, labels: tuple[str, ...], node: Node) -> Aggregate:
    """The largest by these labels, and those that the settings group by."""
    return Aggregate("max", names.kept(settings, labels), node)


def grown(settings: Settings, labels: tuple[str, ...], counted: Counted, window: str) -> Aggregate:
    """How much a counter grew over a window, summed by these labels, and those that the settings group by."""
    matchers = tuple(Matcher(label, values) for label, values in counted.matching)
    increase = Call("increase", (Selector(counted.name, matchers, window=window),))
    return Aggregate("sum", names.kept(settings, labels), increase)


def folded(op: str, several: Iterable[Node]) -> Node:
    """Several operands, at least one, joined from the left by one operator."""
    return reduce(lambda left, right: Infix(op, left, right), several)


def up(settings: Settings) -> Infix:
    """A readable page now."""
    return Infix("==", most(settings, INSTANCE, Selector(TARGET_UP)), Number(1))


def down(settings: Settings) -> Infix:
    """No readable page now. The value is 0."""
    return Infix("==", most(settings, INSTANCE, Selector(TARGET_UP)), Number(0))


def alone(settings: Settings) -> Infix:
    """A server that is gone, was in use when it went, and whose model nothing else that is up serves."""
    by_instance = names.joined(settings, INSTANCE)
    # what is recorded ends with its page, so that the last number is that of the minutes before the server went
    used = Infix(">", Call("last_over_time", (Selector(names.USED, window=USED_MEMORY),)), Number(0))
    served = Infix("and", used, _gone(settings), by_instance)
    known = 'model!=""'  # two servers whose models nobody names do not stand in for each other
    serves = Call("max_over_time", (Selector(REQUESTS_RUNNING, extra=known, window=names.WINDOW),))
    others = Infix("and", most(settings, SCOPE, serves), up(settings), by_instance)
    return Infix("unless", served, others, names.kept(settings, ("model",)))


def _gone(settings: Settings) -> Infix:
    """No readable page now; or one until lately and none of any kind now. The value is 0."""
    remembered = Call("max_over_time", (Selector(TARGET_UP, window=GONE_MEMORY),))
    was = Infix("*", most(settings, INSTANCE, remembered), Number(0))
    known = most(settings, INSTANCE, Selector(TARGET_UP))
    return Infix("or", down(settings), Infix("unless", was, known, names.joined(settings, INSTANCE)))
