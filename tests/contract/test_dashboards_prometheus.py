"""Every query of every board on a real Prometheus: it is accepted, returns data, and with the labels its legend shows.

What is loaded is everything the exporter's page may hold for one busy server and one idle one, at 15 s intervals: all
canonical families, the derived gauges of signals that no PromQL can say, the counters of promises, the triage's series, and what
exporters say of themselves; and beside it what Prometheus makes of rules: a recorded signal, and alerts.
"""

from __future__ import annotations

import json
import math
import re
from itertools import product

import pytest

from llmvitals.dashboards import grafana
from llmvitals.schema import FAMILIES, Family, Kind
from llmvitals.series import series
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.triage.verdict import Outcome, State
from support.prometheus import Points, PrometheusServer, load_blocks, openmetrics

pytestmark = pytest.mark.prometheus

BOARDS = {name: json.loads(text) for name, text in grafana.files().items()}
ROWS = [row for board in BOARDS.values() for row in board["panels"]]
PANELS = [panel for row in ROWS for panel in (row, *row.get("panels", [])) if panel["type"] != "row"]
PANEL = pytest.mark.parametrize("panel", PANELS, ids=[p["title"] for p in PANELS])
PICTURE, UNPLACED = "KV usage against compute, replica by replica", "Not in the picture, and what is missing"
# What depends on more than one server's being in one state has tests of its own.
FILLED = [p for p in PANELS if p["title"] not in (PICTURE, UNPLACED)]
FILLED_PANEL = pytest.mark.parametrize("panel", FILLED, ids=[p["title"] for p in FILLED])

START, STEP, PAGES = 1_700_000_000, 15, 41
END = START + STEP * (PAGES - 1)
MEANS = {"llm_request_queue_seconds": 3.0, "llm_request_prefill_seconds": 0.5, "llm_request_decode_seconds": 1.5}
EDGES = (0.25, 1.0, 2.5, 10.0)
OF_THE_TARGET = ("llm_target_", "llm_gpu_", "llm_host_", "llm_http_", "llm_process_")  # no model is known of these
NO_MODEL = ("llm_target_up", "llm_gpu_", "llm_host_", "llm_http_", "llm_gateway_requests_")
BUSY, IDLE = "busy", "idle"
ALERTS = "Alerts over time"
# a label's values: those that queries match, and one of any other
VALUES = {
    "reason": ("capacity", "deferred"),
    "status": ("2xx", "5xx"),
    "met": ("yes", "no", "unknown"),
    "objective": ("ttft", "tpot"),
}

GAUGES = {f"llm_{signal.id}" for signal in SIGNALS if signal.expr is None}  # a signal's gauge names its model


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


EXPORTER = "10.0.0.9:9464"  # an exporter's own series carry its own address


def promise_points(instance: str) -> Points:
    """Counters of promises: of 30 requests a page, one misses its first token and three their pace."""
    found: Points = {}
    for objective, missed, edge in (("ttft", 1, "2.5"), ("tpot", 3, "0.05")):
        labels = {"instance": instance, "model": "tiny", "engine": "vllm", "rank": "0", "objective": objective}
        every = 30 if instance == BUSY else 0
        part = missed if instance == BUSY else 0
        found[series("llm_promise_requests_total", **labels)] = track(lambda page, every=every: every * page)
        found[series("llm_promise_missed_total", **labels, edge=edge)] = track(lambda page, part=part: part * page)
    return found


def watching_points() -> Points:
    """What one exporter says of itself, with a collector that works now and did not at first, and its scrape."""
    own = {"job": "llmvitals", "instance": EXPORTER}
    return {
        series("up", **own): track(lambda _: 1),
        series("llmvitals_cycle_age_seconds", **own): track(lambda _: 2.5),
        series("llmvitals_cycle_duration_seconds", **own): track(lambda _: 0.3),
        series("llmvitals_config_last_reload_successful", **own): track(lambda _: 0),
        series("llmvitals_targets", **own): track(lambda _: 2),
        series("llmvitals_collector_success", job="llmvitals", instance=BUSY, collector="scrape"): track(lambda _: 1),
        series("llmvitals_collector_success", job="llmvitals", instance=BUSY, collector="gpu"): track(lambda p: p > 9),
        # one that answered a minute ago
        series("llm_target_up", instance="gone", engine="vllm"): track(lambda _: 0),
    }


def rule_points() -> Points:
    """What Prometheus makes of rules: a signal that is recorded, and alerts that fire, wait, and are over."""
    busy = {"instance": BUSY, "model": "tiny"}
    firing = {"alertname": "LLMFirstTokensLate", "alertstate": "firing", "severity": "page", **busy}
    cause = {"alertname": "LLMPreemptionThrash", "severity": "ticket", "cause": "preemption-thrash", **busy}
    blind = {"alertname": "LLMExporterStuck", "alertstate": "firing", "severity": "page", "instance": EXPORTER}
    pending = track(lambda _: 1)
    found = {series("llm:requests_running:5m", instance=one, model="tiny"): track(lambda _: 0) for one in (BUSY, IDLE)}
    found |= {series("ALERTS", **labels): pending for labels in (firing, blind)}
    found[series("ALERTS", **cause, alertstate="pending")] = pending
    found[series("ALERTS", **busy, alertname="LLMTokensSlow", alertstate="firing")] = pending[:10]
    return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boards")
    points: Points = {}
    for instance in (BUSY, IDLE):
        for family in FAMILIES:
            points |= family_points(family, instance)
        points |= exporter_points(instance) | promise_points(instance)
    points |= watching_points() | rule_points()
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


