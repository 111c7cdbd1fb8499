"""The boards as Grafana 10 and 11.0 read them, for those boards that differ there.

Of all that is drawn, only the XY chart has another shape before 11.1: each group says in its own settings which numbers are x
and y, and how its points look; points have no shape and no filling. What Grafana 10 does not know otherwise (names of bars
beside them, the sort of some tooltips) it leaves out. Sources: ``@grafana/schema`` 10.4.19 and 11.1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmvitals.dashboards.shapes import Json
from llmvitals.dashboards.written import within

FOLDER = "grafana-10"

_SCHEMA_VERSION = 38
_WHY = (
    " This file is for Grafana 10 and 11.0, whose XY chart is described in another way than that of later ones; there all points"
    " are filled circles, and only their colours and names tell them apart."
)
_NO_SUCH_LOOK = ("custom.pointShape", "custom.pointStrokeWidth", "custom.fillOpacity")
_OF_ALL_POINTS = ("pointShape", "pointStrokeWidth", "fillOpacity")
_SIZE = {"min": 1, "max": 100}
"""Between which sizes a point's would follow a number: must be there, though all points have one size."""


def boards(today: Mapping[str, Json]) -> dict[str, Json]:
    """Of the boards of today those that differ in Grafana 10, as it reads them, by their paths in the project."""
    return {within(FOLDER, path): _older(data) for path, data in today.items() if any(map(_differs, _panels(data)))}


def _panels(data: Json) -> list[Json]:
    return [panel for row in data["panels"] for panel in (row, *row.get("panels", []))]


def _differs(panel: Json) -> bool:
    return bool(panel["type"] == "xychart")


def _older(data: Json) -> Json:
    panels = [_panel(panel) for panel in data["panels"]]
    return data | {
        "description": data["description"] + _WHY,
        "schemaVersion": _SCHEMA_VERSION,
        "panels": panels,
    }


def _panel(panel: Json) -> Json:
    if panel["type"] == "row":
        return panel | {"panels": [_panel(inside) for inside in panel["panels"]]}
    return _xychart(panel) if _differs(panel) else panel


def _xychart(panel: Json) -> Json:
    config = panel["fieldConfig"]
    looks = {override["matcher"]["options"]: _properties(override) for override in config["overrides"]}
    custom = config["defaults"]["custom"]
    options = panel["options"]
    return {key: value for key, value in panel.items() if key != "pluginVersion"} | {
        "options": {
            "seriesMapping": "manual",
            "dims": {"frame": 0},
            "series": [_series(series, looks, custom) for series in options["series"]],
            "legend": options["legend"],
            "tooltip": options["tooltip"],
        },
        "fieldConfig": {
            "defaults": config["defaults"]
            | {
                "custom": {key: value for key, value in custom.items() if key not in _OF_ALL_POINTS}
                | {"pointSize": _SIZE | custom["pointSize"]}
            },
            "overrides": [_override(override) for override in config["overrides"]],
        },
    }


def _properties(override: Json) -> dict[str, Any]:
    return {one["id"]: one["value"] for one in override["properties"]}


def _series(series: Json, looks: dict[str, dict[str, Any]], custom: Json) -> Json:
    """A group: the names of its numbers, and the look that its y has."""
    x, y = (series[axis]["matcher"]["options"] for axis in "xy")
    look = looks[y]
    color = {"fixed": look["color"]["fixedColor"]}
    return {
        "name": series["name"]["fixed"],
        "x": x,
        "y": y,
        "show": look.get("custom.show", custom["show"]),
        "pointSize": _SIZE | custom["pointSize"],
        "pointColor": color,
        "lineColor": color,
        "lineWidth": look.get("custom.lineWidth", 1),
    }


def _override(override: Json) -> Json:
    return override | {"properties": [one for one in override["properties"] if one["id"] not in _NO_SUCH_LOOK]}
