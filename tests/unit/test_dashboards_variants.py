"""The same boards for other Grafanas: what must not be lost or changed on the way."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmvitals.dashboards import grafana, v2
from llmvitals.settings import Settings, Slo
from support.boards import DATA, older_boards, panels_of, resources

OLDER = older_boards()
RESOURCES = resources()


def beside(name: str, folder: str) -> str:
    place = PurePosixPath(name)
    return str(place.parent / folder / place.name)


def said(panel: dict) -> dict:
    """What a classic panel holds: queries, words, unit, limits, links."""
    defaults = panel["fieldConfig"]["defaults"]
    return {
        "title": panel["title"],
        "description": panel.get("description"),
        "type": panel["type"],
        "queries": [(t["refId"], t["expr"], t["legendFormat"], t["instant"], t["format"]) for t in panel["targets"]],
        "unit": defaults.get("unit"),
        "empty": defaults.get("noValue"),
        "limits": defaults["thresholds"],
        "of values": defaults.get("links", []),
        "links": [(link["title"], link["url"]) for link in panel["links"]],
        "changed on the way": [t["id"] for t in panel["transformations"]],
        "points": panel.get("maxDataPoints"),
    }


def said_by_element(element: dict) -> dict:
    spec = element["spec"]
    data, viz = spec["data"]["spec"], spec["vizConfig"]
    defaults = viz["spec"]["fieldConfig"]["defaults"]
    queries = [(q["spec"]["refId"], q["spec"]["query"]["spec"]) for q in data["queries"]]
    return {
        "title": spec["title"],
        "description": spec.get("description"),
        "type": viz["group"],
        "queries": [(ref, q["expr"], q["legendFormat"], q["instant"], q["format"]) for ref, q in queries],
        "unit": defaults.get("unit"),
        "empty": defaults.get("noValue"),
        "limits": defaults["thresholds"],
        "of values": defaults.get("links", []),
        "links": [(link["title"], link["url"]) for link in spec["links"]],
        "changed on the way": [t["group"] for t in data["transformations"]],
        "points": data["queryOptions"].get("maxDataPoints"),
    }


def test_every_board_is_a_resource_too():
    assert set(RESOURCES) == {beside(name, "v2") for name in DATA}


@pytest.mark.parametrize("name", sorted(DATA))
def test_a_resource_holds_what_the_board_holds(name):
    board, resource = DATA[name], RESOURCES[beside(name, "v2")]
    spec = resource["spec"]
    assert resource["metadata"] == {"name": board["uid"]}
    assert (spec["title"], spec["description"], spec["tags"]) == (board["title"], board["description"], board["tags"])
    found = {element["spec"]["id"]: said_by_element(element) for element in spec["elements"].values()}
    assert found == {panel["id"]: said(panel) for panel in panels_of(board)}
    assert [v["spec"]["name"] for v in spec["variables"]] == [v["name"] for v in board["templating"]["list"]]
    asked = [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]
    assert [v["spec"]["query"]["spec"]["query"] for v in spec["variables"] if v["kind"] == "QueryVariable"] == asked
    marks = [(a["spec"]["name"], a["spec"]["query"]["spec"]["expr"], a["spec"]["enable"]) for a in spec["annotations"]]
    assert marks == [(a["name"], a["expr"], a["enable"]) for a in board["annotations"]["list"]]
    assert [(link["title"], link.get("url")) for link in spec["links"]] == [
        (link["title"], link.get("url")) for link in board["links"]
    ]


@pytest.mark.parametrize("name", sorted(DATA))
def test_each_element_lies_once_in_the_row_and_the_place_of_its_panel(name):
    board, spec = DATA[name], RESOURCES[beside(name, "v2")]["spec"]
    rows = [row["spec"] for row in spec["layout"]["spec"]["rows"]]
    heads = [p for p in board["panels"] if p["type"] == "row"]
    titled = [row for row in rows if "title" in row]
    assert [(row["title"], row["collapse"]) for row in titled] == [(h["title"], h["collapsed"]) for h in heads]
    assert [row.get("hideHeader", False) for row in rows] == ["title" not in row for row in rows]
    items = [item["spec"] for row in rows for item in row["layout"]["spec"]["items"]]
    named = [item["element"]["name"] for item in items]
    assert sorted(named) == sorted(spec["elements"])
    wide = {f"panel-{p['id']}": (p["gridPos"]["x"], p["gridPos"]["w"], p["gridPos"]["h"]) for p in panels_of(board)}
    assert {i["element"]["name"]: (i["x"], i["width"], i["height"]) for i in items} == wide
    for row in rows:
        assert min((item["spec"]["y"] for item in row["layout"]["spec"]["items"]), default=0) == 0


def test_an_xy_chart_says_its_version_and_nothing_is_hidden_for_lack_of_data():
    text = json.dumps(RESOURCES)
    kinds = {
        (e["spec"]["vizConfig"]["group"], e["spec"]["vizConfig"]["version"])
        for resource in RESOURCES.values()
        for e in resource["spec"]["elements"].values()
    }
    assert ("xychart", "11.1.0") in kinds
    assert ("xychart", "") not in kinds, "Grafana would take its options for those of the older chart"
    assert "conditionalRendering" not in text


@settings(deadline=None, max_examples=5)
@given(seconds=st.floats(0.05, 30).map(lambda n: round(n, 3)))
def test_limits_of_a_resource_follow_the_settings(seconds):
    chosen = Settings(slo=Slo(ttft_seconds=seconds))
    drawn = grafana.boards(chosen).values()
    held = [said_by_element(e) for board in drawn for e in v2.resource(board)["spec"]["elements"].values()]
    assert held == [said(panel) for board in drawn for panel in panels_of(board)]
    assert any({"color": "#D55E00", "value": seconds} in one["limits"]["steps"] for one in held)


def test_only_boards_that_differ_are_made_for_grafana_10():
    differ = {name for name, board in DATA.items() if any(p["type"] == "xychart" for p in panels_of(board))}
    assert differ
    assert set(OLDER) == {beside(name, "grafana-10") for name in differ}


@pytest.mark.parametrize("name", sorted(OLDER))
def test_a_board_of_grafana_10_is_todays_but_for_the_xy_chart(name):
    place = PurePosixPath(name)
    board, older = DATA[str(place.parent.parent / place.name)], OLDER[name]
    assert older["uid"] == board["uid"], "links between boards go by it"
    assert older["description"].startswith(board["description"])
    assert "Grafana 10" in older["description"]
    assert older["schemaVersion"] == 38
    for now, then in zip(panels_of(board), panels_of(older), strict=True):
        if now["type"] != "xychart":
            assert now == then
            continue
        assert said(now) == said(then)
        assert "pluginVersion" not in then
        for new, old in zip(now["options"]["series"], then["options"]["series"], strict=True):
            assert [new[axis]["matcher"]["options"] for axis in "xy"] == [old["x"], old["y"]]
            assert new["name"]["fixed"] == old["name"]
        lines = [s["name"] for s in then["options"]["series"] if s["show"] == "lines"]
        assert [name for name in lines if name.startswith("Limits: ")] == lines != []
        colors = [s["pointColor"]["fixed"] for s in then["options"]["series"] if s["show"] == "points"]
        assert len(set(colors)) == len(colors), "nothing else tells points apart there"
