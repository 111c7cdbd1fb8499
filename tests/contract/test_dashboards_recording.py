"""The boards over a recording of a real vLLM: pages, exporter, Prometheus, and then the queries of every panel.

Each page of the recording goes through the exporter at its own moment; what the exporter's page says then is what
Prometheus holds, as if it had scraped it: with what the exporter says of itself, and that it answered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from llmvitals.dashboards.raw.tree import read
from llmvitals.exporters.board import Board
from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.selfmetrics import SelfMetrics
from llmvitals.schema import Origin, family_of, origin_of
from llmvitals.series import Series, series
from llmvitals.settings import Settings, Target
from llmvitals.sources.capture import raw
from support.boards import ONCE, Drawn, each, filled, of
from support.prometheus import PrometheusServer, prometheus_of
from support.promql_tree import name_of, needed

pytestmark = pytest.mark.prometheus

RECORDING = Path(__file__).resolve().parents[1] / "fixtures" / "captures" / "kv-preemption"
UNPLACED = "Not in the picture, and what is missing"  # it lists what lacks a number
NAME, URL = "vllm-0", "http://127.0.0.1:8000"
WINDOW = 60
JOINED = {Origin.GPU, Origin.HOST, Origin.GATEWAY, Origin.PROBE, Origin.SPANS}
"""Whose families the page has where somebody joins them; here nobody does."""

ABSENT: Mapping[str, str] = {
    "ALERTS": "no rules are loaded: a panel says so beside it",
    "prometheus_": "this Prometheus does not scrape itself",
    "scrape_": "nothing was scraped: what pages say was loaded",
    "llmvitals_span": "no traces are received",
    "llmvitals_otlp": "nothing is pushed",
    "llmvitals_http": "nobody asked this exporter over HTTP",
    "llmvitals_target_left_out": "there are no pods",
}
"""By how a series begins, why it is not there; what a server lacks is said by the page itself."""

ONE_SERVER = "there is one replica, and nothing to compare it with"
ALL_WELL = "nothing of that kind happened"
QUIET: Mapping[str, str] = {
    "KV usage against compute, replica by replica": "no GPU is joined",
    "Do the replicas of a model share the load?": ONE_SERVER,
    "Busiest replica over the median one": ONE_SERVER,
    "Are the rules loaded?": "how many alerts fire is not said where no rules are loaded",
    "Time until the queue is empty": "it does not get shorter",
    "Where did the calls go?": "no gateway is joined",
    "Compute, per GPU": "the engine counts it only where its figures are asked for",
    "Memory traffic, per GPU": "the engine counts it only where its figures are asked for",
    "Operations per byte": "the engine counts it only where its figures are asked for",
    "Hits in the external KV store": ALL_WELL,
    "Hits in the multimodal cache": ALL_WELL,
    "GPU memory, by who holds it": "no GPU is joined",
    "Power that serves, and power that idles": "no GPU is joined",
    "Families that should be there and are not": ALL_WELL,
    "Which checks are undecided": ALL_WELL,
    "Collectors that failed": "every collector worked",
    "Targets": "the target answered",
}
"""By a panel's title, why some query of series that are there finds nothing; every other query finds something."""


@pytest.fixture(scope="module")
def pages():
    return raw(RECORDING)[0].pages


@pytest.fixture(scope="module")
def prometheus(pages, tmp_path_factory):
    exporter = Engine(Settings(targets=(Target(url=URL, name=NAME),)))
    points: dict[Series, list[tuple[int, float]]] = {}
    board = Board()
    own = SelfMetrics(board)
    for page in pages:
        cycle = exporter.publish(page.t, exporter.record({NAME: page}))
        board.post(cycle)
        shown = cycle.page.decode() + generate_latest(own.registry).decode()
        scraped = {"job": "llmvitals", "instance": "127.0.0.1:9464"}
        told = [(series("up", **scraped), 1.0)]
        for family in text_string_to_metric_families(shown):
            told += [(series(s.name, **scraped | s.labels), s.value) for s in family.samples]
        for key, value in told:
            points.setdefault(key, []).append((round(page.t * 1000), value))
    with prometheus_of(tmp_path_factory.mktemp("recording"), points) as server:
        yield server


def answers(server: PrometheusServer, drawn: Drawn, at: float) -> list[list[tuple[dict[str, str], float]]]:
    chosen = {"instance": NAME, "model": "tiny-llama", "window": f"{WINDOW}s", "span": f"{WINDOW}s"}
    return [server.query(filled(asked.expr, **chosen), at=at) for asked in drawn.asked]


