"""The pages of a node, served by a process of its own: 8 recorded vLLM pages that go on, and one of a GPU exporter.

``python -m bench.node_pages`` prints its ports, the GPU exporter's last, and ends with its input. Each answer is the page's next
step, compressed where the client takes that, as the engine's own server does; ``/steps`` says how many there were.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

GPUS = 8
RECORDING = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "captures" / "healthy"

_GROWS = re.compile(r"[^{ ]*_(?:total|bucket|count|sum)[{ ]")

# What dcgm-exporter shows unless told otherwise (its default-counters.csv): type, value, and how much a step moves it.
_FIELDS: tuple[tuple[str, str, float, float], ...] = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", 1755, 15),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge", 3201, 0),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", 66, 1),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", 61, 1),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", 512.25, 3.5),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", 4.1e9, 7.7e6),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", 0, 0),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", 93, 1),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", 51, 1),
    ("DCGM_FI_DEV_ENC_UTIL", "gauge", 0, 0),
    ("DCGM_FI_DEV_DEC_UTIL", "gauge", 0, 0),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", 0, 0),
    ("DCGM_FI_DEV_FB_FREE", "gauge", 13_557, 0),
    ("DCGM_FI_DEV_FB_USED", "gauge", 129_600, 0),
    ("DCGM_FI_DEV_FB_RESERVED", "gauge", 614, 0),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", 0, 0),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", 0, 0),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", 0, 0),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", 1.2e6, 3.0e3),
    ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", 0, 0),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", 0.93, 0.001),
    ("DCGM_FI_PROF_SM_ACTIVE", "gauge", 0.71, 0.001),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", 0.22, 0.001),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", 0.64, 0.001),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", 1.1e9, 1e6),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", 4.2e9, 1e6),
)


class Recorded:
    """A recorded page by step. Behind its last one the recording goes on as it began, its counters where they were."""

    def __init__(self, folder: Path = RECORDING) -> None:
        texts = [gzip.decompress(file.read_bytes()).decode() for file in sorted(folder.glob("*.prom.gz"))]
        self._pages = [text.splitlines() for text in texts]
        first, last = (dict(_sample(line) for line in self._pages[place] if _grows(line)) for place in (0, -1))
        self._grown = {name: float(value) - float(first.get(name, 0)) for name, value in last.items()}

    def page(self, step: int) -> bytes:
        """The page of one step."""
        rounds, place = divmod(step, len(self._pages))
        return "".join(f"{line}\n" for line in self._lines(self._pages[place], rounds)).encode()

    def _lines(self, lines: list[str], rounds: int) -> Iterator[str]:
        for line in lines:
            if line.startswith("# TYPE"):  # a committed recording has no such lines, an engine's page has
                yield f"# HELP {line.split()[2]} What this is, in about as many words as the engine has for it."
            if rounds and _grows(line):
                name, value = _sample(line)
                yield f"{name} {float(value) + rounds * self._grown.get(name, 0.0)!r}"
            else:
                yield line


def _grows(line: str) -> bool:
    return line[0] != "#" and _GROWS.match(line) is not None


def _sample(line: str) -> tuple[str, str]:
    name, _, value = line.rpartition(" ")
    return name, value


def uuid(index: int) -> str:
    """The name of a card, here and in the driver."""
    return f"GPU-0000000{index}-aaaa-4000-8000-00000000000{index}"


def gpu_page(step: int) -> bytes:
    """The page of a GPU exporter by step."""
    lines = []
    for name, kind, value, moves in _FIELDS:
        lines += [f"# HELP {name} What this is, in a few words.", f"# TYPE {name} {kind}"]
        for index in range(GPUS):
            moved = value + moves * (step if kind == "counter" else (step + index) % 5)
            lines.append(
                f'{name}{{gpu="{index}",UUID="{uuid(index)}",pci_bus_id="00000000:{16 + index:02X}:00.0",device="nvidia{index}",'
                f'modelName="NVIDIA H200",Hostname="node-1",DCGM_FI_DRIVER_VERSION="590.48.01"}} {moved:.6f}'
            )
    return ("\n".join(lines) + "\n").encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, make, first: int, steps: Iterator[int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.make, self.own, self.all = make, itertools.count(first), steps


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one go
    server: _Server

    def do_GET(self) -> None:
        """The next step of the page, or how many steps there were on all ports."""
        counted = self.path == "/steps"
        step = next(self.server.all)
        body = json.dumps(step).encode() if counted else self.server.make(next(self.server.own))
        answer(self, body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def answer(handler: BaseHTTPRequestHandler, body: bytes, level: int = 9) -> None:
    """Send a page, packed with gzip's ``level`` for who takes that."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
    if "gzip" in handler.headers.get("Accept-Encoding", ""):
        body = gzip.compress(body, level)
        handler.send_header("Content-Encoding", "gzip")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def serve() -> None:
    """All pages until stdin ends."""
    recorded, steps = Recorded(), itertools.count()
    servers = [_Server(recorded.page, 2 * number, steps) for number in range(GPUS)]
    servers.append(_Server(gpu_page, 0, steps))
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(*(server.server_port for server in servers), flush=True)
    sys.stdin.read()


@contextmanager
def served() -> Iterator[tuple[int, ...]]:
    """The process that serves them; gives its ports, the GPU exporter's last."""
    command = [sys.executable, "-m", "bench.node_pages"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield tuple(int(port) for port in process.stdout.readline().split())
        finally:
            process.terminate()


if __name__ == "__main__":
    serve()
