"""The board over a recording of a real vLLM: pages, exporter, Prometheus, and then the queries of every panel.

Each page of the recording goes through the exporter at its own moment; what the exporter's page says then is what
Prometheus holds, as if it had scraped it: with what the exporter says of itself, and that it answered.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from llmvitals.dashboards import grafana
from llmvitals.exporters.board import Board
from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.selfmetrics import SelfMetrics
from llmvitals.series import Series, series
from llmvitals.settings import Settings, Target
from llmvitals.sources.capture import raw
from support.prometheus import PrometheusServer, load_blocks, openmetrics

pytestmark = pytest.mark.prometheus

RECORDING = Path(__file__).resolve().parents[1] / "fixtures" / "captures" / "kv-preemption"
PANELS = [
    panel
    for text in grafana.files().values()
    for row in json.loads(text)["panels"]
    for panel in (row, *row.get("panels", []))
    if panel["type"] not in ("row", "text")
]
UNPLACED = "Not in the picture, and what is missing"  # it lists what lacks a number
NAME, URL = "vllm-0", "http://127.0.0.1:8000"
WINDOW = 60
# Why a query may find nothing on this recording; everything else must find something.
ABSENT = {
    "llm_gpu_": "no dcgm-exporter is joined",
    "llm_spec_": "no speculative decoding",
    "llm_slo_": "no traces are received",
    "llm_span_": "no traces are received",
    "llm_probe_": "no probes are sent",
    "llm_gateway_": "no gateway is joined",
    "llm_goodput_": "too many requests are in flight to say",
    "llm_lost_call_": "no gateway is joined",
    "llm_host_": "nothing reads the host",
    "llm_api_cpu_full_": "nothing reads the host",
    "llm_port_usage_": "nothing reads the host",
    "ALERTS": "no rules are loaded: the board says so beside it",
    "llmvitals_collector_success": "every collector worked",
    'llm_target_up{instance=~"$instance"} == 0': "the target answered",
}


@pytest.fixture(scope="module")
def pages():
    return raw(RECORDING)[0].pages


@pytest.fixture(scope="module")
def prometheus(pages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording")
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
    load_blocks(openmetrics(points), folder / "data")
    with PrometheusServer(folder) as server:
        yield server


def answers(server: PrometheusServer, title: str, at: float) -> list[list[tuple[dict[str, str], float]]]:
    known = {"instance": NAME, "model": "tiny-llama", "__rate_interval": f"{WINDOW}s", "__range": f"{WINDOW}s"}
    panel = next(p for p in PANELS if p["title"] == title)
    return [
        server.query(re.sub(r"\$(\w+)", lambda found: known[found[1]], target["expr"]), at=at)
        for target in panel["targets"]
    ]


def on_page(page, name: str) -> float:
    """A value read off the page as it was received, without any code of ours."""
    found = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", page.body.decode(), re.MULTILINE)
    return sum(map(float, found))


@pytest.mark.parametrize("panel", [p for p in PANELS if p["title"] != UNPLACED], ids=lambda p: p["title"])
def test_every_query_finds_what_this_server_says(prometheus, pages, panel, ran_recording):
    ran_recording(RECORDING)
    for target, found in zip(panel["targets"], answers(prometheus, panel["title"], pages[-1].t), strict=True):
        reasons = [why for name, why in ABSENT.items() if name in target["expr"]]
        assert bool(found) != bool(reasons), (target["expr"], reasons)


def test_without_gpus_the_server_is_listed_as_missing_in_the_picture(prometheus, pages):
    no_gpu, no_kv = answers(prometheus, UNPLACED, pages[-1].t)
    assert [labels["instance"] for labels, _ in no_gpu] == [NAME]
    assert no_kv == []


def test_the_verdict_is_that_of_the_recording(prometheus, pages):
    expected = json.loads((RECORDING / "about.json").read_text(encoding="utf-8"))["expected"]
    verdict = answers(prometheus, "Verdict", pages[-1].t)[0]
    leading = answers(prometheus, "Leading cause and its confidence", pages[-1].t)[0]
    assert [labels["verdict"] for labels, _ in verdict] == [expected["verdict"]]
    assert [labels["cause"] for labels, _ in leading] == [expected["leading"]]


def test_panels_show_the_numbers_of_the_pages(prometheus, pages):
    last, first = pages[-1], next(page for page in pages if page.t >= pages[-1].t - WINDOW)
    spent = last.t - first.t

    def grew(name: str) -> float:
        return on_page(last, name) - on_page(first, name)

    running, waiting, *_ = answers(prometheus, "Running and waiting", last.t)
    assert running[0][1] == on_page(last, "vllm:num_requests_running")
    assert waiting[0][1] == on_page(last, "vllm:num_requests_waiting")
    kv = answers(prometheus, "What binds: KV cache next to GPU compute", last.t)[0]
    assert kv[0][1] == pytest.approx(on_page(last, "vllm:kv_cache_usage_perc"))
    preemptions = answers(prometheus, "Preemptions", last.t)[0]
    assert preemptions[0][1] == pytest.approx(grew("vllm:num_preemptions_total") / spent * 60, rel=0.05)
    bands = answers(prometheus, "Where the time goes: queue, prefill, decode, front end", last.t)
    for band, name in zip(bands, ("queue", "prefill", "decode"), strict=False):
        mean = grew(f"vllm:request_{name}_time_seconds_sum") / grew(f"vllm:request_{name}_time_seconds_count")
        assert band[0][1] == pytest.approx(mean, rel=1e-6)
