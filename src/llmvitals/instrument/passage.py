"""One call's passage through the gateway: taps on what its client sends and gets, and what is counted as it goes."""

from __future__ import annotations

import asyncio

from opentelemetry import context as otel
from starlette.types import Message, Receive, Scope, Send

from llmvitals.instrument import body, stream
from llmvitals.instrument.call import Call, enter, leave, now
from llmvitals.instrument.counts import CLIENT_LEFT, SERVER_ERROR
from llmvitals.instrument.kit import Gateway
from llmvitals.instrument.refusals import Expired, Refused
from llmvitals.instrument.sessions import Hash


class Passage:
    """``receive`` and ``send`` stand in for the server's. ``started``: whether an answer has begun."""

    def __init__(self, kit: Gateway, scope: Scope, receive: Receive, send: Send, *, body_limit: int) -> None:
        self.kit = kit
        self.call = Call(now(), route=scope["path"])
        self.started = False
        self._complete = self._counted = self._timed_out = self._again = False
        self._error = ""
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive, self._send = receive, send
        self._body: bytearray | None = bytearray()
        self._body_limit, self._body_bytes = body_limit, 0
        self._eyes: stream.Eyes | None = None
        self._watch: asyncio.Task[Message] | None = None

    def begin(self, *, tenant: str, session: str, user_request: str, seconds: float | None) -> None:
        """The call has come in."""
        call = self.call
        call.tenant, call.session = tenant, session
        call.deadline = None if seconds is None else call.arrived + seconds
        self._hash = Hash(tenant, session, call.route)
        self._again = self.kit.calls.came(call, self._headers, user_request)
        self._context = otel.attach(self.kit.spans.begin(call, self._headers))
        self._token = enter(call)

    # -- what the client sends -----------------------------------------------------------------------------------------
    async def receive(self) -> Message:
        """The next message for the application; a body is read along with it."""
        if self._watch is not None:
            return await asyncio.shield(self._watch)
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
        self._hash.more(chunk)
        if self._body is not None:
            if self._body_bytes > self._body_limit:
                self._body = None
            else:
                self._body += chunk

    def _read(self) -> None:
        whole, self._body = self._body, None
        self.call.body, self.call.prompt_chars = self._hash.value, self._body_bytes
        self.kit.calls.asked(self.call, body.read(bytes(whole)) if whole is not None else None, again=self._again)

    async def _until_left(self) -> Message:
        """All of the body is here: what comes next can only be that the client leaves."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._left()
                return message

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
            self._complete = not message.get("more_body", False)
        elif kind == "http.response.start":
            self.started = True
            self.call.status, self.call.cut = message["status"], ""  # what broke off before was tried again
            self._eyes = stream.eyes(self.call, message.get("headers", ()), self.kit.calls.counts.first_token)
        try:
            await self._send(message)
        except OSError:
            self._complete = False
            self._left()
            raise
        if self._complete:
            self._count()

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
        """The application is through with the call."""
        self._count()
        if self._watch is not None and not self._watch.cancel() and not self._watch.cancelled():
            self._watch.exception()  # asked for, so that nobody calls it lost
        leave(self._token)
        otel.detach(self._context)

    def _count(self) -> None:
        """The call has ended; what the application does after its last byte is no part of it."""
        if self._counted:
            return
        self._counted = True
        call = self.call
        if self._eyes is not None:
            self._eyes.end()
        if call.left:
            call.status = CLIENT_LEFT
        elif not self.started:
            call.status, call.cut = SERVER_ERROR, ""
        elif not self._complete:
            call.cut = call.cut or ("timeout" if self._timed_out else "upstream")
        ended = now()
        self.kit.calls.ended(call, ended - call.arrived)
        failed = str(int(call.status)) if call.status is not None and call.status >= SERVER_ERROR else ""
        self.kit.spans.end(call, ended, self._error or call.cut or failed)
