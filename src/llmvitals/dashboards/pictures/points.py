"""Points by two numbers: each replica at its place between two limits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from llmvitals.dashboards.model import EDGE, GREY, Query
from llmvitals.dashboards.pictures import axes, legend
from llmvitals.dashboards.pictures.look import SMALL, TEXT, width_of
from llmvitals.dashboards.pictures.paper import Box, Paper
from llmvitals.dashboards.pictures.results import Answered, Curve, Scene
from llmvitals.dashboards.pictures.units import said
from llmvitals.dashboards.promql import kept, lines, queries
from llmvitals.series import Labels
from llmvitals.settings import Settings

_RADIUS = 6.0


@dataclass(frozen=True, slots=True)
class Group:
    """Points of one meaning: x, y and the name of each."""

    name: str
    color: str
    hollow: bool
    points: tuple[tuple[float, float, str], ...]


def groups(answered: Answered, settings: Settings) -> tuple[Group, ...]:
    """Points in the order of the queries: of each legend the first query is x and the second y. What lacks one is no point."""
    found = []
    pairs = zip(queries(answered.panel, settings), answered.found, strict=True)
    for name, mine in groupby(pairs, lambda pair: pair[0].legend):
        (query, across), (_, up), *_ = mine
        ys = {_key(query, one): one.last for one in up if one.points}
        points = ((one.last, ys.get(_key(query, one)), one.label("instance")) for one in across if one.points)
        found.append(Group(name, query.color, query.dashed, tuple((x, y, n) for x, y, n in points if y is not None)))
    return tuple(found)


def _key(query: Query, one: Curve) -> Labels:
    return tuple((name, value) for name, value in one.labels if name in kept(query.by))


def draw(paper: Paper, box: Box, answered: Answered, _: Scene, settings: Settings) -> None:
    """The field with its limits, the points with their names, and what their colours mean."""
    panel = answered.panel
    found = groups(answered, settings)
    limits = lines(panel, settings)
    entries = [
        legend.Entry(g.name, g.color, str(len(g.points)), "hollow" if g.hollow else "point") for g in found if g.points
    ]
    rows = legend.laid(entries, box.width, 4)
    plot = box.inside(bottom=rows.height + 8)
    values = [value for group in found for x, y, _ in group.points for value in (x, y)]
    field = axes.reach(values, panel.unit, low=0.0, high=1.0, most=6)
    room = 9 + max(width_of(words, TEXT - 0.5) for _, words in field.ticks)
    inner = plot.inside(left=room + 16, right=12, top=4, bottom=38)
    into = paper.axes(inner)
    low, high = field.low - EDGE, field.high + EDGE
    into.set_xlim(low, high)
    into.set_ylim(low, high)
    for set_ticks in (into.set_xticks, into.set_yticks):
        set_ticks([value for value, _ in field.ticks], labels=[words for _, words in field.ticks])
    into.grid(visible=True, color=paper.theme.grid, linewidth=1)
    into.set_axisbelow(True)
    style = {"color": GREY, "linewidth": 1.4, "linestyle": (0, (3, 2.5)), "zorder": 1.5}
    for number, line in zip(limits, (into.axvline, into.axhline), strict=False):
        line(number, **style)
    for group in found:
        into.plot(
            [x for x, _, _ in group.points],
            [y for _, y, _ in group.points],
            "s" if group.hollow else "o",
            markersize=2 * _RADIUS,
            markerfacecolor="none" if group.hollow else group.color,
            markeredgecolor=group.color if group.hollow else paper.theme.frame,
            markeredgewidth=2.2 if group.hollow else 1,
            zorder=3,
            clip_on=False,
        )
    columns = [query.column for query in panel.queries[:2]]
    paper.text(inner.x + inner.width / 2, inner.bottom + 29, columns[0], color=paper.theme.text, ha="center")
    paper.text(box.x + 7, inner.y + inner.height / 2, columns[1], ha="center", turned=True)
    _limits(paper, inner, limits, (low, high), panel.unit)
    _names(paper, inner, found, limits, (low, high))
    legend.draw(paper, Box(box.x, plot.bottom + 8, box.width, rows.height), rows)


def _limits(paper: Paper, box: Box, limits: tuple[float, ...], reach: tuple[float, float], unit: str) -> None:
    low, high = reach
    for at, number in enumerate(limits[:2]):
        words = said(number, unit)
        share = (number - low) / (high - low)
        wide = width_of(words, SMALL, bold=True)
        x = box.x + share * box.width + 3 if at == 0 else box.right - wide - 3
        x = x if x + wide < box.right else box.x + share * box.width - wide - 4
        y = box.y + 8 if at == 0 else box.bottom - share * box.height - 7
        paper.text(x, y, words, size=SMALL, bold=True, color=paper.theme.faint)


def _names(
    paper: Paper, box: Box, found: tuple[Group, ...], limits: tuple[float, ...], reach: tuple[float, float]
) -> None:
    """The name beside each point, on a side where nothing else is; left out where there is none."""
    low, high = reach
    spots = [
        (box.x + (x - low) / (high - low) * box.width, box.bottom - (y - low) / (high - low) * box.height, name)
        for group in found
        for x, y, name in group.points
    ]
    taken = [Box(x - _RADIUS, y - _RADIUS, 2 * _RADIUS, 2 * _RADIUS) for x, y, _ in spots]
    taken += [Box(box.x + (x - low) / (high - low) * box.width - 1, box.y, 2, box.height) for x in limits[:1]]
    taken += [Box(box.x, box.bottom - (y - low) / (high - low) * box.height - 1, box.width, 2) for y in limits[1:2]]
    for x, y, name in spots:
        wide = width_of(name, SMALL)
        sides = (
            Box(x + _RADIUS + 3, y - 6, wide, 12),
            Box(x - _RADIUS - 3 - wide, y - 6, wide, 12),
            Box(x - wide / 2, y - _RADIUS - 14, wide, 12),
            Box(x - wide / 2, y + _RADIUS + 2, wide, 12),
        )
        free = (s for s in sides if s.x >= box.x and s.right <= box.right and not any(map(s.meets, taken)))
        spot = next(free, None)
        if spot is not None:
            taken.append(spot)
            paper.text(spot.x, spot.y + 6, name, size=SMALL)
