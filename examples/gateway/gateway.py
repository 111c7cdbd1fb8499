"""A small gateway in front of OpenAI-compatible engines, with the kit of llmvitals around it. README.md says how to run it."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields
from typing import Any

import httpx
import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from llmvitals.instrument import Expired, Full, Gateway, Middleware, Open, Refused

PATHS = ("/v1/chat/completions", "/v1/completions")
PASSED_ON = ("authorization", "content-type", "x-request-id")
PASSED_BACK = ("content-type", "retry-after", "x-request-id")
STATUS: dict[type[Refused], int] = {Full: 429, Expired: 503}
BROKEN_OFF = b'data: {"error": {"message": "the engine broke off", "type": "upstream_error", "code": 502}}\n\n'


@dataclass(frozen=True)
class Config:
    """Each is a variable ``GATEWAY_<NAME>``. Seconds: ``ttl`` in the queue, ``rest`` of an open breaker, ``silence`` of engines.
    So many ``failures`` in a row open a breaker; so many ``tokens`` may be set aside at once.
    """

    upstreams: str = "http://127.0.0.1:8000"  # several with commas between
    concurrency: int = 32
    waiting: int = 64
    ttl: float = 2.0
    tokens: int = 500_000
    failures: int = 5
    rest: float = 10.0
    silence: float = 120.0

    @classmethod
    def from_environment(cls) -> Config:
        given = {field.name: os.environ.get(f"GATEWAY_{field.name.upper()}") for field in fields(cls)}
        return cls(**{name: type(getattr(cls, name))(value) for name, value in given.items() if value})


class Upstream:
    """An engine and its circuit breaker: after ``rest`` seconds one call may try again, and its end decides."""

    def __init__(self, kit: Gateway, name: str, url: str, config: Config) -> None:
        self.config, self.in_hand, self.failed, self.retry_at = config, 0, 0, 0.0
        self.breaker = kit.breaker(name)
        kit.upstream(name).up = lambda: not self.breaker.is_open
        # The queue is what limits. Engines close a connection that was idle for 5 s: a call on it would reach nobody.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=2.0)
        transport = kit.transport(name, httpx.AsyncHTTPTransport(limits=limits))
        timeout = httpx.Timeout(config.silence, connect=2.0)
        self.client = httpx.AsyncClient(base_url=url, transport=transport, timeout=timeout)

    def admits(self) -> bool:
        return not self.breaker.is_open or time.monotonic() >= self.retry_at

    def ended(self, *, ok: bool) -> None:
        self.failed = 0 if ok else self.failed + 1
        if ok:
            self.breaker.closed()
        elif self.breaker.is_open or self.failed >= self.config.failures:
            self.retry_at = time.monotonic() + self.config.rest
            self.breaker.opened()

    @asynccontextmanager
    async def asked(self, path: str, headers: dict[str, str], body: bytes) -> AsyncIterator[httpx.Response]:
        """The answer of the engine as its head has come; the connection is let go at the end of the block."""
        if self.breaker.is_open:
            self.retry_at = time.monotonic() + self.config.rest  # this call tries, the others wait for its end
        self.in_hand += 1
        try:
            async with self.client.stream("POST", path, headers=headers, content=body) as answer:
                self.ended(ok=answer.status_code < 500 or answer.status_code == 503)  # an engine that is full is well
                yield answer
        except httpx.TransportError:
            self.ended(ok=False)
            raise
        finally:
            self.in_hand -= 1


class Relay(StreamingResponse):
    """An answer passed on piece by piece as it comes; what is held for it is let go at its end, whichever way it ends."""

    def __init__(self, answer: httpx.Response, held: AsyncExitStack) -> None:
        super().__init__(self._pieces(answer), answer.status_code, _headers(answer))
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            await super().__call__(scope, receive, send)

    async def _pieces(self, answer: httpx.Response) -> AsyncIterator[bytes]:
        try:
            async for piece in answer.aiter_raw():
                yield piece
        except httpx.TransportError:
            yield BROKEN_OFF  # the status is long gone: only the stream itself can tell


def _headers(answer: httpx.Response) -> dict[str, str]:
    return {name: answer.headers[name] for name in PASSED_BACK if name in answer.headers}


class Service:
    """A call waits for a place and for its tokens, goes to the engine with the fewest calls, and its answer streams back."""

    def __init__(self, kit: Gateway, config: Config) -> None:
        self.kit = kit
        self.queue = kit.queue(limit=config.waiting, ttl=config.ttl, concurrency=config.concurrency)
        urls = config.upstreams.split(",")
        self.upstreams = [Upstream(kit, f"engine-{i}", url.strip(), config) for i, url in enumerate(urls)]

    async def complete(self, request: Request) -> Response:
        body = msgspec.json.decode(await request.body(), type=dict[str, Any])
        if body.get("stream"):  # what a tenant used is counted from the usage at the end of the stream
            options = body.get("stream_options")
            body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        async with AsyncExitStack() as held:
            await held.enter_async_context(self.queue.enter())
            self.kit.reserve()
            headers["accept-encoding"] = "identity"  # compressed tokens cannot be counted, and come late
            answer = await self._answer(held, request.url.path, headers, msgspec.json.encode(body))
            if body.get("stream"):
                return Relay(answer, held.pop_all())
            return Response(await answer.aread(), answer.status_code, _headers(answer))

    async def _answer(self, held: AsyncExitStack, path: str, headers: dict[str, str], body: bytes) -> httpx.Response:
        try:
            return await held.enter_async_context(self._fittest().asked(path, headers, body))
        except httpx.ConnectError:  # nothing was sent: to try once more repeats no work
            self.kit.retried(by_gateway=True)
            return await held.enter_async_context(self._fittest().asked(path, headers, body))

    def _fittest(self) -> Upstream:
        """One whose breaker may be tried again comes first: users' calls are what tells that it is well."""
        fit = [upstream for upstream in self.upstreams if upstream.admits()]
        if not fit:
            raise Open("no engine is fit for calls", retry_after=1.0)
        return min(fit, key=lambda upstream: (not upstream.breaker.is_open, upstream.failed, upstream.in_hand))


async def refused(_: Request, error: Refused) -> Response:
    status, headers, body = error.answer()
    named = {name.decode(): value.decode() for name, value in headers}
    return Response(body, STATUS.get(type(error), status), named)


async def failed(_: Request, error: Exception) -> Response:
    status = 504 if isinstance(error, httpx.TimeoutException) else 502
    return JSONResponse({"error": {"message": "the engine gave no answer", "code": status}}, status)


async def unread(_: Request, __: Exception) -> Response:
    return JSONResponse({"error": {"message": "the body is no JSON object", "code": 400}}, 400)


def header(name: str) -> Callable[[Scope], str]:
    key = name.encode()
    return lambda scope: next((value.decode("latin-1") for given, value in scope["headers"] if given == key), "")


def build(config: Config, kit: Gateway) -> Middleware:
    service = Service(kit, config)
    routes = [Route(path, service.complete, methods=["POST"]) for path in PATHS]
    handlers: dict[Any, Any] = {Refused: refused, httpx.TransportError: failed, msgspec.DecodeError: unread}
    app = Starlette(routes=[*routes, Route("/metrics", kit.metrics_app())], exception_handlers=handlers)
    return Middleware(
        app,
        kit=kit,
        paths=PATHS,
        tenant=header("x-tenant"),
        session=header("x-session"),
        user_request=header("x-user-request"),
    )


def application() -> Middleware:
    config, spans = Config.from_environment(), TracerProvider()
    if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return build(config, Gateway("chat-gateway", token_limit=config.tokens, tracer_provider=spans))
