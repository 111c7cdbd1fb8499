"""Marks across panels, on a real Prometheus: each stands where the thing happened, once, whatever the step."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import pytest

from llmvitals.dashboards.annotations import MARKS, Mark
from llmvitals.dashboards.model import PLACE, Query
from llmvitals.dashboards.promql import promql
from llmvitals.series import series
from support.boards import DATA, filled, raw_boards
from support.prometheus import Points, PrometheusServer, prometheus_of

pytestmark = pytest.mark.prometheus

START, SCRAPE, PAGES = 1_700_000_000, 15, 121
END = START + SCRAPE * (PAGES - 1)  # half an hour
STEPS = (15, 30, 60)
BY_NAME = {mark.name: mark for mark in MARKS}

DOWN, BORN, BACK = (
    600,
    700,
    840,
)  # the process ends, the next one begins, and answers: the gap is longer than any window
DEPLOYED, SECOND = 900, 1200
XID, AGAIN = 615, 1215
CAME, WENT = 300, 1500
REFUSED, TAKEN, FEWER = 450, 750, 1050
FIRES, OVER = 405, 990


@dataclass(frozen=True, slots=True)
class Drawn:
    """What Grafana draws: from when to when (unix seconds), and the title."""

    begin: float
    end: float
    title: str


def track(value, begin: int = 0, end: int = SCRAPE * PAGES) -> list[tuple[int, float]]:
    """Samples of the pages from ``begin`` on and before ``end``, and after them the marker that the series has ended."""
    shown = [page * SCRAPE for page in range(PAGES) if begin <= page * SCRAPE < end]
    return [((START + at) * 1000, float(value(at) if callable(value) else value)) for at in shown]


def engine(name: str, version: str, begin: int = 0, end: int = SCRAPE * PAGES) -> tuple:
    return series("llm_target_info", instance=name, engine="vllm", version=version), track(1, begin, end)


def points() -> Points:
    began = START - 5000
    rank = {"instance": "a", "model": "m", "engine": "vllm"}
    gpu = {"instance": "a", "gpu": "GPU-1", "index": "0", "join": "process-ids"}
    alert = {"alertname": "LLMTokensSlow", "severity": "page", "instance": "a", "model": "m"}
    own = {"instance": "10.0.0.9:9464", "job": "llmvitals"}
    first = track(began, end=DOWN) + track(START + BORN, BACK)
    found: Points = {
        series("llm_process_start_time_seconds", rank="0", **rank): first,
        # two servers of one target, which began at different times and stay
        series("llm_process_start_time_seconds", instance="b", rank="0"): track(began),
        series("llm_process_start_time_seconds", instance="b", rank="1"): track(began + 70),
        # a page that does not say when its process began, in a container that is restarted
        series("llm_host_started_time_seconds", instance="c"): track(
            lambda at: began if at < DOWN else START + DOWN - 4
        ),
        # an engine's own page, scraped without an exporter
        series("process_start_time_seconds", instance="10.0.0.7:8000", job="vllm"): first,
        series("process_start_time_seconds", instance="10.0.0.8:8000", job="vllm"): track(began),
        series("llm_gpu_xid_events_total", **gpu): track(0),
        series("llm_gpu_xid_events_total", xid="31", **gpu): track(1),  # known from the beginning
        series("llm_gpu_xid_events_total", xid="79", **gpu): track(lambda at: 1 + (at >= AGAIN), XID),
        series("llmvitals_config_last_reload_successful", **own): track(lambda at: not REFUSED <= at < TAKEN),
        series("llmvitals_targets", **own): track(lambda at: 3 - (at >= FEWER)),
        series("ALERTS", alertstate="firing", **alert): track(1, FIRES, OVER),
        series("ALERTS", alertstate="pending", **alert): track(1, FIRES - 60, FIRES),
    }
    found |= {
        series("llm_target_up", instance=name): track(1, *life)
        for name, life in {"a": (), "b": (), "d": (CAME,), "e": (0, WENT)}.items()
    }
    found |= dict(
        (
            engine("a", ">=0.32", end=DEPLOYED),
            engine("a", ">=0.33", DEPLOYED),
            engine("b", ">=0.32", end=SECOND),
            engine("b", ">=0.33", SECOND),
        )
    )
    return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    # blocks that are loaded have no markers of what ended, so a series must not be looked for longer than a scrape
    flags = (f"--query.lookback-delta={SCRAPE - 1}s",)
    with prometheus_of(tmp_path_factory.mktemp("marks"), points(), flags=flags) as server:
        yield server


def drawn(server: PrometheusServer, mark: Mark, step: int, begin: int = START, end: int = END) -> list[Drawn]:
    """What Grafana draws of a mark: it asks along the time axis, and joins moments that lie within a step of each other."""
    asked = promql(Query("", "", promql=mark.promql)).replace("$__interval", f"{step}s")
    text = filled(asked, window=f"{max(4 * SCRAPE, step + SCRAPE)}s", span=f"{end - begin}s")
    data = server.get("query_range", query=text, start=str(begin), end=str(end), step=str(step))
    found: list[Drawn] = []
    for one in data["result"]:
        moments = [float(value) / 1000 if mark.moment else at for at, value in one["values"] if float(value) > 0]
        assert all(math.isfinite(float(value)) for _, value in one["values"])
        labels = one["metric"]
        title = re.sub(r"\{\{(\w+)\}\}", lambda name, labels=labels: labels.get(name[1], ""), mark.title)
        open_: list[float] = []
        for moment in moments:
            if open_ and moment > open_[-1] + step:
                found.append(Drawn(open_[0] - START, open_[-1] - START, title))
                open_ = []
            open_.append(moment)
        if open_:
            found.append(Drawn(open_[0] - START, open_[-1] - START, title))
    return sorted((one for one in found if begin - START <= one.end), key=lambda one: (one.begin, one.title))


def first_step(at: int, step: int) -> int:
    """The first step that sees what happened at a page."""
    return math.ceil(at / step) * step


@pytest.mark.parametrize("step", STEPS)
def test_a_restart_is_where_the_process_began_however_long_it_was_away(prometheus, step):
    assert drawn(prometheus, BY_NAME["Engine restarts"], step) == [
        Drawn(DOWN - 4, DOWN - 4, "restart of c"),
        Drawn(BORN, BORN, "restart of a"),
    ]


@pytest.mark.parametrize("step", STEPS)
def test_a_restart_is_marked_on_a_board_of_raw_series_as_well(prometheus, step):
    (mark,) = raw_boards()["dashboards/raw/vllm.json"]["annotations"]["list"]
    told = replace(BY_NAME["Engine restarts"], promql=mark["expr"].replace("$job", ".*"))
    assert drawn(prometheus, told, step) == [Drawn(BORN, BORN, "restart of 10.0.0.7:8000")]


def test_a_restart_before_the_chosen_time_is_not_marked(prometheus):
    assert drawn(prometheus, BY_NAME["Engine restarts"], 15, START + BACK + 60) == []


@pytest.mark.parametrize("step", STEPS)
def test_a_version_is_marked_when_its_first_server_speaks_it_and_not_for_each(prometheus, step):
    at = first_step(DEPLOYED, step)
    assert drawn(prometheus, BY_NAME["Deploys"], step) == [Drawn(at, at, "vllm >=0.33 came")]


def test_without_another_version_in_this_time_nothing_was_deployed(prometheus):
    assert drawn(prometheus, BY_NAME["Deploys"], 15, START + SECOND + 60) == []
    assert drawn(prometheus, BY_NAME["Deploys"], 15, START - 600, START + DEPLOYED - 60) == []


@pytest.mark.parametrize("step", STEPS)
def test_each_xid_error_is_marked_once_and_what_was_there_before_is_none(prometheus, step):
    assert drawn(prometheus, BY_NAME["XID errors"], step, START - 600) == [
        Drawn(first_step(at, step), first_step(at, step), "XID 79 on GPU 0 of a") for at in (XID, AGAIN)
    ]


@pytest.mark.parametrize("step", STEPS)
def test_replicas_come_and_go_but_not_with_the_beginning_of_telemetry(prometheus, step):
    came, went = (first_step(at, step) for at in (CAME, WENT))
    assert drawn(prometheus, BY_NAME["Replicas that come or go"], step, START - 600) == [
        Drawn(came, came, "d came"),
        Drawn(went, went, "e went"),
    ]


@pytest.mark.parametrize("step", STEPS)
def test_settings_are_marked_when_they_are_refused_taken_or_name_other_targets(prometheus, step):
    exporter = "10.0.0.9:9464"
    assert drawn(prometheus, BY_NAME["Exporters' settings"], step) == [
        Drawn(first_step(at, step), first_step(at, step), f"{what} {exporter}")
        for at, what in ((REFUSED, "settings refused by"), (TAKEN, "settings taken by"), (FEWER, "other targets at"))
    ]


@pytest.mark.parametrize("step", STEPS)
def test_an_alert_is_marked_from_when_it_fires_to_its_end_and_not_while_it_waits(prometheus, step):
    (shown,) = drawn(prometheus, BY_NAME["Alerts"], step)
    assert shown.begin == first_step(FIRES, step)
    assert OVER - step - SCRAPE <= shown.end < OVER
    assert shown.title == "LLMTokensSlow a m"


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: mark.name)
def test_titles_and_texts_name_labels_that_the_query_keeps(prometheus, mark):
    asked = promql(Query("", "", promql=mark.promql))
    named = set(re.findall(r"\{\{(\w+)\}\}", mark.title + mark.text))
    if "ALERTS" in asked:  # keeps all that an alert has
        assert named <= {"alertname", "instance", "model", "severity", "cause"}
        return
    made = set(re.findall(r'label_replace\(.*?, "(\w+)", ', asked))
    kept = {label for by in re.findall(r"by \(([^)]*)\)", asked) for label in by.split(", ")}
    assert named <= kept | made
    assert set(PLACE) <= kept or "instance" not in kept


@pytest.mark.parametrize("board", DATA.values(), ids=DATA.keys())
def test_every_board_has_every_mark_and_the_rarely_wanted_ones_are_off(board):
    listed = [one for one in board["annotations"]["list"] if "expr" in one]
    assert [one["name"] for one in listed] == [mark.name for mark in MARKS]
    off = {one["name"] for one in listed if not one["enable"]}
    assert off == {"Replicas that come or go", "Exporters' settings"}
    assert all(not one["hide"] for one in listed), "each has its switch at the top"
    assert {one["name"] for one in listed if one["useValueForTime"]} == {"Engine restarts"}
    assert len({mark.color for mark in MARKS}) == len(MARKS)
