"""What a source answers, and what is said where it does not."""

import json

import pytest

from llmvitals.app import chosen
from llmvitals.app.ask import Failure, ask, is_old
from llmvitals.app.fleet_promql import Standing
from llmvitals.app.past import ask_past, drawn
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


def source_of(exporter):
    """That exporter as a source."""
    return Source(name="x", url=exporter.url)


def put(exporter, scope=ANY, kind="exporter"):
    """Ask that exporter."""
    return ask(Source(name="x", url=exporter.url, kind=kind), scope, None, SETTINGS)


def test_an_exporter_gives_verdict_lines_and_targets(exporter):
    answer = put(exporter)
    assert answer.verdict.outcome is Outcome.CAUSE
    assert [(m.instance, m.leading) for m in answer.members] == [("vllm-0", "preemption-thrash"), ("vllm-1", "")]
    assert [path for path, _ in exporter.asked] == ["/triage"], "the verdict waits for nothing else"
    past = ask_past(source_of(exporter), answer.current(ANY), drawn(answer.verdict), None, SETTINGS)
    assert past.traces["preemptions_per_minute"].values[-1] == 126
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
    past = ask_past(source_of(exporter), answer.current(ANY), drawn(answer.verdict), None, SETTINGS)
    assert past.traces == {}
    assert past.course is None
    assert "500" in past.why


@pytest.mark.parametrize(
    ("served", "said"),
    [
        ((401, b""), "asks for credentials (401)"),
        ((503, b'{"error": "x"}'), "has no verdict yet (503)"),
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
    assert "Connection refused" in put(exporter).thing


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


@pytest.mark.parametrize(("names", "read"), [(("a",), ""), (("a", "b"), ""), (("a", "b", "c"), "a")])
def test_one_of_many_is_read_by_itself_and_two_together_since_one_may_be_the_gateway_of_the_other(
    monkeypatch, names, read
):
    asked = []

    def observed(source, end, seconds, settings, *, only="", place=()):
        asked.append(only)
        return ()

    monkeypatch.setattr(chosen, "observed", observed)
    known = [Standing(name, "m", "healthy") for name in names]
    source = Source(name="p", url="http://p", kind="prometheus")
    assert chosen.choose(source, {"instance": "a", "model": "m"}, 5000.0, SETTINGS, known).verdict is None
    assert asked == [read]
