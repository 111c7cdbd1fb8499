"""Draws the boards as Grafana's JSON of today. Pure: the same settings give the same data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from llmvitals.dashboards import draw, links
from llmvitals.dashboards.boards import BOARDS
from llmvitals.dashboards.model import Board, Row
from llmvitals.dashboards.shapes import Json, Variable, core, today
from llmvitals.dashboards.variables import marks, variables
from llmvitals.settings import Settings

_COLUMNS = 24
_SCHEMA_VERSION = 39  # read as it is by Grafana 11 and 12, converted on load by 13


def boards(settings: Settings) -> dict[str, Json]:
    """Every board as plain data, by its path in the project. Limits and descriptions follow ``settings``."""
    return {board.file: drawn(board, settings) for board in BOARDS}


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around a board's panels. ``tag``: by which boards of one kind find each other; ``links``: of the board;
    ``of_panels``: of each panel, before its own.
    """

    tag: str
    links: tuple[core.DashboardLink, ...]
    variables: tuple[Variable, ...]
    marks: tuple[Json, ...]
    of_panels: tuple[core.DashboardLink, ...] = ()


def _frame(settings: Settings) -> Frame:
    return Frame(
        links.TAG,
        (links.others("Boards", links.TAG), links.home(settings)),
        tuple(variables(settings)),
        tuple(marks()),
        (links.app(settings),),
    )


def drawn(board: Board, settings: Settings, frame: Frame | None = None) -> Json:
    """One board as plain data. ``frame``: that of the exporter's boards, if none is given."""
    return today(_board(board, settings, frame or _frame(settings)))


def _board(board: Board, settings: Settings, frame: Frame) -> core.Dashboard:
    return core.Dashboard(
        title=board.title,
        uid=board.uid,
        description=board.description,
        tags=[frame.tag, "llm"],
        schemaVersion=_SCHEMA_VERSION,
        graphTooltip=1,
        refresh="30s",
        timezone="browser",
        time=core.Time("now-30m", "now"),
        timePicker=core.TimePicker(["30s", "1m", "5m", "15m"], None),
        annotations=core.Annotations(list(frame.marks)),
        links=list(frame.links),
        templating=core.Templating(list(frame.variables)),
        panels=list(_placed(board, settings, frame)),
    )


def _placed(board: Board, settings: Settings, frame: Frame) -> Iterator[Any]:
    """Panels from left to right and top to bottom, each row's heading above them; a collapsed row holds its own."""
    number, top = 0, 0
    for row in board.rows:
        head = number + 1 if row.title else number
        panels = list(_of_row(row, head, top + bool(row.title), settings, frame))
        if row.title:
            place = core.GridPos(h=1, w=_COLUMNS, x=0, y=top)
            inside = panels if row.collapsed else []
            yield core.RowPanel(id=head, title=row.title, gridPos=place, collapsed=row.collapsed, panels=inside)
            top += 1
        number = head + len(panels)
        if not row.collapsed:
            yield from panels
            top = max((panel.gridPos.y + panel.gridPos.h for panel in panels), default=top)


def _of_row(row: Row, number: int, top: int, settings: Settings, frame: Frame) -> Iterator[Any]:
    left = tallest = 0
    for at, panel in enumerate(row.panels, number + 1):
        if left + panel.width > _COLUMNS:
            top, left, tallest = top + tallest, 0, 0
        place = core.GridPos(h=panel.height, w=panel.width, x=left, y=top)
        ways = (*frame.of_panels, *links.runbooks(panel), *links.more(row))
        yield draw.panel(panel, at, place, settings, ways)
        left, tallest = left + panel.width, max(tallest, panel.height)
