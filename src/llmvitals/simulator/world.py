"""The whole of a simulated deployment on one clock: clients, a gateway if there is one, the API process, the engine."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llmvitals.simulator.clients import Clients
from llmvitals.simulator.clock import Clock
from llmvitals.simulator.engine import Ended, Engine, Stepped
from llmvitals.simulator.front import ApiServer
from llmvitals.simulator.gateway import GatewayServer
from llmvitals.simulator.setup import Restart, Setup


class World:
    """``now``: seconds of simulated time; ``started``: when the present server process started."""

    engine_type: type[Engine] = Engine

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.clock = Clock()
        self.started = -setup.uptime
        self.restarts: list[Restart] = []
        self._on_end: Ended | None = None
        self._on_step: Stepped | None = None
        faults = setup.faults
        self.front = ApiServer(
            setup.front,
            self.clock,
            host=setup.host,
            fd_leak=faults.fd_leak,
            failing=lambda t: _within(faults.failing, t) > t,
            unready=lambda t: _within(faults.unready, t) > t,
        )
        self.gateway: GatewayServer | None = None
        if setup.gateway is not None:
            streams = setup.workload.streams
            self.gateway = GatewayServer(
                setup.gateway, self.clock, self.front, streams, foreign_ports=faults.foreign_ports
            )
        door = self.gateway or self.front
        self.clients = Clients(self.clock, setup.workload, door)
        self.front.caller = self.clients
        if self.gateway is not None:
            self.front.caller = self.gateway
            self.gateway.caller = self.clients
        self._boot(faults.first_step_seconds)
        for start, end in faults.front_stalls:
            self.clock.at(start, lambda end=end: self.front.stall(end))  # type: ignore[misc]
        for restart in faults.restarts:
            self.clock.at(restart.down, lambda restart=restart: self._down(restart))  # type: ignore[misc]
            self.clock.at(restart.up, lambda restart=restart: self._up(restart))  # type: ignore[misc]
        if faults.dies_at < math.inf:
            self.clock.at(faults.dies_at, self.front.end)

    @property
    def now(self) -> float:
        """Seconds of simulated time."""
        return self.clock.now

    @property
    def up(self) -> bool:
        """Whether the server answers at all."""
        return self.front.up

    def advance(self, until: float) -> None:
        """Let time pass up to ``until``; a step that ends later stays in flight and is not seen yet."""
        self.clock.run(until)

    def _boot(self, first_step_seconds: float) -> None:
        faults = self.setup.faults
        self.engine = self.engine_type(
            self.setup.engine,
            self.clock,
            self.front,
            seed=self.setup.workload.seed,
            first_step_seconds=first_step_seconds,
            slowdown=self._slowdown,
            stalled_until=lambda t: _within(faults.stalls, t),
        )
        self.front.engine = self.engine
        self.engine.on_end, self.engine.on_step = self._on_end, self._on_step

    def listen(self, *, on_end: Ended | None = None, on_step: Stepped | None = None) -> None:
        """Be told what the present engine does and those after it; who is not given stays as is."""
        self._on_end, self._on_step = on_end or self._on_end, on_step or self._on_step
        self.engine.on_end, self.engine.on_step = self._on_end, self._on_step

    def _slowdown(self, moment: float) -> float:
        slow = self.setup.faults.slow
        return 1.0 / min((s.factor for s in slow if s.start <= moment < s.end), default=1.0) if slow else 1.0

    def _down(self, restart: Restart) -> None:
        self.front.end()
        self.restarts.append(restart)

    def _up(self, restart: Restart) -> None:
        self.started = restart.down
        self._boot(self.setup.faults.first_step_seconds)
        self.front.reset()


def _within(spans: Sequence[tuple[float, float]], moment: float) -> float:
    """The end of the span that covers the moment, or the moment itself."""
    return max((end for start, end in spans if start <= moment < end), default=moment) if spans else moment
