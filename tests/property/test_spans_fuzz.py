"""Whatever is sent: an error of our own, or a batch in which every span is counted once and every number can be stood behind."""

from __future__ import annotations

from math import isfinite
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from llmvitals.errors import SpansError
from llmvitals.settings import Spans
from llmvitals.telemetry.spans.attributes import MOST_TEXT
from llmvitals.telemetry.spans.decode import decode
from llmvitals.telemetry.spans.dialects import DIALECTS
from llmvitals.telemetry.spans.model import Batch, Request
from llmvitals.telemetry.spans.sound import MOST_TOKENS, REFUSALS
from support import otlp

CONFIG = Spans()
SCOPES = ("vllm.llm_engine", "vllm.tracing.otel", "trt.llm", "sglang server", "litellm", "gateway", "")
KEYS = sorted({key for dialect in DIALECTS for one in dialect.fields for key in one.attributes} | {"llm.tenant", "x"})
WORDS = ("chat", "acompletion", "embeddings", "sglang::request", '["abort"]', "429", "client_disconnected", "")

BASES = (
    ("vllm.llm_engine", otlp.vllm_span()),
    ("trt.llm", otlp.vllm_span(prefill=None, decode=None)),
    ("sglang server", otlp.span(" Req 1a2b3c4d", values={"module": "sglang::request"})),
    ("litellm", otlp.span("litellm_request", values={"llm.request.type": "acompletion"})),
    ("litellm", otlp.span("Received Proxy Server Request", kind=otlp.SERVER)),
    ("gateway", otlp.server_span()),
    ("gateway", otlp.client_span()),
    ("gateway", otlp.span("Load model")),
)

scalars = st.one_of(
    st.builds(lambda v: AnyValue(double_value=v), st.floats() | st.floats(0, 2)),
    st.builds(lambda v: AnyValue(int_value=v), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 20)),
    st.builds(lambda v: AnyValue(string_value=v), st.sampled_from(WORDS) | st.text(max_size=300)),
    st.builds(lambda v: AnyValue(bool_value=v), st.booleans()),
    st.builds(lambda v: AnyValue(bytes_value=v), st.binary(max_size=9)),
    st.just(AnyValue()),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(lambda v: AnyValue(array_value=ArrayValue(values=v)), st.lists(inner, max_size=4)),
        st.builds(
            lambda v: AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="k", value=one) for one in v])),
            st.lists(inner, max_size=3),
        ),
    ),
    max_leaves=6,
)


@st.composite
def sent_spans(draw: st.DrawFn) -> tuple[str, Span]:
    """A tracer and a span as one of the senders would send it, with none, one or a few things changed."""
    scope, base = draw(st.sampled_from(BASES))
    span = Span.FromString(base.SerializeToString())
    span.trace_id = draw(st.sampled_from([b"\1" * 16, b"\2" * 16]))
    span.span_id = draw(st.sampled_from([bytes([own]) * 8 for own in range(1, 9)]))
    span.parent_span_id = draw(st.sampled_from([b"", *(bytes([own]) * 8 for own in range(1, 9))]))
    changes = draw(st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=2))
    kept = [one for one in span.attributes if one.key not in dict(changes)]
    del span.attributes[:]
    span.attributes.extend([*kept, *(KeyValue(key=key, value=value) for key, value in changes)])
    span.status.code = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
    for name, wrong in draw(st.sampled_from(WRONG)):
        setattr(span, name, draw(wrong))
    return draw(st.sampled_from([scope] * 9 + list(SCOPES))), span


any_time = st.integers(0, 2**64 - 1)
some_id = st.sampled_from([b"", b"\0" * 8, b"\3" * 7, b"\0" * 16])
WRONG = (
    [],
    [],
    [],
    [("name", st.text(max_size=20))],
    [("kind", st.integers(0, 6))],
    [("trace_id", some_id)],
    [("span_id", some_id)],
    [("parent_span_id", some_id)],
    [("start_time_unix_nano", any_time)],
    [("end_time_unix_nano", any_time)],
)


def read(body: bytes) -> Batch:
    """The batch, an empty one where the bytes are none."""
    try:
        return checked(decode(body, CONFIG))
    except SpansError:
        return Batch()


def checked(batch: Batch) -> Batch:
    """Every span in one count; every number one that a page may show."""
    requests = [one for sent in batch.sent for one in sent.requests]
    assert batch.spans == len(requests) + batch.other + sum(batch.refused.values())
    assert batch.other >= 0
    assert set(batch.refused) <= set(REFUSALS)
    for one in requests:
        _check(one)
    return batch


def _check(one: Request) -> None:
    assert 0 < one.start <= one.end
    for seconds in (one.ttft, one.e2e, one.queue, one.prefill, one.decode, one.tpot):
        assert seconds is None or (isfinite(seconds) and 0 <= seconds <= 8 * 86_400)
    for count in (one.prompt_tokens, one.output_tokens):
        assert count is None or (type(count) is int and 0 <= count <= MOST_TOKENS)
    for text in (one.model, one.tenant, one.route):
        assert len(text) <= MOST_TEXT
    assert (len(one.trace_id), len(one.span_id)) == (32, 16)
    assert len(one.parent_id) in (0, 16)
    assert one.sequences >= 1


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
@example(b"")
@example(b"\x0a\x00")
def test_any_bytes(body: bytes) -> None:
    read(body)


@given(st.lists(st.lists(sent_spans(), max_size=5), max_size=3))
@settings(max_examples=500, deadline=None)
def test_any_spans(sent: list[list[tuple[str, Span]]]) -> None:
    body = ExportTraceServiceRequest()
    for process in sent:
        group = body.resource_spans.add()
        for scope, span in process:
            of_scope = group.scope_spans.add(spans=[span])
            of_scope.scope.name = scope
    batch = checked(decode(body.SerializeToString(), CONFIG))
    assert batch.spans == sum(len(process) for process in sent)


@pytest.mark.parametrize("seed", range(60))
def test_changed_exports(seed: int) -> None:
    random = Random(seed)
    call = otlp.client_span()
    mixed = [
        otlp.vllm_span(),
        otlp.vllm_span(parent="00f067aa0ba902b7"),
        otlp.server_span(tenant="acme", route="chat"),
        call,
        otlp.client_span(trace=call.trace_id.hex(), parent=call.span_id.hex()),
        otlp.span("Load model"),
    ]
    bodies = [otlp.body(mixed, scope=scope) for scope in SCOPES]
    understood = 0
    for _ in range(100):
        body = bytearray(random.choice(bodies))
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(body))
            match random.randrange(4):
                case 0:
                    body[at] ^= 1 << random.randrange(8)
                case 1:
                    body[at] = random.randrange(256)
                case 2:
                    del body[at : at + random.randint(1, 9)]
                case _:
                    body[at:at] = random.randbytes(random.randint(1, 9))
        understood += read(bytes(body)).spans
    assert understood  # some changes leave an export: else this proves nothing
