"""One call's passage through the gateway: taps on what its client sends and gets, and what is counted as it goes."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from opentelemetry import context as otel
from starlette.types import Message, Receive, Scope, Send

from llmvitals.instrument import body, stream
from llmvitals.instrument.call import Call, now
from llmvitals.instrument.counts import CLIENT_LEFT
from llmvitals.instrument.kit import Gateway, entered, left
from llmvitals.instrument.refusals import Expired, Refused


class Passage:
    """``receive`` and ``send`` stand in for the server's. ``started``: whether an answer has begun."""

    def __init__(self, kit: Gateway, scope: Scope, receive: Receive, send: Send, *, body_limit: int) -> None:
        self.kit = kit
        self.call = Call(now(), route=scope["path"])
        self.started = False
        self._complete = False
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive, self._send = receive, send
        self._body: bytearray | None = bytearray()
        self._body_limit = body_limit
        self._body_bytes = 0
        self._again = False
        self._eyes: stream.Eyes | None = None
        self._watch: asyncio.Task[None] | None = None
        self._error = ""
        self._timed_out = False

    def begin(self, *, tenant: str, session: str, user_request: str, seconds: float | None) -> None:
        """The call has come in."""
        call = self.call
        call.tenant, call.session = tenant, session
        call.deadline = None if seconds is None else call.arrived + seconds
        self._again = self.kit.came(call, self._headers, user_request)
        self._context = otel.attach(self.kit.spans.begin(call, self._headers))
        self._token = entered(call)

    # -- what the client sends -----------------------------------------------------------------------------------------
    async def receive(self) -> Message:
        """The next message for the application; its body is read along with it."""
        if self._watch is not None:
            await self.call.until_left()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.request":
            self._take(message.get("body", b""))
            if not message.get("more_body", False):
                self._read()
                self._watch = asyncio.create_task(self._until_left())
        elif message["type"] == "http.disconnect":
            self._left()
        return message

    def _take(self, chunk: bytes) -> None:
        self._body_bytes += len(chunk)
        if self._body is not None:
            if len(self._body) + len(chunk) > self._body_limit:
                self._body = None
            else:
                self._body += chunk

    def _read(self) -> None:
        whole, self._body = self._body, None
        asked = body.read(bytes(whole)) if whole is not None else None
        self.call.prompt_chars = self._body_bytes
        self.kit.asked(self.call, asked, bytes(whole or b""), again=self._again)

    async def _until_left(self) -> None:
        """All of the body is here: what comes next can only be that the client leaves."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._left()
                return

    def _left(self) -> None:
        if not self._complete:
            self.call.gone()

    # -- what the client gets ------------------------------------------------------------------------------------------
    async def send(self, message: Message) -> None:
        """The next message of the application; chunks of its answer are looked at as they pass."""
        kind = message["type"]
        if kind == "http.response.body":
            chunk = message.get("body", b"")
            if chunk and self._eyes is not None:
                self._eyes.see(chunk)
            if not message.get("more_body", False):
                self._complete = True
        elif kind == "http.response.start":
            self.started = True
            self.call.status = message["status"]
            self._eyes = stream.eyes(self.call, list(message.get("headers", ())), self.kit.counts.first_token)
        try:
            await self._send(message)
        except OSError:
            self._complete = False
            self._left()
            raise

    # -- how it ends ---------------------------------------------------------------------------------------------------
    def refused(self, refused: Refused) -> None:
        """The application let a refusal pass; before an answer began, the client is told."""
        self.call.refused = self.call.refused or refused.reason
        self._timed_out = isinstance(refused, Expired)

    def failed(self, error: BaseException) -> None:
        """The application failed, or was cancelled: by the server, for a client that left."""
        if isinstance(error, asyncio.CancelledError):
            self._left()
        else:
            self._error = type(error).__name__
            self._timed_out = isinstance(error, TimeoutError) or "Timeout" in self._error

    def end(self) -> None:
        """The call has ended: count it."""
        call = self.call
        if self._watch is not None:
            self._watch.cancel()
        if self._eyes is not None:
            self._eyes.end()
        if call.left:
            call.status = CLIENT_LEFT
        elif not self.started:
            call.status, call.cut = HTTPStatus.INTERNAL_SERVER_ERROR, ""
        elif not self._complete and not call.cut:
            call.cut = "timeout" if self._timed_out else "upstream"
        self.kit.ended(call, now() - call.arrived)
        failed = str(call.status) if call.status and call.status >= HTTPStatus.INTERNAL_SERVER_ERROR else ""
        self.kit.spans.end(call, self._error or call.cut or failed)
        left(self._token)
        otel.detach(self._context)
