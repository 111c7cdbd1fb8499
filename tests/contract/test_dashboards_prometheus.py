"""Every query of every board on a real Prometheus: it is accepted, returns data, and with the labels its legend shows.

What is loaded is everything the exporter's page may hold for busy servers and an idle one, at 15 s intervals: all canonical
families, the derived gauges of signals that no PromQL can say, the counters of promises, the triage's series, and what exporters
say of themselves; and beside it what Prometheus makes of rules: recorded signals, and alerts.
"""

from __future__ import annotations

import math
import re

import pytest

from llmvitals.dashboards.model import NO_TRAFFIC, PLACE, Kind
from llmvitals.dashboards.raw.tree import Call, Infix, Node, Selector, below, read
from llmvitals.series import series
from support.boards import DATA, ONCE, Drawn, each, filled, of
from support.prometheus import Points, PrometheusServer, prometheus_of
from support.two_spans import END, START
from support.two_spans import SPAN as SECONDS
from support.two_spans import paged as track
from support.whole_page import BUSY, CAUSE, EXPORTER, GONE, IDLE, MODEL, TWIN, whole_page

pytestmark = pytest.mark.prometheus

PICTURE, UNPLACED = "KV usage against compute, replica by replica", "Not in the picture, and what is missing"
ALERTS = "Alerts over time"
IN_A_STATE = {
    PICTURE: "a point is of one group: its GPU shows its SMs or not, and somebody waits or nobody",
    UNPLACED: "it lists what lacks a number",
}
"""What depends on more than one server's being in one state has tests of its own."""

OF_SEVERAL = ("Do the replicas of a model share the load?", "Busiest replica over the median one")
"""One replica alone is not compared."""

FILLED = tuple(drawn for drawn in ONCE if drawn.title not in IN_A_STATE)
SPAN = f"{SECONDS}s"

Answer = list[tuple[dict[str, str], float]]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    with prometheus_of(tmp_path_factory.mktemp("boards"), whole_page()) as server:
        yield server


def answers(server: PrometheusServer, drawn: Drawn, **chosen: str) -> list[Answer]:
    return [server.query(filled(asked.expr, span=SPAN, **chosen), at=END) for asked in drawn.asked]


def hidden(drawn: Drawn) -> set[str]:
    """Labels that a click on a value needs and its legend leaves out."""
    return {"cause"} if drawn.title == ALERTS else set()


@each(FILLED)
def test_every_query_returns_data_with_the_labels_of_its_legend(prometheus, drawn):
    for asked, found in zip(drawn.asked, answers(prometheus, drawn), strict=True):
        assert found, f"{drawn.id}: {asked.expr}"
        shown = {frozenset(labels) for labels, _ in found}
        if drawn.title == ALERTS:  # not every alert has all of them
            shown = {frozenset().union(*shown)}
        place = set(PLACE) if asked.placed or any(labels & set(PLACE) for labels in shown) else set()
        assert shown == {asked.labels | hidden(drawn) | place}, f"{drawn.id}: {asked.expr}"
        assert all(math.isfinite(value) for _, value in found), "a panel cannot draw it, and would not say why"


def remains(node: Node) -> bool:
    """Whether a query finds something when a model is chosen that nobody serves: where it asks for what names no model."""
    match node:
        case Selector(_, matchers):
            return not any(one.label == "model" and one.value in ("other", "other|") for one in matchers)
        case Infix(op="or"):
            return remains(node.left) or remains(node.right)
        case Infix(op="unless"):
            return remains(node.left)
        case Call(name) if name.startswith("absent"):
            return True
    return all(remains(inner) for inner in below(node))


@each(FILLED)
def test_a_choice_of_instance_and_model_leaves_the_others_out(prometheus, drawn):
    for asked, found in zip(drawn.asked, answers(prometheus, drawn, instance="(busy|gone)"), strict=True):
        assert found or drawn.title in OF_SEVERAL, asked.expr
        assert all(labels.get("instance") != IDLE.instance for labels, _ in found)
    for asked, found in zip(drawn.asked, answers(prometheus, drawn, model="other"), strict=True):
        of_no_model = remains(read(filled(asked.expr, model="other")))
        assert bool(found) == of_no_model, "only what names no model is shown for every model"


