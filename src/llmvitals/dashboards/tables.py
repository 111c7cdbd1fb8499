"""Kinds made of tables of numbers by label: points by two numbers, and rows of several."""

from __future__ import annotations

from itertools import groupby

from llmvitals.dashboards import links
from llmvitals.dashboards.model import EDGE, GREY, Panel, Query
from llmvitals.dashboards.overrides import mappings
from llmvitals.dashboards.promql import columns, heading, limits, lines, queries
from llmvitals.dashboards.shapes import Column, Json, Label, Points, Table, XYChart, core, field
from llmvitals.dashboards.targets import ref, target
from llmvitals.settings import Settings

_CLICKED = ("instance", "model", "alertname", "cause")
"""Labels in whose column a click leads on, where a table leads anywhere."""


def points(one: Panel, common: Json, settings: Settings) -> core.Panel:
    """The groups of points in order of their queries, and their lines as one group more."""
    groups = []
    for name, mine in groupby(enumerate(one.queries), lambda found: found[1].legend):
        found = tuple(mine)
        query = found[0][1]
        refs = tuple(ref(at) for at, _ in found)
        groups.append(Points(name, query.color, refs, tuple(q.column for _, q in found), hollow=query.dashed))
    across = _cross(one, lines(one, settings))
    used = len(one.queries)
    groups.append(
        Points(across[0].legend, GREY, tuple(ref(used + n) for n in range(2)), groups[0].columns[:2], line=True)
    )
    targets = [*common["targets"], *(target(one, query, used + n, settings) for n, query in enumerate(across))]
    return XYChart(
        **common | {"targets": targets},
        groups=tuple(groups),
        unit=one.unit,
        low=-EDGE,
        high=1 + EDGE,
        empty=one.empty,
        labels=links.common(one),
        ways=links.of_value(one.leads, links.common(one), settings, "__data.fields"),
    )


def _cross(one: Panel, crossed: tuple[float, ...]) -> tuple[Query, Query]:
    """x and y of the corners of one line that draws both, while any point is there: along one limit, then along the other."""
    across, up = crossed
    corners = ((across, 0.0), (across, 1.0), (across, up), (0.0, up), (1.0, up))
    legend = f"Limits: {across:g} across, {up:g} up"
    x, y = (" or ".join(_corner(n, corner[axis]) for n, corner in enumerate(corners)) for axis in (0, 1))
    while_there = f"and on () ({one.present})"
    return (
        Query(legend, GREY, promql=f"({x}) {while_there}", by=("corner",)),
        Query(legend, GREY, promql=f"({y}) {while_there}", by=("corner",)),
    )


def _corner(number: int, value: float) -> str:
    return f'label_replace(vector({value:g}), "corner", "{number}", "", "")'


def table(one: Panel, common: Json, settings: Settings) -> core.Panel:
    """The labels, then a column for each query."""
    asked = queries(one, settings)
    names = columns(asked)
    ways = tuple(links.of_value(one.leads, names, settings, "__data.fields"))
    clicked = [name for name in _CLICKED if name in names] or names[:1]
    of_numbers = (
        Column(
            field(ref(at)) if len(asked) > 1 else "Value",
            query.column,
            query.unit or one.unit,
            limits(query, settings),
            tuple(mappings(query.names)),
        )
        for at, query in enumerate(asked)
    )
    return Table(
        **common,
        labels=tuple(Label(name, heading(name), ways if name in clicked else ()) for name in names),
        columns=tuple(of_numbers),
        worst=(one.worst.removeprefix("-"), not one.worst.startswith("-")) if one.worst else None,
        unit=one.unit,
        empty=one.empty,
    )
