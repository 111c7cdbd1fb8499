"""Spans of the simulated deployment: vLLM's shape, the page's own times, one for each request that ended by itself."""

import builtins
import gzip
import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from urllib3.util import Retry

from llmvitals.errors import MissingExtraError, SettingsError
from llmvitals.simulator import otlp, spans
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.live import Live
from llmvitals.simulator.push import Push
from llmvitals.simulator.setup import Faults, Gateway, Restart, Setup
from llmvitals.simulator.spans import Sending
from llmvitals.simulator.workload import Lengths, Stream, Workload
from support.engines import IDEAL

ORIGIN = 1_800_000_000.0
CHAT = Stream("chat", rate=6.0, prompt=Lengths(200, 0.5), output=Lengths(40, 0.5), max_tokens=64, end=20.0)
AT_ONCE = Sending()

# Every attribute of a real span and its type (vLLM 0.32).
NAMES = {
    "gen_ai.latency.time_to_first_token": "double",
    "gen_ai.latency.e2e": "double",
    "gen_ai.latency.time_in_queue": "double",
    "gen_ai.usage.prompt_tokens": "int",
    "gen_ai.usage.completion_tokens": "int",
    "gen_ai.latency.time_in_model_prefill": "double",
    "gen_ai.latency.time_in_model_decode": "double",
    "gen_ai.latency.time_in_model_inference": "double",
    "gen_ai.request.id": "string",
    "gen_ai.request.top_p": "double",
    "gen_ai.request.max_tokens": "int",
    "gen_ai.request.temperature": "double",
    "gen_ai.request.n": "int",
}
RESOURCE = {
    "telemetry.sdk.language",
    "telemetry.sdk.name",
    "telemetry.sdk.version",
    "service.instance.id",
    "vllm.instrumenting_module_name",
    "vllm.process_id",
    "service.name",
}


def live(*streams: Stream, sending: Sending | None = AT_ONCE, coarse: bool = False, engine=None, **parts) -> Live:
    setup = Setup(engine or EngineConfig(), Workload(streams or (CHAT,), seed=3), **parts)
    return Live(setup, origin=ORIGIN, spans=sending, coarse=coarse)


def read(bodies: list[bytes]) -> list:
    """(resource's attributes, scope, span) of each span."""
    found = []
    for body in bodies:
        for of in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = {one.key: one.value.string_value for one in of.resource.attributes}
            found += [(resource, of_scope.scope.name, span) for of_scope in of.scope_spans for span in of_scope.spans]
    return found


def values(span) -> dict:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def engine_spans(server: Live, t: float) -> list:
    return [span for _, scope, span in read(server.spans_at(ORIGIN + t)) if scope == "vllm.tracing.otel"]


# -- shape ------------------------------------------------------------------------------------------------------------
def test_a_span_looks_like_those_of_a_real_vllm():
    for resource, scope, span in read(live().spans_at(ORIGIN + 30)):
        assert set(resource) == RESOURCE
        assert (scope, span.name, span.kind, span.status.code) == ("vllm.tracing.otel", "llm_request", 2, 0)
        assert (span.parent_span_id, len(span.events), len(span.trace_id), len(span.span_id)) == (b"", 0, 16, 8)
        kinds = {one.key: one.value.WhichOneof("value").removesuffix("_value") for one in span.attributes}
        assert kinds == NAMES


def test_names_and_types_are_those_of_spans_that_were_recorded(shared):
    recorded = json.loads((shared / "reference" / "vllm-spans.json").read_text())["llm_request"]
    assert {name: found["type"] for name, found in recorded["attrs"].items()} == NAMES
    assert set(recorded["resource"]) == RESOURCE
    assert recorded["scope"] == ["vllm.tracing.otel"]


@pytest.mark.parametrize("coarse", [False, True])
def test_times_are_those_that_the_page_observed(coarse):
    server = live(replace(CHAT, rate=20.0), engine=EngineConfig(max_num_seqs=8), coarse=coarse)
    found = [values(span) for span in engine_spans(server, 120)]
    counters = server.engine.counters
    assert len(found) == counters.e2e.count > 300
    for name, histogram in (
        ("latency.time_to_first_token", counters.first_token),
        ("latency.e2e", counters.e2e),
        ("latency.time_in_queue", counters.queue),
        ("latency.time_in_model_prefill", counters.prefill),
        ("latency.time_in_model_decode", counters.decode),
        ("latency.time_in_model_inference", counters.inference),
        ("usage.prompt_tokens", counters.request_prompt),
        ("usage.completion_tokens", counters.request_generated),
        ("request.max_tokens", counters.request_max_tokens),
    ):
        assert sum(one[f"gen_ai.{name}"] for one in found) == pytest.approx(histogram.sum, rel=1e-9), name
    assert max(one["gen_ai.latency.time_in_queue"] for one in found) > 1.0


