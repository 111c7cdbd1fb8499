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
from llmvitals.dashboards.boards import BOARDS, Kind, Panel, Query
from llmvitals.exporters import health, selfmetrics
from llmvitals.schema import SCOPE, family_of
from llmvitals.settings import Alerts, Burn, Exporter, Settings, Slo, Thresholds
from llmvitals.signals import budget
from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.checks import BY_CAUSE
from llmvitals.triage.replica import Limits, limits_of

ROOT = Path(__file__).resolve().parents[2]
TRIAGE = {"llm_triage_verdict", "llm_triage_leading", "llm_triage_check_state"}
OF_THE_TARGET = ("llm_target_", "llm_gpu_", "llm_host_", "llm_http_", "llm_gateway_requests_", "llmvitals_")
"""They name no model, or need not: a gateway counts calls of all models."""
TYPES = {"timeseries", "stat", "state-timeline", "xychart"}
MAX_OPEN = 25
ONE_BY_ONE = "Requests, one by one"
MACHINE = ["GPUs and the links between them", "The host under the engine"]
ALERTS, PROMISES, WATCHING = "Alerts", "Promises: how fast their budgets burn", "Who watches: the exporters themselves"
LONG = {row.long for row in Settings().alerts.burns}
OF_THE_EXPORTER = {*selfmetrics.NAMES, *health.NAMES}
PROMISE_COUNTERS = {budget.JUDGED, budget.MISSED}
SERVING = "dashboards/llm-serving.json"
PICTURE = "KV usage against compute, replica by replica"

FILES = grafana.files()
DATA = {name: json.loads(text) for name, text in FILES.items()}


def panels_of(board: dict) -> list[dict]:
    """All panels of a board, those in collapsed rows among them."""
    every = [panel for row in board["panels"] for panel in (row, *row.get("panels", []))]
    return [panel for panel in every if panel["type"] != "row"]


DRAWN = [(name, panel) for name, board in DATA.items() for panel in panels_of(board)]
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
    ids = [p["id"] for p in (*board["panels"], *(p for row in board["panels"] for p in row.get("panels", [])))]
    assert len(ids) == len(set(ids))
    for together in (board["panels"], *([row, *row["panels"]] for row in board["panels"] if row.get("collapsed"))):
        cells: dict[tuple[int, int], str] = {}
        for panel in together:
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
def test_at_most_25_panels_are_open_and_the_machine_is_a_click_away(board):
    rows = [p for p in board["panels"] if p["type"] == "row"]
    assert len(board["panels"]) - len(rows) <= MAX_OPEN
    assert [row["title"] for row in rows if row["collapsed"]] == [ALERTS, PROMISES, ONE_BY_ONE, *MACHINE, WATCHING]
    assert all(bool(row["panels"]) == row["collapsed"] for row in rows)


def test_the_verdict_and_the_two_separations_stand_above_the_three_layers():
    panels = DATA[SERVING]["panels"]
    rows = [p["title"] for p in panels if p["type"] == "row"]
    layers = ["User experience", PROMISES, ONE_BY_ONE, "Queue and admission", "Engine and hardware"]
    assert rows == [ALERTS, *layers, *MACHINE, WATCHING]
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


def of_a_model(name: str) -> bool:
    """Whether a series names a model: what GPUs, the host and the target show does not, but every gauge of a signal does."""
    signal = BY_ID.get(name.removeprefix("llm_"))
    return (signal is not None and signal.expr is None) or not name.startswith(OF_THE_TARGET)


@drawn
def test_every_target_asks_the_chosen_data_source_for_the_chosen_scope(panel):
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    refs = [t["refId"] for t in panel["targets"]]
    assert refs == sorted(set(refs))
    for target in panel["targets"]:
        assert target["datasource"] == panel["datasource"]
        selectors = re.findall(r"\b(llm[_:][\w:]+|llmvitals_collector_\w+)(\{[^}]*\})?", target["expr"])
        assert selectors or re.search(r"\b(ALERTS|up|llmvitals_\w+)\b", target["expr"])
        assert all('instance=~"$instance"' in s for _, s in selectors)
        assert all('model=~"$model"' in s for name, s in selectors if of_a_model(name))
        windows = re.findall(r"\[([^\]]*)\]", target["expr"])
        assert set(windows) <= {"$__rate_interval", "$__range"} | LONG


