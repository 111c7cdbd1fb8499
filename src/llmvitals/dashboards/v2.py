"""The boards as resources, ``dashboard.grafana.app/v2``: what Grafana 13 keeps boards as, and ``kubectl`` or Git sync apply.

Made from the boards of today, so both hold the same queries and the same words. A row is a part of the layout here, not a panel;
panels are elements, which rows name. No row is hidden while it has no data: an empty panel says why it is empty, and a row that a
click opens is not asked for before. Source: ``@grafana/schema`` 13.2.3, ``dashboard/v2``.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.dashboards.shapes import Json
from llmvitals.dashboards.written import within

FOLDER = "v2"
API_VERSION = "dashboard.grafana.app/v2"

_OF_QUERY = "v0"
"""The version of a data query's own form; Grafana knows none but this."""

_CURSOR = ("Off", "Crosshair", "Tooltip")
_REFRESH = ("never", "onDashboardLoad", "onTimeRangeChanged")
_SORT = ("disabled", "alphabeticalAsc", "alphabeticalDesc")
_OF_A_LINK = ("title", "type", "icon", "tooltip", "url", "tags", "asDropdown", "targetBlank", "includeVars", "keepTime")
_NOT_OF_THE_QUERY = ("refId", "hide", "datasource")


def boards(today: Mapping[str, Json]) -> dict[str, Json]:
    """Every board of today as a resource, by its path in the project."""
    return {within(FOLDER, path): resource(data) for path, data in today.items()}


def resource(board: Json) -> Json:
    """One board of today as a resource. Its identity is its name."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Dashboard",
        "metadata": {"name": board["uid"]},
        "spec": {
            "title": board["title"],
            "description": board["description"],
            "tags": board["tags"],
            "cursorSync": _CURSOR[board["graphTooltip"]],
            "editable": board["editable"],
            "preload": False,
            "links": [{key: link[key] for key in _OF_A_LINK if key in link} for link in board["links"]],
            "annotations": [_annotation(one) for one in board["annotations"]["list"]],
            "variables": [_VARIABLE[one["type"]](one) for one in board["templating"]["list"]],
            "timeSettings": {
                "timezone": board["timezone"],
                "from": board["time"]["from"],
                "to": board["time"]["to"],
                "autoRefresh": board["refresh"],
                "autoRefreshIntervals": board["timepicker"]["refresh_intervals"],
                "hideTimepicker": False,
                "fiscalYearStartMonth": 0,
            },
            "elements": {_name(panel): _element(panel) for _, panels in _rows(board) for panel in panels},
            "layout": {"kind": "RowsLayout", "spec": {"rows": [_row(*row) for row in _rows(board)]}},
        },
    }


def _rows(board: Json) -> list[tuple[Json, list[Json]]]:
    """Each row's heading with its panels; panels above the first heading stand under an empty one."""
    found: list[tuple[Json, list[Json]]] = []
    for panel in board["panels"]:
        if panel["type"] == "row":
            found.append((panel, list(panel["panels"])))
            continue
        if not found:
            found.append(({}, []))
        found[-1][1].append(panel)
    return found


def _row(head: Json, panels: list[Json]) -> Json:
    top = min((panel["gridPos"]["y"] for panel in panels), default=0)
    named = {"title": head["title"], "collapse": head["collapsed"]} if head else {"collapse": False, "hideHeader": True}
    items = [_item(panel, top) for panel in panels]
    return {"kind": "RowsLayoutRow", "spec": {**named, "layout": {"kind": "GridLayout", "spec": {"items": items}}}}


def _item(panel: Json, top: int) -> Json:
    place = panel["gridPos"]
    return {
        "kind": "GridLayoutItem",
        "spec": {
            "x": place["x"],
            "y": place["y"] - top,
            "width": place["w"],
            "height": place["h"],
            "element": {"kind": "ElementReference", "name": _name(panel)},
        },
    }


