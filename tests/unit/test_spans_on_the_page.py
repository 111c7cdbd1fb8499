"""What spans tell joins the target's newest snapshot, and its traces reach the OpenMetrics page and no other."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.page import canonical, openmetrics, recording, text
from llmvitals.exporters.spans.exemplars import Newest
from llmvitals.exporters.spans.places import place_of
from llmvitals.exporters.watch import NOBODY
from llmvitals.series import Exemplar, Series, Snapshot, series
from llmvitals.settings import Settings, Target
from llmvitals.sources.node import Seen
from llmvitals.telemetry.gateways.join import join_gateway
from llmvitals.telemetry.identity.model import Found, Pod
from llmvitals.telemetry.ingest import RawPage
from llmvitals.telemetry.probe import Prober
from llmvitals.telemetry.probe.ask import Asked
from llmvitals.telemetry.spans.model import Shown
from support.hostile import vllm_page
from support.spans import SECRET, Remembers

TRACE, OTHER = "0123456789abcdef0123456789abcdef", "f" * 32
OWN = "llm_request_ttft_seconds_bucket"
TOLD = "llm_span_ttft_seconds_bucket"


def own(le: str, **more: str) -> Series:
    return series(OWN, instance="a", model="m", **{"rank": "0", **more}, le=le)


def told(le: str, **more: str) -> Series:
    labels = {"instance": "a", "model": "m", "vantage": "engine", "slo_class": "default", "size": "small", **more}
    return series(TOLD, **labels, le=le)


PAGE = {own("0.1"): 1.0, own("1.0"): 2.0, own("+Inf"): 3.0}


@pytest.mark.parametrize(("value", "le"), [(0.05, "0.1"), (0.1, "0.1"), (0.100001, "1.0"), (7.0, "+Inf"), (0.0, "0.1")])
def test_a_trace_goes_to_the_smallest_bucket_that_holds_it(value, le):
    seen = Exemplar(value, 5.0, TRACE)
    assert Newest().of(PAGE, {told("2.0"): seen}) == {own(le): seen}


def test_a_bucket_keeps_its_trace_until_a_newer_one_comes_and_while_it_is_on_the_page():
    newest = Newest()
    first, older, later = Exemplar(0.5, 20.0, TRACE), Exemplar(0.6, 10.0, OTHER), Exemplar(0.7, 30.0, OTHER)
    assert newest.of(PAGE, {told("1.0"): first}) == {own("1.0"): first}
    assert newest.of(PAGE, {told("2.0"): older}) == {own("1.0"): first}
    assert newest.of(PAGE, {}) == {own("1.0"): first}
    assert newest.of(PAGE, {told("1.0"): later, told("2.0"): older}) == {own("1.0"): later}
    assert newest.of({}, {}) == {}
    assert newest.of(PAGE, {}) == {}


@pytest.mark.parametrize(
    ("page", "source"),
    [
        (PAGE | {own("1.0", rank="1"): 1.0}, told("1.0")),  # nobody knows which of the two it was
        (PAGE, told("1.0", model="other")),
        (PAGE, told("1.0", vantage="gateway")),  # another clock than the engine's own
        (PAGE, series("llm_span_frontend_seconds_bucket", instance="a", model="m", le="1.0")),
        ({own("0.1"): 1.0}, told("1.0")),  # a histogram without an open bucket that does not reach so far
        ({own("wide"): 1.0}, told("1.0")),
    ],
)
def test_a_trace_that_belongs_to_no_bucket_for_sure_goes_to_none(page, source):
    assert Newest().of(page, {source: Exemplar(0.5, 1.0, TRACE)}) == {}


def test_exemplars_are_on_the_openmetrics_page_and_never_in_plain_text():
    moment = Snapshot(1.0, PAGE, exemplars={own("1.0"): Exemplar(0.25, 1_795_957_333.25, TRACE)})
    silent = Snapshot(1.0, {series(OWN, instance="b", model="m", le="+Inf"): 1.0})
    blocks = canonical([moment, silent])
    parsed = [s for f in parse_openmetrics((openmetrics(blocks) + b"# EOF\n").decode()) for s in f.samples]
    seen = {s.labels["le"]: s.exemplar for s in parsed if s.exemplar}
    assert list(seen) == ["1.0"]
    assert (seen["1.0"].labels, seen["1.0"].value) == ({"trace_id": TRACE}, 0.25)
    assert float(seen["1.0"].timestamp) == 1_795_957_333.25
    assert b"trace_id" not in text(blocks)
    plain = {
        (s.labels["instance"], s.labels["le"]): s.value for f in parse_text(text(blocks).decode()) for s in f.samples
    }
    assert plain == {(s.labels["instance"], s.labels["le"]): s.value for s in parsed}
    assert b"trace_id" not in recording([moment])


def test_an_exemplar_without_its_bucket_is_left_out():
    moment = Snapshot(1.0, {own("+Inf"): 1.0}, exemplars={own("1.0"): Exemplar(0.25, 1.0, TRACE)})
    assert b"trace_id" not in openmetrics(canonical([moment]))


def test_a_gateways_traces_go_with_its_samples_to_the_engine_behind_it():
    of_gateway = series(TOLD, instance="gw", model="m", vantage="gateway", slo_class="default", size="small", le="1.0")
    moved = series(TOLD, instance="a", model="m", vantage="gateway", slo_class="default", size="small", le="1.0")
    engine = Snapshot(1.0, PAGE, exemplars={own("1.0"): Exemplar(0.5, 1.0, TRACE)})
    gateway = Snapshot(1.0, {of_gateway: 1.0}, exemplars={of_gateway: Exemplar(0.75, 2.0, OTHER)})
    joined = join_gateway(engine, gateway, instance="a", name="gw")
    assert joined.exemplars == {own("1.0"): Exemplar(0.5, 1.0, TRACE), moved: Exemplar(0.75, 2.0, OTHER)}
    page = openmetrics(canonical([joined])).decode()
    assert TRACE in page
    assert OTHER in page


# -- the cycle ------------------------------------------------------------------------------------------------------
def fine(url: str, *, timeout_s: float, **_: object) -> RawPage:
    return RawPage(100.0, 0.01, 200, vllm_page())


def test_what_spans_tell_is_on_the_page_of_the_same_cycle_and_where_they_would_come_from_is_told():
    traces = Remembers()
    bucket = series(
        "llm_span_e2e_seconds_bucket", instance="a", model="m", le="+Inf", slo_class="default", vantage="engine"
    )
    traces.answer = {"a": Shown({bucket: 4.0}, {bucket: Exemplar(0.5, 99.0, TRACE)})}
    targets = (Target(url="http://10.0.0.7:8000", name="a", labels={"team": "x"}, spans={"service.name": "chat"}),)
    cycle = Engine(Settings(targets=targets), fetch=fine, clock=lambda: 100.0, traces=traces).step()
    (place,) = traces.places
    assert (place.instance, place.kind, place.gateway, place.host, place.port) == ("a", "vllm", False, "10.0.0.7", 8000)
    assert (place.attributes, place.models) == ({"service.name": "chat"}, ("m",))
    assert place.labels == {"instance": "a", "engine": "vllm", "team": "x"}
    assert (
        b'llm_span_e2e_seconds_bucket{instance="a",le="+Inf",model="m",slo_class="default",vantage="engine"} 4.0'
        in cycle.page
    )
    assert TRACE in openmetrics(cycle.blocks).decode()
    assert [one.ok for one in cycle.collected if one.collector == "spans"] == [True]


def test_a_failure_there_costs_the_spans_alone(caplog):
    traces = Remembers()
    traces.error = RuntimeError("broken")
    cycle = Engine(Settings(targets=(Target(url="http://e:1", name="a"),)), fetch=fine, traces=traces).step()
    assert b'llm_requests_running{engine="vllm"' in cycle.page
    assert [one.ok for one in cycle.collected if one.collector == "spans"] == [False]
    assert "event=spans-failed" in caplog.text


def test_a_target_that_does_not_answer_keeps_its_models_and_what_spans_tell():
    traces, status = Remembers(), [200]
    key = series("llm_span_requests_total", instance="a", ended="ok", slo_class="default", vantage="engine")
    traces.answer = {"a": Shown({key: 1.0})}

    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        return RawPage(100.0, 0.01, status[0], vllm_page())

    engine = Engine(
        Settings(targets=(Target(url="http://e:1", name="a"),)), fetch=fetch, clock=lambda: 100.0, traces=traces
    )
    engine.step()
    status[0] = 500
    page = engine.step().page.decode()
    assert traces.places[0].models == ("m",)
    assert "llm_target_up" in page
    assert 'llm_span_requests_total{ended="ok",instance="a"' in page


def test_without_a_receiver_nothing_of_spans_is_on_the_page_or_counted():
    cycle = Engine(Settings(targets=(Target(url="http://e:1", name="a"),)), fetch=fine).step()
    assert b"llm_span" not in cycle.page
    assert [one for one in cycle.collected if one.collector == "spans"] == []


# -- places ---------------------------------------------------------------------------------------------------------
def test_the_place_of_an_engine_that_was_found_on_this_machine():
    pod = Pod("chat", "vllm-0", "uid-1")
    found = Found(api=(10,), engine=(11, 12), pod=pod, how="port")
    place = place_of(
        "a", Target(url="https://chat/"), None, gateway=False, seen=Seen(1.0, "node-1", found={"a": found})
    )
    assert (place.pids, place.pod, place.pod_uid, place.node) == ({10, 11, 12}, "chat/vllm-0", "uid-1", "node-1")
    assert (place.host, place.port, place.kind, place.models) == ("chat", 443, "", ())
    assert place.labels == {"instance": "a"}


def test_the_place_of_one_that_is_elsewhere_is_what_its_settings_say():
    target = Target(url="e:8000", kind="sglang", pod="ns/p", labels={"team": "x"})
    place = place_of("a", target, None, gateway=True, seen=NOBODY)
    assert (place.pids, place.pod, place.pod_uid, place.node) == (frozenset(), "ns/p", "", "")
    assert (place.kind, place.gateway, place.host, place.port) == ("sglang", True, "e", 8000)
    assert place.labels == {"team": "x", "instance": "a"}


def test_models_that_only_spans_or_probes_tell_of_are_not_the_pages():
    page = Snapshot(
        1.0,
        {
            series("llm_requests_running", instance="a", model="m"): 1.0,
            series("llm_span_requests_total", instance="a", model=SECRET): 1.0,
            series("llm_probe_requests_total", instance="a", model="probed"): 1.0,
        },
    )
    assert place_of("a", Target(url="e:1"), page, gateway=False, seen=NOBODY).models == ("m",)


def test_a_probe_asks_the_only_model_of_the_page_whatever_others_call_it():
    asked: list[str] = []

    def ask(base, dialect, model, **more):
        asked.append(model)
        return Asked("ok")

    prober = Prober("http://e:1", seconds=5.0, ask=ask, start=lambda run: (run(), lambda: False)[1], draw=lambda: 0.0)
    page = {series("llm_requests_running", instance="a", model="m"): 1.0, series("llm_target_info", engine="vllm"): 1.0}
    told = {series("llm_span_requests_total", instance="a", model="as gateways call it", vantage="gateway"): 1.0}
    prober.tick(Snapshot(1.0, page | told))
    assert asked == ["m"]
