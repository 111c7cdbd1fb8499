"""The simulated server that ``llmvitals run`` watches when it is given none."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from msgspec import structs

from llmvitals.exporters.cycle import Cycle, Engine
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.settings import Settings, Target
from llmvitals.simulator.live import Live
from llmvitals.simulator.push import Push
from llmvitals.simulator.scenarios import DEMO, Scenario, scenario
from llmvitals.simulator.serve import Served
from llmvitals.simulator.spans import BATCH_SECONDS, Sending
from llmvitals.telemetry.ingest import RawPage

NAME = "simulated-vllm"
NOTICE = "simulated vLLM, not your server"
INTERVAL_SECONDS, WINDOW_SECONDS = 2.0, 30.0
"""Faster and shorter than for a real server, so that the demo's turn is seen soon after it happens."""

LEAD_IN_SECONDS = 30.0
"""Traffic that the simulated server has had before the first look at it: its health is known at once."""

ONCE_SECONDS = 45.0
"""Simulated time after which ``--once`` asks for the verdict: 35 s into the long answers."""

TOOK_SECONDS = 0.005


def paced(settings: Settings) -> Settings:
    """The settings with the demo's interval and window."""
    exporter = structs.replace(
        settings.exporter, interval_seconds=INTERVAL_SECONDS, window_seconds=WINDOW_SECONDS, timeout_seconds=1.5
    )
    return structs.replace(settings, exporter=exporter)


class Embedded:
    """The demo in real time on a free loopback port. ``target`` is what to scrape; its GPU's page stands beside it."""

    def __init__(self, live: Live, server: Served) -> None:
        self._live = live
        self.target = Target(url=server.url, name=NAME, kind="vllm", gpu_url=server.gpu_url)

    def recall_into(self, exporter: Exporter) -> None:
        """Give the exporter the pages of the lead-in, as if it had watched then."""
        for moment in _moments(self._live.origin, LEAD_IN_SECONDS - INTERVAL_SECONDS):
            exporter.recall(*_pages(self._live, self.target, moment))


@contextmanager
def embedded(receiver: str = "") -> Iterator[Embedded]:
    """Serve the demo while the context is open. ``receiver``: host:port to which it sends its traces; '' sends none."""
    sending = Sending(BATCH_SECONDS, os.getpid()) if receiver else None
    live = scenario(DEMO).live(origin=time.time(), lead_in=LEAD_IN_SECONDS, spans=sending)
    with Served(live) as server, Push(live, receiver, clock=time.time) if receiver else nullcontext():
        yield Embedded(live, server)


def in_simulated_time(settings: Settings, chosen: Scenario | None = None) -> Cycle:
    """What the exporter says of a scenario (the demo) after ``ONCE_SECONDS`` of it, without waiting for them."""
    live = (chosen or scenario(DEMO)).live(origin=time.time() - ONCE_SECONDS)
    target = Target(url=f"http://{NAME}", name=NAME, kind="vllm", gpu_url=f"http://{NAME}/gpu/metrics")
    engine = Engine(structs.replace(settings, targets=(target,)))
    end = live.origin
    for moment in _moments(live.origin, ONCE_SECONDS):
        engine.record(*_pages(live, target, moment))
        end = moment
    return engine.publish(end)


def _moments(start: float, seconds: float) -> Iterator[float]:
    return (start + turn * INTERVAL_SECONDS for turn in range(int(seconds / INTERVAL_SECONDS) + 1))


def _pages(live: Live, target: Target, moment: float) -> tuple[dict[str, RawPage], dict[str, RawPage]]:
    engine = RawPage(moment, TOOK_SECONDS, 200, live.page_at(moment), "")
    gpu = RawPage(moment, TOOK_SECONDS, 200, live.gpu_page_at(moment), "")
    return {target.name: engine}, {target.gpu_url: gpu}
