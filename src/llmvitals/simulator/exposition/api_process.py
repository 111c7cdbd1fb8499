"""What a vLLM page holds of the API server beside the engine: its process, and the HTTP answers it has given."""

from __future__ import annotations

from collections.abc import Iterator

from llmvitals.simulator.engine import Engine
from llmvitals.simulator.exposition.text import COUNTER, GAUGE, Labels, head, histogram, spell

HANDLER: Labels = (("handler", "/v1/completions"),)

START_CPU_SECONDS = 20.0
"""CPU that an API process has used before its first request: order of magnitude of a recorded server."""


def process(engine: Engine, started: float) -> Iterator[str]:
    """The process as the client library shows it. ``started``: unix seconds."""
    outlet = engine.outlet
    values = (
        ("process_virtual_memory_bytes", GAUGE, "Virtual memory in bytes.", 2.1e9),
        ("process_resident_memory_bytes", GAUGE, "Resident memory in bytes.", 7.0e8),
        ("process_start_time_seconds", GAUGE, "Start of the process, unix seconds.", started),
        (
            "process_cpu_seconds_total",
            COUNTER,
            "CPU time in seconds.",
            START_CPU_SECONDS + engine.counters.process_seconds,
        ),
        ("process_open_fds", GAUGE, "Open file descriptors.", outlet.open_fds),
        ("process_max_fds", GAUGE, "Limit of file descriptors.", outlet.max_fds),
    )
    yield from head("python_info", GAUGE, "Python platform.")
    yield 'python_info{implementation="CPython",major="3",minor="12",patchlevel="0",version="3.12.0"} 1.0'
    for name, kind, text, value in values:
        yield from head(name, kind, text)
        yield f"{name} {float(value)!r}"


def http(engine: Engine, created: float | None) -> Iterator[str]:
    """The API server's own counters: a request appears when its answer has ended; absent before the first one."""
    c = engine.counters
    method = ("method", "POST")
    seen = {status: count for status, count in c.http.items() if count}
    answers = "Answered requests by handler, method and status class."
    yield from head("http_requests_total", COUNTER, answers)
    for status, count in seen.items():
        yield f"http_requests_total{spell((*HANDLER, method, ('status', status)))} {float(count)!r}"
    if created is not None and seen:
        yield from head("http_requests_created", GAUGE, answers)
        for status in seen:
            yield f"http_requests_created{spell((*HANDLER, method, ('status', status)))} {created!r}"
    yield from head("http_request_size_bytes", "summary", "Length of requests by handler.")
    if seen:
        yield f"http_request_size_bytes_count{spell(HANDLER)} {float(sum(seen.values()))!r}"
        yield f"http_request_size_bytes_sum{spell(HANDLER)} {c.http_bytes_in!r}"
    yield from histogram("http_request_duration_highr_seconds", "Answer time.", c.http_fine, (), created=created)
    if seen:
        labels = (*HANDLER, method)
        text = "Answer time by handler."
        yield from histogram("http_request_duration_seconds", text, c.http_coarse, labels, created=created)
