"""grafanalib's classes in the shape that Grafana 11 to 13 reads: grafanalib 0.7.1 is older than that.

Its ``Threshold`` and ``Template`` describe what the removed ``graph`` panel and Grafana 6 read, so both are made here;
what its other classes lack goes through their ``extraJson``, and :func:`today` takes out what Grafana no longer knows.
The shapes are those of the TypeScript models in ``@grafana/schema``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

try:
    import attr
    from grafanalib import core
    from grafanalib._gen import DashboardEncoder
except ImportError as missing:
    from llmvitals.errors import MissingExtraError, install

    raise MissingExtraError(
        "grafanalib is not installed", place="dashboards", remedy=install("dashboards")
    ) from missing

__all__ = ("LINES", "STATES", "TILES", "Points", "Threshold", "Traced", "Variable", "XYChart", "core", "today")

Json = dict[str, Any]

_GONE_FROM_BOARD = ("__inputs", "gnetId", "hideControls", "id", "rows", "sharedCrosshair", "style")
_GONE_FROM_PANEL = ("editable", "error", "height", "minSpan", "span")
_GONE_FROM_TARGET = ("intervalFactor", "metric", "query", "step", "target")
_ROW = ("collapsed", "gridPos", "id", "panels", "title", "type")

# What became obligatory after grafanalib's last release, by panel type.
LINES: Json = {"legend": {"showLegend": True}}
TILES: Json = {"wideLayout": False, "showPercentChange": False, "percentChangeColorMode": "standard"}
STATES: Json = {"legend": {"showLegend": False, "calcs": []}, "tooltip": {"sort": "none"}}


@dataclass(frozen=True, slots=True)
class Points:
    """One group of an XY chart: its name and colour, and the queries (refIds) of x, y and what a tooltip says besides.

    ``hollow``: points are squares without a filling; ``line``: they are joined, and not drawn themselves.
    """

    name: str
    color: str
    refs: tuple[str, ...]
    columns: tuple[str, ...]
    hollow: bool = False
    line: bool = False


@attr.s
class Traced(core.Target):  # type: ignore[misc]  # grafanalib has no types
    """A query with its exemplars, which grafanalib's lacks."""

    def to_json_data(self) -> Json:
        """Grafana's form."""
        found: Json = super().to_json_data()
        return {**found, "exemplar": True}


@attr.s
class XYChart(core.Panel):  # type: ignore[misc]  # grafanalib has no types
    """Points by two numbers: the panel ``xychart`` in the shape that Grafana reads since 11.1, which grafanalib lacks.

    Each query is a table of one number by label; those of one group are merged to rows. What has not all of its numbers must
    not come: Grafana draws a missing one at 0. Rows are found by the names of their fields in whichever table holds them
    (mapping ``auto``), because merged tables change places.
    """

    groups: tuple[Points, ...] = attr.ib(factory=tuple)
    unit: str = attr.ib(default="")
    low: float = attr.ib(default=0.0)
    high: float = attr.ib(default=1.0)
    empty: str = attr.ib(default="")
    ways: list[Json] = attr.ib(factory=list)

    def to_json_data(self) -> Json:
        """Grafana's form. Without a version of the plugin, Grafana takes the options for those of its older XY chart."""
        self.transformations = [*map(_merged, self.groups), _WITHOUT_TIME]
        found: Json = self.panel_json(
            {
                "type": "xychart",
                "pluginVersion": "11.1.0",
                "options": {
                    "mapping": "auto",
                    "series": [_series(group) for group in self.groups],
                    "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
                    "tooltip": {"mode": "single", "sort": "none"},
                },
                "fieldConfig": {
                    "defaults": {
                        "unit": self.unit,
                        "min": self.low,
                        "max": self.high,
                        "noValue": self.empty,
                        "links": self.ways,
                        "custom": {
                            "show": "points",
                            "pointShape": "circle",
                            "pointSize": {"fixed": 14},
                            "pointStrokeWidth": 1,
                            "fillOpacity": 70,
                            "axisPlacement": "auto",
                            "axisLabel": "",
                            "scaleDistribution": {"type": "linear"},
                            "hideFrom": {"tooltip": False, "viz": False, "legend": False},
                        },
                    },
                    "overrides": [override for group in self.groups for override in _fields(group)],
                },
            }
        )
        return found