def of_server(found: Answer, cluster: str) -> dict[frozenset[tuple[str, str]], float]:
    """What was found of one cluster's servers."""
    return {frozenset(labels.items()): value for labels, value in found if labels.get("cluster") == cluster}


@each(FILLED)
def test_servers_of_one_name_in_two_clusters_are_kept_apart(prometheus, drawn):
    """What is shown of a cluster beside another is what is shown of it alone; a choice of the other leaves it out."""
    for asked, both, alone, other in zip(
        drawn.asked,
        answers(prometheus, drawn, instance=BUSY.instance),
        answers(prometheus, drawn, instance=BUSY.instance, cluster=BUSY.cluster),
        answers(prometheus, drawn, instance=BUSY.instance, cluster=TWIN.cluster),
        strict=True,
    ):
        if not asked.placed:
            continue
        assert of_server(both, BUSY.cluster) == of_server(alone, BUSY.cluster), asked.expr
        assert of_server(both, TWIN.cluster) == of_server(other, TWIN.cluster), asked.expr
        if "cluster=~" in asked.expr:
            assert not of_server(alone, TWIN.cluster)
            assert not of_server(other, BUSY.cluster)


# Servers for the picture: KV that is reached, what their GPU shows, and how many wait; None is not there.
FLEET = {
    "memory-binds": (0.97, {"sm_active_ratio": 0.2}, 5.0),
    "full": (0.99, {"sm_active_ratio": 0.9}, 0.0),
    "compute-binds": (0.3, {"sm_active_ratio": 0.8}, 2.0),
    "dark": (0.3, {"busy_ratio": 0.7, "engine_active_ratio": 0.6}, 3.0),
    "busy-only": (0.4, {"busy_ratio": 0.5}, 0.0),
    "quiet": (0.1, {"sm_active_ratio": 0.0}, None),
    "no-gpu": (0.5, {}, 0.0),
    "no-kv": (None, {"sm_active_ratio": 0.5}, 0.0),
}


def fleet_points(instance: str) -> Points:
    kv, gpu, waiting = FLEET[instance]
    scope = {"instance": instance, "model": "tiny"}
    found = {series("llm_requests_running", **scope): track(lambda _: 1.0)}
    if kv is not None:
        found[series("llm_kv_usage_high_ratio", **scope, window="60s")] = track(lambda _: kv)
    if waiting is not None:
        found[series("llm_requests_waiting", **scope)] = track(lambda _: waiting)
    for family, value in gpu.items():
        for index, share in (("0", value), ("1", value)):
            key = series(f"llm_gpu_{family}", instance=instance, gpu=f"GPU-{index}", index=index, join="configured")
            found[key] = track(lambda _, share=share: share)
    return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    points = {k: v for name in FLEET for k, v in fleet_points(name).items()}
    with prometheus_of(tmp_path_factory.mktemp("fleet"), points) as server:
        yield server


def points(server: PrometheusServer, **chosen: str) -> dict[str, dict[str, tuple[float, ...]]]:
    """The points of the picture as Grafana merges them: by group, by replica (or corner), the numbers in order."""
    panel = of(PICTURE).data
    found = {t["refId"]: server.query(filled(t["expr"], span=SPAN, **chosen), at=END) for t in panel["targets"]}
    shown: dict[str, dict[str, tuple[float, ...]]] = {}
    for one, merge in zip(panel["options"]["series"], panel["transformations"], strict=False):
        rows: dict[str, list[float]] = {}
        for ref in re.findall(r"[A-Z]", merge["filter"]["options"]):
            for labels, value in found[ref]:
                assert labels.keys() in ({"instance", "model"}, {"corner"}), "rows are merged by these"
                rows.setdefault(labels.get("instance") or labels["corner"], []).append(value)
        shown[one["name"]["fixed"]] = {key: tuple(values) for key, values in rows.items()}
    return shown


def test_each_replica_is_one_point_of_one_group_with_both_its_numbers(fleet):
    calm, waiting, hollow, limits = points(fleet).values()
    assert calm == {"full": (0.99, 0.9, 0.0), "quiet": (0.1, 0.0)}
    assert waiting == {"memory-binds": (0.97, 0.2, 5.0), "compute-binds": (0.3, 0.8, 2.0)}
    assert hollow == {"dark": (0.3, 0.6, 3.0), "busy-only": (0.4, 0.5, 0.0)}
    assert list(limits.values()) == [(0.95, 0.0), (0.95, 1.0), (0.95, 0.6), (0.0, 0.6), (1.0, 0.6)]


