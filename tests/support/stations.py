"""Stand-ins for what lies behind clients or a gateway: a server whose every answer is known beforehand."""

from __future__ import annotations

from llmvitals.simulator.clients import Clients
from llmvitals.simulator.clock import Clock
from llmvitals.simulator.gateway import GatewayServer
from llmvitals.simulator.setup import Gateway
from llmvitals.simulator.workload import Call, Stream, Workload


class Server:
    """As many calls at once as come, each ``seconds`` long, its first token halfway and ten tokens in all.

    ``outcome``: what becomes of every call that ends; ``up``: whether connections can be made.
    """

    def __init__(self, clock: Clock, seconds: float = 1.0) -> None:
        self.clock = clock
        self.seconds = seconds
        self.outcome = "ok"
        self.up = self.ready = True
        self.caller: object = None
        self.came: list[tuple[float, Call]] = []
        self.cancelled: list[tuple[float, Call]] = []
        self.busy = 0
        self.busiest = 0

    def accepts(self) -> bool:
        return self.up

    def receive(self, call: Call) -> None:
        now = self.clock.now
        self.came.append((now, call))
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        self.clock.at(now + self.seconds / 2, lambda: self._first(call))
        self.clock.at(now + self.seconds, lambda: self._end(call))

    def cancel(self, call: Call) -> None:
        self.cancelled.append((self.clock.now, call))
        self.busy -= 1
        call.ended = self.clock.now

    def _first(self, call: Call) -> None:
        if call.ended is None and self.outcome == "ok":
            call.first = self.clock.now
            self.caller.first(call, self.clock.now)

    def _end(self, call: Call) -> None:
        if call.ended is None:
            call.ended = self.clock.now
            call.tokens = 10
            self.busy -= 1
            self.caller.ended(call, self.clock.now, self.outcome)


class Station:
    """Clients, a gateway if one is given, and a :class:`Server` behind them."""

    def __init__(
        self, *streams: Stream, gateway: Gateway | None = None, seconds: float = 1.0, seed: int = 0, foreign: int = 0
    ):
        self.clock = Clock()
        self.server = Server(self.clock, seconds)
        door = self.server
        self.gateway = None
        if gateway is not None:
            door = self.gateway = GatewayServer(gateway, self.clock, self.server, streams, foreign_ports=foreign)
        self.clients = Clients(self.clock, Workload(streams, seed), door)
        self.server.caller = self.gateway or self.clients
        if self.gateway is not None:
            self.gateway.caller = self.clients

    def run(self, until: float) -> Station:
        self.clock.run(until)
        return self

    def outcomes(self) -> dict[str, int]:
        names = [answer.outcome for answer in self.clients.log]
        return {name: names.count(name) for name in set(names)}
