"""The boards against the JSON Schemas of Grafana's own dashboard and panel models (`make schemas`)."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from llmvitals.dashboards import grafana

SCHEMAS = Path(__file__).resolve().parents[1] / "fixtures" / "grafana-schemas"
BOARDS = {name: json.loads(text) for name, text in grafana.files().items()}
PANELS = [panel for board in BOARDS.values() for row in board["panels"] for panel in (row, *row.get("panels", []))]
# An annotation's query belongs to its data source's plugin, whose fields the dashboard's own model does not list.
OF_THE_PLUGIN = ("expr", "titleFormat")


def problems(name: str, value: object) -> list[str]:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return [f"{list(e.absolute_path)}: {e.message}" for e in jsonschema.Draft7Validator(schema).iter_errors(value)]


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_the_board_is_what_grafana_reads(name):
    board = json.loads(json.dumps(BOARDS[name]))
    for annotation in board["annotations"]["list"]:
        for key in OF_THE_PLUGIN:
            del annotation[key]
    assert problems("dashboard.Dashboard", board) == []


@pytest.mark.parametrize("panel", PANELS, ids=[p["title"] for p in PANELS])
def test_the_panel_is_what_grafana_reads(panel):
    if panel["type"] == "row":
        assert problems("dashboard.RowPanel", panel) == []
        return
    kind = panel["type"].replace("-", "")
    assert problems("dashboard.Panel", panel) == []
    assert problems(f"{kind}.Options", panel["options"]) == []
    own = panel["fieldConfig"]["defaults"]["custom"]
    if kind == "stat":  # it has no settings of its own per field
        assert own == {}
    else:
        assert problems(f"{kind}.FieldConfig", own) == []


def test_the_schemas_refuse_a_wrong_panel():
    panel = next(p for p in PANELS if p["type"] == "timeseries")
    assert problems("dashboard.Panel", {**panel, "span": 4})
    assert problems("timeseries.Options", {**panel["options"], "legend": {"placement": "left"}})
