"""Draws one panel, each kind in its own way. Pure: the same settings give the same panel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from string import ascii_uppercase
from typing import Any

from llmvitals.dashboards import links
from llmvitals.dashboards.model import GREY, ORANGE, PLACE, Kind, Names, Panel, Query
from llmvitals.dashboards.promql import described, kept, limits, numbers, promql, queries
from llmvitals.dashboards.shapes import (
    LINES,
    STATES,
    TILES,
    Bars,
    Column,
    Heatmap,
    Json,
    Label,
    Points,
    Table,
    Threshold,
    Traced,
    XYChart,
    core,
    field,
)
from llmvitals.dashboards.variables import SOURCE
from llmvitals.schema import SCOPE
from llmvitals.settings import Settings

_EDGE = 0.05
"""What the axes of an XY chart reach beyond 0 and 1, so that no point is cut in half."""

_FIRST = (*PLACE, *SCOPE)
_HEADINGS = {"instance": "Replica"}
"""Labels whose column is not headed by their own name: what the variables at the top call them."""

_CLICKED = ("instance", "model", "alertname", "cause")
"""Labels in whose column a click leads on, where a table leads anywhere."""

_NOW = (Kind.STAT, Kind.XY, Kind.TABLE, Kind.BARS)
"""Kinds that show the end of the time range."""

_FORMAT = {Kind.XY: "table", Kind.TABLE: "table", Kind.HEATMAP: "heatmap"}


def panel(
    one: Panel, number: int, place: core.GridPos, settings: Settings, more: Sequence[core.DashboardLink] = ()
) -> core.Panel:
    """The panel as grafanalib's object. ``number``: its identity within the board; ``more``: links beside its own."""
    own = limits(one, settings)
    base = GREY
    if one.kind is Kind.BARS and one.queries:
        base = one.queries[0].color
    common = {
        "id": number,
        "gridPos": place,
        "title": one.title,
        "description": described(one, settings),
        "dataSource": SOURCE,
        "maxDataPoints": one.points or None,  # one point per pixel
        "targets": [_target(one, query, at, settings) for at, query in enumerate(queries(one, settings))],
        "links": [links.APP, *map(links.runbook, (*one.symptoms, *one.causes)), *more],
        "thresholds": [Threshold(base), *(Threshold(color, value) for value, color in own)],
    }
    return _DRAW[one.kind](one, common, settings)


def ref(at: int) -> str:
    """How Grafana calls the query at this place: A to Z, then AA and on."""
    high, low = divmod(at, len(ascii_uppercase))
    return (ref(high - 1) if high else "") + ascii_uppercase[low]


def _target(one: Panel, query: Query, at: int, settings: Settings) -> Any:  # noqa: ANN401 - grafanalib has no types
    words = [query.legend] if query.legend else []
    asked = promql(query, settings)
    target: Any = Traced if query.exemplar else core.Target
    return target(
        refId=ref(at),
        expr=f"sort_desc({asked})" if one.kind is Kind.BARS else asked,
        legendFormat=" ".join([*words, *(f"{{{{{label}}}}}" for label in query.by)]),
        instant=one.kind in _NOW,
        datasource=SOURCE,
        **({"format": _FORMAT[one.kind]} if one.kind in _FORMAT else {}),
    )


def _ways(one: Panel) -> list[Json]:
    return links.of_value(one.leads, links.common(one))


def _points(one: Panel, common: Json, settings: Settings) -> core.Panel:
    """The groups of points in order of their queries, and their lines as one group more."""
    groups = []
    for name, mine in groupby(enumerate(one.queries), lambda found: found[1].legend):
        found = tuple(mine)
        query = found[0][1]
        refs = tuple(ref(at) for at, _ in found)
        groups.append(Points(name, query.color, refs, tuple(q.column for _, q in found), hollow=query.dashed))
    across = _cross(one, [number for limit in one.lines for number, _ in numbers(limit, settings)])
    used = len(one.queries)
    groups.append(
        Points(across[0].legend, GREY, tuple(ref(used + n) for n in range(2)), groups[0].columns[:2], line=True)
    )
    targets = [*common["targets"], *(_target(one, query, used + n, settings) for n, query in enumerate(across))]
    return XYChart(
        **common | {"targets": targets},
        groups=tuple(groups),
        unit=one.unit,
        low=-_EDGE,
        high=1 + _EDGE,
        empty=one.empty,
        labels=links.common(one),
        ways=links.of_value(one.leads, links.common(one), "__data.fields"),
    )


def _cross(one: Panel, lines: list[float]) -> tuple[Query, Query]:
    """x and y of the corners of one line that draws both, while any point is there: along one limit, then along the other."""
    across, up = lines
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


