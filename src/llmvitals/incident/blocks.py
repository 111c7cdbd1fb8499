"""What a report is made of, before any format. Texts are plain: whoever writes a format escapes them."""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.triage.chart import Chart
from llmvitals.triage.view import Badge


@dataclass(frozen=True, slots=True)
class Banner:
    """The verdict on top. ``facts``: name and value of what it is about."""

    badge: Badge
    title: str
    sentence: str
    trust: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A section's head; ``level`` 2 or 3."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Para:
    """A paragraph; ``quiet``: small print."""

    text: str
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """What a person wrote, line by line as it came."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """A line to be copied."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under heads."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A small chart with what stands above it. ``file``: its name where it is a file of its own; ``alt``: in words."""

    file: str
    chart: Chart
    alt: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Charts side by side."""

    figures: tuple[Figure, ...]


Block = Banner | Heading | Para | Quote | Code | Table | Figures


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report."""

    title: str
    language: str
    blocks: tuple[Block, ...]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All charts, in order."""
        return tuple(f for block in self.blocks if isinstance(block, Figures) for f in block.figures)
