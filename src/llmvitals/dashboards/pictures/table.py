"""Rows of labels and numbers, the worst first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from llmvitals.dashboards.model import NO_NUMBER, Query
from llmvitals.dashboards.pictures.curves import meant, passed
from llmvitals.dashboards.pictures.look import TEXT, fitted, ink_on, width_of, wrapped
from llmvitals.dashboards.pictures.paper import Box, Paper
from llmvitals.dashboards.pictures.results import Answered, Scene
from llmvitals.dashboards.pictures.units import said
from llmvitals.dashboards.promql import columns, heading, limits, queries
from llmvitals.settings import Settings

_ROW, _PAD, _WORDS = 24.0, 16.0, 190.0


@dataclass(slots=True)
class _Row:
    labels: dict[str, str]
    values: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell says, and the colour behind it ('' for none)."""

    text: str
    color: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table as it is read: headings, which of the columns hold numbers, and the rows of cells."""

    headings: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[Cell, ...], ...]


def sheet(answered: Answered, scene: Scene, settings: Settings) -> Sheet:
    """Answers as rows: those of several queries are one row where all labels that both have are equal.

    Labels of which one name was chosen stand in the caption, and labels that no row has are left out.
    """
    asked = queries(answered.panel, settings)
    rows: list[_Row] = []
    for at, found in enumerate(answered.found):
        for one in found:
            if one.points:
                _place(rows, dict(one.labels), at, one.last)
    names = {name for row in rows for name, value in row.labels.items() if value} - set(scene.choice.lone)
    first = columns(asked)
    labels = [name for name in (*first, *sorted(names.difference(first))) if name in names]
    rows.sort(key=lambda row: tuple(row.labels.get(name, "") for name in labels))
    if answered.panel.worst:
        sign = 1.0 if answered.panel.worst.startswith("-") else -1.0
        at = [query.column for query in asked].index(answered.panel.worst.removeprefix("-"))
        rows.sort(key=lambda row: sign * row.values[at] if at in row.values else math.inf)
    return Sheet(
        (*(heading(name) for name in labels), *(query.column for query in asked)),
        (*(False for _ in labels), *(True for _ in asked)),
        tuple(
            (
                *(Cell(row.labels.get(name, "") or NO_NUMBER) for name in labels),
                *(_cell(row.values.get(at), query, answered.panel.unit, settings) for at, query in enumerate(asked)),
            )
            for row in rows
        ),
    )


def _place(rows: list[_Row], labels: dict[str, str], at: int, value: float) -> None:
    for row in rows:
        if at not in row.values and all(row.labels[k] == v for k, v in labels.items() if k in row.labels):
            row.labels |= labels
            row.values[at] = value
            return
    rows.append(_Row(labels, {at: value}))


def _cell(value: float | None, query: Query, unit: str, settings: Settings) -> Cell:
    if value is None:
        return Cell(NO_NUMBER)
    text, color = meant(value, query) or (said(value, query.unit or unit), passed(value, limits(query, settings)))
    return Cell(text, color)


def draw(paper: Paper, box: Box, answered: Answered, scene: Scene, settings: Settings) -> None:
    """The table as wide as its panel; what finds no room is counted."""
    whole = sheet(answered, scene, settings)
    shown, same = _narrowed(whole, box.width)
    wide = _widths(shown, box.width)
    heads = [wrapped(h, TEXT, w - 10, bold=True, most=3) for h, w in zip(shown.headings, wide, strict=False)]
    top = 8 + 14.0 * max(map(len, heads), default=1)
    room = int((box.height - top) // _ROW)
    kept = shown.rows if len(shown.rows) <= room else shown.rows[: max(1, room - 1)]
    x = box.x
    for at, width in enumerate(wide):
        for line, words in enumerate(heads[at]):
            _put(paper, Box(x, box.y + 14.0 * line, width, 14), words, right=shown.numeric[at], bold=True)
        x += width
    paper.line((box.x, box.right), (box.y + top - 4,) * 2, paper.theme.border)
    for number, row in enumerate(kept):
        x, y = box.x, box.y + top + number * _ROW
        for at, width in enumerate(wide):
            _put(paper, Box(x, y, width, _ROW), row[at].text, right=shown.numeric[at], back=row[at].color)
            x += width
        paper.line((box.x, box.right), (y + _ROW - 0.5,) * 2, paper.theme.grid)
    left_out = [
        *_more(len(shown.rows) - len(kept), "row"),
        *_more(len(shown.headings) - len(wide), "column"),
        *([f"all: {same}"] if same else []),
    ]
    if left_out:
        words = fitted(", ".join(left_out), TEXT, box.width)
        paper.text(box.x, box.y + top + len(kept) * _ROW + _ROW / 2, words, color=paper.theme.faint)


def _more(count: int, what: str) -> list[str]:
    return [f"and {count} more {what}{'s' if count > 1 else ''}"] if count > 0 else []


def _narrowed(shown: Sheet, whole: float) -> tuple[Sheet, str]:
    """The table without the labels that are the same in every row where it is too wide with them, and what these are."""
    if sum(_needs(shown)) <= whole or not shown.rows:
        return shown, ""
    same = [
        at for at, numeric in enumerate(shown.numeric) if not numeric and len({row[at].text for row in shown.rows}) == 1
    ]
    told = ", ".join(f"{shown.headings[at].lower()} {shown.rows[0][at].text}" for at in same)
    kept = [at for at in range(len(shown.headings)) if at not in same]
    return (
        Sheet(
            tuple(shown.headings[at] for at in kept),
            tuple(shown.numeric[at] for at in kept),
            tuple(tuple(row[at] for at in kept) for row in shown.rows),
        ),
        told,
    )


def _put(paper: Paper, box: Box, words: str, *, right: bool, bold: bool = False, back: str = "") -> None:
    if back:
        paper.rect(box.inside(left=3, top=2, right=1, bottom=3), back, radius=2)
    text = fitted(words, TEXT, box.width - 8, bold=bold)
    color = ink_on(back) if back else paper.theme.strong if bold else ""
    x = box.right - 6 if right else box.x + 4
    paper.text(x, box.y + box.height / 2, text, bold=bold, color=color, ha="right" if right else "left")


def _widths(shown: Sheet, whole: float) -> list[float]:
    """The width of each column: what its words need, labels cut first; columns at the right go where all is too narrow."""
    need = _needs(shown)
    while sum(need) > whole and len(need) > 2:
        words = [at for at in range(len(need)) if not shown.numeric[at] and need[at] > 84]
        if words:
            widest = max(words, key=need.__getitem__)
            need[widest] = max(84.0, need[widest] - (sum(need) - whole))
        else:
            need.pop()
    spare = (whole - sum(need)) / len(need)
    return [width + spare for width in need]


def _needs(shown: Sheet) -> list[float]:
    need = (
        _PAD + max([_longest(head), *(width_of(row[at].text, TEXT) for row in shown.rows)])
        for at, head in enumerate(shown.headings)
    )
    return [wide if shown.numeric[at] else min(wide, _WORDS) for at, wide in enumerate(need)]


def _longest(head: Sequence[str] | str) -> float:
    return max((width_of(word, TEXT, bold=True) for word in str(head).split()), default=0.0)