def test_a_span_lasts_from_its_arrival_to_its_last_token():
    server = live(front=IDEAL)  # where nothing waits in the API process, requests arrive as they are sent
    spans_ = engine_spans(server, 30)
    log = sorted(answer.sent for answer in server.world.clients.log)
    starts = sorted(span.start_time_unix_nano for span in spans_)
    assert starts == pytest.approx([round((ORIGIN + sent) * 1e9) for sent in log], abs=500)  # floats of unix seconds
    for span in spans_:
        lasted = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
        assert lasted == pytest.approx(values(span)["gen_ai.latency.e2e"], abs=2e-9)


# -- who has one ------------------------------------------------------------------------------------------------------
def test_requests_that_were_left_refused_or_too_long_have_none():
    leaves = replace(CHAT, name="leaves", leaves=1.0, output=Lengths(400), max_tokens=400)
    long = replace(CHAT, name="long", prompt=Lengths(9000))
    server = live(CHAT, leaves, long, engine=EngineConfig(max_num_seqs=4, max_queued=4))
    found = engine_spans(server, 90)
    outcomes = [answer.outcome for answer in server.world.clients.log]
    assert {"ok", "left", "rejected", "too long"} <= set(outcomes)
    assert len(found) == server.engine.counters.e2e.count == outcomes.count("ok")


def test_a_gateways_span_is_the_parent_and_tells_tenant_and_outcome():
    mine = replace(CHAT, tenant="a", leaves=0.5, output=Lengths(400), max_tokens=400)
    other = replace(CHAT, name="batch", tenant="b", prompt=Lengths(9000))
    server = live(mine, other, gateway=Gateway(concurrency=2, queue_limit=4, ttl=4.0))
    found = read(server.spans_at(ORIGIN + 60))
    calls = {span.span_id: span for _, scope, span in found if scope == "llm-gateway"}
    assert len(calls) == len(server.world.clients.log)  # one each, however it ended
    for _, scope, span in found:
        if scope == "vllm.tracing.otel":
            parent = calls[span.parent_span_id]
            assert parent.trace_id == span.trace_id
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
    booked = {}
    for span in calls.values():
        told = values(span)
        key = told["llm.tenant"], str(told["http.response.status_code"])
        booked[key] = booked.get(key, 0) + 1
        assert (told["http.response.status_code"] == 499) == (told.get("error.type") == "client_disconnected")
        assert (span.status.code == 2) == (told["http.response.status_code"] >= 500)
    assert booked == {key: count for key, count in server.world.gateway.book.answered.items() if count}
    assert {status for _, status in booked} >= {"200", "400", "429", "499", "504"}


def test_what_a_gateways_span_times_is_what_its_client_waited():
    server = live(gateway=Gateway(concurrency=2))
    calls = [span for _, scope, span in read(server.spans_at(ORIGIN + 90)) if scope == "llm-gateway"]
    log = server.world.clients.log
    assert len(calls) == len(log)
    told = sorted(
        (values(s)["gen_ai.response.time_to_first_chunk"], values(s)["gen_ai.usage.output_tokens"]) for s in calls
    )
    assert told == sorted((answer.first - answer.sent, answer.tokens) for answer in log)
    lasted = sorted((s.end_time_unix_nano - s.start_time_unix_nano) / 1e9 for s in calls)
    assert lasted == pytest.approx(sorted(answer.ended - answer.sent for answer in log), abs=2e-9)


# -- how they leave ---------------------------------------------------------------------------------------------------
def test_each_span_leaves_once_however_often_one_asks():
    whole = [span.SerializeToString() for span in engine_spans(live(), 40)]
    server = live()
    parts = [span.SerializeToString() for t in range(41) for span in engine_spans(server, t)]
    assert parts == whole
    assert server.spans_at(ORIGIN + 60) == []


def test_nothing_is_kept_where_nobody_traces():
    server = live(sending=None)
    assert server.spans_at(ORIGIN + 30) == []
    assert (server.engine.on_end, server.engine.on_step, server.lost_spans) == (None, None, 0)


def test_a_batch_waits_for_its_turn_or_until_it_is_full(monkeypatch):
    server = live(sending=Sending(5.0))
    assert server.spans_at(ORIGIN + 4.9) == []
    (first,) = server.spans_at(ORIGIN + 5.0)
    ends = [(span.end_time_unix_nano / 1e9 - ORIGIN) for _, _, span in read([first])]
    assert max(ends) <= 5.0
    assert len(ends) == server.engine.counters.e2e.count
    monkeypatch.setattr(spans, "BODY_SPANS", 8)
    early = server.spans_at(ORIGIN + 9.9)
    assert [len(read([body])) for body in early] == [8] * len(early) != []
    rest = server.spans_at(ORIGIN + 9.9, flush=True)
    assert len(ends) + len(read(early)) + len(read(rest)) == server.engine.counters.e2e.count


