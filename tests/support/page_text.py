"""A page given as text, read as one scrape, and what it says: for tests that hold single lines against single numbers."""

from __future__ import annotations

from llmvitals.series import Snapshot
from llmvitals.telemetry.ingest import Ingest, RawPage


def read(text: str, ingest: Ingest | None = None) -> Snapshot:
    """The page; with ``ingest`` as the next scrape of a target that was read before."""
    return (ingest or Ingest(instance="i")).read(RawPage(10.0, 0.01, 200, text.encode()))


def values(snapshot: Snapshot, name: str, **labels: str) -> list[float]:
    """The samples of a name with these labels, in the order of their series."""
    return [
        value
        for series, value in sorted(snapshot.samples.items())
        if series.name == name and all(series.label(k) == v for k, v in labels.items())
    ]


def gap(snapshot: Snapshot, family: str) -> tuple[str, str]:
    """Kind and reason of the only gap of a family."""
    found = [s for s in snapshot.samples if s.name == "llm_family_gap" and s.label("family") == family]
    assert len(found) == 1, family
    return found[0].label("gap"), found[0].label("reason")
