"""Exports whose few bytes would become many messages: refused before they do; whatever senders really send is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from llmvitals.errors import SpansError
from llmvitals.settings import Spans
from llmvitals.telemetry.spans import density
from llmvitals.telemetry.spans.decode import decode
from llmvitals.telemetry.spans.density import SMALL, is_dense
from support import otlp

MANY = SMALL  # of two bytes each


def field(number: int, value: bytes) -> bytes:
    size, length = len(value), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + value


EMPTY = {
    "groups": b"\x0a\x00" * MANY,
    "scopes": field(1, b"\x12\x00" * MANY),
    "spans": field(1, field(2, b"\x12\x00" * MANY)),
    "spans-of-one-field": field(1, field(2, b"\x12\x02\x30\x02" * MANY)),
    "one-span-in-each-scope": field(1, b"\x12\x02\x12\x00" * MANY),
    "with-a-damaged-end": field(1, field(2, b"\x12\x00" * MANY)) + b"\xff",
    "behind-a-group": b"\x1b\x1c" + field(1, field(2, b"\x12\x00" * MANY)),
    "behind-a-large-number": b"\x18" + b"\xff" * 9 + b"\x01" + field(1, field(2, b"\x12\x00" * MANY)),
}


@pytest.mark.parametrize("body", EMPTY.values(), ids=EMPTY)
def test_messages_that_say_nothing_are_not_made(body: bytes) -> None:
    assert is_dense(body)
    with pytest.raises(SpansError, match="more spans than so many bytes"):
        decode(body, Spans())


def test_the_smallest_spans_that_can_be_counted_are_taken() -> None:
    spans = [
        Span(name="r", trace_id=n.to_bytes(16), span_id=n.to_bytes(8), start_time_unix_nano=1, end_time_unix_nano=2)
        for n in range(1, 10_001)
    ]
    together = otlp.bodies([({}, "", spans)])
    alone = otlp.bodies([({}, "", [span]) for span in spans])
    for body in (together, alone):
        assert len(body) > SMALL
        assert not is_dense(body)
        assert decode(body, Spans()).spans == 10_000


def test_real_spans_are_taken_however_many() -> None:
    body = otlp.body([otlp.vllm_span() for _ in range(1000)])
    assert len(body) > SMALL
    assert not is_dense(body)
    assert len(decode(body, Spans()).sent[0].requests) == 1000


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 20))
def test_whatever_comes_it_ends_with_an_answer(noise: bytes, cut: int) -> None:
    body = otlp.body([otlp.vllm_span()])
    before, density.SMALL = density.SMALL, 0
    try:
        for one in (noise, noise + body, body[:cut] + noise + body[cut:], body[: len(body) - cut]):
            assert is_dense(one) in (True, False)
        assert not is_dense(body)
    finally:
        density.SMALL = before
