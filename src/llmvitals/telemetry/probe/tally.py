"""What probes came to so far, as cumulative canonical samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmvitals.series import Series, series
from llmvitals.telemetry.histogram import Histogram
from llmvitals.telemetry.probe.ask import Asked

EDGES: Mapping[str, tuple[float, ...]] = {
    "llm_probe_ttft_seconds": (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 60.0),
    "llm_probe_tpot_seconds": (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0),
    "llm_probe_e2e_seconds": (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 60.0),
}
"""Upper edges in seconds; thresholds that operators promise (0.2, 0.5, 1, 2, 5 s; 20, 50, 100 ms) are among them."""


def _histograms() -> dict[str, Histogram]:
    return {name: Histogram.over(edges) for name, edges in EDGES.items()}


@dataclass(slots=True)
class Tally:
    """Probes of one model at one target. A probe that failed has an outcome and no time."""

    outcomes: Counter[str] = field(default_factory=lambda: Counter({"ok": 0}))
    times: dict[str, Histogram] = field(default_factory=_histograms)

    def add(self, asked: Asked) -> None:
        """Count one probe."""
        self.outcomes[asked.outcome] += 1
        seen = zip(self.times.values(), (asked.ttft, asked.tpot, asked.e2e), strict=True)
        for histogram, seconds in seen:
            if seconds is not None:
                histogram.add(seconds)

    def samples(self, labels: Mapping[str, str]) -> dict[Series, float]:
        """All samples, with these labels on each."""
        found = {
            series("llm_probe_requests_total", **labels, outcome=outcome): float(count)
            for outcome, count in self.outcomes.items()
        }
        for name, histogram in self.times.items():
            histogram.show(name, tuple(sorted(labels.items())), found, {})
        return found