def found_labels(found: list[tuple[dict[str, str], float]]) -> list[set[str]]:
    return [set(labels) for labels, _ in found]


@FILLED_PANEL
def test_every_query_returns_data_with_the_labels_of_its_legend(prometheus, panel):
    for target, found in zip(panel["targets"], answers(prometheus, panel), strict=True):
        assert found, target["expr"]
        wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        if panel["title"] == ALERTS:  # not every alert has all of them, and a cause is for the link
            assert set().union(*found_labels(found)) == wanted | {"cause"}
        else:
            assert all(labels == wanted for labels in found_labels(found)), target["expr"]
        assert all(math.isfinite(value) for _, value in found), "a panel cannot draw it, and would not say why"


@FILLED_PANEL
def test_a_choice_of_instance_and_model_leaves_the_others_out(prometheus, panel):
    for target, found in zip(panel["targets"], answers(prometheus, panel, instance="(busy|gone)"), strict=True):
        assert found, target["expr"]
        assert all(labels.get("instance") != IDLE for labels, _ in found)
    for target, found in zip(panel["targets"], answers(prometheus, panel, model="other"), strict=True):
        named = set(re.findall(r"\b(llm_\w+)", target["expr"])) - GAUGES
        watching = re.search(r"\b(up|ALERTS|llmvitals_\w+)\b", target["expr"]) is not None
        of_the_target = (bool(named) or watching) and all(name.startswith(NO_MODEL) for name in named)
        assert bool(found) == of_the_target, "only what names no model is shown for every model"


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
    folder = tmp_path_factory.mktemp("fleet")
    load_blocks(openmetrics({k: v for name in FLEET for k, v in fleet_points(name).items()}), folder / "data")
    with PrometheusServer(folder) as server:
        yield server


def of(title: str) -> dict:
    return next(p for p in PANELS if p["title"] == title)


def drawn(server: PrometheusServer, **chosen: str) -> dict[str, dict[str, tuple[float, ...]]]:
    """The points of the picture as Grafana merges them: by group, by replica (or corner), the numbers in order."""
    panel = of(PICTURE)
    found = {t["refId"]: server.query(filled(t["expr"], **chosen), at=END) for t in panel["targets"]}
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
    calm, waiting, hollow, limits = drawn(fleet).values()
    assert calm == {"full": (0.99, 0.9, 0.0), "quiet": (0.1, 0.0)}
    assert waiting == {"memory-binds": (0.97, 0.2, 5.0), "compute-binds": (0.3, 0.8, 2.0)}
    assert hollow == {"dark": (0.3, 0.6, 3.0), "busy-only": (0.4, 0.5, 0.0)}
    assert list(limits.values()) == [(0.95, 0.0), (0.95, 1.0), (0.95, 0.6), (0.0, 0.6), (1.0, 0.6)]


def test_a_missing_number_makes_no_point_and_is_listed(fleet):
    placed = {name for group in list(drawn(fleet).values())[:3] for name in group}
    assert placed == FLEET.keys() - {"no-gpu", "no-kv"}
    no_gpu, no_kv = answers(fleet, of(UNPLACED))
    assert [labels for labels, _ in no_gpu] == [{"instance": "no-gpu", "model": "tiny"}]
    assert [labels for labels, _ in no_kv] == [{"instance": "no-kv", "model": "tiny"}]


def test_the_pictures_lines_go_with_its_points(fleet):
    only = drawn(fleet, instance="no-gpu")
    assert all(not rows for rows in only.values()), "an empty picture says why it is empty"
    assert drawn(fleet, instance="full").popitem()[1]
    assert next(iter(drawn(fleet, instance="(full|dark)").values())).keys() == {"full"}


SILENT = (
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
    assert {(m["instance"], v) for m, v in up} == {(BUSY, 1.0), (IDLE, 1.0), ("gone", 0.0)}
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
        assert found == ([BUSY, "gone", IDLE] if label == "instance" else ["tiny"])
    restarts, alerts = (annotation["expr"] for annotation in board["annotations"]["list"])
    assert prometheus.query(filled(restarts), at=END) == []  # nothing restarted

    def firing(**chosen: str) -> set[str]:
        return {labels["alertname"] for labels, _ in prometheus.query(filled(alerts, **chosen), at=END)}

    assert firing() == firing(instance=BUSY, model="tiny") == {"LLMFirstTokensLate", "LLMExporterStuck"}
    assert firing(instance=IDLE) == {"LLMExporterStuck"}, "what blinds all other alerts is shown whatever is chosen"


def test_alerts_are_shown_from_their_wait_to_their_end(prometheus):
    (shown,) = answers(prometheus, of(ALERTS))
    assert {(m["alertname"], m.get("cause", ""), v) for m, v in shown} == {
        ("LLMFirstTokensLate", "", 2.0),
        ("LLMExporterStuck", "", 2.0),
        ("LLMPreemptionThrash", "preemption-thrash", 1.0),
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
    for found in answers(prometheus, of(title), instance=BUSY):
        assert [value for _, value in found] == [pytest.approx(burn)]


def test_who_watches_is_told_of_the_exporter_and_of_what_failed(prometheus):
    (age, _), (taken,), (failed,) = (
        answers(prometheus, of(title))
        for title in ("Age of the newest cycle", "Newest settings file", "Collectors that failed")
    )
    assert age == [({"instance": EXPORTER}, 2.5)]
    assert taken == [({"instance": EXPORTER}, 0.0)]
    assert failed == [({"instance": BUSY, "collector": "gpu"}, 1.0)]
    configured, answer, silent = answers(prometheus, of("Targets"))
    assert [[value for _, value in found] for found in (configured, answer, silent)] == [[2.0], [2.0], [1.0]]
