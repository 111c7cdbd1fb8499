"""The pages of a long day, served by a process of its own: engines that serve, restart and are upgraded, and 8 GPUs.

``python -m bench.soak_pages`` prints its port and ends with its input. ``/NAME/metrics`` is the page of an engine, every answer its
next step; the recording that it goes on with depends on the name. ``/gpus/metrics`` is a GPU exporter's page.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from zlib import crc32

from bench.node_pages import RECORDING, Recorded, answer, gpu_page

RECORDINGS = ("healthy", "kv-preemption", "queue-two-seats", "client-aborts", "admission-503")
RESTART = 170
"""Pages after which an engine has restarted: its counters begin anew. Every third restart is an upgrade."""


@dataclass
class Course:
    """An engine by its name: page after page."""

    name: str
    steps: Iterator[int] = field(default_factory=itertools.count)

    def page(self, recorded: dict[str, Recorded]) -> bytes:
        """The next page: restarts at moments of its own, and with each upgrade the page of another release."""
        life, step = divmod(next(self.steps) + crc32(self.name.encode()) % RESTART, RESTART)
        first = crc32(self.name.encode()) % len(RECORDINGS)
        kind = RECORDINGS[(first + life // 3) % len(RECORDINGS)]
        page = recorded[kind].page(step)
        model = f'model_name="model-{life // 3 % 5}"'.encode()  # what is served changes with the upgrade
        return page.replace(b'model_name="tiny-llama"', model)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.recorded = {name: Recorded(RECORDING.parent / name) for name in RECORDINGS}
        self.courses: dict[str, Course] = {}
        self.gpus = itertools.count()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one go
    server: _Server

    def do_GET(self) -> None:
        """The next step of the page that is named."""
        name = self.path.split("/")[1]
        if name == "gpus":
            body = gpu_page(next(self.server.gpus))
        else:
            body = self.server.courses.setdefault(name, Course(name)).page(self.server.recorded)
        answer(self, body, 1)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def serve() -> None:
    """All pages until stdin ends."""
    server = _Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


@contextmanager
def served() -> Iterator[int]:
    """The process that serves them; gives its port."""
    command = [sys.executable, "-m", "bench.soak_pages"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


if __name__ == "__main__":
    serve()
