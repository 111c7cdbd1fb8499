"""OTLP over HTTP: POST /v1/traces with protobuf, plain or gzip. Answers are the protocol's own messages.

Status codes and bodies follow the OTLP specification (sections "OTLP/HTTP Response" and "OTLP/HTTP Throttling"): what may be
sent again is answered 503, what may not 400, 413 or 415; a failure's body is a ``google.rpc.Status``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmvitals.exporters.protect import Protect
from llmvitals.exporters.spans.intake import Hold, Intake
from llmvitals.exporters.spans.messages import code_of, response, status
from llmvitals.exporters.spans.result import GUESSING, RETRY_SECONDS, STRANGER, Answer, Result
from llmvitals.exporters.web_config import Web

PROTOCOL = "http"
PATH = "/v1/traces"
PROTOBUF = "application/x-protobuf"
JSON = "application/json"

ENCODINGS: Mapping[str, bool] = {"": False, "identity": False, "gzip": True}
"""Content encodings, and whether they are to be unpacked."""

STATUS: Mapping[Result, int] = {
    Result.MALFORMED: 400,
    Result.TOO_LARGE: 413,
    Result.UNSUPPORTED: 415,
    Result.BUSY: 503,
    Result.FAILED: 500,
}
"""The HTTP status of what was not taken in."""

TURNED: Mapping[int, tuple[Result, str]] = {401: (Result.UNAUTHORIZED, STRANGER), 429: (Result.BUSY, GUESSING)}
"""What an answer of :class:`Protect` is counted as."""

NO_JSON = (
    "JSON is not taken, only protobuf: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf at the sender "
    "(OTEL_EXPORTER_OTLP_TRACES_PROTOCOL for traces alone)."
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an export is not even read. ``status``: where it is not the result's own."""

    answer: Answer
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)


class Http:
    """The ASGI application."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one export."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            self._intake.count(PROTOCOL, refusal.answer.result, refusal.answer.message)
            await _reply(send, headers, refusal.answer, refusal.status, refusal.headers)
            return
        answer = await self._answer(scope, headers, receive)
        if answer is not None:
            await _reply(send, headers, answer)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        """What can be told before the body is read. The connection stays: who sends reads no answer before all is sent."""
        if scope["path"] != PATH:
            return Refusal(Answer(Result.UNSUPPORTED, f"only traces are taken, at {PATH}"), 404)
        if scope["method"] != "POST":
            return Refusal(Answer(Result.UNSUPPORTED, "only POST"), 405, {"allow": "POST"})
        kind = _kind(headers)
        if kind != PROTOBUF:
            message = NO_JSON if kind == JSON else f"the content type must be {PROTOBUF}"
            return Refusal(Answer(Result.UNSUPPORTED, message))
        if headers.get("content-encoding", "").strip().lower() not in ENCODINGS:
            message = "the content encoding must be gzip or none (OTEL_EXPORTER_OTLP_COMPRESSION)"
            return Refusal(Answer(Result.UNSUPPORTED, message), headers={"accept-encoding": "gzip"})
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._intake.config.max_body_bytes:
            return Refusal(Answer(Result.TOO_LARGE, self._intake.too_large()))
        return None

    async def _answer(self, scope: Scope, headers: Headers, receive: Receive) -> Answer | None:
        """Read the body and have it counted; None where nobody is left who could be answered."""
        hold = self._intake.hold()
        body, wrong = await self._body(receive, hold)
        if wrong is not None:
            hold.drop()
            self._intake.count(PROTOCOL, wrong.result, wrong.message)
            return None if wrong.result is Result.INCOMPLETE else wrong
        packed = ENCODINGS[headers.get("content-encoding", "").strip().lower()]
        client = scope.get("client")
        taken = self._intake.take(body, PROTOCOL, client[0] if client else "", packed=packed, hold=hold)
        return await asyncio.wrap_future(taken)

    async def _body(self, receive: Receive, hold: Hold) -> tuple[bytes, Answer | None]:
        """The body as it was sent, or why it is not read on; its bytes are held as they come."""
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b"", Answer(Result.INCOMPLETE, "the sender went away or was too slow")
            part: bytes = message.get("body", b"")
            size += len(part)
            more = message.get("more_body", False)
            if size > self._intake.config.max_body_bytes:
                return b"", Answer(Result.TOO_LARGE, self._intake.too_large())
            if not hold.grow(size):
                return b"", Answer(Result.BUSY, self._intake.busy())
            parts.append(part)
        return b"".join(parts), None


class Turned:
    """ASGI middleware in front of :class:`Protect`: it counts the exports that are turned away there, or told to come again."""

    def __init__(self, app: ASGIApp, intake: Intake) -> None:
        self._app = app
        self._intake = intake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on, and look at the status that comes back."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in TURNED:
                self._intake.count(PROTOCOL, *TURNED[message["status"]])
            await send(message)

        await self._app(scope, receive, counted)


def app(intake: Intake, web: Callable[[], Web]) -> ASGIApp:
    """The application behind the users and headers of the web configuration."""
    return Turned(Protect(Http(intake), web=web), intake)


def _kind(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


async def _reply(
    send: Send, asked: Headers, answer: Answer, code: int = 0, more: Mapping[str, str] | None = None
) -> None:
    """Send the message that the specification wants, in the encoding in which the sender speaks."""
    as_json = _kind(asked) == JSON
    if answer.result not in STATUS:
        body = response(answer)
    elif as_json:
        body = json.dumps({"code": code_of(answer), "message": answer.message}).encode()
    else:
        body = status(answer)
    headers = {"content-type": JSON if as_json else PROTOBUF, "content-length": str(len(body)), **(more or {})}
    if answer.result is Result.BUSY:
        headers["retry-after"] = str(RETRY_SECONDS)
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": code or STATUS.get(answer.result, 200), "headers": encoded})
    await send({"type": "http.response.body", "body": body})
