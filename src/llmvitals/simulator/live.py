"""A simulated server whose pages can be asked for at any moment, in real or in simulated time."""

from __future__ import annotations

import math
import threading

from llmvitals.simulator import exposition, gpu
from llmvitals.simulator.engine import Engine
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.world import World

SAMPLE_SECONDS = 1.0
"""dcgm-exporter's profiling figures are means over about a second; ours are over whole seconds of simulated time."""


class Live:
    """``origin``: the unix moment of simulated time 0.

    Thread-safe. Asking for an earlier moment than before gives the present. The pages
    depend on the moment asked for and not on how often one asks.
    """

    def __init__(self, setup: Setup, *, origin: float = 0.0) -> None:
        self.world = World(setup)
        self.origin = origin
        self._lock = threading.Lock()
        self._totals = gpu.Totals(0.0)
        self._activity = gpu.Activity()
        self._joules = 0.0

    @property
    def engine(self) -> Engine:
        """The engine of the present server process."""
        return self.world.engine

    def page_at(self, t: float) -> bytes:
        """The engine's metrics page at unix moment ``t``; empty while no process answers."""
        with self._lock:
            self._advance(t - self.origin)
            world = self.world
            return exposition.page(world.engine, self.origin, uptime=-world.started) if world.up else b""

    def gpu_page_at(self, t: float) -> bytes:
        """The GPU exporter's page at unix moment ``t``: activity over the last whole second."""
        with self._lock:
            self._advance(t - self.origin)
            return gpu.page(self.engine.config, self._activity, self._joules)

    def _advance(self, until: float) -> None:
        world = self.world
        for second in range(math.floor(self._totals.t / SAMPLE_SECONDS) + 1, math.floor(until / SAMPLE_SECONDS) + 1):
            moment = second * SAMPLE_SECONDS
            world.advance(moment)
            after = gpu.Totals.of(moment, world.engine.counters)
            self._activity = gpu.activity(self._totals, after)
            self._joules += gpu.watts(world.engine.config, self._activity) * SAMPLE_SECONDS
            self._totals = after
        world.advance(max(until, world.now))
