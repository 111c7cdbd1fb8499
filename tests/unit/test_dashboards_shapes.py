"""Each kind of panel by itself: what Grafana is told, from panels made here."""

from __future__ import annotations

from dataclasses import replace

import pytest
from grafanalib import core

from llmvitals.dashboards import draw
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    INSTANCE,
    ORANGE,
    VERMILLION,
    Kind,
    Leads,
    Limit,
    Panel,
    Query,
    cell,
    heat,
    q,
)
from llmvitals.dashboards.shapes import today
from llmvitals.dashboards.targets import ref
from llmvitals.settings import Settings, Slo

PLACE = core.GridPos(h=8, w=8, x=0, y=0)


def drawn(panel: Panel, settings: Settings | None = None) -> dict:
    board = core.Dashboard(title="one", panels=[draw.panel(panel, 1, PLACE, settings or Settings())])
    return today(board)["panels"][0]


def overrides(panel: dict) -> dict[str, dict]:
    found = panel["fieldConfig"]["overrides"]
    return {one["matcher"]["options"]: {p["id"]: p["value"] for p in one["properties"]} for one in found}


TABLE = Panel(
    Kind.TABLE,
    "Services",
    "none",
    (
        cell("First token", "s", signal="ttft_p95_seconds", limits=(Limit("slo.ttft_seconds"),)),
        cell(
            "State",
            "none",
            promql=f"min by (instance, zone) (llm_target_up{{{INSTANCE}}})",
            by=("instance", "zone"),
            names=((1, "answers", GREEN), (0, "does not answer", VERMILLION)),
        ),
    ),
    "A line for each.",
    "no traffic",
    leads=Leads.SERVICE,
    worst="First token",
)


def test_a_table_merges_its_queries_and_names_labels_before_numbers():
    panel = drawn(TABLE)
    assert [(t["format"], t["instant"]) for t in panel["targets"]] == [("table", True)] * 2
    merge, organize = panel["transformations"]
    assert merge["id"] == "merge"
    options = organize["options"]
    assert options["excludeByName"] == {"Time": True}
    in_order = sorted(options["indexByName"], key=options["indexByName"].get)
    assert [options["renameByName"][name] for name in in_order] == [
        "Cluster",
        "Namespace",
        "Replica",
        "Model",
        "Zone",
        "First token",
        "State",
    ]
    assert in_order[-2:] == ["Value #A", "Value #B"]


def test_a_table_of_one_query_finds_its_number_by_the_name_that_grafana_gives_a_lone_one():
    panel = drawn(replace(TABLE, queries=TABLE.queries[:1]))
    assert "Value" in panel["transformations"][1]["options"]["renameByName"]


def test_cells_have_the_colours_of_the_limits_and_words_for_values():
    looks = overrides(drawn(TABLE, Settings(slo=Slo(ttft_seconds=0.7))))
    assert looks["First token"]["unit"] == "s"
    assert looks["First token"]["thresholds"]["steps"] == [
        {"color": "transparent", "value": None},
        {"color": VERMILLION, "value": 0.7},
    ]
    assert looks["First token"]["custom.cellOptions"]["type"] == "color-background"
    said = looks["State"]["mappings"][0]["options"]
    assert {value: (one["text"], one["color"]) for value, one in said.items()} == {
        "1": ("answers", GREEN),
        "0": ("does not answer", VERMILLION),
    }


def test_a_missing_number_is_a_dash_and_only_an_empty_table_says_why():
    panel = drawn(TABLE)
    assert panel["fieldConfig"]["defaults"]["noValue"] == "no traffic"
    looks = overrides(panel)
    assert {name: looks.pop(name)["noValue"] for name in ("First token", "State")} == {"First token": "–", "State": "–"}
    assert {name: look["noValue"] for name, look in looks.items()} == dict.fromkeys(
        ("Cluster", "Namespace", "Replica", "Model", "Zone"), ""
    ), "links get the words of a cell: a series without a cluster is chosen by none"


@pytest.mark.parametrize(
    ("worst", "sorted_by"),
    [
        ("First token", [{"displayName": "First token", "desc": True}]),
        ("-First token", [{"displayName": "First token", "desc": False}]),
        ("", []),
    ],
)
def test_a_table_is_sorted_worst_first(worst, sorted_by):
    assert drawn(replace(TABLE, worst=worst))["options"]["sortBy"] == sorted_by


