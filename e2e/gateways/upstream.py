"""An upstream that speaks enough of the OpenAI API for a gateway, fails as it is told, and counts what it answered."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny-llama"
TOKENS = 8
_PLAIN = {"object": "chat.completion", "id": "c", "created": 1, "model": MODEL}
_USAGE = {"prompt_tokens": 20, "completion_tokens": TOKENS, "total_tokens": 20 + TOKENS}
_ERRORS = {429: "rate_limit_error", 500: "server_error"}
_FACTS: dict[str, dict[str, Any]] = {
    "/v1/models": {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": "e2e"}]},
    "/get_model_info": {"model_path": MODEL, "is_generation": True},
    "/model_info": {"model_path": MODEL, "is_generation": True},
    "/get_server_info": {"model_path": MODEL, "served_model_name": MODEL, "dp_size": 1, "tp_size": 1},
    "/server_info": {"model_path": MODEL, "served_model_name": MODEL, "dp_size": 1, "tp_size": 1},
    "/version": {"version": "0.11.0"},
}


class Upstream:
    """Answers on a loopback port. ``status``: what calls get; ``healthy``: what health checks get."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.status = 200
        self.healthy = True
        self.answered: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def count(self, status: int) -> None:
        """One more call was answered so."""
        with self._lock:
            self.answered[status] += 1

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


def _handler(upstream: Upstream) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is logged."""

        def _json(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            if self.path in _FACTS:
                self._json(200, _FACTS[self.path])
            elif self.path.startswith(("/health", "/liveness", "/readiness")):
                self._json(200 if upstream.healthy else 500, {})
            else:
                self._json(404, {"error": "not found"})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            status = upstream.status
            upstream.count(status)
            if status != 200:
                self._json(status, {"error": {"message": "as told", "type": _ERRORS[status], "code": str(status)}})
                return
            time.sleep(0.02)
            if not asked.get("stream"):
                choice = {
                    "index": 0,
                    "message": {"role": "assistant", "content": "a " * TOKENS},
                    "finish_reason": "stop",
                }
                self._json(200, {**_PLAIN, "choices": [choice], "usage": _USAGE})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in _events():
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                self.wfile.flush()
                time.sleep(0.005)
            self.wfile.write(b"0\r\n\r\n")

    return Handler


def _events() -> list[bytes]:
    """A streamed answer, token by token, its usage last."""
    chunk = {**_PLAIN, "object": "chat.completion.chunk"}
    bodies: list[object] = [
        {
            **chunk,
            "choices": [{"index": 0, "delta": {"content": "a "}, "finish_reason": None if i < TOKENS - 1 else "stop"}],
        }
        for i in range(TOKENS)
    ]
    bodies.append({**chunk, "choices": [], "usage": _USAGE})
    return [f"data: {json.dumps(body)}\n\n".encode() for body in bodies] + [b"data: [DONE]\n\n"]
