"""The boards against the JSON Schemas of Grafana's own models, those of today, of Grafana 10 and of resources (`make schemas`)."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from llmvitals.dashboards import grafana10
from support.boards import DATA, older_boards, panels_of, raw_boards, resources

SCHEMAS = Path(__file__).resolve().parents[1] / "fixtures" / "grafana-schemas"
BOARDS = DATA | raw_boards()
OLDER = older_boards()
RESOURCES = resources()
PLAIN = ("stat", "bargauge", "text")
"""Kinds that have no settings of their own per field."""
OF_THE_PLUGIN = ("expr", "titleFormat", "textFormat", "tagKeys", "useValueForTime", "step")
"""An annotation's query belongs to its data source's plugin, whose fields the dashboard's own model does not list."""
NEW_SINCE_10 = {"stat": ("percentChangeColorMode",), "bargauge": ("legend",)}
"""Options that must be there today and that Grafana 10 does not know: it leaves aside what it does not know. That a change
in per cent is not shown, and no legend under bars, is what Grafana 10 does anyway."""

today = pytest.mark.parametrize("name", sorted(BOARDS))


@cache
def validator(name: str) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8")))


def problems(name: str, value: object) -> list[str]:
    return [f"{list(e.absolute_path)}: {e.message}" for e in validator(name).iter_errors(value)]


def of_the_board(board: dict, version: str = "") -> list[str]:
    """What is wrong with a board beside its panels' own options."""
    bare = copy.deepcopy(board)
    for annotation in bare["annotations"]["list"]:
        for key in OF_THE_PLUGIN:
            annotation.pop(key, None)
    found = problems(f"{version}dashboard.Dashboard", bare)
    for row in (p for p in board["panels"] if p["type"] == "row"):
        found += problems(f"{version}dashboard.RowPanel", row)
    return found


def of_the_panel(panel: dict, version: str = "", unknown: tuple[str, ...] = ()) -> list[str]:
    """What is wrong with a panel, its options and what it sets per field. ``unknown``: options that are left aside."""
    kind = panel["type"].replace("-", "")
    options = {key: value for key, value in panel["options"].items() if key not in unknown}
    found = problems(f"{version}dashboard.Panel", panel) + problems(f"{version}{kind}.Options", options)
    own = panel["fieldConfig"]["defaults"].get("custom", {})
    if kind in PLAIN:
        return found + ([f"it has no settings of its own: {own}"] if own else [])
    return found + problems(f"{version}{kind}.FieldConfig", own)


@today
def test_the_board_and_its_panels_are_what_grafana_reads(name):
    assert of_the_board(BOARDS[name]) == []
    assert {p["title"]: found for p in panels_of(BOARDS[name]) if (found := of_the_panel(p))} == {}


@today
def test_grafana_10_reads_the_board_or_another_is_made_for_it(name):
    place, _, file = name.rpartition("/")
    older = OLDER.get(f"{place}/{grafana10.FOLDER}/{file}")
    board = BOARDS[name] if older is None else older
    found = {
        p["title"]: wrong
        for p in panels_of(board)
        if (wrong := of_the_panel(p, "10/", NEW_SINCE_10.get(p["type"], ())))
    }
    assert of_the_board(board, "10/") == []
    assert found == {}
    if older is not None:
        assert any(of_the_panel(p, "10/", NEW_SINCE_10.get(p["type"], ())) for p in panels_of(BOARDS[name])), (
            "Grafana 10 reads today's as well"
        )


@pytest.mark.parametrize("name", sorted(RESOURCES))
def test_the_resource_is_what_grafana_13_keeps(name):
    resource = RESOURCES[name]
    assert resource.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert (resource["apiVersion"], resource["kind"]) == ("dashboard.grafana.app/v2", "Dashboard")
    assert problems("v2.Spec", resource["spec"]) == []
    panels = {key: element["spec"] for key, element in resource["spec"]["elements"].items()}
    wrong = {}
    for key, panel in panels.items():
        kind, spec = panel["vizConfig"]["group"].replace("-", ""), panel["vizConfig"]["spec"]
        found = problems(f"{kind}.Options", spec["options"])
        if kind not in PLAIN:
            found += problems(f"{kind}.FieldConfig", spec["fieldConfig"]["defaults"]["custom"])
        if found:
            wrong[key] = found
    assert wrong == {}


WRONG = {
    "an option of another panel": ("options", {"sortBy": "A"}),
    "no title of the legend's kind": ("options", {"legend": {"placement": "left"}}),
    "a width of Grafana 4": ("span", 4),
    "a unit that is no text": ("fieldConfig", {"defaults": {"unit": 1, "custom": {}}, "overrides": []}),
}


@pytest.mark.parametrize("kind", sorted({p["type"] for board in BOARDS.values() for p in panels_of(board)}))
@pytest.mark.parametrize("what", sorted(WRONG))
def test_the_schemas_refuse_a_wrong_panel(kind, what):
    panel = next(p for board in BOARDS.values() for p in panels_of(board) if p["type"] == kind)
    key, value = WRONG[what]
    wrong = {**panel, key: {**panel[key], **value} if isinstance(value, dict) else value}
    assert of_the_panel(panel) == []
    assert of_the_panel(wrong)


def test_the_schema_refuses_a_wrong_resource():
    spec = next(iter(RESOURCES.values()))["spec"]
    assert problems("v2.Spec", {**spec, "layout": {"kind": "RowsLayout", "spec": {"rows": [{"kind": "Row"}]}}})
    assert problems("v2.Spec", {**spec, "panels": []})
    element = copy.deepcopy(next(iter(spec["elements"].values())))
    del element["spec"]["vizConfig"]["version"]
    assert problems("v2.Spec", {**spec, "elements": {"panel-1": element}})
