"""What pages say: samples of one scrape, added up."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import requests
from prometheus_client.parser import text_string_to_metric_families

_EXEMPLAR = re.compile(
    r'^(llm_\w+)\{(?:[^#\n]*vantage="(\w+)")?[^#\n]*# \{trace_id="([0-9a-f]+)"\} (\S+)', re.MULTILINE
)
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


@dataclass(frozen=True, slots=True)
class Page:
    """One scrape. ``samples``: name, labels, value."""

    samples: tuple[tuple[str, dict[str, str], float], ...]

    def by(self, name: str, label: str, **wanted: str) -> Counter[str]:
        """Samples of a name by one label, added up over all others."""
        found: Counter[str] = Counter()
        for sample, labels, value in self.samples:
            if sample == name and all(labels.get(key) == text for key, text in wanted.items()):
                found[labels.get(label, "")] += value
        return found

    def total(self, name: str, **wanted: str) -> float:
        """Samples of a name, added up; 0 where there is none."""
        return sum(self.by(name, "", **wanted).values())

    def number(self, name: str, **wanted: str) -> float | None:
        """The one sample of a name; None where there is none."""
        found = self.by(name, "", **wanted)
        return sum(found.values()) if found else None


def read(url: str) -> Page:
    """A page of the exporter or an engine."""
    return parsed(get(url))


def parsed(text: str) -> Page:
    """The samples of a page."""
    families = text_string_to_metric_families(text)
    return Page(tuple((s.name, dict(s.labels), s.value) for family in families for s in family.samples))


def get(url: str, **headers: str) -> str:
    """What an address answers, as text."""
    answer = requests.get(url, headers=headers, timeout=30)
    answer.raise_for_status()
    return answer.text


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One trace on a page: the bucket that carries it, the trace's id, and how long it took (seconds)."""

    name: str
    vantage: str
    trace: str
    seconds: float


def exemplars(text: str) -> list[Exemplar]:
    """The traces on an OpenMetrics page."""
    return [Exemplar(name, vantage or "", trace, float(s)) for name, vantage, trace, s in _EXEMPLAR.findall(text)]
