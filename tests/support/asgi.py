"""ASGI spoken to an application directly: a client with a body, what it got, and the moment at which it goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
CHAT = "/v1/chat/completions"
STREAMED = [(b"content-type", b"text/event-stream; charset=utf-8")]
JSON = [(b"content-type", b"application/json")]


def asked(text: str = "hello", **more: object) -> dict[str, object]:
    """What a chat call asks for."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], "stream": True, **more}


def piece(text: str = "x") -> bytes:
    """One event of a stream with a token in it."""
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


def usage(prompt: int, output: int) -> bytes:
    """The event that tells what a stream took, and the one that ends it."""
    told = {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": output}}
    return b"data: " + json.dumps(told).encode() + b"\n\ndata: [DONE]\n\n"


@dataclass
class Client:
    """One request. ``left``: set it, and the application is told that the client went away."""

    body: bytes | dict[str, object] = field(default_factory=asked)
    path: str = CHAT
    headers: Iterable[tuple[bytes, bytes]] = ()
    split: int = 1 << 30
    left: asyncio.Event = field(default_factory=asyncio.Event)
    got: list[Message] = field(default_factory=list)
    on_send: Callable[[Message], None] = lambda _: None

    async def call(self, app: App) -> None:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        parts = [body[at : at + self.split] for at in range(0, max(1, len(body)), self.split)]

        async def receive() -> Message:
            if parts:
                part = parts.pop(0)
                return {"type": "http.request", "body": part, "more_body": bool(parts)}
            await self.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            self.got.append(message)
            self.on_send(message)

        scope = {"type": "http", "method": "POST", "path": self.path, "headers": list(self.headers)}
        await app(scope, receive, send)

    @property
    def status(self) -> int:
        return next(m["status"] for m in self.got if m["type"] == "http.response.start")

    @property
    def answer(self) -> bytes:
        return b"".join(m.get("body", b"") for m in self.got if m["type"] == "http.response.body")


def answering(*chunks: bytes, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None) -> App:
    """An application that reads the whole body and answers with these chunks."""

    async def app(scope: Message, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await begin(send, status, STREAMED if headers is None else headers)
        for chunk in chunks:
            await more(send, chunk)
        await more(send, b"", last=True)

    return app


async def begin(send: Any, status: int = 200, headers: list[tuple[bytes, bytes]] = STREAMED) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def more(send: Any, chunk: bytes, *, last: bool = False) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": not last})