def test_exports_hold_512_spans_at_most():
    sizes = [len(read([body])) for body in live(replace(CHAT, rate=60.0)).spans_at(ORIGIN + 60)]
    assert max(sizes) == 512
    assert sum(sizes) > 1000


def test_memory_is_bounded_and_what_nobody_got_is_counted(monkeypatch):
    monkeypatch.setattr(spans, "KEPT", 32)
    server = live()
    found = engine_spans(server, 60)
    assert len(found) <= 32
    assert len(found) + server.lost_spans == server.engine.counters.e2e.count
    newest = max(answer.sent for answer in server.world.clients.log)
    assert max(span.start_time_unix_nano for span in found) == pytest.approx((ORIGIN + newest) * 1e9, abs=500)


@pytest.mark.parametrize("delay", [0.0, 5.0])
def test_a_new_process_sends_under_its_own_id_and_takes_nothing_over(delay):
    faults = Faults(restarts=(Restart(8.0, 12.0, "oom"),))
    server = live(sending=Sending(delay), faults=faults)
    found = read(server.spans_at(ORIGIN + 40))
    ids = list(dict.fromkeys((r["service.instance.id"], r["vllm.process_id"]) for r, _, _ in found))
    assert len({one for one, _ in ids}) == len({pid for _, pid in ids}) == 2
    ends = [span.end_time_unix_nano / 1e9 - ORIGIN for r, _, span in found if r["vllm.process_id"] == ids[0][1]]
    assert max(ends) <= (5.0 if delay else 8.0)  # what the killed process had batched died with it
    assert bool(server.lost_spans) == bool(delay)
    pids = {task.pid for task in server._tasks()}
    assert int(ids[1][1]) in pids


def test_the_same_seed_sends_the_same_bytes_and_another_origin_other_ids():
    first, again = (live().spans_at(ORIGIN + 30) for _ in range(2))
    assert first == again
    moved = Live(Setup(EngineConfig(), Workload((CHAT,), seed=3)), origin=ORIGIN + 1, spans=Sending())
    traces = {span.trace_id for _, _, span in read(first)}
    assert not traces & {span.trace_id for _, _, span in read(moved.spans_at(ORIGIN + 31))}


def test_other_engines_send_none():
    with pytest.raises(SettingsError, match=r"'sglang' sends no spans.*Use one of: vllm, ray"):
        live(engine=EngineConfig(dialect="sglang"))


def test_without_the_extra_the_remedy_is_said(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest, **more)

    otlp.messages.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    live(sending=None).advance(ORIGIN + 5)
    with pytest.raises(MissingExtraError, match=r"pip install 'llmvitals\[otel\]'"):
        live()


# -- over a socket ----------------------------------------------------------------------------------------------------
@pytest.fixture
def receiver():
    """A receiver that gives the statuses of ``answers`` first, and keeps what it has taken."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            raw = self.rfile.read(int(self.headers["content-length"]))
            status = server.answers.pop(0) if server.answers else 200
            if status == 200:
                server.taken.append((self.path, dict(self.headers), gzip.decompress(raw)))
            self.send_response(status)
            if status != 200:
                self.send_header("retry-after", "0")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answers, server.taken = [], []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_spans_are_pushed_and_a_receiver_that_is_busy_is_asked_again(receiver):
    receiver.answers = [503, 429]
    server = live()
    with Push(server, f"127.0.0.1:{receiver.server_port}", clock=lambda: ORIGIN + 40) as push:
        pass
    assert (push.sent, push.failed) == (1, 0)
    ((path, headers, body),) = receiver.taken
    assert (path, headers["content-type"], headers["content-encoding"]) == (
        "/v1/traces",
        "application/x-protobuf",
        "gzip",
    )
    assert len(read([body])) == server.engine.counters.e2e.count


def test_a_receiver_that_refuses_is_counted(receiver):
    receiver.answers = [400]
    with Push(
        live(), f"http://127.0.0.1:{receiver.server_port}/own", clock=lambda: ORIGIN + 40, retries=Retry(0)
    ) as push:
        pass
    assert (push.sent, push.failed) == (0, 1)
    assert "400" in push.problem


def test_what_nobody_takes_waits_and_is_counted_at_the_end(receiver):
    receiver.shutdown()
    receiver.server_close()
    server = live(sending=Sending(5.0))
    url = f"http://127.0.0.1:{receiver.server_port}"
    with Push(server, url, clock=lambda: ORIGIN + 20, retries=Retry(0)) as push:
        push._post()
        assert (push.sent, push.failed) == (0, 0)
    assert (push.sent, push.failed) == (0, 4)  # one for each 5 s
    assert "refused" in push.problem


def test_what_is_no_address_is_refused():
    with pytest.raises(SettingsError, match="ftp://x: is no address of a receiver"):
        Push(live(), "ftp://x", clock=lambda: ORIGIN)