def test_a_missing_number_makes_no_point_and_is_listed(fleet):
    placed = {name for group in list(points(fleet).values())[:3] for name in group}
    assert placed == FLEET.keys() - {"no-gpu", "no-kv"}
    no_gpu, no_kv = answers(fleet, of(UNPLACED))
    assert [labels for labels, _ in no_gpu] == [{"instance": "no-gpu", "model": "tiny"}]
    assert [labels for labels, _ in no_kv] == [{"instance": "no-kv", "model": "tiny"}]


def test_the_pictures_lines_go_with_its_points(fleet):
    only = points(fleet, instance="no-gpu")
    assert all(not rows for rows in only.values()), "an empty picture says why it is empty"
    assert points(fleet, instance="full").popitem()[1]
    assert next(iter(points(fleet, instance="(full|dark)").values())).keys() == {"full"}


SILENT = tuple(drawn for drawn in ONCE if drawn.panel.empty.startswith(NO_TRAFFIC))
WITHOUT = (
    "Where the time goes: queue, prefill, decode, front end",
    "Time to first token",
    "Time per output token, per request",
    "Gap between tokens",
    "Whole request",
    "Goodput: share inside every promise",
    "Share of time spent queued",
    "First tokens in time",
    "Pace of tokens",
    "Answers that fail",
)
"""Panels of what only traffic has: they say so."""


@pytest.mark.parametrize("title", WITHOUT)
def test_what_only_traffic_has_is_said_to_be_empty_without(title):
    assert of(title) in SILENT


@each(SILENT)
def test_without_traffic_a_panel_is_empty_and_says_so(prometheus, drawn):
    assert answers(prometheus, drawn, instance=IDLE.instance) == [[] for _ in drawn.asked], drawn.id
    assert drawn.data["fieldConfig"]["defaults"]["noValue"].startswith(NO_TRAFFIC)


@each(ONCE)
def test_without_traffic_no_query_returns_what_is_no_number(prometheus, drawn):
    for found in answers(prometheus, drawn, instance=IDLE.instance):
        assert all(math.isfinite(value) for _, value in found)


@pytest.mark.parametrize(("server", "slower"), [(BUSY, 1), (TWIN, 2)])
def test_the_bands_of_time_are_the_means_that_were_loaded(prometheus, server, slower):
    drawn = of("Where the time goes: queue, prefill, decode, front end")
    assert drawn.panel.kind is Kind.STACK
    bands = [found[0][1] for found in answers(prometheus, drawn, cluster=server.cluster)]
    # queue, prefill, decode, what they leave of the whole of 6 s, and what no replica keeps together
    assert bands == pytest.approx([3.0 * slower, 0.5 * slower, 1.5 * slower, 1.0 * slower, 0.0])


def test_the_verdict_row_shows_what_the_triage_says(prometheus):
    def shown(title: str) -> list[Answer]:
        return answers(prometheus, of(title, "service"), cluster=BUSY.cluster)

    assert {(m["instance"], m["verdict"]) for m, _ in shown("Verdict")[0]} == {
        (BUSY.instance, "cause"),
        (IDLE.instance, "no-traffic"),
    }
    assert [(m["cause"], v) for m, v in shown("Leading cause and its confidence")[0]] == [(CAUSE, 0.9)]
    up, blind, apart = shown("Can the numbers be trusted?")
    assert {(m["instance"], v) for m, v in up} == {
        (BUSY.instance, 1.0),
        (IDLE.instance, 1.0),
        (GONE.instance, 0.0),
    }
    assert [v for _, v in blind] == [1.0]
    assert apart == [({}, 0.0)]
    assert {(m["cause"], v) for m, v in shown("Causes over time")[0]} == {
        (CAUSE, 2.0),
        ("unbounded-queue", 1.0),
        ("kv-cache-saturation", 0.0),  # known to have ended: without a value Grafana would draw it on to the end
    }