def _table(one: Panel, common: Json, settings: Settings) -> core.Panel:
    """The labels in the order of the variables, then a column for each query."""
    asked = queries(one, settings)
    found = dict.fromkeys(label for query in asked for label in kept(query.by))
    names = sorted(found, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    ways = tuple(links.of_value(one.leads, found, "__data.fields"))
    clicked = [name for name in _CLICKED if name in found] or names[:1]
    columns = (
        Column(
            field(ref(at)) if len(asked) > 1 else "Value",
            query.column,
            query.unit or one.unit,
            limits(query, settings),
            tuple(_mappings(query.names)),
        )
        for at, query in enumerate(asked)
    )
    return Table(
        **common,
        labels=tuple(Label(name, heading(name), ways if name in clicked else ()) for name in names),
        columns=tuple(columns),
        worst=(one.worst.removeprefix("-"), not one.worst.startswith("-")) if one.worst else None,
        unit=one.unit,
        empty=one.empty,
    )


def heading(label: str) -> str:
    """What a label is called over a column of a table."""
    return _HEADINGS.get(label, label.replace("_", " ").capitalize())


def _heatmap(one: Panel, common: Json, _: Settings) -> core.Panel:
    return Heatmap(**common, unit=one.unit, empty=one.empty, dots=ORANGE)


def _bars(one: Panel, common: Json, settings: Settings) -> core.Panel:
    return Bars(
        **common,
        unit=one.unit,
        empty=one.empty,
        low=_whole(one.bottom),
        high=one.top,
        passed=bool(one.limits),
        ways=_ways(one),
        overrides=_overrides(one, settings),
    )


def _text(one: Panel, common: Json, _: Settings) -> core.Panel:
    words = common["description"]
    whole = common | {"description": None, "maxDataPoints": None}
    return core.Text(**whole, content=words, mode="markdown", extraJson={"fieldConfig": {"overrides": []}})


def _tiles(one: Panel, common: Json, settings: Settings) -> core.Panel:
    return core.Stat(
        **common,
        noValue=one.empty,
        format=one.unit,
        color={"mode": "fixed", "fixedColor": GREY},
        colorMode="background",
        graphMode="none",
        reduceCalc="lastNotNull",
        textMode="name" if one.by_name else "value_and_name",
        overrides=_overrides(one, settings),
        extraJson={"options": TILES, "fieldConfig": {"defaults": {"links": _ways(one)}}},
    )


def _states(one: Panel, common: Json, settings: Settings) -> core.Panel:
    return core.StateTimeline(
        **common,
        mappings=_mappings(one.queries[0].names),
        showValue="never",
        overrides=_overrides(one, settings),
        extraJson={
            "options": STATES,
            "fieldConfig": {"defaults": {"noValue": one.empty, "unit": one.unit, "links": _ways(one)}},
        },
    )


def _lines(one: Panel, common: Json, settings: Settings) -> core.Panel:
    stacked = one.kind is Kind.STACK
    return core.TimeSeries(
        **common,
        unit=one.unit,
        colorMode="fixed",
        lineWidth=2,
        fillOpacity=70 if stacked else 0,
        stacking={"mode": "normal" if stacked else "none", "group": "A"},
        showPoints="never",
        thresholdsStyleMode="dashed" if one.limits else "off",
        tooltipMode="multi",
        tooltipSort="desc",
        legendCalcs=["lastNotNull"],
        valueMax=one.top,
        overrides=_overrides(one, settings),
        extraJson={
            "options": LINES,
            "fieldConfig": {"defaults": {"noValue": one.empty, "links": _ways(one), "min": _whole(one.bottom)}},
        },
    )


_DRAW: dict[Kind, Callable[[Panel, Json, Settings], core.Panel]] = {
    Kind.STAT: _tiles,
    Kind.TIMELINE: _states,
    Kind.LINES: _lines,
    Kind.STACK: _lines,
    Kind.XY: _points,
    Kind.TABLE: _table,
    Kind.HEATMAP: _heatmap,
    Kind.BARS: _bars,
    Kind.TEXT: _text,
}


def _whole(number: float | None) -> float | None:
    """A number as it is written by hand: 0, not 0.0."""
    return int(number) if number is not None and number == int(number) else number


def _overrides(one: Panel, settings: Settings) -> list[Json]:
    """What sets queries, named values and alerts apart from their panel."""
    return [*_of_queries(one, settings), *_named(one), *links.of_alerts(one)]


def _of_queries(one: Panel, settings: Settings) -> Iterator[Json]:
    """What sets one query apart from its panel: its hue, its dash, its own unit on the right axis, its words."""
    asked = queries(one, settings)
    lone = one.kind is Kind.LINES and len(asked) == 1
    own_axis = one.kind in (Kind.LINES, Kind.STACK)
    for at, query in enumerate(asked):
        properties: list[Json] = []
        if not (one.kind is Kind.BARS and one.limits):  # there a bar's colour is that of the limit it passes
            color = {"mode": "shades" if lone else "fixed", "fixedColor": query.color}
            properties.append({"id": "color", "value": color})
        if query.dashed and own_axis:
            properties.append({"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 6]}})
        if query.unit:
            properties.append({"id": "unit", "value": query.unit})
        if query.unit and own_axis:
            properties += [
                {"id": "custom.axisPlacement", "value": "right"},
                {"id": "custom.thresholdsStyle", "value": {"mode": "off"}},  # else the line is drawn on both axes
            ]
        if query.names and one.kind in (Kind.STAT, Kind.BARS):
            properties.append({"id": "mappings", "value": _mappings(query.names)})
        if properties:
            yield {"matcher": {"id": "byFrameRefID", "options": ref(at)}, "properties": properties}


def _named(one: Panel) -> Iterator[Json]:
    for name, color in one.names:
        yield {
            "matcher": {"id": "byRegexp", "options": f"^{name} .*"},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }


def _mappings(names: Names) -> list[Json]:
    options = {str(value): {"text": text, "color": color, "index": at} for at, (value, text, color) in enumerate(names)}
    return [{"type": "value", "options": options}] if options else []
