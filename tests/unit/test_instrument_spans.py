"""The kit's spans are understood by the receiver of production, tell what its clients met, and hold no text."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from llmvitals.instrument import Gateway, Middleware
from llmvitals.settings import Spans
from llmvitals.telemetry.spans.decode import decode
from llmvitals.telemetry.spans.model import Ended, Request, Vantage
from support.asgi import App, Client, Message, answering, asked, begin, more, piece, usage

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = [(b"traceparent", f"00-{TRACE}-{PARENT}-01".encode())]


def told(app: App, client: Client, **settings: Any) -> tuple[Request, bytes]:
    """The request that the receiver makes of the kit's span, and the bytes that were sent."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    kit = Gateway("g", tracer_provider=provider)

    async def call() -> None:
        with contextlib.suppress(ConnectionResetError):
            await client.call(Middleware(app, kit=kit, tenant=lambda _: "team", session=lambda _: "s-17", **settings))

    asyncio.run(call())
    data = encode_spans(kept.get_finished_spans()).SerializeToString()
    batch = decode(data, Spans())
    assert (batch.spans, batch.other, dict(batch.refused)) == (1, 0, {})
    return batch.sent[0].requests[0], data


def test_a_call_that_went_well() -> None:
    client = Client(asked(max_tokens=9), headers=CALLER)
    request, _ = told(answering(piece(), piece(), usage(40, 2)), client)
    assert (request.vantage, request.ended) == (Vantage.GATEWAY, Ended.OK)
    assert (request.trace_id, request.parent_id) == (TRACE, PARENT)
    assert (request.model, request.tenant, request.route) == ("m", "team", client.path)
    assert (request.prompt_tokens, request.output_tokens) == (40, 2)
    assert request.ttft is not None
    assert 0 <= request.ttft <= request.end - request.start + 0.001


@pytest.mark.parametrize(
    ("status", "ended"),
    [(400, Ended.CLIENT_ERROR), (429, Ended.REFUSED), (503, Ended.REFUSED), (500, Ended.ERROR), (504, Ended.ERROR)],
)
def test_calls_that_were_refused_or_failed(status: int, ended: Ended) -> None:
    assert told(answering(status=status), Client())[0].ended is ended


async def breaks(scope: Message, receive: Any, send: Any) -> None:
    await receive()
    await begin(send)
    await more(send, piece())
    raise ConnectionResetError


def test_a_stream_that_broke_off_is_an_error_though_its_status_was_200() -> None:
    assert told(breaks, Client())[0].ended is Ended.ERROR


def test_a_client_that_left() -> None:
    client = Client()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        await begin(send)
        client.left.set()
        await receive()

    request, data = told(app, client)
    assert request.ended is Ended.LEFT
    assert b"client_disconnected" in data


def test_completions_are_known_by_their_path() -> None:
    request, data = told(answering(piece(), usage(1, 1)), Client({"model": "m", "prompt": "x"}, path="/v1/completions"))
    assert request.route == "/v1/completions"
    assert b"text_completion" in data


def test_no_text_of_a_call_is_in_its_span() -> None:
    secret = "xyzzy-plover-4711"
    client = Client(asked(secret, user=secret, metadata={"note": secret}))
    _, data = told(answering(piece(secret), usage(1, 1)), client)
    assert secret.encode() not in data
    assert b"s-17" not in data, "sessions are people"


def test_what_is_done_for_a_call_lies_below_its_span() -> None:
    carried: dict[str, str] = {}

    async def app(scope: Message, receive: Any, send: Any) -> None:
        TraceContextTextMapPropagator().inject(carried)
        await answering(piece())(scope, receive, send)

    request, _ = told(app, Client(headers=CALLER))
    assert carried["traceparent"] == f"00-{TRACE}-{request.span_id}-01"


def test_the_span_of_a_call_is_not_left_behind() -> None:
    before = trace.get_current_span()
    told(breaks, Client(headers=CALLER))
    assert trace.get_current_span() is before


@pytest.mark.parametrize("value", [b"", b"00-zz-zz-01", b"\xff\xfe", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01"])
def test_a_callers_trace_that_is_none_begins_one(value: bytes) -> None:
    request, _ = told(answering(piece()), Client(headers=[(b"traceparent", value)]))
    assert request.parent_id == ""
    assert request.trace_id.strip("0")
