"""Stored samples become the snapshots they were; servers that are none, or refuse, are named."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from llmvitals.errors import LlmvitalsError, PageError, SettingsError, UnreachableError
from llmvitals.series import Snapshot, series
from llmvitals.sources.promql import read_prometheus
from support.answers import Answer, Answers, Asked
from support.prometheus import PrometheusServer, load_blocks, openmetrics, points_of
from support.promql import matrix, refusal

API = "/api/v1/query"
RUNNING = {"__name__": "llm_requests_running", "instance": "a", "model": "m", "engine": "vllm", "rank": "0"}


def test_samples_of_one_moment_become_one_snapshot_at_its_exact_time():
    up = {"__name__": "llm_target_up", "instance": "a"}
    with Answers(
        {API: matrix((RUNNING, [(10.125, "3"), (25.125, "4")]), (up, [(10.125, "1"), (25.125, "1")]))}
    ) as server:
        (seen,) = read_prometheus(server.url)
    assert (seen.name, seen.kind) == ("a", "vllm")
    running = series("llm_requests_running", instance="a", model="m", engine="vllm", rank="0")
    assert [(s.t, dict(s.samples)) for s in seen.snapshots] == [
        (10.125, {running: 3.0, series("llm_target_up", instance="a"): 1.0}),
        (25.125, {running: 4.0, series("llm_target_up", instance="a"): 1.0}),
    ]


def test_what_the_server_added_is_dropped_and_what_it_renamed_is_undone():
    metric = {
        "__name__": "llm_request_ttft_seconds_bucket",
        "exported_instance": "vllm-0",
        "instance": "exporter:9464",
        "job": "llmvitals",
        "model": "m",
        "engine": "vllm",
        "rank": "0",
        "le": "0.5",
        "cluster": "c",
    }
    with Answers({API: matrix((metric, [(1.0, "7")]))}) as server:
        (seen,) = read_prometheus(server.url)
    (key,) = seen.snapshots[0].samples
    assert key == series(
        "llm_request_ttft_seconds_bucket", instance="vllm-0", model="m", engine="vllm", rank="0", le="0.5"
    )


def test_replicated_servers_do_not_mix_and_the_fuller_one_is_taken():
    one, two = ({**RUNNING, "replica": r} for r in "ab")
    with Answers({API: matrix((one, [(1.0, "1")]), (two, [(1.5, "2"), (4.5, "3")]))}) as server:
        (seen,) = read_prometheus(server.url)
    assert [(s.t, list(s.samples.values())) for s in seen.snapshots] == [(1.5, [2.0]), (4.5, [3.0])]


def test_the_question_names_the_families_the_selector_the_moment_and_the_span():
    with Answers({API: matrix((RUNNING, [(1.0, "1")]))}) as server:
        read_prometheus(server.url, selector='{namespace="chat"}', at=1234.5, seconds=120)
    form = parse_qs(server.asked[0].body)
    (query,) = form["query"]
    assert query.startswith('{__name__=~"')
    assert query.endswith(',namespace="chat"}[120000ms]')
    assert "llm_request_ttft_seconds(_bucket|_sum|_count)|" in query
    assert form["time"] == ["1234.500"]


@pytest.mark.parametrize("message", ["query processing would load too many samples into memory in query execution"])
def test_a_query_that_is_too_large_is_asked_in_parts(message):
    sizes: list[int] = []

    def limited(asked: Asked) -> Answer:
        (query,) = parse_qs(asked.body)["query"]
        names = query.split('"')[1].count("llm_")
        sizes.append(names)
        if names > 30:
            return refusal(422, message)
        return matrix((RUNNING, [(1.0, "1")])) if "llm_requests_running|" in query else matrix()

    with Answers({API: limited}) as server:
        (seen,) = read_prometheus(server.url)
    assert [s.t for s in seen.snapshots] == [1.0]
    assert sum(size for size in sizes if size <= 30) == sizes[0]  # every family is asked for exactly once


def test_a_server_that_refuses_even_one_family_is_named():
    with (
        Answers({API: refusal(422, "would load too many samples")}) as server,
        pytest.raises(PageError, match="refuses the query for its size") as caught,
    ):
        read_prometheus(server.url)
    assert "--selector" in caught.value.remedy


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (Answer(b"", 401), UnreachableError, "asks for credentials"),
        (refusal(401, "no"), UnreachableError, "asks for credentials"),
        (Answer(b"", 403), UnreachableError, "forbids"),
        (Answer(b"", 404), UnreachableError, "no PromQL API"),
        (Answer(b"", 405), UnreachableError, "POST"),
        (Answer(b"<html>down</html>", 502), UnreachableError, "status 502"),
        (Answer(b"<!doctype html><html>login</html>"), PageError, "answered with HTML"),
        (Answer(b'{"version": 1}'), PageError, "not with the PromQL API"),
        (Answer(b"[]"), PageError, "not with the PromQL API"),
        (matrix(({"__name__": "a"}, [("NaN", "1")])), PageError, "not with the PromQL API"),
        (matrix(({"__name__": "a"}, [(1e300, "1")])), PageError, "not with the PromQL API"),
        (Answer(b'{"status": "success", "data": null}'), PageError, "not with the PromQL API"),
        (Answer(b'{"status": "success", "data": {"result": [{"metric": 5}]}}'), PageError, "not with the PromQL API"),
        (
            Answer(b'{"status": "success", "data": {"result": [{"metric": {}, "values": [["a", "b"]]}]}}'),
            PageError,
            "not with the PromQL API",
        ),
        (Answer(b""), PageError, "not with the PromQL API"),
        (refusal(400, "parse error: unexpected identifier"), SettingsError, "parse error: unexpected identifier"),
        (refusal(422, "many-to-many matching not allowed"), SettingsError, "many-to-many"),
        (matrix(), PageError, "holds no llm_ series"),
    ],
)
def test_an_endpoint_that_cannot_serve_is_one_clear_line(answer, kind, says):
    with Answers({API: answer}) as server, pytest.raises(kind, match=says) as caught:
        read_prometheus(server.url)
    assert caught.value.place == server.url
    assert caught.value.remedy


def test_a_password_is_never_shown():
    with Answers({API: Answer(b"", 403)}) as server:
        url = server.url.replace("http://", "http://me:secret@")
        with pytest.raises(LlmvitalsError) as caught:
            read_prometheus(url)
    assert "secret" not in str(caught.value)
    assert server.asked[0].headers["authorization"].startswith("Basic ")


def test_nothing_there_is_named():
    with Answers({}) as server:
        url = server.url
    with pytest.raises(UnreachableError, match="cannot be reached"):
        read_prometheus(url)


@pytest.mark.prometheus
def test_a_real_prometheus_gives_the_samples_back_as_they_were(tmp_path):
    base = 1_700_000_000.0
    snapshots = [
        Snapshot(
            base + 15 * i + 0.25,
            {
                series("llm_requests_running", instance="a", model="m", engine="vllm", rank="0"): float(i),
                series(
                    "llm_request_ttft_seconds_bucket", instance="a", model="m", engine="vllm", rank="0", le="+Inf"
                ): 2.0,
                series("llm_target_up", instance="a"): 1.0,
            },
        )
        for i in range(6)
    ]
    load_blocks(openmetrics(points_of(snapshots)), tmp_path / "p" / "data")
    with PrometheusServer(tmp_path / "p") as server:
        (seen,) = read_prometheus(server.url, at=base + 75.25, seconds=75.25)
        (part,) = read_prometheus(server.url, selector='{instance="a"}', at=base + 75.25, seconds=40)
        with pytest.raises(PageError, match="holds no llm_ series"):
            read_prometheus(server.url, selector='{instance="b"}', at=base + 75.25)
        with pytest.raises(SettingsError, match="parse error"):
            read_prometheus(server.url, selector="{instance=a}", at=base + 75.25)
    assert [(s.t, dict(s.samples)) for s in seen.snapshots] == [(s.t, dict(s.samples)) for s in snapshots]
    assert [s.t - base for s in part.snapshots] == [45.25, 60.25, 75.25]


@pytest.mark.prometheus
def test_a_real_prometheus_that_limits_samples_is_asked_in_parts(tmp_path):
    names = ("llm_requests_running", "llm_requests_waiting", "llm_kv_usage_ratio", "llm_generation_tokens_total")
    snapshots = [
        Snapshot(1_700_000_000.0 + i, {series(n, instance="a", model="m"): float(i) for n in names}) for i in range(50)
    ]
    load_blocks(openmetrics(points_of(snapshots)), tmp_path / "p" / "data")
    with PrometheusServer(tmp_path / "p", flags=["--query.max-samples=120"]) as server:
        (seen,) = read_prometheus(server.url, at=1_700_000_050.0, seconds=90)
    assert [len(s.samples) for s in seen.snapshots] == [4] * 50
