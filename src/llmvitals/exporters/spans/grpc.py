"""OTLP over gRPC: ``TraceService/Export``. Codes follow the OTLP specification (sections "OTLP/gRPC Response" and "Throttling").

The method is registered as one with a stream of requests, which is the same on the wire: so a message has a time limit to
arrive, and how many may arrive at once is ours to say. gRPC's own limits would answer RESOURCE_EXHAUSTED without a word of when
to come again, which senders take as final. Messages come as they were sent: the library would unpack a bomb whole.
"""

from __future__ import annotations

import asyncio
import ipaddress
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from llmvitals.exporters import guard
from llmvitals.exporters.listen import START_SECONDS, bound, shown, unusable
from llmvitals.exporters.network import network
from llmvitals.exporters.protect import GuessingError, Verifier, credentials
from llmvitals.exporters.request_head import HEADER_BYTES
from llmvitals.exporters.spans.grpc_tls import check_tls, secrets
from llmvitals.exporters.spans.intake import Intake
from llmvitals.exporters.spans.messages import CODES, response, trailers
from llmvitals.exporters.spans.result import GUESSING, STRANGER, Answer, Result
from llmvitals.exporters.spans.unpack import is_packed
from llmvitals.exporters.web_config import Web

if TYPE_CHECKING:
    import grpc

PROTOCOL = "grpc"
SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"

ARRIVING = 16
"""Messages that may arrive at once. gRPC holds one whole before anybody can look at it, so this bounds its memory; the others
wait unread for their turn."""

WAIT_SECONDS = 5.0
"""How long; OpenTelemetry's senders give up after 10."""

CALLS = 1024
"""Calls under way beyond which more are refused at once."""

GRACE_SECONDS = 1.0

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.so_reuseport", 0),  # a port in use is an error, and not shared with whoever has it
    ("grpc.per_message_decompression", 0),
    ("grpc.max_metadata_size", HEADER_BYTES),
    ("grpc.max_concurrent_streams", 64),  # of one connection
    ("grpc.max_allowed_incoming_connections", guard.CONNECTIONS),
    ("grpc.server_handshake_timeout_ms", int(guard.REQUEST_SECONDS * 1000)),
    ("grpc.max_connection_idle_ms", 300_000),
    ("grpc.keepalive_time_ms", 60_000),  # a peer that is gone without a word is found out
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


def peer_ip(peer: str) -> str:
    """The address in what gRPC calls a peer, like ``ipv6:%5B::1%5D:4317``; '' for what is none."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in {"ipv4", "ipv6"}:
        return ""
    try:
        address = ipaddress.ip_address(rest.rpartition(":")[0].strip("[]"))
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


class GrpcServer:
    """The server in a thread and an event loop of its own."""

    def __init__(self, intake: Intake, listen: str, web: Callable[[], Web]) -> None:
        check_tls(web())
        self._intake = intake
        self._listen = listen
        self._bind = listen
        self._web = web
        self._verifier = Verifier()
        # What is a little too large is read, so that its sender can be told so in the protocol's own words.
        self._most = 2 * intake.config.max_body_bytes
        self._calls = 0
        self._ready = threading.Event()
        self._error: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._arriving: asyncio.Semaphore | None = None
        self._thread = threading.Thread(target=self._run, name="spans-grpc", daemon=True)
        self.address = ""

    def start(self) -> None:
        """Listen. Raises :class:`SettingsError` when the address cannot be used."""
        with bound(self._listen, key="spans.grpc", example="127.0.0.1:4317") as tried:
            # gRPC says no more than "failed", and that on stderr as well: what is amiss with an address is asked here.
            host, port = tried.getsockname()[:2]
            self._bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._thread.start()
        ready = self._ready.wait(START_SECONDS)
        if self._error is not None or not ready:
            raise unusable(f"spans.grpc: {self._listen}", str(self._error or "gRPC does not start"))

    def stop(self) -> None:
        """Finish the calls under way, for a moment, and end. May be called twice."""
        if self._loop is not None and self._end is not None:
            with suppress(RuntimeError):  # it is closed already
                self._loop.call_soon_threadsafe(self._end.set)
        if self._thread.ident is not None:
            self._thread.join(2 * GRACE_SECONDS + 1.0)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except (OSError, RuntimeError) as error:
            self._error = error
            self._ready.set()

    async def _serve(self) -> None:
        import grpc  # noqa: PLC0415  # an extra

        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._arriving = asyncio.Semaphore(ARRIVING)
        server = grpc.aio.server(options=(*OPTIONS, ("grpc.max_receive_message_length", self._most)))
        export = grpc.stream_unary_rpc_method_handler(self._export)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Export": export}),))
        port = (
            server.add_insecure_port(self._bind)
            if self._web().policy is None
            else server.add_secure_port(self._bind, secrets(self._web))
        )
        self.address = shown((self._bind.rpartition(":")[0].strip("[]"), port))
        await server.start()
        self._ready.set()
        await self._end.wait()
        await server.stop(GRACE_SECONDS)

    async def _export(self, messages: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> bytes:
        from grpc import StatusCode  # noqa: PLC0415  # an extra

        self._calls += 1
        try:
            body = await self._body(messages, context)
            if isinstance(body, Answer):
                answer = body
                self._intake.count(PROTOCOL, answer.result, answer.message)
            else:
                taken = self._intake.take(body, PROTOCOL, peer_ip(context.peer()), packed=is_packed(body))
                answer = await asyncio.wrap_future(taken)
        finally:
            self._calls -= 1
        if answer.result in CODES:
            await context.abort(StatusCode[CODES[answer.result]], answer.message, trailers(answer))
        return response(answer)

    async def _body(self, messages: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> bytes | Answer:
        """The message, once its sender is known, it is its turn and it came whole in time; else why not."""
        try:
            if self._calls > CALLS:
                return Answer(Result.BUSY, self._intake.busy())
            if not await self._admitted(context):
                return Answer(Result.UNAUTHORIZED, STRANGER)
            return await self._message(messages)
        except GuessingError:  # a right password that comes with many others is told to come again, and not turned away
            return Answer(Result.BUSY, GUESSING)
        except asyncio.CancelledError:
            self._intake.count(PROTOCOL, Result.INCOMPLETE, "the sender went away")
            raise

    async def _message(self, messages: AsyncIterator[bytes]) -> bytes | Answer:
        assert self._arriving is not None
        try:
            await asyncio.wait_for(self._arriving.acquire(), WAIT_SECONDS)
        except TimeoutError:
            return Answer(Result.BUSY, self._intake.busy())
        try:
            return await asyncio.wait_for(anext(messages), guard.REQUEST_SECONDS)
        except TimeoutError:
            return Answer(Result.INCOMPLETE, f"the message did not come within {guard.REQUEST_SECONDS:g} s")
        except StopAsyncIteration:
            return Answer(Result.INCOMPLETE, f"no message came, or one of over {self._most} bytes")
        finally:
            self._arriving.release()

    async def _admitted(self, context: grpc.aio.ServicerContext) -> bool:
        users = self._web().users
        if not users:
            return True
        sent = dict(context.invocation_metadata() or ()).get("authorization", "")
        user, password = credentials(sent if isinstance(sent, str) else "")
        return await self._verifier.admits(users, user, password, network(peer_ip(context.peer())))
