"""OpenAI's API in front of a simulated engine, in real time: streams, whole answers, clients that leave.

Time passes for the simulation while somebody waits: every few milliseconds, in a thread, so that tokens leave when they are
due and pages are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from llmvitals.simulator.door import Door, Visit
from llmvitals.simulator.live import Live
from llmvitals.simulator.openai import DONE, Asked, Refused, Words, event, read

PUMP_SECONDS = 0.005
"""How often time passes while calls are open: the most by which a token leaves late."""

LARGEST_BODY = 16 * 1024 * 1024

NOT_ANSWERED = {
    "rejected": (503, "The engine has as many requests as it takes.", "ServiceUnavailableError"),
    "down": (503, "No engine answers.", "ServiceUnavailableError"),
    "too long": (400, "The prompt is longer than the model's context.", "BadRequestError"),
    "error": (500, "The engine has failed.", "InternalServerError"),
}
"""What a call ended with, as status, message and OpenAI's kind of error."""


class Api:
    """The API over ``live``; ``clock`` gives unix seconds."""

    def __init__(self, live: Live, clock: Callable[[], float]) -> None:
        self._live = live
        self._clock = clock
        self._door: Door | None = None
        self._changed: dict[Visit, asyncio.Event] = {}
        self._pump: asyncio.Task[None] | None = None

    def routes(self) -> list[Route]:
        """Where it answers."""
        return [
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/models", self.models),
        ]

    async def models(self, request: Request) -> Response:
        """The one model that there is."""
        engine = self._live.world.setup.engine
        started = int(self._live.origin + self._live.world.started)
        row = {"id": engine.model, "object": "model", "created": started, "owned_by": "llmvitals", "root": engine.model}
        return JSONResponse({"object": "list", "data": [row | {"parent": None, "max_model_len": engine.max_model_len}]})

    async def chat(self, request: Request) -> Response:
        """A chat completion."""
        return await self._answer(request, chat=True)

    async def completions(self, request: Request) -> Response:
        """A completion of a text."""
        return await self._answer(request, chat=False)

    # -- a call ---------------------------------------------------------------------------------------------------
    async def _answer(self, request: Request, *, chat: bool) -> Response:
        engine = self._live.world.setup.engine
        door = self._door = self._door or Door(self._live)
        try:
            raw = await _body(request)
            asked = read(raw, chat=chat, model=engine.model, longest=engine.max_model_len)
        except Refused as refused:
            await asyncio.to_thread(door.refuse, self._clock())
            return JSONResponse(refused.body(), refused.status)
        except ClientDisconnect:
            return Response(status_code=400)
        name = f"{'chatcmpl' if chat else 'cmpl'}-{request.headers.get('x-request-id') or uuid.uuid4().hex[:16]}"
        visit = await asyncio.to_thread(
            lambda: door.ask(
                self._clock(),
                asked.prompt,
                asked.max_tokens,
                asked.text,
                name=name if chat else f"{name}-0",
                trace=request.headers.get("traceparent", ""),
            )
        )
        number = visit.call.request.number
        words = Words(name, engine.model, int(self._clock()), chat, number, asked.prompt)
        return await self._given(door, visit, asked, words, request.receive)

    async def _given(self, door: Door, visit: Visit, asked: Asked, words: Words, receive: Receive) -> Response:
        """The answer, once it is whole or has begun."""
        self._changed[visit] = asyncio.Event()
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._pass_time(door))
        gone = asyncio.create_task(_gone(receive))
        begun = False
        try:
            while not visit.outcome and not (asked.stream and visit.taken) and not gone.done():
                await self._news(visit, gone)
            begun = asked.stream and visit.taken and not gone.done()
        finally:
            if not begun:
                await self._leave(door, visit, gone)
        if begun:
            return _Stream(self._chunks(visit, asked, words, gone), lambda: self._leave(door, visit, gone))
        if visit.outcome == "ok":
            return JSONResponse(words.whole(visit.tokens, _reason(visit)))
        status, message, kind = NOT_ANSWERED.get(visit.outcome, (499, "The client has left.", "ClientDisconnected"))
        return JSONResponse(Refused(message, status, kind).body(), status)

    async def _chunks(self, visit: Visit, asked: Asked, words: Words, gone: asyncio.Task[None]) -> AsyncIterator[bytes]:
        """A stream's events: one a token, as the engine hands them out."""
        told = 0
        while not gone.done():
            outcome, tokens = visit.outcome, visit.tokens  # in this order: the last tokens are there when it has ended
            if told == 0 and tokens and asked.chat:
                yield event(words.role())
            for place in range(told, tokens):
                last = outcome == "ok" and place == tokens - 1
                yield event(words.token(place, _reason(visit) if last else None))
            told = tokens
            if outcome:
                if outcome in NOT_ANSWERED:  # vLLM says it inside the stream, whose status was 200
                    status, message, kind = NOT_ANSWERED[outcome]
                    yield event(Refused(message, status, kind).body())
                elif asked.usage:
                    yield event(words.counted(tokens))
                yield DONE
                return
            await self._news(visit, gone)

    async def _news(self, visit: Visit, gone: asyncio.Task[None]) -> None:
        """Wait until something has happened to a call, or its client has left."""
        changed = self._changed[visit]
        waiting = asyncio.create_task(changed.wait())
        pump = () if self._pump is None else (self._pump,)
        await asyncio.wait((waiting, gone, *pump), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        for failed in pump:
            if failed.done():
                failed.result()  # time passes while anybody waits, or says why not
        changed.clear()

    async def _leave(self, door: Door, visit: Visit, gone: asyncio.Task[None]) -> None:
        """Nobody waits for a call any longer."""
        gone.cancel()
        self._changed.pop(visit, None)
        if not visit.outcome:
            await asyncio.shield(asyncio.to_thread(door.leave, self._clock(), visit))

    async def _pass_time(self, door: Door) -> None:
        """Let time pass while somebody waits."""
        seen: dict[Visit, tuple[int, bool, str]] = {}
        while self._changed:
            await asyncio.to_thread(door.pass_time, self._clock())
            now = {visit: (visit.tokens, visit.taken, visit.outcome) for visit in self._changed}
            for visit, changed in self._changed.items():
                if now[visit] != seen.get(visit):
                    changed.set()
            seen = now
            await asyncio.sleep(PUMP_SECONDS)


class _Stream(Response):
    """Server-sent events; ``over`` is awaited whatever ended them."""

    def __init__(self, chunks: AsyncIterator[bytes], over: Callable[[], Awaitable[None]]) -> None:
        super().__init__(media_type="text/event-stream")
        del self.headers["content-length"]
        self._chunks, self._over = chunks, over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them as they come."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for chunk in self._chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await self._over()


async def _body(request: Request) -> bytes:
    """The body. Raises :class:`Refused` where it is larger than anybody's prompt."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > LARGEST_BODY:
            raise Refused(f"The body has more than {LARGEST_BODY} bytes.", 413, "RequestTooLarge")
    return bytes(found)


async def _gone(receive: Receive) -> None:
    """Comes back when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _reason(visit: Visit) -> str:
    return "length" if visit.capped else "stop"
