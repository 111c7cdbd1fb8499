"""Calls that fail without making any first token late: nothing is well then, however fast the others are.

What a gateway refuses or loses never reaches the engine, whose page looks fine or idle meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.settings import Settings
from llmvitals.triage.model import Readings

FEW = 0.05
"""Share of the calls from which on a verdict mentions that they failed."""

LEAST_ERRORS = 10
"""Failed answers from which on an engine's share of them says something: so many are no chance."""


@dataclass(frozen=True, slots=True)
class Failing:
    """``share``: of ``what``, from 0 to 1. ``too_many``: a circuit breaker would open, so nothing can be called well."""

    share: float
    what: str
    too_many: bool


def failing(readings: Readings, settings: Settings) -> Failing | None:
    """How many calls failed: at the gateway, of which the engine may know nothing, or at the engine; None for a trickle."""
    errors, answers = readings["server_errors"].value or 0.0, readings["error_ratio"].value or 0.0
    told = (
        (readings["lost_call_ratio"].value or 0.0, "the calls at the gateway failed or were refused"),
        (answers if errors >= LEAST_ERRORS else 0.0, "the HTTP answers were 5xx"),
    )
    share, what = max(told, key=lambda pair: pair[0])
    return Failing(share, what, share >= settings.thresholds.error_ratio) if share >= FEW else None
