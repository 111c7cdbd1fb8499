"""The boards by themselves: what a person and Grafana need of every panel, without Grafana or Prometheus."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from llmvitals.dashboards import grafana
from llmvitals.dashboards.layout import BOARDS, Kind, Panel
from llmvitals.schema import SCOPE, family_of
from llmvitals.settings import Alerts, Settings, Slo, Thresholds
from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.checks import BY_CAUSE

ROOT = Path(__file__).resolve().parents[2]
TRIAGE = {"llm_triage_verdict", "llm_triage_leading", "llm_triage_check_state"}
OF_THE_TARGET = ("llm_target_", "llm_gpu_")  # they name no model
TYPES = {"timeseries", "stat", "state-timeline"}
MAX_OPEN = 25
SERVING = "dashboards/llm-serving.json"

FILES = grafana.files()
DATA = {name: json.loads(text) for name, text in FILES.items()}
DRAWN = [(name, panel) for name, board in DATA.items() for panel in board["panels"] if panel["type"] != "row"]
LAID = [panel for board in BOARDS for row in board.rows for panel in row.panels]
drawn = pytest.mark.parametrize("panel", [p for _, p in DRAWN], ids=[p["title"] for _, p in DRAWN])


def of(title: str) -> dict:
    return next(p for _, p in DRAWN if p["title"] == title)


def laid(title: str) -> Panel:
    return next(p for p in LAID if p.title == title)


def walk(value: object, path: tuple = ()):
    yield path, value
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from walk(part, (*path, key))


def metrics(expr: str) -> set[str]:
    """The names of the series a query reads."""
    return set(re.findall(r"\bllm_\w+", expr))


@pytest.mark.parametrize("name", sorted(FILES))
def test_same_settings_give_the_same_sorted_bytes(name):
    assert grafana.files()[name] == FILES[name]
    assert json.dumps(DATA[name], indent=2, sort_keys=True) + "\n" == FILES[name]


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_committed_board_is_the_generated_one(name):
    assert (ROOT / name).read_text(encoding="utf-8") == FILES[name], "run: llmvitals generate"


@pytest.mark.parametrize("board", DATA.values(), ids=DATA)
def test_ids_are_unique_and_panels_do_not_overlap(board):
    ids = [p["id"] for p in board["panels"]]
    assert len(ids) == len(set(ids))
    cells: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert cells.setdefault((x, y), panel["title"]) == panel["title"]


@pytest.mark.parametrize("board", DATA.values(), ids=DATA)
def test_nothing_is_null_but_the_lowest_threshold(board):
    nulls = [path for path, value in walk(board) if value is None]
    assert nulls
    assert all(path[-4:] == ("thresholds", "steps", 0, "value") for path in nulls)


@pytest.mark.parametrize("board", DATA.values(), ids=DATA)
def test_at_most_25_panels_are_open_and_every_row_is(board):
    assert sum(p["type"] != "row" for p in board["panels"]) <= MAX_OPEN
    assert not any(p["collapsed"] or p["panels"] for p in board["panels"] if p["type"] == "row")


def test_the_verdict_and_the_two_separations_stand_above_the_three_layers():
    panels = DATA[SERVING]["panels"]
    rows = [p["title"] for p in panels if p["type"] == "row"]
    assert rows == ["User experience", "Queue and admission", "Engine and hardware"]
    first_row = min(p["gridPos"]["y"] for p in panels if p["type"] == "row")
    top = [p["title"] for p in panels if p["gridPos"]["y"] < first_row]
    assert top[0] == "Verdict"
    assert top[-2:] == [
        "Where the time goes: queue, prefill, decode, front end",
        "What binds: KV cache next to GPU compute",
    ]
    left, right = (of(title)["gridPos"] for title in top[-2:])
    assert (left["y"], left["h"], left["w"] + right["w"]) == (right["y"], right["h"], 24)


def test_time_is_stacked_over_the_whole_selection_so_that_the_bands_add_up():
    panel = of("Where the time goes: queue, prefill, decode, front end")
    assert panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    assert [t["legendFormat"] for t in panel["targets"]] == ["queue", "prefill", "decode", "front end"]
    for target in panel["targets"]:
        assert "by ()" in target["expr"]
        assert "by (instance" not in target["expr"]


def test_kv_and_the_three_gpu_activities_share_one_axis_with_their_lines():
    panel = of("What binds: KV cache next to GPU compute")
    defaults = panel["fieldConfig"]["defaults"]
    assert (defaults["min"], defaults["max"], defaults["unit"]) == (0, 1, "percentunit")
    read = set().union(*(metrics(t["expr"]) for t in panel["targets"]))
    assert {
        "llm_kv_usage_ratio",
        "llm_gpu_sm_active_ratio",
        "llm_gpu_tensor_active_ratio",
        "llm_gpu_dram_active_ratio",
    } <= read
    assert [s["value"] for s in defaults["thresholds"]["steps"]] == [None, 0.60, 0.90, 0.95]
    assert not any(p["id"] == "unit" for o in panel["fieldConfig"]["overrides"] for p in o["properties"])


@drawn
def test_every_panel_has_a_unit_a_description_and_words_for_no_data(panel):
    defaults = panel["fieldConfig"]["defaults"]
    assert panel["type"] in TYPES
    assert defaults["unit"]
    assert len(defaults["noValue"].split()) >= 2
    assert len(panel["description"].split()) >= 15
    assert "{" not in panel["description"], "a setting was not filled in"
    assert panel["title"]


@drawn
def test_every_target_asks_the_chosen_data_source_for_the_chosen_scope(panel):
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    refs = [t["refId"] for t in panel["targets"]]
    assert refs == sorted(set(refs))
    for target in panel["targets"]:
        assert target["datasource"] == panel["datasource"]
        selectors = re.findall(r"\bllm_\w+(\{[^}]*\})?", target["expr"])
        assert selectors
        assert all('instance=~"$instance"' in s for s in selectors)
        if not all(name.startswith(OF_THE_TARGET) for name in metrics(target["expr"])):
            assert all('model=~"$model"' in s for s in selectors)
        windows = re.findall(r"\[([^\]]*)\]", target["expr"])
        assert set(windows) <= {"$__rate_interval", "$__range"}


@drawn
def test_every_series_is_canonical_or_a_gauge_of_the_exporter(panel):
    for target in panel["targets"]:
        for name in metrics(target["expr"]):
            derived = BY_ID.get(name.removeprefix("llm_"))
            gauge = derived is not None and derived.expr is None
            assert family_of(name) or gauge or name in TRIAGE, name


@pytest.mark.parametrize("panel", LAID, ids=[p.title for p in LAID])
def test_every_runbook_that_a_panel_links_to_exists(panel):
    assert set(panel.causes) <= BY_CAUSE.keys()
    links = [link["url"] for link in of(panel.title)["links"][1:]]
    assert links == [f"${{runbook_url}}/{cause}.md" for cause in panel.causes]
    missing = [cause for cause in panel.causes if not (ROOT / "runbooks" / f"{cause}.md").is_file()]
    assert not missing


@drawn
def test_every_panel_leads_to_the_triage_app(panel):
    assert panel["links"][0]["url"] == "${app_url}"
    assert all(link["targetBlank"] for link in panel["links"])


@pytest.mark.parametrize("panel", LAID, ids=[p.title for p in LAID])
def test_the_legend_shows_the_labels_that_the_query_keeps(panel):
    for query, target in zip(panel.queries, of(panel.title)["targets"], strict=True):
        shown = tuple(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        kept = re.search(r"by \(([^)]*)\)", target["expr"])
        assert kept is not None
        assert set(shown) == set(filter(None, kept[1].split(", "))) - {"le"}
        assert bool(query.signal) != bool(query.promql)


@pytest.mark.parametrize("panel", LAID, ids=[p.title for p in LAID])
def test_queries_of_a_panel_differ_by_hue_or_dash(panel):
    assert all((a.color, a.dashed) != (b.color, b.dashed) for a, b in combinations(panel.queries, 2) if not a.names)


@pytest.mark.parametrize("panel", [p for p in LAID if p.limits], ids=lambda p: p.title)
def test_limits_are_drawn_from_the_settings_and_said_in_the_description(panel):
    strict = Settings(
        slo=Slo(ttft_seconds=0.75, tpot_seconds=0.033, objective=0.97),
        thresholds=Thresholds(kv_lines=(0.81, 0.89), gpu_active=0.55, preemptions_per_minute=7, error_ratio=0.11),
    )
    defaults, changed = grafana.limits(panel, Settings()), grafana.limits(panel, strict)
    assert not {value for value, _ in defaults} & {value for value, _ in changed}
    board = json.loads(grafana.files(strict)[SERVING])
    drawn_panel = next(p for p in board["panels"] if p["title"] == panel.title)
    steps = drawn_panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(s["value"], s["color"]) for s in steps[1:]] == list(changed)
    assert drawn_panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] == "dashed"
    assert all(f"{value:g}" in drawn_panel["description"] for value, _ in changed)


@pytest.mark.parametrize("panel", [p for p in LAID if any(q.unit for q in p.queries)], ids=lambda p: p.title)
def test_a_query_in_another_unit_has_its_own_axis_without_the_panels_line(panel):
    overrides = {o["matcher"]["options"]: o["properties"] for o in of(panel.title)["fieldConfig"]["overrides"]}
    assert panel.top is None or all(not q.unit for q in panel.queries), "the panel's maximum would cut it off"
    for query, target in zip(panel.queries, of(panel.title)["targets"], strict=True):
        properties = {p["id"]: p["value"] for p in overrides[target["refId"]]}
        assert ("unit" in properties) == bool(query.unit)
        if query.unit:
            assert properties["custom.axisPlacement"] == "right"
            assert properties["custom.thresholdsStyle"] == {"mode": "off"}


@pytest.mark.parametrize("board", DATA.values(), ids=DATA)
def test_variables_chain_from_data_source_to_instance_to_model(board):
    variables = {v["name"]: v for v in board["templating"]["list"]}
    assert list(variables) == ["datasource", "instance", "model", "app_url", "runbook_url"]
    assert variables["datasource"]["type"] == "datasource"
    for name in ("instance", "model"):
        assert variables[name]["datasource"]["uid"] == "${datasource}"
        query = variables[name]["query"]["query"]
        assert re.fullmatch(rf"label_values\(.+, {name}\)", query)
        assert all(family_of(m) for m in metrics(query))
    assert "$instance" in variables["model"]["query"]["query"]
    assert not any("repeat" in panel for panel in board["panels"])
    used = set(re.findall(r"\$\{?([a-z][a-z_]*)", FILES[SERVING])) - {"__"}
    assert used == set(variables)


@pytest.mark.parametrize("board", DATA.values(), ids=DATA)
def test_a_board_can_be_provisioned(board):
    assert board["uid"] == "llmvitals-serving"
    assert not {"__inputs", "id"} & board.keys()
    assert 39 <= board["schemaVersion"] <= 41
    assert board["time"]["to"] == "now"


def test_the_runbooks_lie_where_the_settings_say():
    elsewhere = Settings(alerts=Alerts(runbook_base="https://wiki.example.org/books/"))
    variables = json.loads(grafana.files(elsewhere)[SERVING])["templating"]["list"]
    assert next(v["query"] for v in variables if v["name"] == "runbook_url") == "https://wiki.example.org/books"


def test_a_click_on_a_value_uses_labels_that_the_value_has():
    leading = [(p, link) for _, p in DRAWN for link in p["fieldConfig"]["defaults"].get("links", [])]
    assert [p["title"] for p, _ in leading] == ["Verdict", "Leading cause and its confidence"]
    for panel, link in leading:
        labels = set(re.findall(r"__field\.labels\.(\w+)", link["url"]))
        assert labels
        assert all(f"{{{{{label}}}}}" in t["legendFormat"] for t in panel["targets"] for label in labels)


def test_signals_that_no_algebra_says_are_read_from_the_exporters_gauge():
    derived = [q for p in LAID for q in p.queries if q.signal and BY_ID[q.signal].expr is None]
    assert derived
    for query in derived:
        assert f"(llm_{query.signal}{{" in grafana.promql(query)
        assert query.by in (SCOPE, ())


def test_a_state_has_words_for_every_value_it_can_take():
    for panel in (p for p in LAID if p.kind is Kind.TIMELINE):
        for query in panel.queries:
            assert {value for value, _, _ in query.names} == {0, 1, 2}


def test_without_grafanalib_the_error_says_what_to_install():
    code = "import sys; sys.modules['grafanalib'] = None; import llmvitals.dashboards.grafana"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "MissingExtraError" in ended.stderr
    assert "pip install 'llmvitals[dashboards]'" in ended.stderr