def _name(panel: Json) -> str:
    return f"panel-{panel['id']}"


def _element(panel: Json) -> Json:
    """A panel. Without the version of its plugin, Grafana takes an XY chart's options for those of its older one."""
    described = {"description": panel["description"]} if "description" in panel else {}
    options = {"maxDataPoints": panel["maxDataPoints"]} if "maxDataPoints" in panel else {}
    return {
        "kind": "Panel",
        "spec": {
            "id": panel["id"],
            "title": panel["title"],
            **described,
            "links": [{key: link[key] for key in ("title", "url", "targetBlank")} for link in panel["links"]],
            "transparent": panel["transparent"],
            "data": {
                "kind": "QueryGroup",
                "spec": {
                    "queries": [_query(target) for target in panel["targets"]],
                    "transformations": [_transformation(one) for one in panel["transformations"]],
                    "queryOptions": options,
                },
            },
            "vizConfig": {
                "kind": "VizConfig",
                "group": panel["type"],
                "version": panel.get("pluginVersion", ""),
                "spec": {"options": panel["options"], "fieldConfig": panel["fieldConfig"]},
            },
        },
    }


def _query(target: Json) -> Json:
    own = {key: value for key, value in target.items() if key not in _NOT_OF_THE_QUERY}
    return {
        "kind": "PanelQuery",
        "spec": {
            "refId": target["refId"],
            "hidden": target["hide"],
            "query": _asked(target["datasource"], own),
        },
    }


def _asked(source: Json, spec: Json) -> Json:
    return {
        "kind": "DataQuery",
        "group": source["type"],
        "version": _OF_QUERY,
        "datasource": {"name": source["uid"]},
        "spec": spec,
    }


def _transformation(one: Json) -> Json:
    return {
        "kind": "Transformation",
        "group": one["id"],
        "spec": {key: value for key, value in one.items() if key != "id"},
    }


def _annotation(one: Json) -> Json:
    """Prometheus' plugin reads an annotation's query beside the query as well as in it."""
    own = {key: one[key] for key in one if key not in ("name", "datasource", "enable", "hide", "iconColor")}
    return {
        "kind": "AnnotationQuery",
        "spec": {
            "name": one["name"],
            "enable": one["enable"],
            "hide": one["hide"],
            "iconColor": one["iconColor"],
            "query": _asked(one["datasource"], {"expr": one["expr"], "refId": "Anno"}),
            "legacyOptions": own,
        },
    }


def _common(one: Json) -> Json:
    return {
        "name": one["name"],
        "label": one["label"],
        "description": one["description"],
        "hide": "dontHide",
        "skipUrlSync": False,
    }


def _datasource(one: Json) -> Json:
    return {
        "kind": "DatasourceVariable",
        "spec": {
            **_common(one),
            "pluginId": one["query"],
            "refresh": _REFRESH[one["refresh"]],
            "regex": "",
            "current": {"text": "", "value": ""},  # Grafana takes its default one
            "options": [],
            "multi": one["multi"],
            "includeAll": one["includeAll"],
            "allowCustomValue": False,
        },
    }


def _choice(one: Json) -> Json:
    return {
        "kind": "QueryVariable",
        "spec": {
            **_common(one),
            "query": _asked(one["datasource"], one["query"]),
            "definition": one["query"]["query"],
            "regex": "",
            "refresh": _REFRESH[one["refresh"]],
            "sort": _SORT[one["sort"]],
            "current": {key: one["current"][key] for key in ("text", "value")},
            "options": [],
            "multi": one["multi"],
            "includeAll": one["includeAll"],
            "allValue": one["allValue"],
            "allowCustomValue": True,
        },
    }


def _textbox(one: Json) -> Json:
    chosen = {key: one["current"][key] for key in ("text", "value")}
    return {"kind": "TextVariable", "spec": {**_common(one), "query": one["query"], "current": chosen}}


_VARIABLE = {"datasource": _datasource, "query": _choice, "textbox": _textbox}
