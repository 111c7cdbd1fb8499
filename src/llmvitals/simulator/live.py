"""A simulated server whose pages can be asked for at any moment, in real or in simulated time."""

from __future__ import annotations

import math
import threading

from llmvitals.simulator import exposition, gpu
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.engine import Engine
from llmvitals.simulator.workload import Workload

SAMPLE_SECONDS = 1.0
"""dcgm-exporter's profiling figures are means over about a second; ours are over whole seconds of simulated time."""


class Live:
    """``origin``: the unix moment of simulated time 0, at which the process is said to have run for ``uptime`` seconds.

    Thread-safe. Asking for an earlier moment than before gives the present. The pages
    depend on the moment asked for and not on how often one asks.
    """

    def __init__(self, config: EngineConfig, workload: Workload, *, origin: float = 0.0, uptime: float = 600.0) -> None:
        self.engine = Engine(config, workload)
        self.origin = origin
        self.uptime = uptime
        self._lock = threading.Lock()
        self._totals = gpu.Totals(0.0)
        self._activity = gpu.Activity()
        self._joules = 0.0

    def page_at(self, t: float) -> bytes:
        """The engine's metrics page at unix moment ``t``."""
        with self._lock:
            self._advance(t - self.origin)
            return exposition.page(self.engine, self.origin, uptime=self.uptime)

    def gpu_page_at(self, t: float) -> bytes:
        """The GPU exporter's page at unix moment ``t``: activity over the last whole second."""
        with self._lock:
            self._advance(t - self.origin)
            return gpu.page(self.engine.config, self._activity, self._joules)

    def _advance(self, until: float) -> None:
        engine = self.engine
        for second in range(math.floor(self._totals.t / SAMPLE_SECONDS) + 1, math.floor(until / SAMPLE_SECONDS) + 1):
            moment = second * SAMPLE_SECONDS
            engine.advance(moment)
            after = gpu.Totals.of(moment, engine.counters)
            self._activity = gpu.activity(self._totals, after)
            self._joules += gpu.watts(engine.config, self._activity) * SAMPLE_SECONDS
            self._totals = after
        engine.advance(max(until, engine.now))
