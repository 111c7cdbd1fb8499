"""Windows of a simulated engine, read from the pages it would show, as any other target's."""

from __future__ import annotations

from functools import cache

from llmvitals.series import Window
from llmvitals.signals.window import scopes
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.live import Live
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Workload
from llmvitals.telemetry.ingest import Ingest, RawPage

ORIGIN = 1_800_000_000.0


@cache
def simulate(
    config: EngineConfig,
    workload: Workload,
    *,
    begin: float = 10.0,
    seconds: float = 60.0,
    step: float = 5.0,
    uptime: float = 600.0,
) -> Window:
    """Pages every ``step`` seconds from ``begin`` on (simulated seconds); the process is ``uptime`` old at time 0."""
    live, ingest = Live(Setup(config, workload, uptime=uptime), origin=ORIGIN), Ingest(instance="sim", kind="vllm")
    moments = [ORIGIN + begin + i * step for i in range(round(seconds / step) + 1)]
    snapshots = [ingest.snapshot(RawPage(t, 0.02, 200, live.page_at(t))) for t in moments]
    ((_, window),) = scopes(snapshots).items()
    return window
