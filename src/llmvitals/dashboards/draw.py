"""Draws one panel, each kind in its own way. Pure: the same settings give the same panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llmvitals.dashboards import links
from llmvitals.dashboards.model import GREY, ORANGE, Kind, Panel
from llmvitals.dashboards.overrides import mappings, overrides
from llmvitals.dashboards.promql import described, limits, queries
from llmvitals.dashboards.shapes import LINES, STATES, TILES, Bars, Heatmap, Json, Threshold, core
from llmvitals.dashboards.tables import points, table
from llmvitals.dashboards.targets import target
from llmvitals.dashboards.variables import SOURCE
from llmvitals.settings import Settings


def panel(
    one: Panel, number: int, place: core.GridPos, settings: Settings, ways: Sequence[core.DashboardLink] = ()
) -> core.Panel:
    """The panel as grafanalib's object. ``number``: its identity within the board; ``ways``: its links."""
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
        "targets": [target(one, query, at, settings) for at, query in enumerate(queries(one, settings))],
        "links": list(ways),
        "thresholds": [Threshold(base), *(Threshold(color, value) for value, color in own)],
    }
    return _DRAW[one.kind](one, common, settings)


def _ways(one: Panel, settings: Settings) -> list[Json]:
    return links.of_value(one.leads, links.common(one), settings)


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
        ways=_ways(one, settings),
        overrides=overrides(one, settings),
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
        overrides=overrides(one, settings),
        extraJson={"options": TILES, "fieldConfig": {"defaults": {"links": _ways(one, settings)}}},
    )


def _states(one: Panel, common: Json, settings: Settings) -> core.Panel:
    return core.StateTimeline(
        **common,
        mappings=mappings(one.queries[0].names),
        showValue="never",
        overrides=overrides(one, settings),
        extraJson={
            "options": STATES,
            "fieldConfig": {"defaults": {"noValue": one.empty, "unit": one.unit, "links": _ways(one, settings)}},
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
        overrides=overrides(one, settings),
        extraJson={
            "options": LINES,
            "fieldConfig": {
                "defaults": {"noValue": one.empty, "links": _ways(one, settings), "min": _whole(one.bottom)}
            },
        },
    )


_DRAW: dict[Kind, Callable[[Panel, Json, Settings], core.Panel]] = {
    Kind.STAT: _tiles,
    Kind.TIMELINE: _states,
    Kind.LINES: _lines,
    Kind.STACK: _lines,
    Kind.XY: points,
    Kind.TABLE: table,
    Kind.HEATMAP: _heatmap,
    Kind.BARS: _bars,
    Kind.TEXT: _text,
}


def _whole(number: float | None) -> float | None:
    """A number as it is written by hand: 0, not 0.0."""
    return int(number) if number is not None and number == int(number) else number
