"""Engines' own series in a Prometheus become the pages that they were, and the verdict is that of the pages themselves."""

from __future__ import annotations

import json
from functools import cache

import pytest

from llmvitals.errors import PageError
from llmvitals.series import Snapshot, series
from llmvitals.settings import Settings
from llmvitals.signals.window import scopes
from llmvitals.simulator.live import Live
from llmvitals.simulator.scenarios import SCENARIOS
from llmvitals.simulator.setup import Setup
from llmvitals.sources.promql_api import Stored
from llmvitals.sources.promql_raw import RawNames, RawTargets
from llmvitals.sources.stored import read_stored
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.triage.report import document, scope_of
from llmvitals.triage.walk import diagnose
from support.answers import Answers
from support.prometheus import PrometheusServer
from support.promql import matrix, ok
from support.raw_store import store, stored

ORIGIN = 1_800_000_000.0
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@cache
def pages(dialect: str, scenario: str) -> tuple[RawPage, ...]:
    """A minute and a half of a simulated server, scraped every 15 s as a Prometheus does."""
    row = BY_NAME[scenario]
    live = Live(Setup(row.config, row.workload, uptime=600.0), origin=ORIGIN, dialect=dialect)
    moments = [ORIGIN + 60 + 15 * i for i in range(7)]
    return tuple(RawPage(t, 0.02, 200, live.page_at(t)) for t in moments)


def judged(snapshots: tuple[Snapshot, ...]) -> list[str]:
    """Everything that the triage says of these pages, without their target's name."""
    told = [
        document([diagnose(w, Settings(), scope=scope_of("", model))]) for (_, model), w in scopes(snapshots).items()
    ]
    return [json.dumps(one, sort_keys=True) for one in told]


@pytest.mark.prometheus
def test_a_real_prometheus_that_scraped_engines_gives_the_verdicts_of_their_pages(tmp_path):
    cases = {
        f"{dialect}-{scenario}": pages(dialect, scenario)
        for dialect in ("vllm", "vllm-v0", "sglang", "tgi", "ray")
        for scenario in ("preemption", "queue")
    }
    targets = (stored(p, {"instance": n, "job": "engines", "namespace": "chat"}) for n, p in cases.items())
    store(tmp_path / "p" / "data", *targets)
    with PrometheusServer(tmp_path / "p") as server:
        found = read_stored(server.url, at=ORIGIN + 150, seconds=90)
        narrow = read_stored(server.url, selector='{model_name="sim-8b",instance="vllm-queue"}', at=ORIGIN + 150)
    assert found.raw
    seen = {one.name: one for one in found.observed}
    assert set(seen) == set(cases)
    for name, own in cases.items():
        ingest = Ingest(instance=name)
        assert judged(seen[name].snapshots) == judged(tuple(map(ingest.snapshot, own))), name
    assert [one.name for one in narrow.observed] == ["vllm-queue"]
    assert all(
        "llm_target_answer_seconds" in {key.name for key in page.samples} for page in narrow.observed[0].snapshots
    )


def row(name: str, *points: tuple[float, str], **labels: str) -> Stored:
    return Stored({"__name__": name, **labels}, points)


TARGET = {"job": "engines", "instance": "a:8000", "cluster": "c"}
RUNNING = "vllm:num_requests_running"


def test_labels_that_the_server_added_are_dropped_and_those_it_renamed_are_the_pages_own():
    held = (
        row("up", (10.0, "1"), **TARGET),
        row(RUNNING, (10.0, "3"), **TARGET, model_name="m", engine="0", exported_cluster="mine"),
        row("vllm:generation_tokens_total", (10.0, "7"), **TARGET, model_name="m", engine="0"),
    )
    (seen,) = RawTargets().observed(held)
    assert (seen.name, seen.kind) == ("a:8000", "vllm")
    (page,) = seen.snapshots
    own = {"instance": "a:8000", "model": "m", "engine": "vllm", "rank": "0"}
    assert page.samples[series("llm_requests_running", **own)] == 3.0
    assert page.samples[series("llm_generation_tokens_total", **own)] == 7.0


def test_a_scrape_that_failed_is_a_page_that_failed():
    held = (
        row("up", (10.0, "1"), (25.0, "0"), **TARGET),
        row("scrape_duration_seconds", (10.0, "0.5"), (25.0, "10"), **TARGET),
        row(RUNNING, (10.0, "3"), **TARGET, model_name="m", engine="0"),
    )
    (seen,) = RawTargets().observed(held)
    told = [
        [page.samples.get(series(name, instance="a:8000")) for page in seen.snapshots]
        for name in ("llm_target_up", "llm_target_answer_seconds")
    ]
    assert told == [[1.0, 0.0], [0.5, 10.0]]
    assert "scrape failed" in seen.snapshots[1].detail


def test_replicated_servers_do_not_mix_and_the_fuller_one_is_taken():
    held = []
    for replica, times in (("x", (10.0, 25.0)), ("y", (12.0, 27.0, 42.0))):
        own = {**TARGET, "replica": replica}
        held.append(row("up", *((t, "1") for t in times), **own))
        held.append(row(RUNNING, *((t, "3") for t in times), **own, model_name="m", engine="0"))
    (seen,) = RawTargets().observed(held)
    assert [page.t for page in seen.snapshots] == [12.0, 27.0, 42.0]


def test_labels_with_quotes_and_line_ends_reach_the_page_as_they_were():
    odd = 'a "b\\c\nd'
    held = (row("up", (10.0, "1"), **TARGET), row(RUNNING, (10.0, "3"), **TARGET, model_name=odd, engine="0"))
    (seen,) = RawTargets().observed(held)
    assert {key.label("model") for key in seen.snapshots[0].samples} >= {odd}


def test_names_are_those_that_adapters_read_and_generic_ones_count_only_beside_an_engines():
    assert RawNames.among(("process_cpu_seconds_total", "http_requests_total", "node_load1")) == RawNames((), (), ())
    found = RawNames.among((RUNNING, "process_cpu_seconds_total", "envoy_cluster_upstream_rq_total", "node_load1"))
    assert found.engines == (RUNNING,)
    assert found.gateways == ("envoy_cluster_upstream_rq_total",)
    assert "process_cpu_seconds_total" in found.beside
    assert "node_load1" not in found.beside


def test_a_server_with_neither_kind_of_series_is_named():
    paths = {"/api/v1/query": matrix(), "/api/v1/label/__name__/values": ok(["node_load1", "up"])}
    with Answers(paths) as server, pytest.raises(PageError, match="holds no llm_ series"):
        read_stored(server.url)
