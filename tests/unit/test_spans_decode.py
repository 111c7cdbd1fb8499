"""An export of spans, from its bytes to requests: what is taken, what is no request, what is refused and why."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from llmvitals.errors import MissingExtraError, SpansError
from llmvitals.settings import Spans
from llmvitals.telemetry.spans.decode import _messages, decode
from llmvitals.telemetry.spans.model import Batch, Ended, Request, Vantage
from llmvitals.telemetry.spans.sound import REFUSALS
from support import otlp

CONFIG = Spans()
SECRET = "the planted secret of a prompt"


def read(*spans: Span, **given: object) -> Batch:
    return decode(otlp.body(spans, **given), CONFIG)  # type: ignore[arg-type]


def only(*spans: Span, **given: object) -> Request:
    batch = read(*spans, **given)
    assert (batch.spans, batch.refused) == (len(spans), {})
    (sent,) = batch.sent
    (request,) = sent.requests
    return request


def refusals(*spans: Span) -> dict[str, int]:
    batch = read(*spans)
    assert not batch.sent
    assert batch.other == 0
    return dict(batch.refused)


def test_a_span_of_vllm_becomes_a_request() -> None:
    span = otlp.vllm_span(trace="0af7651916cd43dd8448eb211c80319c", own="b7ad6b7169203331", start=1_795_957_333.25)
    assert only(span) == Request(
        dialect="vllm",
        vantage=Vantage.ENGINE,
        trace_id="0af7651916cd43dd8448eb211c80319c",
        span_id="b7ad6b7169203331",
        parent_id="",
        start=1_795_957_333.25,
        end=1_795_957_334.0,
        ttft=0.25,
        e2e=0.75,
        queue=0.0625,
        prefill=0.125,
        decode=0.5,
        prompt_tokens=100,
        output_tokens=11,
    )
    assert only(span).tpot == 0.05


def test_sequences_of_one_prompt_are_requests_of_their_own_and_a_child_names_its_caller() -> None:
    caller = "00f067aa0ba902b7"
    first, second = (otlp.vllm_span(request="cmpl-7-0") for _ in range(2))
    batch = read(first, second, otlp.vllm_span(parent=caller))
    requests = batch.sent[0].requests
    assert [one.parent_id for one in requests] == ["", "", caller]
    assert len({one.trace_id for one in requests}) == 3


def test_a_parent_of_zeros_is_none() -> None:
    assert only(otlp.vllm_span(parent="00" * 8)).parent_id == ""


def test_processes_are_told_apart_by_their_resource() -> None:
    one, two = otlp.vllm_resource(11, host__name="node-a"), otlp.vllm_resource(12)
    startup = otlp.span("Load model")
    batch = decode(
        otlp.bodies(
            [
                (one, otlp.VLLM_SCOPE, [otlp.vllm_span(), otlp.vllm_span(), startup]),
                (two, otlp.VLLM_SCOPE, [otlp.vllm_span()]),
                (otlp.vllm_resource(13), "vllm.worker", [startup]),
            ]
        ),
        CONFIG,
    )
    assert [len(sent.requests) for sent in batch.sent] == [2, 1]
    said = dict(batch.sent[0].resource)
    assert (said["vllm.process_id"], said["host.name"]) == ("11", "node-a")
    assert list(said) == sorted(said)
    assert (batch.other, batch.spans) == (2, 5)


def test_resources_keep_what_finds_a_process_and_no_command_line() -> None:
    resource: dict[str, otlp.Value] = {
        "process.pid": 4711,
        "ready": True,
        "process.command_line": f"vllm serve --api-key {SECRET}",
        "process.command_args": ["--api-key", SECRET],
        "tags": ["a", "b"],
        "long": "x" * 300,
    }
    (sent,) = read(otlp.vllm_span(), resource=resource).sent
    assert sent.resource == (("process.pid", "4711"), ("ready", "true"))


def test_of_what_a_process_says_of_itself_no_more_is_kept_than_is_bounded() -> None:
    resource: dict[str, otlp.Value] = {"k8s.pod.name": "chat-0"} | {f"{n:02d}" + "x" * 98: "y" * 150 for n in range(60)}
    (sent,) = read(otlp.vllm_span(), resource=resource | {"process.pid": 4711}).sent
    said = dict(sent.resource)
    assert said["k8s.pod.name"] == "chat-0"
    assert said["process.pid"] == "4711"  # what is short still fits
    assert 3800 < sum(len(key) + len(value) for key, value in said.items()) <= 4096


@pytest.mark.parametrize(
    "name", ["Worker init", "Load model", "EngineCoreProc init", "Allocate KV cache", "GET /metrics", ""]
)
def test_spans_of_the_start_and_of_http_are_no_requests(name: str) -> None:
    batch = read(otlp.span(name), otlp.span(name, kind=otlp.SERVER), otlp.vllm_span())
    assert (batch.other, batch.spans, batch.refused) == (2, 3, {})


@pytest.mark.parametrize(
    ("reason", "span"),
    [
        ("ids", otlp.vllm_span(trace="")),
        ("ids", otlp.vllm_span(trace="00" * 16)),
        ("ids", otlp.vllm_span(trace="ab" * 8)),
        ("ids", otlp.vllm_span(own="")),
        ("ids", otlp.vllm_span(own="00" * 8)),
        ("ids", otlp.vllm_span(parent="abcd")),
        ("order", otlp.span("llm_request", kind=otlp.SERVER, seconds=-1.0)),
        ("clock", otlp.vllm_span(start=86_400.0)),
        ("clock", otlp.vllm_span(start=5e9)),
        ("clock", otlp.span("llm_request", kind=otlp.SERVER, seconds=8 * 86_400.0)),
        ("times", otlp.vllm_span(ttft=-0.5)),
        ("times", otlp.vllm_span(ttft=math.nan)),
        ("times", otlp.vllm_span(queue=math.inf)),
        ("times", otlp.vllm_span(prefill=-math.inf)),
        ("times", otlp.vllm_span(e2e=None, gen_ai__latency__e2e=math.nan)),
        ("times", otlp.vllm_span(e2e=None, gen_ai__latency__e2e=-1.0)),
        ("times", otlp.vllm_span(ttft=250.0)),  # milliseconds
        ("times", otlp.vllm_span(decode=0.85)),  # longer than the request
        ("tokens", otlp.vllm_span(prompt=-1)),
        ("tokens", otlp.vllm_span(output=10_000_001)),
        ("attributes", otlp.vllm_span(ttft=None, gen_ai__latency__time_to_first_token="0.25")),
        ("attributes", otlp.vllm_span(ttft=None, gen_ai__latency__time_to_first_token=True)),
        ("attributes", otlp.vllm_span(output=None, gen_ai__usage__completion_tokens=1.5)),
        ("attributes", otlp.vllm_span(prompt=None, gen_ai__usage__prompt_tokens=math.inf)),
        ("attributes", otlp.vllm_span(gen_ai__response__model="m" * 257)),
        ("attributes", otlp.vllm_span(gen_ai__response__model=["a", "b"])),
    ],
)
def test_a_request_that_cannot_be_believed_is_refused_by_reason(reason: str, span: Span) -> None:
    assert refusals(span) == {reason: 1}
    assert reason in REFUSALS


def test_each_reason_has_a_case_above() -> None:
    marks = test_a_request_that_cannot_be_believed_is_refused_by_reason.pytestmark  # type: ignore[attr-defined]
    assert {reason for reason, _ in marks[0].args[1]} == set(REFUSALS)


def test_refused_spans_do_not_take_the_others_with_them() -> None:
    batch = read(otlp.vllm_span(ttft=-1.0), otlp.vllm_span(), otlp.vllm_span(ttft=-1.0), otlp.vllm_span(trace=""))
    assert (dict(batch.refused), len(batch.sent[0].requests), batch.other) == ({"times": 2, "ids": 1}, 1, 0)


def test_what_clocks_differ_by_is_nothing() -> None:
    request = only(otlp.vllm_span(queue=-0.0005, decode=0.76))
    assert (request.queue, request.decode) == (0.0, 0.76)


def test_what_is_not_told_is_not_known_and_never_0() -> None:
    request = only(otlp.vllm_span(ttft=None, queue=None, prefill=None, decode=None, e2e=None, prompt=None, output=None))
    assert (request.ttft, request.queue, request.prefill, request.decode) == (None, None, None, None)
    assert (request.prompt_tokens, request.output_tokens, request.tpot) == (None, None, None)
    assert request.e2e == 1.0  # the span's own length
    assert request.model == ""


def test_empty_values_are_none() -> None:
    span = otlp.vllm_span(ttft=None, gen_ai__response__model="", gen_ai__latency__time_to_first_token="")
    span.attributes.append(KeyValue(key="gen_ai.usage.num_sequences", value=AnyValue()))
    span.attributes.append(KeyValue(key="llm.tenant"))
    request = only(span)
    assert (request.ttft, request.model, request.sequences, request.tenant) == (None, "", 1, "")


def test_whole_numbers_are_times_and_whole_doubles_are_counts() -> None:
    span = otlp.vllm_span(
        ttft=None, gen_ai__latency__time_to_first_token=0, output=None, gen_ai__usage__completion_tokens=7.0
    )
    request = only(span)
    assert (request.ttft, request.output_tokens) == (0.0, 7)


def test_the_first_of_two_equal_keys_counts() -> None:
    span = otlp.vllm_span(prompt=5)
    span.attributes.extend(otlp.attributes({"gen_ai.usage.prompt_tokens": 99}))
    assert only(span).prompt_tokens == 5


def test_tenant_and_route_are_the_first_of_the_settings_that_is_there() -> None:
    span = otlp.server_span(tenant="acme", route=None, enduser__pseudo__id="u-1", http__route="/v1/chat/completions")
    request = only(span, scope="gateway")
    assert (request.tenant, request.route) == ("acme", "/v1/chat/completions")
    named = Spans(tenant=("team", "enduser.pseudo.id"), route=("feature",))
    (sent,) = decode(otlp.body([span, otlp.server_span(team=7, feature="rag")], scope="gateway"), named).sent
    assert [(one.tenant, one.route) for one in sent.requests] == [("u-1", ""), ("7", "rag")]


def test_prompts_and_answers_are_in_no_value_and_in_no_message() -> None:
    held = {
        name.replace(".", "__"): SECRET
        for name in (
            "gen_ai.input.messages",
            "gen_ai.output.messages",
            "gen_ai.system_instructions",
            "gen_ai.prompt",
            "gen_ai.completion",
            "gen_ai.prompt.0.content",
            "llm.prompts",
            "llm.openai.messages",
            "error.message",
            "exception",
        )
    }
    spans = [otlp.server_span(**held), otlp.vllm_span(**held), otlp.client_span(**held), otlp.span(SECRET)]
    refused = otlp.server_span(model=SECRET * 20, error=SECRET, **held)
    for span in (*spans, refused):
        event = span.events.add(name=SECRET)
        event.attributes.extend(otlp.attributes({"gen_ai.prompt": SECRET}))
        span.status.message = SECRET
    body = otlp.body([*spans, refused], scope="gateway")
    batch = decode(body, CONFIG)
    assert len(batch.sent[0].requests) == 2  # vLLM's is not vLLM's in this scope
    assert batch.refused == {"attributes": 1}
    assert SECRET not in repr(batch)
    for broken in (body[:-3], SECRET.encode()):
        with pytest.raises(SpansError) as error:
            decode(broken, CONFIG)
        assert SECRET not in str(error.value)
        assert error.value.__cause__ is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"resourceSpans": []}',
        b"\x0a\xff\xff\xff\xff\x0f",  # longer than the body
        b"\xff" * 64,
        otlp.body([otlp.vllm_span()])[:-1],
        otlp.body([otlp.vllm_span()]).replace(b"llm_request", b"llm_\xff\xfequest"),  # no UTF-8
        b"\x0b" * 5_000,  # groups in groups
    ],
)
def test_what_is_no_export_is_an_error_with_a_remedy(body: bytes) -> None:
    with pytest.raises(SpansError) as error:
        decode(body, CONFIG)
    assert error.value.thing == "not an OTLP export of spans"
    assert str(len(body)) in error.value.place
    assert "http/protobuf" in error.value.remedy


def test_values_nested_deeper_than_protobuf_allows_are_an_error_not_a_crash() -> None:
    inner = b""
    for _ in range(3_000):
        inner = b"\x2a" + _length(b"\x0a" + _length(inner))  # array_value { values { ... } }
    attribute = b"\x0a\x01k" + b"\x12" + _length(inner)
    span = otlp.vllm_span().SerializeToString() + b"\x4a" + _length(attribute)
    body = b"\x0a" + _length(b"\x12" + _length(b"\x12" + _length(span)))
    with pytest.raises(SpansError):
        decode(body, CONFIG)


def _length(held: bytes) -> bytes:
    size, left = b"", len(held)
    while left > 0x7F:
        size += bytes([left & 0x7F | 0x80])
        left >>= 7
    return size + bytes([left]) + held


def test_an_empty_export_is_one() -> None:
    assert decode(b"", CONFIG) == Batch()
    assert decode(otlp.body([]), CONFIG) == Batch()


def test_thousands_of_attributes_are_passed_over() -> None:
    span = otlp.vllm_span()
    span.attributes.extend(KeyValue(key=f"k{i}", value=AnyValue(int_value=i)) for i in range(20_000))
    assert only(span).output_tokens == 11


def test_a_real_vllm_is_read_as_it_sent_itself(shared: Path) -> None:
    sample = json.loads((shared / "reference" / "vllm-spans.json").read_text())
    for told in sample["examples"]:
        resource = {name: value for name, (_, value) in told["resource"].items()}
        values = {name: value for name, (_, value) in told["attributes"].items()}
        span = otlp.span(told["name"], kind=told["kind"], trace=told["trace_id"], own=told["span_id"], values=values)
        span.start_time_unix_nano, span.end_time_unix_nano = told["start"], told["end"]
        request = only(span, resource=resource, scope=told["scope"])
        assert request.ttft == values["gen_ai.latency.time_to_first_token"]
        assert request.e2e == values["gen_ai.latency.e2e"]
        assert request.queue == values["gen_ai.latency.time_in_queue"]
        assert request.prefill == values["gen_ai.latency.time_in_model_prefill"]
        assert request.decode == values["gen_ai.latency.time_in_model_decode"]
        assert request.prompt_tokens == values["gen_ai.usage.prompt_tokens"]
        assert request.output_tokens == values["gen_ai.usage.completion_tokens"]
        assert (request.dialect, request.ended, request.trace_id) == ("vllm", Ended.OK, told["trace_id"])
        assert request.start == pytest.approx(told["start"] / 1e9, abs=1e-6)
    others = [otlp.span(name) for name in sample["other_span_names"]]
    batch = read(*others)
    assert batch.other == batch.spans == len(others)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    _messages.cache_clear()
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1", None)
    with pytest.raises(MissingExtraError) as error:
        decode(b"", CONFIG)
    assert "llmvitals[otel]" in error.value.remedy
    monkeypatch.undo()
    assert decode(b"", CONFIG) == Batch()
