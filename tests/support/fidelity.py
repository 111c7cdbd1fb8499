"""A recording and its simulated twin, measure by measure, from pages that are read the same way."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.signals.measure import growth, hist, line
from llmvitals.signals.window import scopes
from llmvitals.simulator.live import Live
from llmvitals.simulator.setup import Setup
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.triage.verdict import Verdict
from llmvitals.triage.walk import diagnose
from support.loads import setup_of
from support.recordings import only_scope

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
    """``least``: a difference below it, in the measure's unit, is no error: it is what one request more, one scrape at another
    moment or the width of a bucket makes. ``typical`` and ``worst``: what the median and the largest error of recordings
    that nothing was fitted to may be (shares of the real value).
    """

    name: str
    short: str
    read: Callable[[Window], Measured]
    least: float
    typical: float
    worst: float


MEASURES: tuple[Measure, ...] = (
    Measure("running, mean", "running", _mean("llm_requests_running"), 0.5, 0.05, 0.7),
    Measure("waiting, mean", "waiting", _mean("llm_requests_waiting"), 0.5, 0.05, 0.2),
    Measure("KV usage, mean", "KV mean", _mean("llm_kv_usage_ratio"), 0.02, 0.05, 0.7),
    Measure("KV usage, most", "KV most", _most("llm_kv_usage_ratio"), 0.02, 0.05, 0.1),
    Measure(
        "preemptions per finished", "preempt.", _over(_growth("llm_preemptions_total"), _FINISHED), 0.02, 0.05, 0.1
    ),
    Measure("finished", "finished", _FINISHED, 1.0, 0.05, 0.4),
    Measure("TTFT, mean", "TTFT mean", _average("llm_request_ttft_seconds"), 0.01, 0.2, 0.6),
    Measure("TTFT, p50", "TTFT p50", _quantile("llm_request_ttft_seconds", 0.5), 0.01, 0.2, 0.6),
    Measure("TTFT, p95", "TTFT p95", _quantile("llm_request_ttft_seconds", 0.95), 0.01, 0.25, 0.8),
    Measure("queue time, mean", "queue", _average("llm_request_queue_seconds"), 0.01, 0.15, 0.8),
    Measure("ITL, mean", "ITL", _average("llm_request_inter_token_seconds"), 0.001, 0.2, 0.5),
    Measure("TPOT, mean", "TPOT", _average("llm_request_tpot_seconds"), 0.001, 0.2, 0.5),
    Measure(
        "prefix hit ratio",
        "hits",
        _over(_growth("llm_prefix_cache_hit_tokens_total"), _growth("llm_prefix_cache_query_tokens_total")),
        *(0.01, 0.05, 0.1),
    ),
    Measure("rejected", "rejected", _growth("llm_requests_rejected_total"), 1.0, 0.05, 0.2),
    Measure("left by their clients", "left", _gone, 5.0, 0.05, 0.1),
    Measure("HTTP 2xx", "2xx", _growth("llm_http_requests_total", status="2xx"), 1.0, 0.05, 0.3),
    Measure("CPU of the API process", "API CPU", _growth("llm_process_cpu_seconds_total"), 0.5, 0.35, 0.7),
)

FITTED = ("idle", "healthy", "closed-loop-32", "kv-full", "nothing-shared", "batch-too-large")
"""Recordings that the machine's and the API process' few numbers were fitted to, all at once."""

EXCUSED: Mapping[str, frozenset[str]] = {
    # arithmetic of adapters is left out, and with it half of each step of that server
    "lora-one-slot": frozenset(m.name for m in MEASURES),
    # one HTTP request for eight answers; the simulator sends eight
    "no-max-tokens": frozenset({"HTTP 2xx"}),
    # the API process spent two seconds on the end of the engine
    "engine-died": frozenset({"CPU of the API process"}),
}
"""What the bounds leave out, because the model does not claim it."""


def error(measure: Measure, real: Measured, simulated: Measured) -> Measured:
    """(simulated - real) / real; 0 where they differ by less than the measure can tell, None where either is missing."""
    if real is None or simulated is None or math.isnan(real):
        return None
    if abs(simulated - real) < measure.least:
        return 0.0
    return (simulated - real) / real if real else math.inf


@dataclass(frozen=True, slots=True)
class Compared:
    """A recording beside its twin: the errors by measure, and what the triage says of both."""

    name: str
    errors: Mapping[str, Measured]
    real: Verdict
    simulated: Verdict

    @property
    def fitted(self) -> bool:
        """Whether numbers of the model come from this recording."""
        return self.name in FITTED


def compare(folder: Path) -> Compared:
    """Replay the load of a recording and hold both against each other."""
    origin, setup = setup_of(folder)
    simulated = twin(setup, origin, asked_at(folder))
    _, real = only_scope(folder)
    return Compared(
        folder.name,
        {m.name: error(m, m.read(real), m.read(simulated)) for m in MEASURES},
        diagnose(real, Settings()),
        diagnose(simulated, Settings()),
    )


def counted(compared: Compared, measure: Measure) -> Measured:
    """The error's size where the bounds count it; None where there is none or the model does not claim it."""
    found = compared.errors[measure.name]
    excused = measure.name in EXCUSED.get(compared.name, frozenset())
    return None if found is None or excused else abs(found)