@drawn
def test_every_series_is_canonical_or_a_gauge_of_the_exporter(panel):
    for target in panel["targets"]:
        for name in metrics(target["expr"]):
            derived = BY_ID.get(name.removeprefix("llm_"))
            gauge = derived is not None and derived.expr is None
            assert family_of(name) or gauge or name in TRIAGE | PROMISE_COUNTERS, name
        assert set(re.findall(r"\bllmvitals_\w+", target["expr"])) <= OF_THE_EXPORTER


@pytest.mark.parametrize("panel", LAID, ids=[p.title for p in LAID])
def test_every_runbook_that_a_panel_links_to_exists(panel):
    assert set(panel.causes) <= BY_CAUSE.keys()
    assert not set(panel.symptoms) & BY_CAUSE.keys()
    links = [link["url"] for link in of(panel.title)["links"][1:]]
    slugs = (*panel.symptoms, *panel.causes)
    assert links == [f"${{runbook_url}}/{slug}.md" for slug in slugs]
    assert not [slug for slug in slugs if not (ROOT / "runbooks" / f"{slug}.md").is_file()]


@drawn
def test_every_panel_leads_to_the_triage_app(panel):
    assert panel["links"][0]["url"] == "${app_url}"
    assert all(link["targetBlank"] for link in panel["links"])


@pytest.mark.parametrize("panel", LAID, ids=[p.title for p in LAID])
def test_the_legend_shows_the_labels_that_the_query_keeps(panel):
    asked = grafana.queries(panel, Settings())
    for query, target in zip(asked, of(panel.title)["targets"], strict=panel.kind is not Kind.XY):
        shown = tuple(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        kept = re.search(r"by \(([^)]*)\)", target["expr"])
        assert kept is not None
        linked = {"cause"} if panel.title == "Alerts over time" else set()  # a click needs it, nobody reads it
        assert set(shown) == set(filter(None, kept[1].split(", "))) - {"le"} - linked
        assert bool(query.signal) != bool(query.promql)


@pytest.mark.parametrize("panel", LAID, ids=[p.title for p in LAID])
def test_queries_of_a_panel_differ_by_hue_or_dash(panel):
    together = [
        (a, b)
        for a, b in combinations(grafana.queries(panel, Settings()), 2)
        if not a.names and not (a.column and a.legend == b.legend)
    ]
    assert all((a.color, a.dashed) != (b.color, b.dashed) for a, b in together)


STRICT_BURNS = (
    Burn(severity="page", burn=8, long="10m", short="2m"),
    Burn(severity="page", burn=4, long="2h", short="10m"),
    Burn(severity="ticket", burn=1.5, long="2d", short="4h"),
)


@pytest.mark.parametrize("panel", [p for p in LAID if p.limits], ids=lambda p: p.title)
def test_limits_are_drawn_from_the_settings_and_said_in_the_description(panel):
    strict = Settings(
        slo=Slo(ttft_seconds=0.75, tpot_seconds=0.033, objective=0.97),
        thresholds=Thresholds(
            kv_lines=(0.81, 0.89),
            gpu_active=0.55,
            preemptions_per_minute=7,
            error_ratio=0.11,
            vram_margin=0.08,
            resource_limit=0.77,
        ),
        exporter=Exporter(interval_seconds=7),
        alerts=Alerts(burns=STRICT_BURNS),
    )
    defaults, changed = grafana.limits(panel, Settings()), grafana.limits(panel, strict)
    assert not {value for value, _ in defaults} & {value for value, _ in changed}
    board = json.loads(grafana.files(strict)[SERVING])
    drawn_panel = next(p for p in panels_of(board) if p["title"] == panel.title)
    steps = drawn_panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(s["value"], s["color"]) for s in steps[1:]] == list(changed)
    assert drawn_panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] == "dashed"
    assert all(f"{value:g}" in drawn_panel["description"] for value, _ in changed)


