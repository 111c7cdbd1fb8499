"""Values as they are now: a tile for each, with its name."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmvitals.dashboards.model import GREY
from llmvitals.dashboards.pictures.curves import Line, lines, meant
from llmvitals.dashboards.pictures.look import TEXT, fitted, ink_on, width_of
from llmvitals.dashboards.pictures.paper import Box, Paper
from llmvitals.dashboards.pictures.results import Answered, Scene
from llmvitals.dashboards.pictures.units import said
from llmvitals.settings import Settings

_BIG, _LEAST, _GAP = 26.0, 11.0, 6.0
_LOW, _NARROW = 30.0, 96.0
"""A tile is no lower and no narrower than this, in pixels."""


@dataclass(frozen=True, slots=True)
class _Tile:
    name: str
    value: str
    color: str


def draw(paper: Paper, box: Box, answered: Answered, scene: Scene, settings: Settings) -> None:
    """Tiles in the columns in which their letters are largest."""
    found = [_tile(one, by_name=answered.panel.by_name) for one in lines(answered, scene, settings)]
    room = max(1, int((box.width + _GAP) // (_NARROW + _GAP))) * max(1, int((box.height + _GAP) // (_LOW + _GAP)))
    more = len(found) - room + 1 if len(found) > room else 0
    kept = [*found[: len(found) - more], *([_Tile("", f"and {more} more", GREY)] if more else [])]
    columns = max(range(1, len(kept) + 1), key=lambda n: (_size(kept, box, n), -n))
    size = _size(kept, box, columns)
    wide, high = _room(kept, box, columns)
    for at, tile in enumerate(kept):
        down, across = divmod(at, columns)
        _draw(paper, Box(box.x + across * (wide + _GAP), box.y + down * (high + _GAP), wide, high), tile, size)


def _tile(one: Line, *, by_name: bool) -> _Tile:
    text, color = meant(one.last, one.query) or (said(one.last, one.unit), one.color)
    return _Tile("", one.name, color) if by_name else _Tile(one.name, text, color)


def _room(tiles: list[_Tile], box: Box, columns: int) -> tuple[float, float]:
    """The width and the height of one tile."""
    rows = math.ceil(len(tiles) / columns)
    return (box.width - _GAP * (columns - 1)) / columns, (box.height - _GAP * (rows - 1)) / rows


def _size(tiles: list[_Tile], box: Box, columns: int) -> float:
    """The size of letters with which every value fits into its tile; 0 where a tile would be too small."""
    wide, high = _room(tiles, box, columns)
    if (high < _LOW or wide < _NARROW) and len(tiles) > 1:
        return 0.0
    widest = max(width_of(tile.value, 10, bold=True) for tile in tiles) / 10
    named = any(tile.name for tile in tiles)
    tall = (high - 8 - (TEXT + 4 if named and high >= 46 else 0)) * 0.72
    return max(_LEAST, min(_BIG, (wide - 16) / widest, tall))


def _draw(paper: Paper, box: Box, tile: _Tile, size: float) -> None:
    paper.rect(box, tile.color, radius=3)
    ink = ink_on(tile.color)
    middle = box.x + box.width / 2
    value = fitted(tile.value, size, box.width - 12, bold=True)
    if not tile.name:
        paper.text(middle, box.y + box.height / 2, value, size=size, bold=True, color=ink, ha="center")
    elif box.height >= 46:
        whole = TEXT + 6 + size
        top = box.y + (box.height - whole) / 2
        name = fitted(tile.name, TEXT, box.width - 12)
        paper.text(middle, top + TEXT / 2, name, color=ink, ha="center")
        paper.text(middle, top + TEXT + 6 + size / 2, value, size=size, bold=True, color=ink, ha="center")
    else:
        y = box.y + box.height / 2
        room = box.width - 20 - width_of(value, size, bold=True)
        paper.text(box.x + 7, y, fitted(tile.name, TEXT, room), color=ink)
        paper.text(box.right - 7, y, value, size=size, bold=True, color=ink, ha="right")
