"""Courses for tests: a few moments written down, or a counter that runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llmvitals.alerts.budgets import FINISHED
from llmvitals.alerts.course import Course, Moment
from llmvitals.series import Series, series
from llmvitals.signals import budget

STEP = 30.0
START = 1_800_000_000.0
INSTANCE, MODEL = "a:8000", "m"


def course(moments: Iterable[Mapping[str, Any]], *, step: float = STEP, model: str = MODEL) -> Course:
    """One moment per entry, ``step`` seconds apart; an entry may say its own ``t`` in seconds after the start."""
    made = (Moment(**{**one, "t": START + one.get("t", at * step)}) for at, one in enumerate(moments))
    return Course(INSTANCE, model, tuple(made))


def promise(objective: str, judged: float, missed: float) -> dict[Series, float]:
    """The counters of one promise as a page shows them."""
    own = {"instance": INSTANCE, "model": MODEL, "objective": objective}
    return {series(budget.JUDGED, **own): judged, series(budget.MISSED, **own, edge="2.5"): missed}


def finished(count: float) -> dict[Series, float]:
    """The counter of requests that finished."""
    return {series(FINISHED, instance=INSTANCE, model=MODEL, reason="stop"): count}


def answers(good: float, failed: float) -> dict[Series, float]:
    """The counters of HTTP answers."""
    told = {"2xx": good, "5xx": failed}
    return {
        series("llm_http_requests_total", instance=INSTANCE, status=status, handler="/v1/completions"): count
        for status, count in told.items()
    }


def classes(counts: Mapping[str, tuple[float, float]], objective: float = 0.95) -> dict[Series, float]:
    """Counters of classes: met and not met, and the share that was promised."""
    found: dict[Series, float] = {}
    for name, (met, missed) in counts.items():
        own = {"instance": INSTANCE, "model": MODEL, "slo_class": name}
        found[series("llm_slo_requests_total", **own, vantage="engine", met="yes")] = met
        found[series("llm_slo_requests_total", **own, vantage="engine", met="no")] = missed
        found[series("llm_slo_objective_ratio", **own)] = objective
    return found


def sums(growth: Sequence[float]) -> list[float]:
    """A counter's values from what it grows by."""
    total, values = 0.0, []
    for one in growth:
        total += one
        values.append(total)
    return values
