"""A loopback server whose paths misbehave in all the ways in which a metrics target can, and count who asked."""

from __future__ import annotations

import gzip
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

MIB = 1024 * 1024


def vllm_page(*, model: str = "m", tokens: float = 1000.0, running: float | str = 2, waiting: float | str = 0) -> bytes:
    """A small page of a vLLM engine with two finished requests per ten generated tokens."""
    at = f'{{engine="0",model_name="{model}"}}'
    finished = int(tokens // 10)
    lines = [
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{at} {running}",
        "# TYPE vllm:num_requests_waiting gauge",
        f"vllm:num_requests_waiting{at} {waiting}",
        "# TYPE vllm:kv_cache_usage_perc gauge",
        f"vllm:kv_cache_usage_perc{at} 0.25",
        "# TYPE vllm:generation_tokens_total counter",
        f"vllm:generation_tokens_total{at} {tokens}",
        "# TYPE vllm:prompt_tokens_total counter",
        f"vllm:prompt_tokens_total{at} {3 * tokens}",
        "# TYPE vllm:request_success_total counter",
        f'vllm:request_success_total{{engine="0",finished_reason="stop",model_name="{model}"}} {finished}',
        "# TYPE vllm:time_to_first_token_seconds histogram",
        *(
            f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="{le}",model_name="{model}"}} {finished}'
            for le in ("0.1", "1.0", "+Inf")
        ),
        f"vllm:time_to_first_token_seconds_sum{at} {0.05 * finished}",
        f"vllm:time_to_first_token_seconds_count{at} {finished}",
    ]
    return ("\n".join(lines) + "\n").encode()


class Hostile:
    """``url('/drip')`` is a target that drips; see ``_PATHS``. ``asked`` counts requests by path."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.over = threading.Event()
        self.gate = threading.Event()  # set: /gate answers
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner.asked[self.path] += 1
                path = self.path.split("?")[0]
                try:
                    _PATHS.get(path, _ok)(owner, self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def url(self, path: str) -> str:
        """The target's URL for one behaviour."""
        return f"http://127.0.0.1:{self.port}{path}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()


def _send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"content-type": "text/plain", "content-length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def _ok(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, vllm_page(tokens=1000.0 + 10 * owner.asked[handler.path]))


def _hang(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    owner.over.wait(60)
    handler.close_connection = True


def _gate(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    owner.gate.wait(60)
    _ok(owner, handler)


def _drip(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("content-length", str(MIB))
    handler.end_headers()
    while not owner.over.wait(0.02):
        handler.wfile.write(b"#")
        handler.wfile.flush()
    handler.close_connection = True


def _reset(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(handler.connection.detach())  # no lingering: the peer gets a reset, not an orderly end
    handler.close_connection = True


def _huge(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("connection", "close")
    handler.end_headers()
    chunk = b"# padding that goes on and on\n" * (MIB // 30)
    for _ in range(100):
        handler.wfile.write(chunk)
    handler.close_connection = True


_BOMB = gzip.compress(b"\0" * (100 * MIB), 9)


def _bomb(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, _BOMB, content_encoding="gzip")


def _html(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, b"<!doctype html><html><body>It works</body></html>", content_type="text/html")


def _error(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, b"out of order", 500)


def _nan(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, vllm_page(running="NaN", waiting="NaN"))


def _redirect(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, b"", 302, location=f"http://localhost:{owner.port}/stolen")


def _renamed(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, vllm_page(model="m" if owner.asked[handler.path] <= 3 else "other", tokens=1000.0))


def _restarted(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    asked = owner.asked[handler.path]
    _send(handler, vllm_page(tokens=1000.0 + 10 * asked if asked <= 3 else 10.0 * asked))


_PATHS: dict[str, Callable[[Hostile, BaseHTTPRequestHandler], None]] = {
    "/hang": _hang,
    "/gate": _gate,
    "/drip": _drip,
    "/reset": _reset,
    "/huge": _huge,
    "/bomb": _bomb,
    "/html": _html,
    "/500": _error,
    "/nan": _nan,
    "/redirect": _redirect,
    "/renamed": _renamed,
    "/restarted": _restarted,
}
BROKEN = ("/hang", "/drip", "/reset", "/huge", "/bomb", "/html", "/500", "/redirect")
"""The paths that never give a readable page."""
