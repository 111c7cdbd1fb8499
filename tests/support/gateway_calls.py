"""Clients of a gateway that do what tests need: hold a place, leave when they like, loop."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from support.gateway import PATH, Running
from support.upstream import Plan, Upstream
from support.waiting import wait_for


@contextlib.contextmanager
def held(gateway: Running, engine: Upstream, n: int = 1, **more: object) -> Iterator[list[Plan]]:
    """``n`` calls that run until the block ends; then they are answered."""
    plans = [Plan(answering=False) for _ in range(n)]
    engine.next.extend(plans)
    before = len(engine.asked)
    with ThreadPoolExecutor(n) as pool:
        calls = [pool.submit(gateway.ask, **more) for _ in range(n)]
        wait_for(lambda: len(engine.asked) == before + n, "the calls at the engine")
        try:
            yield plans
        finally:
            for plan in plans:
                plan.answering = True
        assert [call.result().status_code for call in calls] == [200] * n


def raw(port: int, what: Mapping[str, object], headers: Mapping[str, str] | None = None) -> socket.socket:
    """A client that sent a call and will leave as it likes."""
    data = json.dumps(what).encode()
    named = {"host": "gateway", "content-type": "application/json", "content-length": len(data), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    client = socket.create_connection(("127.0.0.1", port), timeout=5)
    client.sendall(f"POST {PATH} HTTP/1.1\r\n{head}\r\n".encode() + data)
    return client


def has(client: socket.socket, text: bytes) -> bytes:
    """What the client got until ``text`` was in it."""
    got = b""
    while text not in got:
        piece = client.recv(65536)
        assert piece, got
        got += piece
    return got


def looping(turn: int) -> list[dict[str, object]]:
    """The messages of an agent that called the same tool with the same arguments, in its latest turn of many."""
    called = {"id": f"call-{turn}", "type": "function", "function": {"name": "search", "arguments": '{"q": "weather"}'}}
    return [
        {"role": "user", "content": f"what is the weather, turn {turn}"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": called["id"], "content": "no result"},
    ]
