"""The exporter's page under 32 concurrent scrapers, against the client library's own server with a registry of equal size.

Each server runs in a process of its own and is asked as Prometheus asks (gzip, a kept connection where the server keeps
it), in turn within one run. The library's registry holds ready-made families, so that it pays for exposition alone.
"""

from __future__ import annotations

import http.client
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from bench import Bench, Measured
from bench.parse import made_page
from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Target
from llmvitals.telemetry.ingest import RawPage

SCRAPERS = 32
BAR = 1.0  # not slower than the library
SETTINGS = Settings(targets=(Target(url="http://made:8000"),), exporter=Limits(listen="127.0.0.1:0"))
HEADERS = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "gzip"}


def made(url: str, *, timeout_s: float, **_: object) -> RawPage:
    """A fetch that costs nothing and always answers."""
    return RawPage(time.time(), 0.01, 200, made_page(int(time.time()) % 1000))


class Ready(Collector):
    """The families of one exporter page, parsed once."""

    def __init__(self) -> None:
        page = Engine(SETTINGS, fetch=made).step().page.decode()
        self._families = list(text_string_to_metric_families(page))

    def collect(self) -> Iterator[Metric]:
        """The same families for every scrape."""
        yield from self._families


def serve(kind: str) -> None:
    """One of the two servers, until stdin ends; prints its port."""
    if kind == "ours":
        exporter = Exporter(SETTINGS, fetch=made).start()
        while exporter.newest is None:
            time.sleep(0.01)
        print(exporter.url.rsplit(":", 1)[1], flush=True)
    else:
        registry = CollectorRegistry()
        registry.register(Ready())
        server, _ = start_http_server(0, addr="127.0.0.1", registry=registry)
        print(server.server_port, flush=True)
    sys.stdin.read()


@contextmanager
def running(kind: str) -> Iterator[int]:
    """A server process; gives its port."""
    command = [sys.executable, "-m", "bench.page", kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.terminate()


def scraped(port: int, each: int) -> tuple[float, list[float]]:
    """Wall seconds in which every scraper got ``each`` pages, and the seconds each page took."""
    took: list[float] = []
    start = threading.Barrier(SCRAPERS + 1)

    def scraper() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        start.wait()
        for _ in range(each):
            began = time.perf_counter()
            connection.request("GET", "/metrics", headers=HEADERS)
            answer = connection.getresponse()
            if not answer.read() or answer.status != http.client.OK:
                raise RuntimeError(f"status {answer.status}")
            took.append(time.perf_counter() - began)

    threads = [threading.Thread(target=scraper) for _ in range(SCRAPERS)]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    if len(took) != SCRAPERS * each:
        raise RuntimeError("a scraper failed")
    return time.perf_counter() - began, took


def run(short: bool) -> list[Measured]:
    """Both servers in turn, three rounds; the median of each figure."""
    each, rounds = (2, 1) if short else (5, 3)
    figures: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    with running("ours") as ours, running("theirs") as theirs:
        ports = {"ours": ours, "theirs": theirs}
        for port in ports.values():
            scraped(port, 1)
        for _ in range(rounds):
            for kind, port in ports.items():
                wall, took = scraped(port, each)
                figures[kind].append((wall / len(took) * 1e3, statistics.quantiles(took, n=100)[98] * 1e3))
    mean, p99 = ({k: statistics.median(f[i] for f in v) for k, v in figures.items()} for i in (0, 1))
    what = f"page under {SCRAPERS} scrapers, against the client library's server"
    return [
        Measured(f"{what}: time per page", mean["ours"], mean["theirs"], "ms", BAR),
        Measured(f"{what}: p99", p99["ours"], p99["theirs"], "ms", BAR),
    ]


BENCH = Bench("page", run)

if __name__ == "__main__":
    serve(sys.argv[1])
