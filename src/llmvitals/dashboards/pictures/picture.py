"""Whole pictures: one panel, or a board with its panels in the grid in which Grafana has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib import rc_context

from llmvitals.dashboards.model import Board, Kind, Panel, Row
from llmvitals.dashboards.pictures import bars, heat, over_time, points, states, table, tiles, words
from llmvitals.dashboards.pictures.ask import span_of
from llmvitals.dashboards.pictures.look import SETTINGS, SMALL, TEXT, TITLE, Theme, fitted, wrapped
from llmvitals.dashboards.pictures.paper import Box, Paper
from llmvitals.dashboards.pictures.results import Answered, Scene
from llmvitals.settings import Settings

ORIGIN = "drawn by llmvitals from a Prometheus, not a screenshot of Grafana"
"""What every picture says of itself."""

WIDE, PHONE = 1280.0, 390.0
"""Widths of a whole board, in pixels."""

PAGE = 860.0
"""The width of a picture in a page of text."""

_COLUMNS = 24
_UNIT, _GAP, _EDGE, _PAD = 30.0, 8.0, 14.0, 10.0
PHONE_PANEL = PHONE - 2 * _GAP
"""The width of a panel whose picture is as wide as a phone."""
_ONE_COLUMN = 700.0
"""Narrower than this, panels stand below each other, as Grafana has them on a phone."""
_LINE = 15.0

Draw = Callable[[Paper, Box, Answered, Scene, Settings], None]
_DRAW: dict[Kind, Draw] = {
    Kind.LINES: over_time.draw,
    Kind.STACK: over_time.draw,
    Kind.STAT: tiles.draw,
    Kind.TIMELINE: states.draw,
    Kind.XY: points.draw,
    Kind.TABLE: table.draw,
    Kind.HEATMAP: heat.draw,
    Kind.BARS: bars.draw,
    Kind.TEXT: words.draw,
}


def of_panel(
    answered: Answered, scene: Scene, settings: Settings, theme: Theme, *, width: float = 0.0, height: float = 0.0
) -> Paper:
    """One panel with its caption. ``width``, ``height``: of the panel; as on a board 1280 pixels wide where they are 0."""
    wide = width or _wide(answered.panel, WIDE - 2 * _EDGE)
    return _sheet((answered,), (wide,), height or _high(answered.panel), scene, settings, theme)


def of_panels(
    found: Sequence[Answered], scene: Scene, settings: Settings, theme: Theme, *, width: float = PAGE
) -> Paper:
    """Panels beside each other, of one width and one height, with one caption: for a page of text that is so wide."""
    wide = (width - _GAP * (len(found) + 1)) / len(found)
    return _sheet(found, (wide,) * len(found), max(_high(one.panel) for one in found), scene, settings, theme)


def _sheet(
    found: Sequence[Answered], wide: Sequence[float], high: float, scene: Scene, settings: Settings, theme: Theme
) -> Paper:
    whole = sum(wide) + _GAP * (len(wide) - 1)
    lines = _caption(scene, whole)
    with rc_context(SETTINGS):
        paper = Paper(whole + 2 * _GAP, high + 2 * _GAP + _LINE * len(lines) + 2, theme)
        x = _GAP
        for one, width in zip(found, wide, strict=True):
            _panel(paper, Box(x, _GAP, width, high), one, scene, settings)
            x += width + _GAP
        _captioned(paper, _GAP + 2, high + 2 * _GAP - 1, lines)
    return paper


def of_board(
    board: Board,
    found: Mapping[str, Answered],
    scene: Scene,
    settings: Settings,
    theme: Theme,
    *,
    width: float = WIDE,
) -> Paper:
    """A board. ``found``: answers by the title of the panel; of a row none of whose panels has any, the heading alone is drawn."""
    inner = width - 2 * _EDGE
    lines = _caption(scene, inner)
    about = wrapped(board.description, TEXT + 0.5, inner)
    top = 44 + _LINE * (len(about) + len(lines)) + 10
    placed = tuple(_placed(board, found, Box(_EDGE, top, inner, 0)))
    bottom = max((one.box.bottom for one in placed), default=top)
    with rc_context(SETTINGS):
        paper = Paper(width, bottom + _EDGE, theme)
        paper.text(_EDGE, 26, fitted(board.title, 18, inner, bold=True), size=18, bold=True, color=theme.strong)
        for at, line in enumerate(about):
            paper.text(_EDGE, 50 + at * _LINE, line, size=TEXT + 0.5)
        _captioned(paper, _EDGE, 45 + _LINE * len(about), lines)
        for one in placed:
            if isinstance(one.what, Row):
                _heading(paper, one.box, one.what, closed=one.closed)
            else:
                _panel(paper, one.box, one.what, scene, settings)
    return paper


@dataclass(frozen=True, slots=True)
class _Placed:
    box: Box
    what: Row | Answered
    closed: bool = False


def _placed(board: Board, found: Mapping[str, Answered], area: Box) -> Iterator[_Placed]:
    """Panels from left to right and top to bottom, each row's heading above them."""
    y = area.y
    for row in board.rows:
        shown = [found[panel.title] for panel in row.panels if panel.title in found]
        if row.title:
            yield _Placed(Box(area.x, y, area.width, _UNIT), row, closed=not shown)
            y += _UNIT + _GAP
        left = tallest = 0.0
        for one in shown:
            wide, high = _wide(one.panel, area.width), _high(one.panel)
            if left and left + wide > area.width + 1:
                y, left, tallest = y + tallest + _GAP, 0.0, 0.0
            yield _Placed(Box(area.x + left, y, wide, high), one)
            left, tallest = left + wide + _GAP, max(tallest, high)
        y += tallest + _GAP if shown else 0.0


