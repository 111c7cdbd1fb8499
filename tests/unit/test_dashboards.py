"""The boards by themselves: what a person and Grafana need of every panel, without Grafana or Prometheus."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from llmvitals.dashboards import files, grafana
from llmvitals.dashboards.boards import BOARDS
from llmvitals.dashboards.links import SERVICE
from llmvitals.dashboards.model import PLACE, Kind, Leads, Query
from llmvitals.dashboards.promql import limits, promql, queries
from llmvitals.dashboards.raw.tree import Aggregate, Infix, Literal, Node, read
from llmvitals.schema import SCOPE, family_of
from llmvitals.settings import Alerts, Burn, Exporter, Settings, Slo, Thresholds
from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.checks import BY_CAUSE
from llmvitals.triage.replica import Limits, limits_of
from support.boards import DATA, EVERY, ONCE, Drawn, each, made_files, of, panels_of
from support.known_series import PROMETHEUS
from support.promql_tree import selectors

ROOT = Path(__file__).resolve().parents[2]
GENERATED = made_files()
OF_NOBODY = {"ALERTS", "up", *PROMETHEUS}
"""Of the Prometheus that asks, and of the exporters as it scrapes them: no target is chosen by these."""
OF_THE_TARGET = (
    "llm_target_",
    "llm_gpu_",
    "llm_host_",
    "llm_http_",
    "llm_process_",
    "llm_gateway_requests_",
    "llm_family_gap",
    "llm_span_senders",
    "llm_span_last_end_",
    "llm_slo_objective_",
    "llm_slo_threshold_",
    "llm:answers_",
    "llm:calls_",
    "llm:gpu_",
    "llmvitals_",
)
"""They name no model, or need not: a gateway counts calls of all models, and a class is promised the same of each."""
TYPES = {
    Kind.LINES: "timeseries",
    Kind.STACK: "timeseries",
    Kind.STAT: "stat",
    Kind.TIMELINE: "state-timeline",
    Kind.XY: "xychart",
    Kind.TABLE: "table",
    Kind.HEATMAP: "heatmap",
    Kind.BARS: "bargauge",
    Kind.TEXT: "text",
}
MAX_OPEN, AT_LEAST = 25, 60
WIDTH = 120
WINDOWS = {"", "$__rate_interval", "$__range", *(row.long for row in Settings().alerts.burns)}
"""How far back a query may look: what Grafana chooses, and what the settings say of burns."""
PICTURE = "KV usage against compute, replica by replica"

asking = each(one for one in EVERY if one.panel.kind is not Kind.TEXT)
boards = pytest.mark.parametrize("name", sorted(DATA))


def walk(value: object, path: tuple = ()):
    yield path, value
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from walk(part, (*path, key))


def metrics(expr: str) -> set[str]:
    """The names of the series of ours a query reads."""
    return set(re.findall(r"\bllm_\w+", expr))


def again(drawn: Drawn, settings: Settings) -> dict:
    """The same panel, drawn by other settings."""
    data = grafana.drawn(drawn.board, settings)
    return next(p for p in panels_of(data) if p["title"] == drawn.title)


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_the_committed_file_is_the_generated_one(name):
    assert (ROOT / name).read_text(encoding="utf-8") == GENERATED[name], "run: llmvitals generate"


def test_same_settings_give_the_same_bytes():
    assert files.files() == GENERATED
    assert {name: json.loads(GENERATED[name]) for name in DATA} == DATA


@pytest.mark.parametrize("name", sorted(name for name in GENERATED if name.endswith(".json")))
def test_a_file_is_sorted_and_read_line_by_line(name):
    text = GENERATED[name]
    json.loads(text, object_pairs_hook=in_order)
    lines = text.splitlines()
    assert text.endswith("\n")
    for line in lines:
        value = line.strip().removesuffix(",")
        assert len(line) <= WIDTH or re.fullmatch(r'("(\w|:|-)+": )?"([^"\\]|\\.)*"', value), (
            "only a text may be longer"
        )
    for at, line in enumerate(lines):
        if line.endswith(("{", "[")):
            deep = len(line) - len(line.lstrip())
            end = next(n for n in range(at + 1, len(lines)) if len(lines[n]) - len(lines[n].lstrip()) == deep)
            whole = " ".join(one.strip() for one in lines[at : end + 1])
            whole = whole.removesuffix(",").replace("{ ", "{").replace("[ ", "[").replace(" }", "}").replace(" ]", "]")
            assert deep + len(whole) >= WIDTH, f"would fit into one line: {whole}"


def in_order(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    assert keys == sorted(set(keys))
    return dict(pairs)


def test_boards_differ_by_identity_and_file_and_have_panels_enough():
    assert len({board.uid for board in BOARDS}) == len({board.file for board in BOARDS}) == len(BOARDS)
    assert SERVICE in {board.uid for board in BOARDS}, "the board that others lead to"
    assert len({board.title for board in BOARDS}) == len(BOARDS)
    assert len(ONCE) >= AT_LEAST
    assert not [one.id for one in EVERY if one.panel.kind is Kind.TEXT and one.panel.queries], "words ask nothing"


@boards
def test_ids_and_titles_are_unique_and_panels_do_not_overlap(name):
    board = DATA[name]
    every = [p for row in board["panels"] for p in (row, *row.get("panels", []))]
    assert not [number for number, n in Counter(p["id"] for p in every).items() if n > 1]
    assert not [title for title, n in Counter(p["title"] for p in panels_of(board)).items() if n > 1]
    for together in (board["panels"], *([row, *row["panels"]] for row in board["panels"] if row.get("collapsed"))):
        cells: dict[tuple[int, int], str] = {}
        for panel in together:
            place = panel["gridPos"]
            assert place["x"] >= 0
            assert place["x"] + place["w"] <= 24
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    assert cells.setdefault((x, y), panel["title"]) == panel["title"]


@boards
def test_nothing_is_null_but_the_lowest_threshold(name):
    nulls = [path for path, value in walk(DATA[name]) if value is None]
    assert nulls
    assert all(path[-3:] == ("steps", 0, "value") for path in nulls)


@boards
def test_at_most_25_panels_are_open(name):
    rows = [p for p in DATA[name]["panels"] if p["type"] == "row"]
    assert len(DATA[name]["panels"]) - len(rows) <= MAX_OPEN
    assert all(bool(row["panels"]) == row["collapsed"] for row in rows)
    assert all(row["title"] for row in rows), "a row that is closed says what is in it"


def test_the_verdict_and_the_two_separations_stand_above_the_rows():
    name = next(board.file for board in BOARDS if board.uid == SERVICE)
    panels = DATA[name]["panels"]
    first_row = min(p["gridPos"]["y"] for p in panels if p["type"] == "row")
    top = [p for p in panels if p["gridPos"]["y"] < first_row]
    assert top[0]["title"] == "Verdict"
    titles = [p["title"] for p in top]
    left, right = (
        top[titles.index(title)]["gridPos"]
        for title in (
            "Where the time goes: queue, prefill, decode, front end",
            "What binds: KV cache next to GPU compute",
        )
    )
    assert (left["y"], left["h"], left["w"] + right["w"]) == (right["y"], right["h"], 24)


def test_time_is_stacked_over_the_whole_selection_so_that_the_bands_add_up():
    panel = of("Where the time goes: queue, prefill, decode, front end").data
    assert panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    assert [t["legendFormat"] for t in panel["targets"]] == [
        "queue",
        "prefill",
        "decode",
        "front end",
        "not told apart",
    ]
    assert all(of_all(read(target["expr"])) for target in panel["targets"])


def of_all(node: Node) -> bool:
    """Whether a query gives one number of everything that is chosen."""
    match node:
        case Aggregate(labels=labels):
            return not labels and not node.without
        case Infix():
            return of_all(node.left) and of_all(node.right)
    return isinstance(node, Literal)


def test_kv_and_the_three_gpu_activities_share_one_axis_with_their_lines():
    panel = of("What binds: KV cache next to GPU compute").data
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


@asking
def test_every_panel_has_a_unit_a_description_and_words_for_no_data(drawn):
    defaults = drawn.data["fieldConfig"]["defaults"]
    assert drawn.data["type"] == TYPES[drawn.panel.kind]
    assert drawn.panel.queries
    assert defaults["unit"]
    assert len(defaults["noValue"].split()) >= 2
    assert len(drawn.data["description"].split()) >= 15
    assert not re.search(r"[{}]", drawn.data["description"]), "a setting was not filled in"
    assert drawn.title


def of_a_model(name: str) -> bool:
    """Whether a series names a model: what GPUs, the host and the target show does not, but every gauge of a signal does."""
    signal = BY_ID.get(name.removeprefix("llm_"))
    return (signal is not None and signal.expr is None) or not name.startswith(OF_THE_TARGET)


def chosen_as(name: str, label: str) -> set[str]:
    """How a series is matched by what is chosen at the top. A gateway's may name no model, and is then of every one."""
    return {f"${label}"} | ({"$model|"} if label == "model" and name.startswith("llm_gateway_") else set())


