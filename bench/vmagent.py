"""What vmagent costs that scrapes the same pages and sends them on, as CPU seconds per round of all pages.

Debian has it in ``victoria-metrics``; ``LLMVITALS_VMAGENT`` names the program elsewhere. It sends to a server of this module
(``python -m bench.vmagent``) that reads, answers 204 and keeps nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOW = (
    "put Debian's victoria-metrics on the PATH (apt-get install victoria-metrics), or name vmagent in LLMVITALS_VMAGENT"
)
WARM_SECONDS = 5.0

_CONFIG = """\
scrape_configs:
- job_name: node
  scrape_interval: 1s
  static_configs:
  - targets: [{targets}]
"""


def program() -> str | None:
    """Where vmagent is; None where it is not."""
    return os.environ.get("LLMVITALS_VMAGENT") or shutil.which("vmagent")


def seconds_per_round(vmagent: str, folder: Path, ports: Sequence[int], seconds: float) -> float:
    """CPU of the program over that long, by the rounds that it made meanwhile: one a second."""
    config = folder / "scrape.yml"
    config.write_text(_CONFIG.format(targets=", ".join(f'"127.0.0.1:{port}"' for port in ports)))
    sink = subprocess.Popen(
        [sys.executable, "-m", "bench.vmagent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert sink.stdout is not None
    to = int(sink.stdout.readline())
    command = [
        vmagent,
        f"-promscrape.config={config}",
        f"-remoteWrite.url=http://127.0.0.1:{to}/write",
        f"-remoteWrite.tmpDataPath={folder / 'vmagent'}",
        "-httpListenAddr=127.0.0.1:0",
        "-loggerLevel=ERROR",
    ]
    agent = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(WARM_SECONDS)
        scraped, sent, cpu = _steps(ports[0]), _steps(to), _cpu_seconds(agent.pid)
        time.sleep(seconds)
        if agent.poll() is not None or _steps(to) - sent < 2:
            raise RuntimeError(f"{vmagent} sends nothing on")
        return (_cpu_seconds(agent.pid) - cpu) / ((_steps(ports[0]) - scraped) / len(ports))
    finally:
        for process in (agent, sink):
            process.terminate()
            process.wait()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _steps(port: int) -> int:
    """Requests that a server of the bench has had."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/steps", timeout=10) as answer:
        return int(json.loads(answer.read()))


class _Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    taken = 0

    def do_POST(self) -> None:
        """Take a batch."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        type(self).taken += 1
        self.send_response(204)
        self.end_headers()

    def do_GET(self) -> None:
        """How many batches came."""
        body = json.dumps(self.taken).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Sink)
    print(server.server_port, flush=True)
    server.serve_forever()
