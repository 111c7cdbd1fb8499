"""Error budgets: what of all requests may miss which promise, and which counters of the page say how many did.

Counters, not gauges, so that a share over any window weighs each request once. ``missed`` counts only what certainly
missed: beyond the histogram's edge at or above the threshold (:mod:`llmvitals.signals.budget`), answers that failed, or
what traces told.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.alerts.names import INSTANCE
from llmvitals.schema import SCOPE
from llmvitals.series import Series
from llmvitals.signals import budget
from llmvitals.signals.derived.gateway import LOST_LABELS


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter of the page, with the labels that must match; several values of one label are alternatives."""

    name: str
    matching: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def counts(self, key: Series) -> bool:
        """Whether a series of the page is this counter."""
        return key.name == self.name and all(key.label(label) in values for label, values in self.matching)


@dataclass(frozen=True, slots=True)
class Budget:
    """One budget: what missed, of what; summed over ranks. ``by``: labels beside the scope that each have a budget of their own.

    ``needs``: the family without which an engine's page cannot say; ``objective``: the series of the share that was
    promised ('': the settings' ``slo.objective``); ``scope``: the labels of a scope that its counters carry.
    """

    id: str
    title: str
    missed: tuple[Counted, ...]
    judged: tuple[Counted, ...]
    needs: str
    by: tuple[str, ...] = ()
    objective: str = ""
    scope: tuple[str, ...] = SCOPE


FINISHED = "llm_requests_finished_total"
USED: tuple[str, ...] = (FINISHED, "llm_generation_tokens_total")
"""Counters that grow while a server is in use: as a request ends, and as one runs on."""

_HTTP = "llm_http_requests_total"
_CALLS = "llm_gateway_requests_total"

BUDGETS: tuple[Budget, ...] = (
    Budget(
        "ttft",
        "first tokens",
        (Counted(budget.MISSED, (("objective", ("ttft",)),)),),
        (Counted(budget.JUDGED, (("objective", ("ttft",)),)),),
        "llm_request_ttft_seconds",
    ),
    Budget(
        "tpot",
        "pace of tokens",
        (Counted(budget.MISSED, (("objective", ("tpot",)),)),),
        (Counted(budget.JUDGED, (("objective", ("tpot",)),)),),
        "llm_request_tpot_seconds",
    ),
    Budget(
        "answers",
        "answers that fail",
        (Counted(_HTTP, (("status", ("5xx",)),)),),
        (Counted(_HTTP, (("status", ("2xx", "5xx")),)),),
        _HTTP,
        scope=INSTANCE,  # HTTP answers name no model
    ),
    Budget(
        "calls",
        "calls that get no answer",
        (Counted(_CALLS, (("status", LOST_LABELS),)),),
        (Counted(_CALLS),),
        _CALLS,
        scope=INSTANCE,  # a gateway's answers need not say of which model
    ),
    Budget(
        "goodput",
        "whole promise, request by request",
        (Counted("llm_slo_requests_total", (("met", ("no",)),)),),
        (Counted("llm_slo_requests_total", (("met", ("yes", "no")),)),),
        "llm_slo_requests_total",
        by=("slo_class", "vantage"),  # whom gateway and engine both tell of is judged twice, and counted once each
        objective="llm_slo_objective_ratio",
    ),
)

BY_ID: dict[str, Budget] = {one.id: one for one in BUDGETS}


def counted_names() -> frozenset[str]:
    """Every series of the page that budgets and alerts on use are counted from: requests that finished and
    tokens, requests that missed their promise, and the shares that were promised.
    """
    counters = (counted.name for one in BUDGETS for counted in (*one.missed, *one.judged))
    return frozenset({*USED, *counters, *(one.objective for one in BUDGETS if one.objective)})
