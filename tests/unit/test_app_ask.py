"""What a source answers, and what is said where it does not."""

import json

import pytest

from llmvitals.app import promql
from llmvitals.app.ask import Failure, ask, is_old
from llmvitals.errors import PageError
from llmvitals.series import Snapshot, series
from llmvitals.settings import Exporter, Settings, Source
from llmvitals.sources import Observed
from llmvitals.triage.verdict import Outcome
from support.fake_exporter import FakeExporter, document

ANY = {"instance": "", "model": ""}
SETTINGS = Settings()


@pytest.fixture
def exporter():
    """A loopback exporter with made documents."""
    fake = FakeExporter()
    yield fake
    fake.close()


def put(exporter, scope=ANY, kind="exporter"):
    """Ask that exporter."""
    return ask(Source(name="x", url=exporter.url, kind=kind), scope, None, SETTINGS)


def test_an_exporter_gives_verdict_lines_and_targets(exporter):
    answer = put(exporter)
    assert answer.verdict.outcome is Outcome.CAUSE
    assert answer.traces["preemptions_per_minute"].values[-1] == 126
    assert [(m.instance, m.leading) for m in answer.members] == [("vllm-0", "preemption-thrash"), ("vllm-1", "")]
    path, query = exporter.asked[-1]
    assert path == "/history"
    assert {"preemptions_per_minute", "ttft_p95_seconds"} <= set(query["signal"])
    assert (query["instance"], query["model"]) == (["vllm-0"], ["llama-3-8b"])


def test_a_scope_is_found_among_the_targets(exporter):
    answer = put(exporter, {"instance": "vllm-1", "model": "llama-3-8b"})
    assert answer.verdict.outcome is Outcome.HEALTHY
    assert answer.current(ANY) == ("vllm-1", "llama-3-8b")
    assert set(answer.choices(ANY)) == {("vllm-0", "llama-3-8b"), ("vllm-1", "llama-3-8b")}


def test_a_target_that_names_no_model_any_more_is_found_by_its_instance(exporter):
    gone = document("undetermined")
    gone["targets"][0] |= {"model": ""}
    gone["targets"][0]["detail"]["scope"]["model"] = ""
    exporter.answers["/triage"] = (200, json.dumps(gone).encode())
    answer = put(exporter, {"instance": "vllm-0", "model": "llama-3-8b"})
    assert answer.verdict.outcome is Outcome.UNDETERMINED
    assert answer.current({"instance": "vllm-0", "model": "llama-3-8b"}) == ("vllm-0", "llama-3-8b")
    assert "knows no target" in put(exporter, {"instance": "vllm-1", "model": "other"}).thing


def test_an_unknown_scope_is_said(exporter):
    failure = put(exporter, {"instance": "vllm-9", "model": ""})
    assert "knows no target vllm-9" in failure.thing
    assert [member.instance for member in failure.members] == ["vllm-0", "vllm-1"]


def test_without_a_history_the_verdict_stands(exporter):
    exporter.answers["/history"] = (500, b"")
    answer = put(exporter)
    assert answer.verdict.outcome is Outcome.CAUSE
    assert answer.traces == {}


@pytest.mark.parametrize(
    ("served", "said"),
    [
        ((401, b""), "answered 401"),
        ((503, b'{"error": "x"}'), "answered 503"),
        ((200, b"<html>hello</html>"), "not JSON"),
        ((200, b'{"status": "success"}'), "not with a triage document"),
        ((200, b'{"verdict": "cause", "steps": 1}'), "cannot be read"),
        ((200, b""), "not JSON"),
    ],
)
def test_anything_else_names_thing_place_and_remedy(exporter, served, said):
    exporter.answers["/triage"] = served
    failure = put(exporter)
    assert isinstance(failure, Failure)
    assert said in failure.thing
    assert failure.place == f"{exporter.url}/triage"
    assert failure.remedy


def test_nobody_there_and_an_unknown_kind(exporter):
    assert "unknown kind 'graphite'" in put(exporter, kind="graphite").thing
    exporter.close()
    assert put(exporter).thing == "nothing answers there"


def test_old_data_are_called_old(exporter):
    settings = Settings(exporter=Exporter(interval_seconds=5.0, timeout_seconds=4.0))
    exporter.answers["/triage"] = document(now=1000.0)
    answer = put(exporter)
    assert not is_old(answer, settings, now=1020.0)
    assert is_old(answer, settings, now=1030.0)


def stored(instance, at, seconds):
    """An idle engine's pages each five seconds, as a Prometheus gives them."""
    labels = {"instance": instance, "model": "m", "engine": "vllm"}
    fixed = {series("llm_target_up", **labels): 1.0, series("llm_requests_running", **labels): 2.0}
    times = [at - seconds + 5.0 * i for i in range(int(seconds / 5) + 1)]
    return Observed(instance, "vllm", tuple(Snapshot(t, fixed) for t in times))


def test_a_promql_endpoint_is_walked_here_and_its_lines_reach_further_back(monkeypatch):
    asked = []

    def read(url, *, selector="", at=None, seconds=90.0):
        asked.append((selector, at, seconds))
        if "exported_instance" in selector:
            raise PageError("holds no llm_ series", place=url, remedy="x")
        names = ("a", "b") if not selector else [n for n in ("a", "b") if json.dumps(n) in selector]
        return tuple(stored(name, at, seconds) for name in names)

    monkeypatch.setattr(promql, "read_prometheus", read)
    source = Source(name="p", url="http://p", kind="prometheus")
    answer = ask(source, {"instance": "b", "model": ""}, 5000.0, SETTINGS)
    assert answer.current(ANY) == ("b", "m")
    assert [m.instance for m in answer.members] == ["a", "b"]
    assert answer.verdict.window["end"] == 5000.0
    line = answer.traces["requests_running"]
    assert line.times[-1] == 5000.0
    assert line.times[0] < 5000.0 - 500.0
    assert asked == [("", 5000.0, 60.0), ('{instance="b"}', 5000.0, 660.0)]
    assert "holds nothing of c" in ask(source, {"instance": "c", "model": ""}, 5000.0, SETTINGS).thing
