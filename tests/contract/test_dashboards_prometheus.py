"""Every query of every board on a real Prometheus: it is accepted, returns data, and with the labels its legend shows.

What is loaded is everything the exporter's page may hold for one busy server and one idle one, at 15 s intervals: all
canonical families, the derived gauges of signals that no PromQL can say, and the triage's series.
"""

from __future__ import annotations

import json
import math
import re
from itertools import product

import pytest

from llmvitals.dashboards import grafana
from llmvitals.schema import FAMILIES, Family, Kind
from llmvitals.series import Series, series
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.triage.verdict import Outcome, State
from support.prometheus import PrometheusServer, load_blocks, openmetrics

pytestmark = pytest.mark.prometheus

BOARDS = {name: json.loads(text) for name, text in grafana.files().items()}
PANELS = [panel for board in BOARDS.values() for panel in board["panels"] if panel["type"] != "row"]
PANEL = pytest.mark.parametrize("panel", PANELS, ids=[p["title"] for p in PANELS])

START, STEP, PAGES = 1_700_000_000, 15, 41
END = START + STEP * (PAGES - 1)
MEANS = {"llm_request_queue_seconds": 3.0, "llm_request_prefill_seconds": 0.5, "llm_request_decode_seconds": 1.5}
EDGES = (0.25, 1.0, 2.5, 10.0)
OF_THE_TARGET = ("llm_target_", "llm_gpu_", "llm_http_", "llm_process_")  # no model is known of these
BUSY, IDLE = "busy", "idle"
# a label's values: those that queries match, and one of any other
VALUES = {"reason": ("capacity", "deferred"), "status": ("2xx", "5xx")}

Points = dict[Series, list[tuple[int, float]]]


def track(values) -> list[tuple[int, float]]:
    return [((START + STEP * page) * 1000, float(values(page))) for page in range(PAGES)]


def family_points(family: Family, instance: str) -> Points:
    """A family in use: a gauge that stays, a counter that grows by 30 a page, a histogram of 30 observations a page."""
    moving = 30 if instance == BUSY else 0
    identity = {"instance": instance, "engine": "vllm", "rank": "0"}
    if not family.name.startswith(OF_THE_TARGET):
        identity["model"] = "tiny"
    found: Points = {}
    for values in product(*(VALUES.get(label, ("x",)) for label in family.labels)):
        labels = identity | dict(zip(family.labels, values, strict=True))
        if family.kind is Kind.GAUGE:
            level = 1 if family.name == "llm_target_up" else 0.5 if moving else 0
            found[series(family.name, **labels)] = track(lambda _, level=level: level)
        elif family.kind is Kind.COUNTER:
            found[series(family.name, **labels)] = track(lambda page: moving * page)
        else:
            mean = MEANS.get(family.name, 2.0)
            for edge in (*EDGES, math.inf):
                inside = moving * (edge >= mean)
                text = "+Inf" if math.isinf(edge) else repr(edge)
                found[series(f"{family.name}_bucket", **labels, le=text)] = track(lambda p, inside=inside: inside * p)
            found[series(f"{family.name}_count", **labels)] = track(lambda page: moving * page)
            found[series(f"{family.name}_sum", **labels)] = track(lambda page, mean=mean: moving * mean * page)
    return found


def exporter_points(instance: str) -> Points:
    """Derived gauges (absent for the idle server, which has no number for them) and the triage's series."""
    scope = {"instance": instance, "model": "tiny"}
    outcome = Outcome.CAUSE if instance == BUSY else Outcome.NO_TRAFFIC
    states = {"preemption-thrash": State.FIRING, "unbounded-queue": State.SHADOWED, "cold-start": State.UNKNOWN}
    found = {
        series("llm_triage_verdict", **scope, verdict=o.value): track(lambda _, o=o: o is outcome) for o in Outcome
    }
    if instance == IDLE:
        return found
    found[series("llm_triage_leading", **scope, cause="preemption-thrash")] = track(lambda _: 0.9)
    for (cause, held), state in product(states.items(), State):
        key = series("llm_triage_check_state", **scope, cause=cause, state=state.value)
        found[key] = track(lambda _, on=state is held: on)
    for state in (State.FIRING, State.CLEAR):  # it fired at first, and then no more
        key = series("llm_triage_check_state", **scope, cause="kv-cache-saturation", state=state.value)
        found[key] = track(lambda page, on=state is State.FIRING: on == (page < 10))
    for signal in SIGNALS:
        if signal.expr is None:
            found[series(f"llm_{signal.id}", **scope, window="60s")] = track(lambda _: 0.25)
    return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boards")
    points: Points = {}
    for instance in (BUSY, IDLE):
        for family in FAMILIES:
            points |= family_points(family, instance)
        points |= exporter_points(instance)
    load_blocks(openmetrics(points), folder / "data")
    with PrometheusServer(folder) as server:
        yield server