def _wide(panel: Panel, whole: float) -> float:
    """A panel's width where all columns together have ``whole`` pixels."""
    if whole < _ONE_COLUMN:
        return whole
    return (whole + _GAP) / _COLUMNS * panel.width - _GAP


def _high(panel: Panel) -> float:
    return panel.height * (_UNIT + _GAP) - _GAP


def _panel(paper: Paper, box: Box, answered: Answered, scene: Scene, settings: Settings) -> None:
    """The frame, the title, and what the panel shows, or why it shows nothing."""
    panel, theme = answered.panel, paper.theme
    paper.rect(box, theme.frame, edge=theme.border, radius=3)
    lines = wrapped(panel.title, TITLE, box.width - 2 * _PAD, bold=True, most=2)
    for at, line in enumerate(lines):
        paper.text(box.x + _PAD, box.y + 18 + 17 * at, line, size=TITLE, bold=True, color=theme.strong)
    inner = box.inside(left=_PAD, right=_PAD, top=18 + 17 * len(lines), bottom=_PAD)
    if answered.empty and panel.kind is not Kind.TEXT:
        words.nothing(paper, inner, panel.empty)
    else:
        _DRAW[panel.kind](paper, inner, answered, replace(scene, span=span_of(panel, scene.span)), settings)


def _heading(paper: Paper, box: Box, row: Row, *, closed: bool) -> None:
    y = box.y + box.height / 2
    mark = 4.5
    xs, ys = ((0, 6, 0), (-mark, 0, mark)) if closed else ((-1, 8, 3.5), (-3, -3, 4))
    paper.shape(tuple((box.x + 3 + dx, y + dy) for dx, dy in zip(xs, ys, strict=True)), paper.theme.text)
    count = f"  ({len(row.panels)} panel{'s' if len(row.panels) > 1 else ''}, closed)" if closed else ""
    title = fitted(f"{row.title}{count}", TITLE + 1, box.width - 20, bold=True)
    paper.text(box.x + 18, y, title, size=TITLE + 1, bold=True, color=paper.theme.strong)


def _caption(scene: Scene, width: float) -> list[str]:
    chosen = ", ".join(f"{label} {name}" for label, name in scene.choice.lone.items())
    parts = [str(scene.span), *filter(None, (chosen, scene.note)), ORIGIN]
    return wrapped(" · ".join(parts), SMALL, width - 4)


def _captioned(paper: Paper, x: float, y: float, lines: list[str]) -> None:
    for at, line in enumerate(lines):
        paper.text(x, y + _LINE * (at + 0.5), line, size=SMALL, color=paper.theme.faint)