_WITHOUT_TIME: Json = {
    "id": "organize",
    "options": {"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": {}},
}


def _field(ref: str) -> str:
    """How Grafana's Prometheus source names the number of a query among several tables."""
    return f"Value #{ref}"


def _merged(group: Points) -> Json:
    return {"id": "merge", "options": {}, "filter": {"id": "byRefId", "options": f"/^(?:{'|'.join(group.refs)})$/"}}


def _series(group: Points) -> Json:
    x, y = (_field(ref) for ref in group.refs[:2])
    return {
        "name": {"fixed": group.name},
        "x": {"matcher": {"id": "byName", "options": x}},
        "y": {"matcher": {"id": "byName", "options": y}},
    }


def _fields(group: Points) -> Iterator[Json]:
    look: list[Json] = [{"id": "color", "value": {"mode": "fixed", "fixedColor": group.color}}]
    if group.hollow:
        look += [
            {"id": "custom.pointShape", "value": "square"},
            {"id": "custom.fillOpacity", "value": 0},
            {"id": "custom.pointStrokeWidth", "value": 3},
        ]
    if group.line:
        look += [{"id": "custom.show", "value": "lines"}, {"id": "custom.lineWidth", "value": 1}]
    for at, (ref, name) in enumerate(zip(group.refs, group.columns, strict=True)):
        named: list[Json] = [{"id": "displayName", "value": name}]
        own = look if at == 1 else [{"id": "unit", "value": "none"}] if at > 1 else []
        yield {"matcher": {"id": "byName", "options": _field(ref)}, "properties": [*named, *own]}


@dataclass(frozen=True, slots=True)
class Threshold:
    """A step of a panel's thresholds: from ``value`` upwards it has ``color``; the lowest step has no value."""

    color: str
    value: float | None = None

    def to_json_data(self) -> Json:
        """Grafana's form; the lowest step's value is null there, and must be present."""
        return {"color": self.color, "value": self.value}


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable at the top of a board: a data source by its type, labels by a query, or the content of a text box."""

    name: str
    label: str
    description: str
    type: str
    query: str
    source: dict[str, str] | None = None

    def to_json_data(self) -> Json:
        """Grafana's form of one of the three kinds used here: ``datasource``, ``query`` and ``textbox``."""
        common = {"name": self.name, "label": self.label, "description": self.description, "type": self.type, "hide": 0}
        if self.type == "textbox":
            chosen = {"selected": True, "text": self.query, "value": self.query}
            return {**common, "query": self.query, "current": chosen, "options": [chosen]}
        if self.type == "datasource":
            return {**common, "query": self.query, "refresh": 1, "includeAll": False, "multi": False, "options": []}
        return {
            **common,
            "datasource": self.source,
            "query": {"query": self.query, "refId": self.name},
            "refresh": 2,  # on every change of the time range, so that a replica that has gone can still be chosen
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",  # also what lacks the label
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
            "options": [],
        }


def today(board: core.Dashboard) -> Json:
    """The board as plain data without what Grafana dropped since and without nulls (but a threshold's lowest value)."""
    data: Json = json.loads(json.dumps(board.to_json_data(), cls=DashboardEncoder))
    _drop(data, _GONE_FROM_BOARD)
    data["panels"] = [_panel(panel) for panel in data["panels"]]
    pruned: Json = _prune(data)
    return pruned


def _panel(data: Json) -> Json:
    if data["type"] == "row":
        return {key: data[key] for key in _ROW} | {"panels": [_panel(panel) for panel in data["panels"]]}
    _drop(data, _GONE_FROM_PANEL)
    for target in data["targets"]:
        _drop(target, _GONE_FROM_TARGET)
    return data


def _drop(data: Json, keys: tuple[str, ...]) -> None:
    for key in keys:
        data.pop(key, None)


def _prune(data: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(data, list):
        return [_prune(item) for item in data]
    if isinstance(data, dict):
        lowest = data.keys() == {"color", "value"}
        return {key: _prune(value) for key, value in data.items() if lowest or value is not None}
    return data
