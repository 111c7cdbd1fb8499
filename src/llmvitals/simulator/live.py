"""A simulated server whose telemetry can be asked for at any moment, in real or in simulated time."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from llmvitals.series import Series
from llmvitals.simulator import exposition, gateway_families, gpu, gpu_meter, host_families, node, nvml, pods, procfs
from llmvitals.simulator.coarse import CoarseWorld
from llmvitals.simulator.engine import Engine
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.spans import Sending, Traces
from llmvitals.simulator.world import World

SAMPLE_SECONDS = 1.0
"""dcgm-exporter's profiling figures are means over about a second; ours are over whole seconds of simulated time."""

RECENT = 6
"""Samples before the moment asked for that are taken one by one whatever the mode: gauges look back as far."""

TIMEOUT_SECONDS = 5.0
"""How long a scrape waits for a page: as long as this exporter's own cycle lasts."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a scrape got: ``took`` seconds, the HTTP status (0: no answer) and the page."""

    took: float
    status: int
    body: bytes


class Live:
    """``origin``: the unix moment of simulated time 0; ``dialect``: which engine's page it shows, where it is not the
    configured one; ``coarse``: the arrival-level mode, in which energy is summed over longer intervals; ``spans``: how traces
    leave, None where nobody traces.

    Thread-safe. Asking for an earlier moment than before gives the present. The pages
    depend on the moment asked for and not on how often one asks.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        origin: float = 0.0,
        dialect: str | None = None,
        coarse: bool = False,
        spans: Sending | None = None,
    ) -> None:
        if dialect is not None:
            setup = replace(setup, engine=replace(setup.engine, dialect=dialect))
        self.world: World = CoarseWorld(setup) if coarse else World(setup)
        self.origin = origin
        self.coarse = coarse
        self._lock = threading.Lock()
        self._gpus = gpu_meter.Meter(setup.engine.machine, setup.faults.slow)
        self._host = host_families.Meter()
        self._traces = Traces(self.world, origin, spans) if spans is not None else None

    @property
    def engine(self) -> Engine:
        """The engine of the present server process."""
        return self.world.engine

    @contextmanager
    def at(self, t: float) -> Iterator[World]:
        """The deployment at unix moment ``t``, to look at and to act on; nobody else does until the context is left."""
        with self._lock:
            self._advance(t - self.origin)
            yield self.world

    def advance(self, t: float) -> None:
        """Let simulated time pass up to unix moment ``t``."""
        with self.at(t):
            pass

    def page_at(self, t: float) -> bytes:
        """The engine's metrics page at unix moment ``t``; empty while no process answers."""
        with self.at(t):
            return self._page()

    def answer_at(self, t: float, *, timeout: float = TIMEOUT_SECONDS) -> Answered:
        """What a scrape that begins at unix moment ``t`` gets from the engine's page.

        The page waits in the API process behind what came before it, and shows what had been done by then: the engine's
        counters, which are set when the work is handed over. A scrape that would wait for longer than ``timeout`` seconds
        gets nothing.
        """
        with self.at(t):
            if not self.world.up:
                return Answered(0.0, 0, b"")
            took = self.world.front.page_delay()
            return Answered(timeout, 0, b"") if took > timeout else Answered(took, 200, self._page())

    def gpu_page_at(self, t: float, *, pods: bool = False) -> bytes:
        """The GPU exporter's page at unix moment ``t``: activity over the last whole second; ``pods``: with pod labels."""
        with self.at(t):
            return gpu.page(self.world, self._gpus, pods=pods)

    def nvml(self) -> nvml.Nvml:
        """A stand-in for the driver's library, at the present of whoever asks: :meth:`advance` moves it."""
        return nvml.Nvml(lambda: gpu.cards(self.world, self._gpus), self._tasks, lambda: self.world.now)

    def trees_at(self, t: float) -> tuple[procfs.Tree, procfs.Tree]:
        """``/proc`` and ``/sys/fs/cgroup`` of the machine at unix moment ``t``."""
        with self.at(t):
            return procfs.trees(self.world, self._host, self.origin, self._tasks())

    def pods_at(self, t: float) -> bytes:
        """The API server's list of this node's pods at unix moment ``t``."""
        with self.at(t):
            return pods.pods(self.world, self.origin)

    def host_at(self, t: float, labels: Mapping[str, str]) -> dict[Series, float]:
        """The host's canonical samples at unix moment ``t``; ``labels``: the identity labels."""
        with self.at(t):
            return host_families.samples(self.world, self._host, labels)

    def gateway_at(self, t: float, labels: Mapping[str, str]) -> dict[Series, float]:
        """The gateway's canonical samples at unix moment ``t``; empty where there is none."""
        with self.at(t):
            return gateway_families.samples(self.world, labels)

    def spans_at(self, t: float, *, flush: bool = False) -> list[bytes]:
        """Exports of spans (OTLP, protobuf) that left up to unix moment ``t`` and were not asked for before: of at most
        512 spans each, an export for each process that sends. ``flush``: no batch waits any longer. Empty where nobody traces.
        """
        with self.at(t):
            return self._traces.bodies(self.world.now, flush=flush) if self._traces is not None else []

    @property
    def lost_spans(self) -> int:
        """Spans that nobody asked for in time, or that died with the process that had them."""
        return self._traces.lost if self._traces is not None else 0

    def _tasks(self) -> tuple[node.Task, ...]:
        gpus = range(self.world.setup.engine.machine.gpus)
        held = {index: gpu.own_bytes(self.world, index) for index in gpus}
        return node.tasks(self.world, self._host, held, {index: gpu.other_bytes(self.world, index) for index in gpus})

    def _page(self) -> bytes:
        world = self.world
        return exposition.page(world.engine, self.origin, uptime=-world.started) if world.up else b""

    def _advance(self, until: float) -> None:
        world = self.world
        last = math.floor(until / SAMPLE_SECONDS)
        first = math.floor(self._gpus.t / SAMPLE_SECONDS) + 1
        if self.coarse:  # what nobody asks about goes by in one piece
            first = max(first, last - RECENT)
        for second in range(first, last + 1):
            world.advance(second * SAMPLE_SECONDS)
            self._gpus.sample(world.now, world.engine.counters)
            self._host.sample(world)
        world.advance(max(until, world.now))
