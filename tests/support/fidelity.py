"""A recording and its simulated twin, measure by measure, from pages that are read the same way."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from llmvitals.series import Window
from llmvitals.signals.measure import growth, hist, line
from llmvitals.signals.window import scopes
from llmvitals.simulator.live import Live
from llmvitals.simulator.setup import Setup
from llmvitals.telemetry.ingest import Ingest, RawPage

Measured = float | None


def twin(setup: Setup, origin: float, moments: list[float]) -> Window:
    """The pages of a simulated deployment that a scraper asked for at these unix moments."""
    live, ingest = Live(setup, origin=origin), Ingest(instance="twin", kind="vllm")
    snapshots = []
    for moment in moments:
        got = live.answer_at(moment)
        detail = "" if got.status else "connection refused"
        snapshots.append(ingest.snapshot(RawPage(moment + got.took, got.took, got.status, got.body, detail)))
    ((_, window),) = scopes(snapshots).items()
    return window


def asked_at(folder: Path) -> list[float]:
    """Unix moments at which the scraper of a recording asked."""
    index = json.loads((folder / "capture.json").read_text(encoding="utf-8"))
    return [scrape["t"] - (scrape["took"] or 0.0) for scrape in index["targets"][0]["scrapes"]]


# -- measures ---------------------------------------------------------------------------------------------------------
def _mean(name: str) -> Callable[[Window], Measured]:
    def read(window: Window) -> Measured:
        found = line(window, name)
        return fmean(found.values) if found else None

    return read


def _most(name: str) -> Callable[[Window], Measured]:
    def read(window: Window) -> Measured:
        found = line(window, name)
        return max(found.values) if found else None

    return read


def _growth(name: str, **match: str) -> Callable[[Window], Measured]:
    return lambda window: growth(window, name, match or None)


def _average(family: str) -> Callable[[Window], Measured]:
    def read(window: Window) -> Measured:
        found = hist(window, family)
        return found.mean if found else None

    return read


def _quantile(family: str, q: float) -> Callable[[Window], Measured]:
    def read(window: Window) -> Measured:
        found = hist(window, family)
        return found.quantile(q) if found else None

    return read


def _over(top: Callable[[Window], Measured], bottom: Callable[[Window], Measured]) -> Callable[[Window], Measured]:
    def read(window: Window) -> Measured:
        a, b = top(window), bottom(window)
        return a / b if a is not None and b else None

    return read


def _gone(window: Window) -> Measured:
    """Requests that said something and then neither finished nor still run: their clients left."""
    started = growth(window, "llm_request_ttft_seconds_count")
    ended = growth(window, "llm_requests_finished_total")
    running, waiting = line(window, "llm_requests_running"), line(window, "llm_requests_waiting")
    if started is None or ended is None or running is None or waiting is None:
        return None
    return max(0.0, started - ended - (running.last - running.values[0]))


_FINISHED = _growth("llm_requests_finished_total")


@dataclass(frozen=True, slots=True)
class Measure:
    """``least``: what counts as equal to nothing, in the measure's unit: a difference below it is no error."""

    name: str
    unit: str
    read: Callable[[Window], Measured]
    least: float


MEASURES: tuple[Measure, ...] = (
    Measure("running, mean", "", _mean("llm_requests_running"), 0.5),
    Measure("waiting, mean", "", _mean("llm_requests_waiting"), 0.5),
    Measure("KV usage, mean", "", _mean("llm_kv_usage_ratio"), 0.02),
    Measure("KV usage, most", "", _most("llm_kv_usage_ratio"), 0.02),
    Measure("preemptions per finished", "", _over(_growth("llm_preemptions_total"), _FINISHED), 0.02),
    Measure("finished", "", _FINISHED, 1.0),
    Measure("TTFT, mean", "s", _average("llm_request_ttft_seconds"), 0.01),
    Measure("TTFT, p50", "s", _quantile("llm_request_ttft_seconds", 0.5), 0.01),
    Measure("TTFT, p95", "s", _quantile("llm_request_ttft_seconds", 0.95), 0.01),
    Measure("queue time, mean", "s", _average("llm_request_queue_seconds"), 0.01),
    Measure("ITL, mean", "s", _average("llm_request_inter_token_seconds"), 0.001),
    Measure("TPOT, mean", "s", _average("llm_request_tpot_seconds"), 0.001),
    Measure(
        "prefix hit ratio",
        "",
        _over(_growth("llm_prefix_cache_hit_tokens_total"), _growth("llm_prefix_cache_query_tokens_total")),
        0.01,
    ),
    Measure("rejected", "", _growth("llm_requests_rejected_total"), 1.0),
    Measure("left by their clients", "", _gone, 2.0),
    Measure("HTTP 2xx", "", _growth("llm_http_requests_total", status="2xx"), 1.0),
    Measure("CPU of the API process", "s", _growth("llm_process_cpu_seconds_total"), 0.5),
)


def error(measure: Measure, real: Measured, simulated: Measured) -> Measured:
    """(simulated - real) / real; 0 where they differ by less than the measure can tell, None where either is missing."""
    if real is None or simulated is None or math.isnan(real):
        return None
    if abs(simulated - real) < measure.least:
        return 0.0
    return (simulated - real) / real if real else math.inf
