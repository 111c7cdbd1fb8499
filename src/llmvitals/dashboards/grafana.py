"""Draws the boards as Grafana's JSON of today. Pure: the same settings give the same data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmvitals.dashboards import draw
from llmvitals.dashboards.boards import BOARDS
from llmvitals.dashboards.links import OTHERS, TAG, home, more
from llmvitals.dashboards.model import Board, Row
from llmvitals.dashboards.shapes import Json, core, today
from llmvitals.dashboards.variables import marks, variables
from llmvitals.settings import Settings

_COLUMNS = 24
_SCHEMA_VERSION = 39  # read as it is by Grafana 11 and 12, converted on load by 13


def boards(settings: Settings) -> dict[str, Json]:
    """Every board as plain data, by its path in the project. Limits and descriptions follow ``settings``."""
    return {board.file: drawn(board, settings) for board in BOARDS}


def drawn(board: Board, settings: Settings) -> Json:
    """One board as plain data."""
    return today(_board(board, settings))


def _board(board: Board, settings: Settings) -> core.Dashboard:
    return core.Dashboard(
        title=board.title,
        uid=board.uid,
        description=board.description,
        tags=[TAG, "llm"],
        schemaVersion=_SCHEMA_VERSION,
        graphTooltip=1,
        refresh="30s",
        timezone="browser",
        time=core.Time("now-30m", "now"),
        timePicker=core.TimePicker(["30s", "1m", "5m", "15m"], None),
        annotations=core.Annotations(marks()),
        links=[OTHERS, home(settings)],
        templating=core.Templating(variables(settings)),
        panels=list(_placed(board, settings)),
    )


def _placed(board: Board, settings: Settings) -> Iterator[Any]:
    """Panels from left to right and top to bottom, each row's heading above them; a collapsed row holds its own."""
    number, top = 0, 0
    for row in board.rows:
        head = number + 1 if row.title else number
        panels = list(_of_row(row, head, top + bool(row.title), settings))
        if row.title:
            place = core.GridPos(h=1, w=_COLUMNS, x=0, y=top)
            inside = panels if row.collapsed else []
            yield core.RowPanel(id=head, title=row.title, gridPos=place, collapsed=row.collapsed, panels=inside)
            top += 1
        number = head + len(panels)
        if not row.collapsed:
            yield from panels
            top = max((panel.gridPos.y + panel.gridPos.h for panel in panels), default=top)


def _of_row(row: Row, number: int, top: int, settings: Settings) -> Iterator[Any]:
    left = tallest = 0
    for at, panel in enumerate(row.panels, number + 1):
        if left + panel.width > _COLUMNS:
            top, left, tallest = top + tallest, 0, 0
        place = core.GridPos(h=panel.height, w=panel.width, x=left, y=top)
        yield draw.panel(panel, at, place, settings, more(row))
        left, tallest = left + panel.width, max(tallest, panel.height)