BOARDS = pytest.mark.parametrize("board", DATA.values(), ids=DATA)
CHOICES = {
    "cluster": ["east", "west"],
    "namespace": ["chat"],
    "model": [MODEL],
    "instance": [BUSY.instance, GONE.instance, IDLE.instance],
}


def offered(prometheus, board: dict, **chosen: str) -> dict[str, list[str]]:
    """What each variable of a board offers."""
    found = {}
    for variable in (v for v in board["templating"]["list"] if v["type"] == "query"):
        match, label = re.fullmatch(
            r"label_values\((.+), (\w+)\)", filled(variable["query"]["query"], **chosen)
        ).groups()
        span = {"start": str(START), "end": str(END)}
        found[variable["name"]] = prometheus.get(f"label/{label}/values", **{"match[]": match}, **span)
    return found


@BOARDS
def test_variables_are_answered_and_each_is_narrowed_by_those_before_it(prometheus, board):
    assert offered(prometheus, board) == CHOICES
    of_west = {"namespace": ["chat"], "model": [MODEL], "instance": [TWIN.instance]}
    assert offered(prometheus, board, cluster=TWIN.cluster) == CHOICES | of_west
    assert offered(prometheus, board, namespace="other") == CHOICES | {"model": [], "instance": []}
    assert offered(prometheus, board, model="other")["instance"] == []


@BOARDS
def test_annotations_are_answered(prometheus, board):
    marks = {one["name"]: one["expr"] for one in board["annotations"]["list"] if "expr" in one}
    for name, expr in marks.items():
        found = prometheus.query(filled(expr, span=SPAN), at=END)
        assert all(math.isfinite(value) for _, value in found), name
    assert prometheus.query(filled(marks["Engine restarts"]), at=END) == []  # nothing restarted

    def firing(**chosen: str) -> set[str]:
        return {labels["alertname"] for labels, _ in prometheus.query(filled(marks["Alerts"], **chosen), at=END)}

    assert firing() == firing(instance=BUSY.instance, model=MODEL) == {"LLMFirstTokensLate", "LLMExporterStuck"}
    assert firing(instance=IDLE.instance) == {"LLMExporterStuck"}, "what blinds all other alerts is always shown"


def test_alerts_are_shown_from_their_wait_to_their_end(prometheus):
    (shown,) = answers(prometheus, of(ALERTS))
    assert {(m["alertname"], m.get("cause", ""), v) for m, v in shown} == {
        ("LLMFirstTokensLate", "", 2.0),
        ("LLMExporterStuck", "", 2.0),
        ("LLMPreemptionThrash", CAUSE, 1.0),
        ("LLMTokensSlow", "", 0.0),
    }


def test_rules_that_are_not_loaded_are_not_no_alerts(prometheus, fleet):
    loaded, firing = answers(prometheus, of("Are the rules loaded?"))
    assert (loaded, firing) == ([({}, 1.0)], [({}, 2.0)])
    loaded, firing = answers(fleet, of("Are the rules loaded?"))
    assert (loaded, firing) == ([({}, 0.0)], [])


@pytest.mark.parametrize(
    ("title", "burn"), [("First tokens in time", 1 / 30 / 0.05), ("Pace of tokens", 3 / 30 / 0.05)]
)
def test_a_burn_is_the_share_that_missed_over_the_share_that_may(prometheus, title, burn):
    for server in (BUSY, TWIN):
        for found in answers(prometheus, of(title), instance=server.instance, cluster=server.cluster):
            assert [value for _, value in found] == [pytest.approx(burn)]


def test_who_watches_is_told_of_the_exporter_and_of_what_failed(prometheus):
    def of_watching(title: str) -> list[list[tuple[tuple[str, ...], float]]]:
        shown = answers(prometheus, of(title), cluster=BUSY.cluster)
        return [[(tuple(v for k, v in m.items() if k not in PLACE), value) for m, value in found] for found in shown]

    age, *_ = of_watching("Age of the newest cycle")
    assert age == [((EXPORTER,), 2.5)]
    assert of_watching("Newest settings file")[0] == [((EXPORTER,), 0.0)]
    assert of_watching("Collectors that failed")[0] == [(("gpu", BUSY.instance), 1.0)]
    assert [[value for _, value in found] for found in of_watching("Targets")] == [[2.0], [2.0], [1.0]]
