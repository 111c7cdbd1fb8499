"""The legend under a panel: a stroke, a name and the newest number for each curve, in as many rows as they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmvitals.dashboards.pictures.look import TEXT, fitted, width_of
from llmvitals.dashboards.pictures.paper import Box, Paper

ROW = 17.0
_STROKE, _GAP, _BETWEEN = 16.0, 5.0, 16.0
_BEFORE = 7.0
"""Pixels between a name and its number."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One curve or one state: ``mark`` is how it is drawn (``line``, ``dash``, ``band``, ``point``, ``hollow``).

    ``size``: the number by which it stays where not all have room.
    """

    name: str
    color: str
    said: str = ""
    mark: str = "line"
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class Legend:
    """Entries by row, and how many had no room."""

    rows: tuple[tuple[Entry, ...], ...]
    more: int

    @property
    def height(self) -> float:
        """In pixels."""
        return ROW * (len(self.rows) + bool(self.more))


def laid(entries: Sequence[Entry], width: float, most: int) -> Legend:
    """Entries from left to right in at most ``most`` rows; what finds no room is counted, the smallest first.

    The order stays as it is where all have room.
    """
    found = _rows(entries, width)
    if len(found) <= most:
        return Legend(found, 0)
    kept = _rows(sorted(entries, key=lambda one: -one.size), width)[: max(1, most - 1)]
    return Legend(kept, len(entries) - sum(map(len, kept)))


def _rows(entries: Sequence[Entry], width: float) -> tuple[tuple[Entry, ...], ...]:
    rows: list[list[Entry]] = []
    left = width
    for entry in entries:
        need = min(_need(entry), width)
        if left + need > width or not rows:
            rows.append([])
            left = 0.0
        rows[-1].append(entry)
        left += need + _BETWEEN
    return tuple(map(tuple, rows))


def draw(paper: Paper, box: Box, legend: Legend) -> None:
    """Put a legend at the top of a box."""
    for at, row in enumerate(legend.rows):
        x, y = box.x, box.y + ROW * (at + 0.5)
        for entry in row:
            _mark(paper, x, y, entry)
            said = _said(entry)
            room = box.right - x - _STROKE - _GAP - said
            name = fitted(entry.name, TEXT, room)
            x += _STROKE + _GAP
            paper.text(x, y, name)
            x += width_of(name, TEXT)
            if said:
                paper.text(x + _BEFORE, y, entry.said, bold=True, color=paper.theme.strong)
            x += said + _BETWEEN
    if legend.more:
        y = box.y + ROW * (len(legend.rows) + 0.5)
        paper.text(box.x, y, f"and {legend.more} more", color=paper.theme.faint)


def _need(entry: Entry) -> float:
    return _STROKE + _GAP + width_of(entry.name, TEXT) + _said(entry)


def _said(entry: Entry) -> float:
    return _BEFORE + width_of(entry.said, TEXT, bold=True) if entry.said else 0.0


def _mark(paper: Paper, x: float, y: float, entry: Entry) -> None:
    if entry.mark == "band":
        paper.rect(Box(x, y - 4.5, _STROKE, 9), entry.color, radius=1.5)
    elif entry.mark == "point":
        paper.rect(Box(x + 3, y - 5, 10, 10), entry.color, radius=5)
    elif entry.mark == "hollow":
        paper.rect(Box(x + 4, y - 4.5, 9, 9), paper.theme.frame, edge=entry.color)
    else:
        paper.line((x, x + _STROKE), (y, y), entry.color, width=2.4, dashed=entry.mark == "dash")
