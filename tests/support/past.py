"""A past of the simulator: a server is well, overrun for a while, and well again; as pages and as a Prometheus has it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from llmvitals.series import Snapshot
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.live import Live
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload
from llmvitals.sources import Observed
from llmvitals.telemetry.ingest import Ingest, RawPage
from support import raw_store
from support.prometheus import load_blocks, openmetrics, points_of

INSTANCE = "a:8000"
ORIGIN = 1_800_000_000.0
SCRAPED = 15.0
"""Seconds between two pages, as Prometheus is usually set."""

BEGINS, ENDS, LASTS = 900.0, 1500.0, 2400.0
"""Seconds from the first page: when the fault begins and ends, and how long all lasts."""

CAUSE = "preemption-thrash"

_CHAT = Stream("chat", rate=1.0, prompt=Lengths(400, 0.4), output=Lengths(120, 0.4), max_tokens=512)
_LONG = Stream(
    "long answers",
    start=BEGINS + 60,
    end=ENDS + 60,
    clients=64,
    ramp=4.0,
    prompt=Lengths(150, 0.1),
    output=Lengths(400, 0.1),
    max_tokens=512,
)


@cache
def pages() -> tuple[RawPage, ...]:
    """The pages of the whole past."""
    config = EngineConfig(blocks=1024, max_num_seqs=64, max_model_len=2048)
    live = Live(Setup(config, Workload((_CHAT, _LONG)), uptime=3600.0), origin=ORIGIN - 60, coarse=True)
    moments = [ORIGIN + SCRAPED * i for i in range(round(LASTS / SCRAPED) + 1)]
    return tuple(RawPage(t, 0.02, 200, live.page_at(t)) for t in moments)


@cache
def snapshots() -> tuple[Snapshot, ...]:
    """The same pages, read."""
    ingest = Ingest(instance=INSTANCE)
    return tuple(ingest.snapshot(page) for page in pages())


def observed() -> Observed:
    """The server as a target."""
    return Observed(INSTANCE, "vllm", snapshots())


def store_exported(folder: Path) -> None:
    """Store what a Prometheus that scrapes the exporter has of it."""
    load_blocks(openmetrics(points_of(snapshots())), folder)


def store_raw(folder: Path) -> None:
    """Store what a Prometheus that scrapes the engine has of it."""
    raw_store.store(folder, raw_store.stored(pages(), {"instance": INSTANCE, "job": "engines", "namespace": "chat"}))