def filled(expr: str, *, instance: str = ".*", model: str = ".*") -> str:
    """A query as Grafana sends it: variables filled in, the window at four scrapes."""
    known = {"instance": instance, "model": model, "__rate_interval": "60s", "__range": f"{END - START}s"}
    text = re.sub(r"\$(\w+)", lambda found: known[found[1]], expr)
    assert "$" not in text
    return text


def answers(server: PrometheusServer, panel: dict, **chosen: str) -> list[list[tuple[dict[str, str], float]]]:
    return [server.query(filled(target["expr"], **chosen), at=END) for target in panel["targets"]]


@PANEL
def test_every_query_returns_data_with_the_labels_of_its_legend(prometheus, panel):
    for target, found in zip(panel["targets"], answers(prometheus, panel), strict=True):
        assert found, target["expr"]
        wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert all(labels.keys() == wanted for labels, _ in found), target["expr"]
        assert all(math.isfinite(value) for _, value in found), "a panel cannot draw it, and would not say why"


@PANEL
def test_a_choice_of_instance_and_model_leaves_the_others_out(prometheus, panel):
    for target, found in zip(panel["targets"], answers(prometheus, panel, instance="(busy|gone)"), strict=True):
        assert found, target["expr"]
        assert all(labels.get("instance", BUSY) == BUSY for labels, _ in found)
    for target, found in zip(panel["targets"], answers(prometheus, panel, model="other"), strict=True):
        of_the_target = "llm_target_up" in target["expr"] or "llm_gpu_" in target["expr"]
        assert bool(found) == of_the_target, "only what names no model is shown for every model"


SILENT = (
    "Where the time goes: queue, prefill, decode, front end",
    "Time to first token",
    "Time per output token, per request",
    "Gap between tokens",
    "Whole request",
    "Goodput: share inside every promise",
    "Share of time spent queued",
)


@pytest.mark.parametrize("title", SILENT)
def test_without_traffic_a_panel_is_empty_and_says_so(prometheus, title):
    panel = next(p for p in PANELS if p["title"] == title)
    assert answers(prometheus, panel, instance=IDLE) == [[] for _ in panel["targets"]]
    assert panel["fieldConfig"]["defaults"]["noValue"].startswith("no traffic")


@PANEL
def test_without_traffic_no_query_returns_what_is_no_number(prometheus, panel):
    for found in answers(prometheus, panel, instance=IDLE):
        assert all(math.isfinite(value) for _, value in found)


def test_the_bands_of_time_are_the_means_that_were_loaded(prometheus):
    panel = next(
        p for p in PANELS if p["fieldConfig"]["defaults"].get("custom", {}).get("stacking", {}).get("mode") == "normal"
    )
    queue, prefill, decode, _ = (found[0][1] for found in answers(prometheus, panel))
    assert (queue, prefill, decode) == pytest.approx((3.0, 0.5, 1.5))


def test_the_verdict_row_shows_what_the_triage_says(prometheus):
    by_title = {p["title"]: answers(prometheus, p) for p in PANELS[:4]}
    assert {(m["instance"], m["verdict"]) for m, _ in by_title["Verdict"][0]} == {(BUSY, "cause"), (IDLE, "no-traffic")}
    assert [(m["cause"], v) for m, v in by_title["Leading cause and its confidence"][0]] == [("preemption-thrash", 0.9)]
    up, blind = by_title["Can the numbers be trusted?"]
    assert {(m["instance"], v) for m, v in up} == {(BUSY, 1.0), (IDLE, 1.0)}
    assert [v for _, v in blind] == [1.0]
    assert {(m["cause"], v) for m, v in by_title["Causes over time"][0]} == {
        ("preemption-thrash", 2.0),
        ("unbounded-queue", 1.0),
        ("kv-cache-saturation", 0.0),  # known to have ended: without a value Grafana would draw it on to the end
    }


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_variables_and_annotations_are_answered(prometheus, board):
    for variable in (v for v in board["templating"]["list"] if v["type"] == "query"):
        query = filled(variable["query"]["query"], instance=BUSY)
        match, label = re.fullmatch(r"label_values\((.+), (\w+)\)", query).groups()
        span = {"start": str(START), "end": str(END)}
        found = prometheus.get(f"label/{label}/values", **{"match[]": match}, **span)
        assert found == ([BUSY, IDLE] if label == "instance" else ["tiny"])
    for annotation in board["annotations"]["list"]:
        assert prometheus.query(filled(annotation["expr"]), at=END) == []  # nothing restarted
