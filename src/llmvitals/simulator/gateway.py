"""A proxy between clients and the API process: a bounded queue with a time to live, a breaker, a response cache."""

from __future__ import annotations

from llmvitals.simulator.clock import Clock
from llmvitals.simulator.front import ApiServer, Caller
from llmvitals.simulator.setup import Gateway
from llmvitals.simulator.workload import Call


class GatewayServer:
    """``caller``: the clients; ``upstream``: the API process."""

    def __init__(self, config: Gateway, clock: Clock, upstream: ApiServer) -> None:
        self.config = config
        self.clock = clock
        self.upstream = upstream
        self.caller: Caller

    def receive(self, call: Call) -> None:
        """A call comes in."""
        self.upstream.receive(call)

    def cancel(self, call: Call) -> None:
        """The client of a call has left."""
        self.upstream.cancel(call)

    def first(self, call: Call, moment: float) -> None:
        """The first token of a call has come from upstream."""
        self.caller.first(call, moment)

    def ended(self, call: Call, moment: float, outcome: str) -> None:
        """An answer from upstream has ended."""
        self.caller.ended(call, moment, outcome)
