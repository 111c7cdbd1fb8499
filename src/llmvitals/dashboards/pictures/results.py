"""What comes in: the answers of a PromQL endpoint to the queries of a panel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from llmvitals.dashboards.model import Panel
from llmvitals.series import Labels

SCRAPE_SECONDS = 15.0
"""How often Grafana takes a data source to be scraped that does not say it."""


@dataclass(frozen=True, slots=True)
class Span:
    """The time that is shown: unix seconds, a point every ``step`` seconds."""

    start: float
    end: float
    step: float

    def __str__(self) -> str:
        first, last = (datetime.fromtimestamp(t, UTC) for t in (self.start, self.end))
        if first.date() == last.date():
            return f"{first:%Y-%m-%d %H:%M} to {last:%H:%M} UTC"
        return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, slots=True)
class Choice:
    """What is chosen at the top of a board: names by label, none of a label for all."""

    cluster: tuple[str, ...] = ()
    namespace: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    instance: tuple[str, ...] = ()

    def of(self, label: str) -> tuple[str, ...]:
        """The names that are chosen of a label."""
        found: tuple[str, ...] = getattr(self, label)
        return found

    @property
    def lone(self) -> Mapping[str, str]:
        """Labels of which one name is chosen: it stands in the caption, and need not stand at each curve."""
        labels = ("cluster", "namespace", "instance", "model")
        return {label: names[0] for label in labels if len(names := self.of(label)) == 1}


@dataclass(frozen=True, slots=True)
class Curve:
    """One series of an answer: its labels, and its points as unix seconds and value, in order of time.

    An instant query gives one point. What is no number is no point: see :func:`curve`.
    """

    labels: Labels
    points: tuple[tuple[float, float], ...]

    def label(self, name: str) -> str:
        """The value of a label, '' where it has none."""
        return dict(self.labels).get(name, "")

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


def curve(labels: Mapping[str, str], points: tuple[tuple[float, float], ...]) -> Curve:
    """A series of an answer without the points that are no number."""
    return Curve(
        tuple(sorted((k, v) for k, v in labels.items() if k != "__name__")),
        tuple((t, value) for t, value in points if math.isfinite(value)),
    )


@dataclass(frozen=True, slots=True)
class Answered:
    """A panel and what its queries returned, in their order (of :func:`llmvitals.dashboards.promql.queries`)."""

    panel: Panel
    found: tuple[tuple[Curve, ...], ...]

    @property
    def empty(self) -> bool:
        """Whether nothing came that could be drawn."""
        return not any(one.points for answer in self.found for one in answer)


@dataclass(frozen=True, slots=True)
class Scene:
    """What all panels of a picture share: the time, the choice, and words for the caption."""

    span: Span
    choice: Choice = field(default_factory=Choice)
    note: str = ""
    """Words about where the numbers are from, like that an incident was simulated."""
