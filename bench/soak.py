"""A day of the exporter in minutes: does its memory stay, and how much is it, for 8 engines and 8 GPUs?

The exporter of ``llmvitals serve`` with default settings runs in a process of its own, on a clock that goes on by
:data:`CLOCK_SECONDS` with each cycle, cycle after cycle without a pause: it fetches over HTTP, reads this machine's ``/proc``,
judges and serves. A window holds as many pages as by default. Meanwhile engines restart and are upgraded
(:mod:`bench.soak_pages`), pods are replaced by pods of other names, and every page is asked for in every form. From outside, the
process' resident memory, open files and threads are read beside the number of its cycles.

**Slope**: Theil and Sen's, the median of the slopes between all pairs of readings of the second half, in MiB per hour of the
clock. It does not heed single peaks, as least squares do. Its bar is :data:`SLOPE`.
"""

from __future__ import annotations

import gc
import http.client
import importlib
import itertools
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench import Bench, Measured
from bench.node_pages import GPUS
from bench.soak_pages import served
from llmvitals.exporters import heap
from llmvitals.exporters.lifecycle import GC_THRESHOLDS, Exporter
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Kubernetes, Node, Settings, Target
from llmvitals.sources.node import Machine

CLOCK_SECONDS = 30.0
"""By how much the clock goes on with each cycle. A cycle costs the same whatever the clock says; a day of cycles of the default 5 s
would take 40 minutes and more."""

WINDOW_CYCLES = 12
"""Cycles in a window, as with the default settings (60 s, 5 s)."""

CYCLES = round(24 * 3600 / CLOCK_SECONDS)
SHORT_CYCLES = 240
CHURN_CYCLES = 12
"""After so many cycles one pod is replaced by another: 240 a day."""

LIMIT_MIB = 64.0
SLOPE = 0.1
"""MiB per hour that count as flat: 2.4 MiB a day, which a limit with a third to spare bears for a week."""

_EPOCH = 1_760_000_000.0
_PATHS = ("/metrics", "/triage", "/history?signal=*", "/replicas", "/capture", "/")
_FORMS = ("text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0")


@dataclass(frozen=True, slots=True)
class Reading:
    """The process from outside after so many cycles. ``rss`` and ``peak``: MiB."""

    cycles: int
    rss: float
    peak: float
    threads: int
    files: int


def settings(port: int, engines: int, round_: int) -> Settings:
    """Settings of ``engines`` targets of which ``round_`` pods have been replaced so far, one after the other."""
    base = f"http://127.0.0.1:{port}"
    targets = []
    for place in range(engines):
        pod = f"chat-{place}-{(round_ - place + engines - 1) // engines}"
        labels = {"namespace": "serving", "pod": pod, "container": "vllm"}
        targets.append(
            Target(
                url=f"{base}/{pod}/metrics",
                name=pod,
                gpu_url=f"{base}/gpus/metrics",
                gpus=(str(place % GPUS),),
                labels=labels,
            )
        )
    limits = Limits(listen="127.0.0.1:0", interval_seconds=0.001, window_seconds=WINDOW_CYCLES * CLOCK_SECONDS)
    return Settings(
        targets=tuple(targets), exporter=limits, node=Node(nvml="off", kubernetes=Kubernetes(enabled="off"))
    )


def serve(port: int, engines: int) -> None:
    """The exporter as ``llmvitals serve`` runs it, until stdin ends; prints its port."""
    importlib.import_module("llmvitals.cli.serve")  # what the command loads is part of what is measured
    heap.tended()
    gc.set_threshold(*GC_THRESHOLDS)
    exporter = Exporter(
        settings(port, engines, 0), clock=lambda: _EPOCH + CLOCK_SECONDS * exporter.board.cycles, machine=Machine
    )
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    with exporter:
        print(urlsplit(exporter.url).port, flush=True)
        done = 0
        while not ended.wait(0.05):
            if exporter.board.cycles // CHURN_CYCLES > done:
                done = exporter.board.cycles // CHURN_CYCLES
                exporter.reload(settings(port, engines, done))
    os._exit(0)


