"""What traces told of the requests of a window, class by class: who met what was promised, and which promise was missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmvitals.series import Window
from llmvitals.settings import DEFAULT_CLASS, Slo
from llmvitals.signals.measure import growth_by
from llmvitals.slo import promises

REQUESTS = "llm_slo_requests_total"
MISSED = "llm_slo_missed_total"
OBJECTIVE = "llm_slo_objective_ratio"
THRESHOLD = "llm_slo_threshold_seconds"
ENDED = "llm_span_requests_total"

ENGINE, GATEWAY = "engine", "gateway"
VANTAGES = (GATEWAY, ENGINE)
"""Who timed requests, the one nearest to users first."""

TTFT = "llm_span_ttft_seconds"

OBJECTIVES = ("ttft", "tpot", "e2e")
"""Times that may be promised."""

FAILED = "failed"
"""What a request misses that ended in an error or was refused."""


@dataclass(frozen=True, slots=True)
class Told:
    """The requests of one class that ended in the window.

    ``met``, ``unmet``: of those that could be judged; ``unknown``: the others. ``missed``: by objective (``failed`` among them).
    ``thresholds`` in seconds; ``objective``: the share that was promised.
    """

    name: str
    met: float
    unmet: float
    unknown: float
    missed: Mapping[str, float]
    thresholds: Mapping[str, float]
    objective: float

    @property
    def judged(self) -> float:
        """Requests of which it is known whether they met their promise."""
        return self.met + self.unmet

    @property
    def failed(self) -> float:
        """Requests that ended in an error or were refused: no time was held against anything."""
        return self.missed.get(FAILED, 0.0)

    @property
    def answered(self) -> float:
        """Judged requests that were answered."""
        return max(0.0, self.judged - self.failed)

    def within(self, objective: str) -> float | None:
        """Share of the answered requests inside one threshold; None where there are none, or no such threshold."""
        if objective not in self.missed or self.answered <= 0:
            return None
        return max(0.0, 1.0 - self.missed[objective] / self.answered)


def told(window: Window, slo: Slo, vantage: str) -> tuple[Told, ...]:
    """The classes that had requests in the window, by name; empty where nobody told any from this vantage."""
    by = {
        met: growth_by(window, REQUESTS, "slo_class", {"vantage": vantage, "met": met}) or {}
        for met in ("yes", "no", "unknown")
    }
    seen = {name for counts in by.values() for name, n in counts.items() if n > 0}
    return tuple(_told(window, slo, vantage, name, by) for name in sorted(seen, key=lambda x: (x == DEFAULT_CLASS, x)))


def _told(window: Window, slo: Slo, vantage: str, name: str, by: Mapping[str, Mapping[str, float]]) -> Told:
    own = {"slo_class": name, "vantage": vantage}
    return Told(
        name,
        by["yes"].get(name, 0.0),
        by["no"].get(name, 0.0),
        by["unknown"].get(name, 0.0),
        growth_by(window, MISSED, "objective", own) or {},
        _thresholds(window, slo, name),
        _objective(window, slo, name),
    )


def _thresholds(window: Window, slo: Slo, name: str) -> Mapping[str, float]:
    """As the page shows them, which whoever counted has used; else by the settings at hand."""
    shown = {t.label("objective"): t.values[-1] for t in window.tracks(THRESHOLD, {"slo_class": name})}
    return shown or next((dict(one.thresholds) for one in promises(slo) if one.name == name), {})


def _objective(window: Window, slo: Slo, name: str) -> float:
    shown = window.tracks(OBJECTIVE, {"slo_class": name})
    if shown:
        return shown[-1].values[-1]
    return next((one.objective for one in promises(slo) if one.name == name), slo.objective)