@pytest.mark.parametrize("panel", [p for p in LAID if any(q.unit for q in p.queries)], ids=lambda p: p.title)
def test_a_query_in_another_unit_has_its_own_axis_without_the_panels_line(panel):
    overrides = {o["matcher"]["options"]: o["properties"] for o in of(panel.title)["fieldConfig"]["overrides"]}
    assert panel.top is None or all(not q.unit for q in panel.queries), "the panel's maximum would cut it off"
    for query, target in zip(grafana.queries(panel, Settings()), of(panel.title)["targets"], strict=True):
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
    assert [p["title"] for p, _ in leading] == [
        "Verdict",
        "Leading cause and its confidence",
        "Causes over time",
        "Alerts over time",
        PICTURE,
        "Not in the picture, and what is missing",
    ]
    assert "__data.fields.instance}&model=${__data.fields.model}" in leading[4][1]["url"], (
        "a row of a table has no labels"
    )
    for panel, link in (found for found in leading if found[0]["title"] != PICTURE):
        labels = set(re.findall(r"__field\.labels\.(\w+)", link["url"]))
        assert labels
        kept = [re.search(r"by \(([^)]*)\)", t["expr"])[1].split(", ") for t in panel["targets"]]
        assert all(labels <= set(one) for one in kept)


def test_signals_that_no_algebra_says_are_read_from_the_exporters_gauge():
    derived = [q for p in LAID for q in p.queries if q.signal and BY_ID[q.signal].expr is None]
    assert derived
    for query in derived:
        assert f"(llm_{query.signal}{{" in grafana.promql(query)
        assert query.by in (SCOPE, ())


def test_a_state_has_words_for_every_value_it_can_take():
    states = {
        panel.title: [{value for value, _, _ in query.names} for query in panel.queries]
        for panel in LAID
        if panel.kind is Kind.TIMELINE
    }
    assert states == {
        "Causes over time": [{0, 1, 2}],
        "Alerts over time": [{0, 1, 2}],
        "Collectors that failed": [{0, 1}],
    }


def groups() -> list[tuple[str, list[dict]]]:
    """The groups of points of the picture, and then its lines: name, and the targets of x, y and what else is said."""
    panel = of(PICTURE)
    by_field = {f"Value #{t['refId']}": t for t in panel["targets"]}
    found = []
    for series, merge in zip(panel["options"]["series"], panel["transformations"], strict=False):
        refs = re.fullmatch(r"/\^\(\?:([A-Z|]+)\)\$/", merge["filter"]["options"])[1].split("|")
        targets = [by_field[f"Value #{ref}"] for ref in refs]
        assert [series[axis]["matcher"]["options"] for axis in "xy"] == [f"Value #{ref}" for ref in refs[:2]]
        found.append((series["name"]["fixed"], targets))
    return found


def test_the_picture_is_in_the_shape_that_grafana_takes_for_its_newer_xy_chart():
    panel = of(PICTURE)
    # without a version, or with one before 11.1, Grafana reads these options as those of its older chart
    assert float(panel["pluginVersion"].rpartition(".")[0]) >= 11.1
    assert all((t["instant"], t["format"]) == (True, "table") for t in panel["targets"])
    assert [t["id"] for t in panel["transformations"]] == ["merge"] * 4 + ["organize"]
    used = [target["refId"] for _, targets in groups() for target in targets]
    assert used == [t["refId"] for t in panel["targets"]]
    assert "size" not in json.dumps(panel["options"]["series"]), (
        "with one value for all, Grafana draws points of no size"
    )


def test_points_are_told_apart_and_utilisation_is_hollow():
    overrides = {
        o["matcher"]["options"]: {p["id"]: p["value"] for p in o["properties"]}
        for o in of(PICTURE)["fieldConfig"]["overrides"]
    }
    looks = {}
    for name, (x, y, *_) in groups():
        assert overrides[f"Value #{x['refId']}"] == {"displayName": "KV usage that is reached"}
        looks[name] = overrides[f"Value #{y['refId']}"]
    colors = [look["color"]["fixedColor"] for look in looks.values()]
    assert len(set(colors[:3])) == 3
    hollow = [name for name, look in looks.items() if look.get("custom.fillOpacity") == 0]
    assert hollow == ["Utilisation only, which is not compute"]
    assert [name for name, look in looks.items() if look.get("custom.show") == "lines"] == [
        "Limits: 0.95 across, 0.6 up"
    ]


