"""Traces for the engine's own histograms: the newest request that a span told of, on the bucket that its time falls into."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from llmvitals.series import Exemplar, Labels, Series
from llmvitals.telemetry.spans.model import Vantage

OWN: Mapping[str, str] = {
    f"llm_span_{what}_seconds_bucket": f"llm_request_{what}_seconds_bucket"
    for what in ("ttft", "tpot", "e2e", "queue", "prefill", "decode")
}
"""The family of spans, and the engine's own histogram of the same time."""

_SOURCES = frozenset(OWN.values())


@dataclass(slots=True)
class Newest:
    """What is on the engine's own buckets. A bucket keeps its exemplar until a newer one comes: a Prometheus takes none that is
    older than the last. Buckets that leave the page are forgotten.
    """

    known: dict[Series, Exemplar] = field(default_factory=dict)

    def of(self, samples: Mapping[Series, float], told: Mapping[Series, Exemplar]) -> dict[Series, Exemplar]:
        """Exemplars for the histograms of a page, from those of the families of spans on it."""
        if not told and not self.known:
            return {}
        edges = _edges(samples)
        for source, exemplar in told.items():
            wanted = OWN.get(source.name)
            if wanted is None or source.label("vantage", Vantage.ENGINE) != Vantage.ENGINE:
                continue
            histograms = edges.get((wanted, source.label("model")), {})
            if len(histograms) != 1:
                continue  # no span says which of several ranks had computed it
            (buckets,) = histograms.values()
            at = bisect_left(buckets, (exemplar.value,))
            key = buckets[at][1] if at < len(buckets) else None
            if key is not None and (key not in self.known or self.known[key].t < exemplar.t):
                self.known[key] = exemplar
        self.known = {key: exemplar for key, exemplar in self.known.items() if key in samples}
        return dict(self.known)


def _edges(samples: Mapping[Series, float]) -> dict[tuple[str, str], dict[Labels, list[tuple[float, Series]]]]:
    """Every own histogram by name and model, and its buckets by their upper edges, which are in order."""
    found: dict[tuple[str, str], dict[Labels, list[tuple[float, Series]]]] = {}
    for key, edge in _buckets(samples):
        rest = tuple(pair for pair in key.labels if pair[0] != "le")
        found.setdefault((key.name, key.label("model")), {}).setdefault(rest, []).append((edge, key))
    for histograms in found.values():
        for buckets in histograms.values():
            buckets.sort()
    return found


def _buckets(samples: Mapping[Series, float]) -> Iterator[tuple[Series, float]]:
    for key in samples:
        if key.name in _SOURCES:
            try:
                yield key, float(key.label("le"))
            except ValueError:
                continue
