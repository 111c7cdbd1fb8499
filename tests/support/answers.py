"""A loopback server that gives fixed answers by path and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


@dataclass(frozen=True)
class Answer:
    """One answer: body, status and headers."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """One request: path without its query, query, body, headers (names in lower case) and method."""

    path: str
    query: str
    body: str
    headers: Mapping[str, str]
    method: str = "GET"


Maker = Callable[[Asked], Answer]


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # what finds the queue full is tried again a second later


class Answers:
    """Serves ``{path: Answer or function}`` on 127.0.0.1; other paths are 404. ``asked`` lists the requests."""

    def __init__(self, paths: Mapping[str, Answer | Maker]) -> None:
        self.asked: list[Asked] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length).decode()
                asked = Asked(path, query, body, {k.lower(): v for k, v in self.headers.items()}, self.command)
                owner.asked.append(asked)
                found = paths.get(path, Answer(b"not here", 404))
                answer = found if isinstance(found, Answer) else found(asked)
                self.send_response(answer.status)
                for name, value in {"content-length": str(len(answer.body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            do_POST = do_GET  # noqa: N815 - the name is the base class's

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