def on_page(page, name: str) -> float:
    """A value read off the page as it was received, without any code of ours."""
    found = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", page.body.decode(), re.MULTILINE)
    return sum(map(float, found))


@pytest.fixture(scope="module")
def there(prometheus) -> set[str]:
    return set(prometheus.get("label/__name__/values"))


@pytest.fixture(scope="module")
def told(prometheus, pages) -> set[str]:
    """The families and signals of which the page says that it lacks them, and why."""
    families = prometheus.query("llm_family_gap", at=pages[-1].t)
    signals = prometheus.query("llm_signal_gap", at=pages[-1].t)
    return {labels["family"] for labels, _ in families} | {f"llm_{labels['signal']}" for labels, _ in signals}


def explained(name: str, told: set[str]) -> bool:
    """Whether a series may be absent: nobody joined it, the page says so, or nothing here makes it."""
    family = family_of(name)
    if family is None:
        return name in told or name.startswith(tuple(ABSENT))
    return family.name in told or origin_of(family.name) in JOINED


@each([drawn for drawn in ONCE if drawn.title != UNPLACED])
def test_every_query_finds_what_this_server_says(prometheus, pages, there, told, drawn, ran_recording):
    ran_recording(RECORDING)
    for asked, found in zip(drawn.asked, answers(prometheus, drawn, pages[-1].t), strict=True):
        lacking = needed(read(filled(asked.expr)), name_of) - there
        unexplained = [name for name in lacking if not explained(name, told)]
        assert not unexplained, f"{drawn.id}: why is there no {unexplained}?"
        assert not (found and lacking)
        assert found or lacking or drawn.title in QUIET, f"{drawn.id}: {asked.expr}"


def test_every_reason_is_needed(prometheus, pages, there):
    assert QUIET.keys() == {
        drawn.title
        for drawn in ONCE
        for asked, found in zip(drawn.asked, answers(prometheus, drawn, pages[-1].t), strict=True)
        if not found and not needed(read(filled(asked.expr)), name_of) - there and drawn.title != UNPLACED
    }
    absent = {name for drawn in ONCE for asked in drawn.asked for name in needed(read(filled(asked.expr)), name_of)}
    absent -= there
    assert not [prefix for prefix in ABSENT if not any(name.startswith(prefix) for name in absent)]


def test_without_gpus_the_server_is_listed_as_missing_in_the_picture(prometheus, pages):
    no_gpu, no_kv = answers(prometheus, of(UNPLACED), pages[-1].t)
    assert [labels["instance"] for labels, _ in no_gpu] == [NAME]
    assert no_kv == []


def test_the_verdict_is_that_of_the_recording(prometheus, pages):
    expected = json.loads((RECORDING / "about.json").read_text(encoding="utf-8"))["expected"]
    verdict = answers(prometheus, of("Verdict"), pages[-1].t)[0]
    leading = answers(prometheus, of("Leading cause and its confidence"), pages[-1].t)[0]
    assert [labels["verdict"] for labels, _ in verdict] == [expected["verdict"]]
    assert [labels["cause"] for labels, _ in leading] == [expected["leading"]]


def test_panels_show_the_numbers_of_the_pages(prometheus, pages):
    last, first = pages[-1], next(page for page in pages if page.t >= pages[-1].t - WINDOW)
    spent = last.t - first.t

    def grew(name: str) -> float:
        return on_page(last, name) - on_page(first, name)

    running, waiting, *_ = answers(prometheus, of("Running and waiting"), last.t)
    assert running[0][1] == on_page(last, "vllm:num_requests_running")
    assert waiting[0][1] == on_page(last, "vllm:num_requests_waiting")
    kv = answers(prometheus, of("What binds: KV cache next to GPU compute"), last.t)[0]
    assert kv[0][1] == pytest.approx(on_page(last, "vllm:kv_cache_usage_perc"))
    preemptions = answers(prometheus, of("Preemptions"), last.t)[0]
    assert preemptions[0][1] == pytest.approx(grew("vllm:num_preemptions_total") / spent * 60, rel=0.05)
    bands = answers(prometheus, of("Where the time goes: queue, prefill, decode, front end"), last.t)
    for band, name in zip(bands, ("queue", "prefill", "decode"), strict=False):
        mean = grew(f"vllm:request_{name}_time_seconds_sum") / grew(f"vllm:request_{name}_time_seconds_count")
        assert band[0][1] == pytest.approx(mean, rel=1e-6)
