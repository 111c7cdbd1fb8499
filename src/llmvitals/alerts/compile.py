"""Conditions as PromQL, valid from Prometheus 2.42 on, in Prometheus 3 and in MetricsQL.

Every series is aggregated by the labels that are kept before it is compared, so that two ranks, or a gauge's own labels, make no
second alert. Series of different labels are joined by name (``on``): HTTP and GPU series name no model. Nothing is divided by
what may be 0, and no share counts that was made of fewer requests than the settings ask.
"""

from __future__ import annotations

from llmvitals.alerts import names, nodes
from llmvitals.alerts.budgets import BY_ID as BUDGETS
from llmvitals.alerts.budgets import FINISHED, Budget, Counted
from llmvitals.alerts.conditions import (
    Burns,
    Busy,
    Compared,
    Concludes,
    Condition,
    Either,
    Every,
    Fell,
    Fires,
    Gone,
    Hurt,
    Steady,
    Unless,
    Written,
)
from llmvitals.alerts.limits import bounded, limit
from llmvitals.alerts.model import CHECK_STATE, HURT, VERDICT, Alert
from llmvitals.alerts.names import INSTANCE
from llmvitals.schema import BY_NAME, SCOPE
from llmvitals.settings import Burn, Settings
from llmvitals.signals.catalogue import BY_ID
from llmvitals.signals.promql_ast import Aggregate, Call, Infix, Matcher, Node, Number, Selector
from llmvitals.triage.verdict import Outcome, State

_HEALTHY = Concludes((Outcome.HEALTHY.value,))


def expression(alert: Alert, settings: Settings, row: Burn | None = None) -> Node:
    """What an alert asks, as PromQL. ``row``: the one row of the settings by which its budget is asked; None takes all of its
    severity together.
    """
    return _Compiler(settings, row).node(alert.when)


class _Compiler:
    def __init__(self, settings: Settings, row: Burn | None) -> None:
        self._settings, self._row = settings, row

    def node(self, condition: Condition) -> Node:
        match condition:
            case Fires(cause):
                firing = (Matcher("cause", (cause,)), Matcher("state", (State.FIRING.value,)))
                return self._unless(self._is(CHECK_STATE, firing), SCOPE, self.node(_HEALTHY), SCOPE)
            case Hurt():
                return self._is(HURT)
            case Concludes(outcomes):
                return self._is(VERDICT, (Matcher("verdict", outcomes),))
            case Compared(signal, op, bound, factor):
                return Infix(op, self._signal(signal), Number(bounded(self._settings, bound, factor)))
            case Fell(signal, to, ago):
                return Infix("<", self._lately(signal), Infix("*", self._lately(signal, ago), Number(to)))
            case Steady(signal, within, ago):
                now, then = self._lately(signal), self._lately(signal, ago)
                return Infix("<=", Call("abs", (Infix("-", now, then),)), Infix("*", then, Number(within)))
            case Burns(budget, severity):
                every = self._settings.alerts.burns
                rows = [self._row] if self._row else [row for row in every if row.severity == severity]
                return nodes.folded("or", [self._burns(BUDGETS[budget], row) for row in rows])
            case Busy():
                finished = nodes.grown(self._settings, SCOPE, Counted(FINISHED), names.WINDOW)
                return Infix(">=", finished, Number(self._settings.alerts.least_requests))
            case Gone(alone):
                return nodes.alone(self._settings) if alone else nodes.down(self._settings)
            case Written(write):
                return write(self._settings)
            case Either(parts):
                return nodes.folded("or", map(self.node, parts))
            case Unless(what, but):
                return self._unless(self.node(what), labels_of(what), self.node(but), labels_of(but))
            case Every(parts):
                first, *others = parts
                found = self.node(first)
                for part in others:
                    on = self._on(labels_of(first), labels_of(part))
                    found = Infix("and", found, self.node(part), on)
                return found

    def _unless(self, what: Node, labels: tuple[str, ...], but: Node, others: tuple[str, ...]) -> Node:
        return Infix("unless", what, but, self._on(labels, others))

    def _on(self, left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
        """The labels by which two series are joined: those that both have."""
        return names.joined(self._settings, tuple(label for label in left if label in right))

    def _is(self, name: str, matchers: tuple[Matcher, ...] = ()) -> Node:
        return Infix("==", nodes.most(self._settings, SCOPE, Selector(name, matchers)), Number(1))

    def _signal(self, id: str) -> Node:
        """A signal's newest number; what is recorded is aggregated already."""
        found = Selector(names.series_of(BY_ID[id]))
        return found if BY_ID[id].expr is not None else nodes.most(self._settings, SCOPE, found)

    def _lately(self, id: str, ago: str = "") -> Node:
        """A signal over the last minutes, now or some time ago: as it is recorded, else the mean of its gauge."""
        name = names.series_of(BY_ID[id])
        if BY_ID[id].expr is not None:
            return Selector(name, offset=ago)
        return nodes.most(
            self._settings, SCOPE, Call("avg_over_time", (Selector(name, window=names.WINDOW, offset=ago),))
        )

    def _burns(self, budget: Budget, row: Burn) -> Node:
        """The value is the share of requests that missed over the longer window."""
        enough = Infix(">=", Selector(names.judged(budget.id, row.long)), Number(self._settings.alerts.least_requests))
        long, short = (self._over(budget, row.burn, window) for window in (row.long, row.short))
        return Infix("and", Infix("and", long, short), enough)

    def _over(self, budget: Budget, burn: float, window: str) -> Node:
        judged = Infix(">", Selector(names.judged(budget.id, window)), Number(0))
        share = Infix("/", Selector(names.missed(budget.id, window)), judged)
        if not budget.objective:
            return Infix(">=", share, Number(limit(burn, self._settings.slo.objective)))
        # an objective is a class' own, whatever model its requests ask
        told = BY_NAME[budget.objective].labels
        on = names.joined(self._settings, (*INSTANCE, *(label for label in budget.by if label in told)))
        may = Infix("-", Number(1), Aggregate("max", on, Selector(budget.objective)))
        return Infix(">=", share, Call("clamp_max", (Infix("*", may, Number(burn)), Number(1))), on, many=True)


def labels_of(condition: Condition) -> tuple[str, ...]:
    """The labels that a condition's result has, beside those that the settings group by."""
    match condition:
        case Compared(signal) | Fell(signal) | Steady(signal):
            return BY_ID[signal].by if BY_ID[signal].expr is not None else SCOPE
        case Burns(budget):
            return (*BUDGETS[budget].scope, *BUDGETS[budget].by)
        case Gone(alone):
            return SCOPE if alone else INSTANCE
        case Every(parts) | Either(parts):
            return labels_of(parts[0])
        case Unless(what):
            return labels_of(what)
        case _:
            return SCOPE