def test_a_row_of_a_table_leads_to_its_service_by_its_fields():
    looks = overrides(drawn(TABLE))
    linked = {name for name, look in looks.items() if "links" in look}
    assert linked == {"Replica", "Model"}
    (link,) = looks["Replica"]["links"]
    assert link["url"] == (
        "/d/llmvitals-serving?${datasource:queryparam}"
        "&var-cluster=${__data.fields.cluster}&var-namespace=${__data.fields.namespace}"
        "&var-model=${__data.fields.model}&var-instance=${__data.fields.instance}&${__url_time_range}"
    )
    assert link["targetBlank"] is False


HEAT = Panel(Kind.HEATMAP, "First tokens", "s", (heat("llm_ttft_seconds", "s"),), "Each.", "no traffic")


def test_a_heatmap_asks_for_buckets_by_their_edge_and_shows_no_zeros():
    panel = drawn(HEAT)
    (target,) = panel["targets"]
    assert (target["format"], target["legendFormat"], target["instant"]) == ("heatmap", "{{le}}", False)
    options = panel["options"]
    assert options["calculate"] is False
    assert 0 < options["filterValues"]["le"] < 1, "of counts, only 0 is left out"
    assert options["yAxis"]["unit"] == "s"
    assert (options["color"]["mode"], options["color"]["scheme"]) == ("scheme", "Cividis")
    assert panel["fieldConfig"]["defaults"]["noValue"] == "no traffic"


BARS = Panel(Kind.BARS, "Waits", "s", (q("ttft_p95_seconds", "", ORANGE),), "Each.", "no traffic", leads=Leads.SERVICE)


def test_bars_lie_worst_first_as_it_is_now_and_lead_on():
    panel = drawn(BARS)
    (target,) = panel["targets"]
    assert target["instant"] is True
    assert target["expr"].startswith("sort_desc(")
    assert target["legendFormat"] == "{{instance}} {{model}}"
    assert panel["options"]["orientation"] == "horizontal"
    assert panel["fieldConfig"]["defaults"]["min"] == 0
    assert "var-model=${__field.labels.model}" in panel["fieldConfig"]["defaults"]["links"][0]["url"]
    assert overrides(panel)["A"]["color"] == {"mode": "fixed", "fixedColor": ORANGE}


def test_bars_with_limits_have_the_colour_of_the_limit_that_they_pass():
    panel = drawn(replace(BARS, limits=(Limit("slo.ttft_seconds"),)))
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["color"] == {"mode": "thresholds"}
    assert [step["color"] for step in defaults["thresholds"]["steps"]] == [ORANGE, VERMILLION]
    assert "A" not in overrides(panel), "a colour of its own would hide it"


def test_words_alone_ask_nothing_and_stand_there_once():
    panel = drawn(
        Panel(Kind.TEXT, "Read me", "", (), "Within {slo.ttft_seconds:g} s.", ""), Settings(slo=Slo(ttft_seconds=0.7))
    )
    assert panel["options"] == {"content": "Within 0.7 s.", "mode": "markdown"}
    assert panel["targets"] == []
    assert "description" not in panel


@pytest.mark.parametrize(("bottom", "low"), [(0.0, 0), (-1.5, -1.5), (None, None)])
def test_the_axis_begins_where_it_is_said_or_follows_the_data(bottom, low):
    panel = drawn(Panel(Kind.LINES, "Lag", "s", (q("ttft_p95_seconds", "lag", BLUE),), "x", "no", bottom=bottom))
    assert panel["fieldConfig"]["defaults"].get("min") == low


def test_queries_are_called_a_to_z_and_then_on():
    names = [ref(at) for at in range(60)]
    assert names[:2] + names[25:28] + [names[52]] == ["A", "B", "Z", "AA", "AB", "BA"]
    assert len(set(names)) == 60
    many = tuple(
        Query(str(n), BLUE, promql=f"max by (instance) (up{{{INSTANCE}}}) * {n}", by=("instance",)) for n in range(30)
    )
    assert len(drawn(Panel(Kind.LINES, "Many", "s", many, "x", "no"))["targets"]) == 30


def test_a_link_has_no_label_that_a_value_may_lack():
    queries = (q("ttft_p95_seconds", "a", BLUE), Query("b", ORANGE, promql="max by (instance) (up)", by=("instance",)))
    panel = drawn(Panel(Kind.LINES, "Both", "s", queries, "x", "no", leads=Leads.APP))
    (link,) = panel["fieldConfig"]["defaults"]["links"]
    assert "instance=${__field.labels.instance}" in link["url"]
    assert "model" not in link["url"]