def test_the_pictures_lines_follow_the_settings_of_the_checks():
    strict = Settings(thresholds=Thresholds(kv_free_floor=0.2, gpu_active=0.45))
    panel = next(p for p in panels_of(json.loads(grafana.files(strict)[SERVING])) if p["title"] == PICTURE)
    assert "KV 0.8, SMs 0.45" in panel["description"]
    across, up = ([float(n) for n in re.findall(r"vector\(([\d.]+)\)", t["expr"])] for t in panel["targets"][-2:])
    assert list(zip(across, up, strict=True)) == [(0.8, 0), (0.8, 1), (0.8, 0.45), (0, 0.45), (1, 0.45)]
    assert limits_of(strict) == Limits(0.8, 0.45), "the app's picture has the same"


def test_a_signal_inside_a_query_is_asked_as_that_signal_is():
    for _, (x, y, _) in groups()[:2]:
        for target, signal in ((x, "kv_usage_high_ratio"), (y, "gpu_sm_active_mean_ratio")):
            by = BY_ID[signal].by
            assert grafana.promql(Query("", "", signal=signal, by=by)) in target["expr"]
        assert "<" not in x["expr"] + y["expr"]


def test_without_grafanalib_the_error_says_what_to_install():
    code = "import sys; sys.modules['grafanalib'] = None; import llmvitals.dashboards.grafana"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "MissingExtraError" in ended.stderr
    assert "pip install 'llmvitals[dashboards]'" in ended.stderr


def test_a_burn_is_asked_over_the_windows_and_drawn_at_the_lines_of_the_settings():
    board = json.loads(grafana.files(Settings(alerts=Alerts(burns=STRICT_BURNS)))[SERVING])
    shown = {p["title"]: p for p in panels_of(board)}
    paged, tickets = shown["First tokens in time"], shown["Budgets over hours and days"]
    assert [set(re.findall(r"\[(\w+)\]", t["expr"])) for t in paged["targets"]] == [{"10m"}, {"2h"}]
    assert [t["legendFormat"].split(":")[0] for t in paged["targets"]] == ["over 10m", "over 2h"]
    assert all("(1 - 0.95)" in t["expr"] for t in paged["targets"])
    assert {w for t in tickets["targets"] for w in re.findall(r"\[(\w+)\]", t["expr"])} == {"2d"}
    assert [s["value"] for s in tickets["fieldConfig"]["defaults"]["thresholds"]["steps"]] == [None, 1.5]
    assert tickets["maxDataPoints"] <= 100, "each point looks back over days"


def test_without_burns_of_a_severity_nothing_is_asked_and_that_is_said():
    board = json.loads(grafana.files(Settings(alerts=Alerts(burns=STRICT_BURNS[:2])))[SERVING])
    panel = next(p for p in panels_of(board) if p["title"] == "Budgets over hours and days")
    assert panel["targets"] == []
    assert "none is set" in panel["description"]


def test_the_objective_the_job_and_the_app_are_those_of_the_settings():
    chosen = Settings(slo=Slo(objective=0.99), alerts=Alerts(job='the "one"', app_url="https://triage.example.org"))
    board = json.loads(grafana.files(chosen)[SERVING])
    shown = {p["title"]: p["targets"] for p in panels_of(board)}
    assert all(t["expr"].endswith("/ (1 - 0.99)") for t in shown["Pace of tokens"])
    assert shown["Exporters, as Prometheus sees them"][0]["expr"] == r'min by (instance) (up{job="the \"one\""})'
    variables = {v["name"]: v for v in board["templating"]["list"]}
    assert variables["app_url"]["query"] == "https://triage.example.org"
