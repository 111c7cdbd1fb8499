"""What is drawn of the answers: names as the board's legend has them, colours, dashes, axes. No drawing here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from llmvitals.dashboards.model import Kind, Query
from llmvitals.dashboards.pictures.results import Answered, Curve, Scene
from llmvitals.dashboards.promql import queries
from llmvitals.settings import Settings

_LABEL = re.compile(r"\{\{(\w+)\}\}")
_SHADES = (0.0, 0.45, -0.35, 0.7, -0.6)
"""How far the curves of one query go from its hue towards white (over 0) and black (under 0)."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve of a panel. ``right``: it has a unit of its own and the axis on the right."""

    name: str
    color: str
    unit: str
    points: tuple[tuple[float, float], ...]
    query: Query
    labels: Mapping[str, str]
    dashed: bool = False
    right: bool = False

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


def lines(answered: Answered, scene: Scene, settings: Settings) -> tuple[Line, ...]:
    """Every curve that came, in the order of the queries, those of one query by name."""
    return tuple(_each(answered, scene, settings))


def _each(answered: Answered, scene: Scene, settings: Settings) -> Iterator[Line]:
    panel = answered.panel
    over_time = panel.kind in (Kind.LINES, Kind.STACK)
    for query, found in zip(queries(panel, settings), answered.found, strict=True):
        pairs = ((named_by(query, one, scene), one) for one in found if one.points)
        named = sorted(pairs, key=itemgetter(0))  # two clusters may have a server of one name
        for at, (name, one) in enumerate(named):
            hue = next((color for words, color in panel.names if f"{name} ".startswith(f"{words} ")), query.color)
            shade = shaded(hue, _SHADES[at % len(_SHADES)]) if over_time and hue == query.color else hue
            yield Line(
                name,
                shade,
                query.unit or panel.unit,
                one.points,
                query,
                dict(one.labels),
                query.dashed,
                bool(query.unit) and query.unit != panel.unit,
            )


def named_by(query: Query, found: Curve, scene: Scene) -> str:
    """A curve as the legend has it: the query's words and the labels it is kept apart by, without those of the caption."""
    told = {name: value for name, value in found.labels if name not in scene.choice.lone}
    words = [_LABEL.sub(lambda m: found.label(m[1]), query.legend), *(told.get(label, "") for label in query.by)]
    return " ".join(filter(None, words)) or "all"


def meant(value: float, query: Query) -> tuple[str, str] | None:
    """What a value of a query means, as text and colour; None where it is but a number."""
    return next(((text, color) for known, text, color in query.names if known == value), None)


def passed(value: float, asked: Sequence[tuple[float, str]], otherwise: str = "") -> str:
    """The colour of the highest limit that a value passes. ``asked``: numbers and colours in rising order."""
    return next((color for limit, color in reversed(asked) if value >= limit), otherwise)


def shaded(color: str, by: float) -> str:
    """A colour (``#RRGGBB``) on the way to white (``by`` up to 1) or to black (down to -1)."""
    end = 255 if by > 0 else 0
    parts = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (end - part) * abs(by)):02X}" for part in parts)
