"""Single answers as sources: an exporter's verdict, a saved page, and GPU pages joined to the engine they belong to."""

from __future__ import annotations

import gzip
import os

import pytest

from llmvitals.errors import LlmvitalsError, PageError, UnreachableError
from llmvitals.sources.assemble import Feed, is_gpu_only, observed
from llmvitals.sources.exporter import is_exporter, read_triage, triage_url
from llmvitals.sources.page_file import read_page_file
from llmvitals.telemetry.ingest import Limits, RawPage
from support.answers import Answer, Answers
from support.hostile import vllm_page

VERDICT = Answer(b'{"verdict": "healthy", "leading": null}')


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("http://h:9464", "http://h:9464/triage"),
        ("h:9464/", "http://h:9464/triage"),
        ("http://h:9464/metrics", "http://h:9464/triage"),
        ("http://h/llm/triage", "http://h/llm/triage"),
        ("http://h/llm/", "http://h/llm/triage"),
    ],
)
def test_where_an_exporter_is_asked(given, asked):
    assert triage_url(given) == asked


def test_an_exporter_is_known_by_a_series_of_its_own():
    assert is_exporter(b'# TYPE x gauge\nllm_triage_verdict{verdict="healthy"} 1\n')
    assert not is_exporter(b"# HELP x like llm_triage_verdict{\nx 1\n")
    assert not is_exporter(vllm_page())


def test_the_verdict_of_an_exporter_is_read():
    with Answers({"/triage": VERDICT}) as server:
        assert read_triage(f"{server.url}/metrics") == {"verdict": "healthy", "leading": None}


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (Answer(b"", 503), UnreachableError, "no verdict yet"),
        (Answer(b"", 404), UnreachableError, "status 404"),
        (Answer(b"<html></html>"), PageError, "not JSON"),
        (Answer(b"[]"), PageError, "not with a verdict"),
        (Answer(b'{"status": "ok"}'), PageError, "not with a verdict"),
    ],
)
def test_what_is_no_verdict_is_named(answer, kind, says):
    with Answers({"/triage": answer}) as server, pytest.raises(kind, match=says) as caught:
        read_triage(server.url)
    assert caught.value.place == f"{server.url}/triage"


def test_no_exporter_there():
    with Answers({}) as server:
        url = server.url
    with pytest.raises(UnreachableError, match="cannot be reached"):
        read_triage(url)


@pytest.mark.parametrize("packed", [False, True])
def test_a_saved_page_is_one_moment_under_its_own_name(tmp_path, packed):
    file = tmp_path / "page.prom"
    file.write_bytes(gzip.compress(vllm_page()) if packed else vllm_page())
    os.utime(file, (1_700_000_000, 1_700_000_000))
    seen = read_page_file(file)
    (snapshot,) = seen.snapshots
    assert (seen.name, snapshot.t) == ("page.prom", 1_700_000_000)
    names = {key.name: key.label("instance") for key in snapshot.samples}
    assert names["llm_requests_running"] == "page.prom"
    assert "llm_target_answer_seconds" not in names  # nobody measured it: absent, not 0


@pytest.mark.parametrize(
    ("body", "says"), [(b"", "empty"), (b"<html></html>", "HTML"), (b"\x1f\x8b\x08cut", "damaged")]
)
def test_a_saved_page_that_cannot_be_read_is_named_by_its_path(tmp_path, body, says):
    file = tmp_path / "page.prom"
    file.write_bytes(body)
    with pytest.raises(PageError, match=says) as caught:
        read_page_file(file)
    assert caught.value.place == str(file)


def test_a_saved_page_keeps_the_limits(tmp_path):
    file = tmp_path / "page.prom"
    file.write_bytes(vllm_page())
    with pytest.raises(LlmvitalsError, match="larger than"):
        read_page_file(file, limits=Limits(max_page_bytes=10))
    with pytest.raises(PageError, match="cannot be read"):
        read_page_file(tmp_path / "gone.prom")


def dcgm(active: float) -> bytes:
    return f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",UUID="GPU-a"}} {active}\n'.encode()


def engine_feed(name: str) -> Feed:
    return Feed(name, "vllm", [RawPage(float(t), 0.01, 200, vllm_page()) for t in (0, 15, 40)])


def gpu_feed(**more: object) -> Feed:
    return Feed("gpu", "dcgm", [RawPage(float(t), 0.01, 200, dcgm(t / 100)) for t in (1, 12, 20)], **more)


def active(seen) -> list[dict[str, float]]:
    return [
        {
            key.label("instance"): value
            for key, value in snapshot.samples.items()
            if key.name == "llm_gpu_engine_active_ratio"
        }
        for snapshot in seen.snapshots
    ]


def test_the_only_engine_gets_the_gpu_page_that_is_nearest_in_time():
    (seen,) = observed([engine_feed("a"), gpu_feed()])
    # 0 s: the page of 1 s; 15 s: that of 12 s; at 40 s the last one is 20 s old and says nothing any more
    assert active(seen) == [{"a": 0.01}, {"a": 0.12}, {}]


def test_with_several_engines_the_recording_says_whose_gpus_they_are():
    one, two = observed([engine_feed("a"), engine_feed("b"), gpu_feed(engine="b", gpus=("GPU-a",))])
    assert active(one) == [{}, {}, {}]
    assert active(two)[0] == {"b": 0.01}


def test_gpus_that_fit_no_engine_stay_by_themselves():
    seen = observed([engine_feed("a"), engine_feed("b"), gpu_feed()])
    assert [one.name for one in seen] == ["a", "b", "gpu"]
    assert active(seen[2])[0] == {"gpu": 0.01}
    assert [is_gpu_only(one) for one in seen] == [False, False, True]


def test_an_engine_with_its_gpus_is_no_gpu_page():
    assert not is_gpu_only(observed([engine_feed("a"), gpu_feed()])[0])
