"""What all panels have: thresholds, queries with exemplars, variables, and the board as plain data of today."""

from __future__ import annotations

import json
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

__all__ = ("LINES", "STATES", "TILES", "Json", "Threshold", "Traced", "Variable", "attr", "core", "today")

Json = dict[str, Any]

_GONE_FROM_BOARD = ("__inputs", "gnetId", "hideControls", "id", "rows", "sharedCrosshair", "style")
_GONE_FROM_PANEL = ("editable", "error", "height", "minSpan", "span")
_GONE_FROM_TARGET = ("intervalFactor", "metric", "query", "step", "target")
_ROW = ("collapsed", "gridPos", "id", "panels", "title", "type")

# What became obligatory after grafanalib's last release, by panel type.
LINES: Json = {"legend": {"showLegend": True}}
TILES: Json = {"wideLayout": False, "showPercentChange": False, "percentChangeColorMode": "standard"}
STATES: Json = {"legend": {"showLegend": False, "calcs": []}, "tooltip": {"sort": "none"}}


@attr.s
class Traced(core.Target):  # type: ignore[misc]  # grafanalib has no types
    """A query with its exemplars, which grafanalib's lacks."""

    def to_json_data(self) -> Json:
        """Grafana's form."""
        found: Json = super().to_json_data()
        return {**found, "exemplar": True}


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
    """A variable at the top of a board: a data source by its type, labels by a query, or the content of a text box.

    ``every``: what stands for all of a query's values, which by default also takes what lacks the label; '' for these alone.
    """

    name: str
    label: str
    description: str
    type: str
    query: str
    source: dict[str, str] | None = None
    every: str = ".*"

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
            **({"allValue": self.every} if self.every else {}),
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
