"""Calls that fail without making any first token late: nothing is well then, however fast the others are.

What a gateway refuses or loses never reaches the engine, whose page looks fine or idle meanwhile. Calls that clients gave up
(499) are left out: clients that complete code cancel most of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.signals.context import Context
from llmvitals.signals.derived.gateway import CALLS, LEAST_CALLS
from llmvitals.signals.measure import growth_by
from llmvitals.triage.model import Readings

FEW = 0.05
"""Share of the calls from which on a verdict mentions that they failed."""

LEAST_ERRORS = 10
"""Failed answers from which on an engine's share of them says something: so many are no chance."""

_REFUSED, _UNTOLD = "429", "error"


@dataclass(frozen=True, slots=True)
class Failing:
    """``share``: of ``what``, from 0 to 1. ``too_many``: a circuit breaker would open, so nothing can be called well."""

    share: float
    what: str
    too_many: bool


def failing(window: Window, readings: Readings, settings: Settings) -> Failing | None:
    """How many calls failed: at the gateway, of which the engine may know nothing, else at the engine; None for a trickle."""
    errors, answers = readings["server_errors"].value or 0.0, readings["error_ratio"].value or 0.0
    told = (
        (_at_gateway(window, settings), "the calls at the gateway failed or were refused"),
        (answers if errors >= LEAST_ERRORS else 0.0, "the HTTP answers were 5xx"),
    )
    share, what = max(told, key=lambda pair: pair[0])
    return Failing(share, what, share >= settings.thresholds.error_ratio) if share >= FEW else None


def _at_gateway(window: Window, settings: Settings) -> float:
    """Share of the calls that were refused (429), or ended with 5xx or an error without a code; 0 of too few."""
    statuses = growth_by(Context(window, settings).good, CALLS, "status") or {}
    total = sum(statuses.values())
    failed = sum(n for status, n in statuses.items() if status in (_REFUSED, _UNTOLD) or status.startswith("5"))
    return failed / total if total >= LEAST_CALLS else 0.0
