"""Points by two numbers: the panel ``xychart``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llmvitals.dashboards.shapes.base import Json, attr, core
from llmvitals.dashboards.shapes.tables import NO_WORDS


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
class XYChart(core.Panel):  # type: ignore[misc]  # grafanalib has no types
    """Points by two numbers: the panel ``xychart`` in the shape that Grafana reads since 11.1, which grafanalib lacks.

    Each query is a table of one number by label; those of one group are merged to rows. What has not all of its numbers must
    not come: Grafana draws a missing one at 0. Rows are found by the names of their fields in whichever table holds them
    (mapping ``auto``), because merged tables change places. ``labels``: what every point has, and links go by.
    """

    groups: tuple[Points, ...] = attr.ib(factory=tuple)
    unit: str = attr.ib(default="")
    low: float = attr.ib(default=0.0)
    high: float = attr.ib(default=1.0)
    empty: str = attr.ib(default="")
    labels: tuple[str, ...] = attr.ib(factory=tuple)
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
                    "overrides": [
                        *(override for group in self.groups for override in _fields(group)),
                        *(
                            {"matcher": {"id": "byName", "options": name}, "properties": [NO_WORDS]}
                            for name in self.labels
                        ),
                    ],
                },
            }
        )
        return found


_WITHOUT_TIME: Json = {
    "id": "organize",
    "options": {"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": {}},
}


def field(ref: str) -> str:
    """How Grafana's Prometheus source names the number of a query among several tables."""
    return f"Value #{ref}"


def _merged(group: Points) -> Json:
    return {"id": "merge", "options": {}, "filter": {"id": "byRefId", "options": f"/^(?:{'|'.join(group.refs)})$/"}}


def _series(group: Points) -> Json:
    x, y = (field(ref) for ref in group.refs[:2])
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
        yield {"matcher": {"id": "byName", "options": field(ref)}, "properties": [*named, *own]}