@asking
def test_every_target_asks_the_chosen_data_source_for_the_chosen_scope(drawn):
    assert drawn.data["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    refs = [t["refId"] for t in drawn.data["targets"]]
    assert refs == sorted(set(refs), key=lambda ref: (len(ref), ref))
    for target in drawn.data["targets"]:
        assert target["datasource"] == drawn.data["datasource"]
        asked = list(selectors(read(target["expr"])))
        assert asked
        for one in asked:
            chosen = {m.label for m in one.matchers if m.op == "=~" and m.value in chosen_as(one.name, m.label)}
            if one.name.startswith(("llm_", "llm:", "llmvitals_collector_")):
                assert {*PLACE, "instance"} <= chosen, one.name
                assert "model" in chosen or not of_a_model(one.name), one.name
            else:
                assert one.name in OF_NOBODY or one.name.startswith("llmvitals_"), one.name
            assert one.window.strip("[]").partition(":")[0] in WINDOWS, one.name


@each(EVERY)
def test_every_runbook_that_a_panel_links_to_exists(drawn):
    assert set(drawn.panel.causes) <= BY_CAUSE.keys()
    assert not set(drawn.panel.symptoms) & BY_CAUSE.keys()
    links = [link["url"] for link in drawn.data["links"][1:] if not link["url"].startswith("/d/")]
    slugs = (*drawn.panel.symptoms, *drawn.panel.causes)
    assert links == [f"${{runbook_url}}/{slug}.md" for slug in slugs]
    assert not [slug for slug in slugs if not (ROOT / "runbooks" / f"{slug}.md").is_file()]


@each(EVERY)
def test_every_panel_leads_to_the_triage_app_with_what_is_chosen_and_the_time(drawn):
    chosen = "&".join(f"${{{name}:queryparam}}" for name in ("cluster", "namespace", "model", "instance"))
    assert drawn.data["links"][0]["url"] == f"${{app_url}}/?{chosen}&from=${{__from}}&to=${{__to}}"
    assert all(link["targetBlank"] != link["url"].startswith("/d/") for link in drawn.data["links"]), (
        "boards stay in their tab"
    )


@asking
def test_the_legend_shows_the_labels_that_the_query_keeps(drawn):
    if drawn.panel.kind in (Kind.TABLE, Kind.XY):
        return  # there labels are columns, and the tooltip's words
    asked = queries(drawn.panel, Settings())
    for _, target in zip(asked, drawn.data["targets"], strict=True):
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        kept = re.search(r"by \(([^)]*)\)", target["expr"])
        assert kept is not None
        linked = {"cause"} if drawn.panel.leads is Leads.ALERT else set()  # a click needs it, nobody reads it
        folded = {"le"} if drawn.panel.kind is not Kind.HEATMAP else set()
        labels = set(filter(None, kept[1].split(", "))) - folded - linked
        assert labels - set(PLACE) <= shown <= labels


@asking
def test_a_query_is_a_signal_or_is_written_out(drawn):
    assert all(bool(query.signal) != bool(query.promql) for query in drawn.panel.queries)


@asking
def test_queries_of_a_panel_differ_by_hue_or_dash(drawn):
    if drawn.panel.kind is Kind.TABLE:
        return  # columns have headings
    together = [
        (a, b)
        for a, b in combinations(queries(drawn.panel, Settings()), 2)
        if not a.names and not (a.column and a.legend == b.legend)
    ]
    assert all((a.color, a.dashed) != (b.color, b.dashed) for a, b in together)


@each(one for one in EVERY if one.panel.kind is Kind.TABLE)
def test_columns_of_a_table_differ_and_it_is_sorted_by_one_of_them(drawn):
    headings = [query.column for query in drawn.panel.queries]
    assert all(headings)
    assert len(set(headings)) == len(headings)
    assert drawn.panel.worst.removeprefix("-") in {*headings, ""}


STRICT_BURNS = (
    Burn(severity="page", burn=8, long="10m", short="2m"),
    Burn(severity="page", burn=4, long="2h", short="10m"),
    Burn(severity="ticket", burn=1.5, long="2d", short="4h"),
)


def other(value: object) -> object:
    """Another value of the same kind, near enough to be taken: what every line must follow."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return tuple(map(other, value)) if isinstance(value, tuple) else value
    return type(value)(value + 1) if isinstance(value, int) else value * 0.9 + 0.01


@each(one for one in EVERY if one.panel.limits)
def test_limits_are_drawn_from_the_settings_and_said_in_the_description(drawn):
    parts = {"slo": Slo, "thresholds": Thresholds, "exporter": Exporter}
    changed: dict[str, dict[str, object]] = {}
    for limit in drawn.panel.limits:
        part, _, name = limit.setting.partition(".")
        if part in parts:
            changed.setdefault(part, {})[name] = other(getattr(parts[part](), name))
    strict = Settings(
        **{part: parts[part](**values) for part, values in changed.items()}, alerts=Alerts(burns=STRICT_BURNS)
    )
    before, after = limits(drawn.panel, Settings()), limits(drawn.panel, strict)
    assert not {value for value, _ in before} & {value for value, _ in after}
    panel = again(drawn, strict)
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(s["value"], s["color"]) for s in steps[1:]] == list(after)
    if drawn.panel.kind in (Kind.LINES, Kind.STACK):
        assert panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] == "dashed"
    assert all(f"{value:g}" in panel["description"] for value, _ in after), "it says the number"


@each(one for one in EVERY if any(q.unit for q in one.panel.queries) and one.panel.kind in (Kind.LINES, Kind.STACK))
def test_a_query_in_another_unit_has_its_own_axis_without_the_panels_line(drawn):
    overrides = {o["matcher"]["options"]: o["properties"] for o in drawn.data["fieldConfig"]["overrides"]}
    assert drawn.panel.top is None, "the panel's maximum would cut it off"
    for query, target in zip(queries(drawn.panel, Settings()), drawn.data["targets"], strict=True):
        properties = {p["id"]: p["value"] for p in overrides[target["refId"]]}
        assert ("unit" in properties) == bool(query.unit)
        if query.unit:
            assert properties["custom.axisPlacement"] == "right"
            assert properties["custom.thresholdsStyle"] == {"mode": "off"}


CHAIN = ("cluster", "namespace", "model", "instance")


@boards
def test_variables_chain_from_data_source_to_replica(name):
    variables = {v["name"]: v for v in DATA[name]["templating"]["list"]}
    assert list(variables) == ["datasource", *CHAIN, "app_url", "runbook_url"]
    assert variables["datasource"]["type"] == "datasource"
    for at, label in enumerate(CHAIN):
        assert variables[label]["datasource"]["uid"] == "${datasource}"
        query = variables[label]["query"]["query"]
        assert re.fullmatch(rf"label_values\(.+, {label}\)", query)
        assert re.findall(r"\$(\w+)", query) == list(CHAIN[:at])
        assert all(family_of(m) for m in metrics(query))
        assert variables[label]["allValue"] == ".*", "also what lacks the label"
    assert not any("repeat" in panel for panel in DATA[name]["panels"])
    used = set(re.findall(r"\$\{?([a-z][a-z_]*)", json.dumps(DATA[name])))
    assert used == set(variables)


@boards
def test_a_board_can_be_provisioned(name):
    board = DATA[name]
    assert re.fullmatch(r"llmvitals-[a-z-]{1,30}", board["uid"])
    assert not {"__inputs", "id"} & board.keys()
    assert 39 <= board["schemaVersion"] <= 41
    assert board["time"]["to"] == "now"
    assert board["links"][0]["tags"] == [board["tags"][0]], "boards find each other by it"


def test_the_runbooks_lie_where_the_settings_say():
    elsewhere = Settings(alerts=Alerts(runbook_base="https://wiki.example.org/books/"))
    for board in grafana.boards(elsewhere).values():
        variables = board["templating"]["list"]
        assert next(v["query"] for v in variables if v["name"] == "runbook_url") == "https://wiki.example.org/books"


def leading(drawn: Drawn) -> list[str]:
    """The addresses that a click on one of its values leads to."""
    config = drawn.data["fieldConfig"]
    inside = [p["value"] for o in config["overrides"] for p in o["properties"] if p["id"] == "links"]
    return [link["url"] for links in (config["defaults"].get("links", []), *inside) for link in links]


@each(one for one in EVERY if one.panel.leads is not Leads.NOWHERE)
def test_a_click_on_a_value_uses_labels_that_the_value_has(drawn):
    of_rows = drawn.panel.kind in (Kind.XY, Kind.TABLE)
    urls = [url for url in leading(drawn) if "${__" in url]
    assert urls
    each_has = [set(re.search(r"by \(([^)]*)\)", t["expr"])[1].split(", ")) for t in drawn.data["targets"][:8]]
    there = set.union(*each_has) if of_rows else set.intersection(*each_has)
    for url in urls:
        assert ("__field.labels" in url) != of_rows, "a row of a table has no labels"
        labels = set(re.findall(r"__(?:field\.labels|data\.fields)\.(\w+)", url))
        assert labels
        assert labels <= there | (set(PLACE) if of_rows else set())


@each(one for one in EVERY if one.panel.leads is Leads.NOWHERE)
def test_what_leads_nowhere_has_no_link_on_its_values(drawn):
    assert leading(drawn) == []


def test_signals_that_no_algebra_says_are_read_from_the_exporters_gauge():
    derived = [q for one in EVERY for q in one.panel.queries if q.signal and BY_ID[q.signal].expr is None]
    assert derived
    for query in derived:
        assert f"(llm_{query.signal}{{" in promql(query)
        assert query.by in (SCOPE, ())


@each(one for one in EVERY if one.panel.kind is Kind.TIMELINE)
def test_a_state_has_words_for_every_value_it_can_take(drawn):
    (mapping,) = drawn.data["fieldConfig"]["defaults"]["mappings"]
    values = sorted(map(int, mapping["options"]))
    assert len(values) >= 2
    highest = max((int(n) for t in drawn.data["targets"] for n in re.findall(r"\* (\d)\b", t["expr"])), default=1)
    assert values[-1] >= highest
    assert all(said["text"] and said["color"] for said in mapping["options"].values())


def groups() -> list[tuple[str, list[dict]]]:
    """The groups of points of the picture, and then its lines: name, and the targets of x, y and what else is said."""
    panel = of(PICTURE).data
    by_field = {f"Value #{t['refId']}": t for t in panel["targets"]}
    found = []
    for series, merge in zip(panel["options"]["series"], panel["transformations"], strict=False):
        refs = re.fullmatch(r"/\^\(\?:([A-Z|]+)\)\$/", merge["filter"]["options"])[1].split("|")
        targets = [by_field[f"Value #{ref}"] for ref in refs]
        assert [series[axis]["matcher"]["options"] for axis in "xy"] == [f"Value #{ref}" for ref in refs[:2]]
        found.append((series["name"]["fixed"], targets))
    return found


def test_the_picture_is_in_the_shape_that_grafana_takes_for_its_newer_xy_chart():
    panel = of(PICTURE).data
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
        for o in of(PICTURE).data["fieldConfig"]["overrides"]
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
    panel = again(of(PICTURE), strict)
    assert "KV 0.8, SMs 0.45" in panel["description"]
    across, up = ([float(n) for n in re.findall(r"vector\(([\d.]+)\)", t["expr"])] for t in panel["targets"][-2:])
    assert list(zip(across, up, strict=True)) == [(0.8, 0), (0.8, 1), (0.8, 0.45), (0, 0.45), (1, 0.45)]
    assert limits_of(strict) == Limits(0.8, 0.45), "the app's picture has the same"


def test_a_signal_inside_a_query_is_asked_as_that_signal_is():
    for _, (x, y, _) in groups()[:2]:
        for target, signal in ((x, "kv_usage_high_ratio"), (y, "gpu_sm_active_mean_ratio")):
            by = BY_ID[signal].by
            assert promql(Query("", "", signal=signal, by=by)) in target["expr"]
        assert "<" not in x["expr"] + y["expr"]


def test_without_grafanalib_the_error_says_what_to_install():
    code = "import sys; sys.modules['grafanalib'] = None; import llmvitals.dashboards.grafana"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "MissingExtraError" in ended.stderr
    assert "pip install 'llmvitals[dashboards]'" in ended.stderr


def test_a_burn_is_asked_over_the_windows_and_drawn_at_the_lines_of_the_settings():
    strict = Settings(alerts=Alerts(burns=STRICT_BURNS))
    paged, tickets = (again(of(title), strict) for title in ("First tokens in time", "Budgets over hours and days"))
    assert [set(re.findall(r"\[(\w+)\]", t["expr"])) for t in paged["targets"]] == [{"10m"}, {"2h"}]
    assert [t["legendFormat"].split(":")[0] for t in paged["targets"]] == ["over 10m", "over 2h"]
    assert all("(1 - 0.95)" in t["expr"] for t in paged["targets"])
    assert {w for t in tickets["targets"] for w in re.findall(r"\[(\w+)\]", t["expr"])} == {"2d"}
    assert [s["value"] for s in tickets["fieldConfig"]["defaults"]["thresholds"]["steps"]] == [None, 1.5]
    assert tickets["maxDataPoints"] <= 100, "each point looks back over days"


def test_without_burns_of_a_severity_nothing_is_asked_and_that_is_said():
    panel = again(of("Budgets over hours and days"), Settings(alerts=Alerts(burns=STRICT_BURNS[:2])))
    assert panel["targets"] == []
    assert "none is set" in panel["description"]


def test_the_objective_the_job_and_the_app_are_those_of_the_settings():
    chosen = Settings(slo=Slo(objective=0.99), alerts=Alerts(job='the "one"', app_url="https://triage.example.org"))
    pace, seen = of("Pace of tokens"), of("Exporters, as Prometheus sees them")
    assert all(t["expr"].endswith("/ (1 - 0.99)") for t in again(pace, chosen)["targets"])
    assert r'up{job="the \"one\""' in again(seen, chosen)["targets"][0]["expr"]
    board = grafana.boards(chosen)[pace.board.file]
    variables = {v["name"]: v for v in board["templating"]["list"]}
    assert variables["app_url"]["query"] == "https://triage.example.org"


def test_a_source_that_the_settings_name_is_in_every_link_to_the_app():
    named = Settings(alerts=Alerts(app_url="https://triage.example.org/?source=fleet"))
    board = grafana.boards(named)["dashboards/fleet.json"]
    variables = {v["name"]: v for v in board["templating"]["list"]}
    assert variables["app_url"]["query"] == "https://triage.example.org"
    found = set(re.findall(r'"(\$\{app_url\}[^"]*)"', json.dumps(board)))
    assert len(found) > 2
    assert all(url.startswith("${app_url}/?source=fleet") and url.count("?") == 1 for url in found), found
