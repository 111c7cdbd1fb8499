"""A tiny OpenAI-compatible server on a loopback port whose every answer a test decides: slow, held, broken off, refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from support.prometheus import free_port

LOOK_SECONDS = 0.002
"""How often a held answer looks whether it may go on, and whether its caller is still there."""


@dataclass
class Plan:
    """How one call is answered.

    ``allowed``: chunks that may be sent by now, None for all; a test raises it. ``answering``: whether even the head may be sent.
    ``cut_after``: the connection is closed after so many chunks (bytes of a whole answer). ``ghost``: it goes on when its caller
    has left. ``prompt_tokens``: what its usage says; None counts a token for each word.
    """

    status: int = 200
    tokens: int = 3
    allowed: int | None = None
    answering: bool = True
    cut_after: int | None = None
    ghost: bool = False
    text: str = "word"
    prompt_tokens: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Asked:
    """A call as it came, and how it ended: '' while it runs, then done, left, or cut."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    plan: Plan
    sent: int = 0
    ended: str = ""


class _LeftError(Exception):
    """The caller closed its connection."""


class _CutError(Exception):
    """The plan says to break off here."""


class Upstream:
    """``next``: plans of the next calls whose body holds ``planned``, in their order; ``usual``: of all others.

    ``asked``: the calls that came; ``page``: makes its metrics page.
    """

    def __init__(self, page: Callable[[], bytes] = bytes) -> None:
        self.page = page
        self.usual = Plan()
        self.next: deque[Plan] = deque()
        self.planned = b""
        self.asked: list[Asked] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = free_port()

    @property
    def url(self) -> str:
        """Where its API begins."""
        return f"http://127.0.0.1:{self.port}"

    def listen(self) -> None:
        """Take connections (again)."""
        self._call(self._listen())

    def refuse(self) -> None:
        """Close the port: connections are refused from now on."""
        self._call(self._close())

    def __enter__(self) -> Self:
        self._thread.start()
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _call(self, what: Any) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(5)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._open):  # kept-alive connections too: a server that is gone answers on none
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while await self._answer(reader, writer):
                pass
        except (_LeftError, _CutError, asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            pass
        finally:
            self._open.discard(task)
            with contextlib.suppress(Exception):
                writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One call; whether another may follow on this connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        _, path, _ = head[0].split()
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if path == "/metrics":
            page = self.page()
            writer.write(_head(Plan(), "text/plain", f"content-length: {len(page)}") + page)
            await writer.drain()
            return True
        plan = self.next.popleft() if self.next and self.planned in body else self.usual
        call = Asked(path, headers, json.loads(body or b"{}"), plan)
        self.asked.append(call)
        try:
            await self._held(lambda: plan.answering, reader, call)
            await (self._stream if call.body.get("stream") and plan.status == 200 else self._whole)(
                call, reader, writer
            )
            call.ended = "done"
        except (_LeftError, ConnectionError):
            call.ended = "left"
            raise
        except _CutError:
            call.ended = "cut"
            raise
        return True

    async def _held(self, may: Callable[[], bool], reader: asyncio.StreamReader, call: Asked) -> None:
        while not may():
            if reader.at_eof() and not call.plan.ghost:
                raise _LeftError
            await asyncio.sleep(LOOK_SECONDS)

    async def _whole(self, call: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        plan = call.plan
        content = " ".join([plan.text] * plan.tokens)
        ok: dict[str, Any] = {"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]}
        ok |= {"model": call.body.get("model"), "usage": usage(call)}
        bad = {"error": {"message": plan.text, "code": plan.status}}
        answer = json.dumps(ok if plan.status == 200 else bad).encode()
        writer.write(_head(plan, "application/json", f"content-length: {len(answer)}"))
        writer.write(answer if plan.cut_after is None else answer[: plan.cut_after])
        await writer.drain()
        if plan.cut_after is not None:
            raise _CutError
        call.sent = plan.tokens

    async def _stream(self, call: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        plan = call.plan
        writer.write(_head(plan, "text/event-stream", "transfer-encoding: chunked"))
        await writer.drain()
        for i in range(plan.tokens):
            await self._held(lambda: plan.allowed is None or call.sent < plan.allowed, reader, call)
            if plan.cut_after is not None and i >= plan.cut_after:
                raise _CutError
            if reader.at_eof() and not plan.ghost:
                raise _LeftError
            call.sent += 1
            with contextlib.suppress(ConnectionError) if plan.ghost else contextlib.nullcontext():
                await _event(writer, {"choices": [{"index": 0, "delta": {"content": f"{plan.text} "}}]})
        with contextlib.suppress(ConnectionError) if plan.ghost else contextlib.nullcontext():
            await _event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            if (call.body.get("stream_options") or {}).get("include_usage"):
                await _event(writer, {"choices": [], "usage": usage(call)})
            await _chunk(writer, b"data: [DONE]\n\n")
            await _chunk(writer, b"")


def usage(call: Asked) -> dict[str, int]:
    """The engine's count: a token for each word of the prompt, unless the plan says otherwise, and one for each made."""
    words = sum(len(str(m.get("content", "")).split()) for m in call.body.get("messages", ()))
    prompt = words if call.plan.prompt_tokens is None else call.plan.prompt_tokens
    made = call.plan.tokens
    return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}


def _head(plan: Plan, kind: str, length: str) -> bytes:
    more = "".join(f"{name}: {value}\r\n" for name, value in plan.headers.items())
    return f"HTTP/1.1 {plan.status} X\r\ncontent-type: {kind}\r\n{more}{length}\r\n\r\n".encode()


async def _event(writer: asyncio.StreamWriter, data: Mapping[str, object]) -> None:
    await _chunk(writer, b"data: " + json.dumps({"object": "chat.completion.chunk", **data}).encode() + b"\n\n")


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()