@contextmanager
def running(port: int, engines: int) -> Iterator[tuple[int, int]]:
    """The exporter's process; gives its id and its port."""
    command = [sys.executable, "-c", f"from bench.soak import serve; serve({port}, {engines})"]
    with (
        tempfile.TemporaryFile() as told,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.terminate()


def read(pid: int, cycles: int) -> Reading:
    """What ``/proc`` says of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    number = {name: int(text) for name, text in re.findall(r"(\w+):\s+(\d+)", status)}
    files = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return Reading(cycles, number["VmRSS"] / 1024, number["VmHWM"] / 1024, number["Threads"], files)


def ask(connection: http.client.HTTPConnection, *, every: bool) -> int:
    """Scrape as Prometheus does, and where ``every`` ask for all else too; the number of cycles that the page tells."""
    page = _get(connection, "/metrics", _FORMS[0], "identity")
    if every:
        for path, form, coding in itertools.product(_PATHS, _FORMS, ("identity", "gzip")):
            _get(connection, path, form, coding)
    else:
        _get(connection, "/metrics", _FORMS[1], "gzip")
    return int(float(page.split(b"\nllmvitals_cycles_total ")[1].split(b"\n")[0]))


def _get(connection: http.client.HTTPConnection, path: str, form: str, coding: str) -> bytes:
    """An answer on a connection that is kept, as a scraper keeps it."""
    connection.request("GET", path, headers={"Accept": form, "Accept-Encoding": coding})
    return connection.getresponse().read()


def soaked(cycles: int, engines: int = GPUS) -> list[Reading]:
    """The readings of so many cycles, one about every second."""
    readings: list[Reading] = []
    with served() as pages, running(pages, engines) as (pid, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for turn in itertools.count():
            done = ask(connection, every=turn % 5 == 4)
            readings.append(read(pid, done))
            if done >= cycles:
                return readings
            time.sleep(1.0)
    raise AssertionError("unreachable")


def slope(readings: Sequence[Reading]) -> float:
    """Theil and Sen's slope of the resident memory, in MiB per hour of the exporter's clock."""
    pairs = ((b.cycles - a.cycles, b.rss - a.rss) for a, b in itertools.combinations(readings, 2))
    hours = CLOCK_SECONDS / 3600
    return statistics.median(mib / (cycles * hours) for cycles, mib in pairs if cycles)


def run(short: bool) -> list[Measured]:
    """The day (``short``: two hours of it), with its bars."""
    readings = soaked(SHORT_CYCLES if short else CYCLES)
    last = readings[-1]
    early, late = readings[len(readings) // 4 : len(readings) // 2], readings[len(readings) // 2 :]
    what = f"8 engines, 8 GPUs, {last.cycles * CLOCK_SECONDS / 3600:.1f} h in {last.cycles} cycles"
    print(_course(readings), end="\n\n")
    rows = [
        Measured(f"{what}: resident memory at the end", last.rss, LIMIT_MIB, "MiB", 1.0),
        Measured(f"{what}: its peak", last.peak, LIMIT_MIB, "MiB", math.inf),
        Measured(f"{what}: slope of the second half", slope(late), SLOPE, "MiB/h", math.inf if short else 1.0),
    ]
    for name in ("files", "threads"):
        before, after = (statistics.median(getattr(one, name) for one in part) for part in (early, late))
        rows.append(Measured(f"{what}: open {name}, second half against before", after, before, "", 1.1))
    return rows


def _course(readings: Sequence[Reading]) -> str:
    """Some of the readings as Markdown."""
    lines = ["| cycles | RSS | peak | threads | files |", "|---:|---:|---:|---:|---:|"]
    for one in (readings[len(readings) * part // 12] for part in range(12)):
        lines.append(f"| {one.cycles} | {one.rss:.1f} MiB | {one.peak:.1f} MiB | {one.threads} | {one.files} |")
    return "\n".join(lines)


BENCH = Bench("soak", run)
