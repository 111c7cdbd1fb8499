"""The API process: one event loop that takes requests up, hands tokens out and answers ``/metrics``, in order of arrival.

A queueing station with one server (or ``processes``): work waits for what came before. When it is full, requests stand
in its sockets before anybody stamps their arrival, tokens stand before they are measured, and the page comes late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from llmvitals.simulator.clock import Clock
from llmvitals.simulator.engine import Engine
from llmvitals.simulator.setup import Front, Host
from llmvitals.simulator.workload import Call

REQUEST_BYTES, TOKEN_BYTES = 200, 4
"""Size of a request: its JSON, and four characters a token."""


class Caller(Protocol):
    """Who called: a client, or the gateway in front."""

    def first(self, call: Call, moment: float) -> None:
        """The first token of a call has come."""

    def ended(self, call: Call, moment: float, outcome: str) -> None:
        """A call has ended."""


class ApiServer:
    """``caller``: where answers go; ``engine`` is set once it exists. ``failing(moment)``: every answer is a 500;
    ``unready(moment)``: its probe fails, and calls are not led to it.

    ``host``: how many descriptors the process may hold; each answered request leaves ``fd_leak`` of them open.
    """

    def __init__(
        self,
        config: Front,
        clock: Clock,
        *,
        host: Host | None = None,
        fd_leak: float = 0.0,
        failing: Callable[[float], bool] = lambda moment: False,
        unready: Callable[[float], bool] = lambda moment: False,
    ) -> None:
        self.config = config
        self.clock = clock
        self.host = host or Host()
        self.caller: Caller
        self.engine: Engine
        self.up = True
        self.calls: dict[int, Call] = {}  # those that it holds, by identity
        self._fd_leak = fd_leak
        self._leaked = 0.0
        self._busy = 0.0  # when all work that it has taken on will be done
        self._lost = 0.0  # seconds that stalls have taken so far
        self._failing, self._unready = failing, unready

    @property
    def open_fds(self) -> int:
        """Descriptors that the process holds: its own, one a connection, and those that it never closed."""
        return min(self.host.max_fds, self.host.fds_before + len(self.calls) + int(self._leaked))

    @property
    def max_fds(self) -> int:
        """Descriptors that the process may hold."""
        return self.host.max_fds

    @property
    def held(self) -> int:
        """Calls that the process holds."""
        return len(self.calls)

    @property
    def unanswered(self) -> int:
        """Those of them whose first token has not come."""
        return sum(call.first is None for call in self.calls.values())

    # -- from the caller ------------------------------------------------------------------------------------------
    def accepts(self) -> bool:
        """Whether a new connection can be made: somebody listens, and has a descriptor for it."""
        return self.up and self.open_fds < self.host.max_fds

    @property
    def ready(self) -> bool:
        """Whether calls are led to it: a service has no other endpoint."""
        return not self._unready(self.clock.now)

    def receive(self, call: Call) -> None:
        """A request reaches the socket."""
        if not (self.ready and self.accepts()):
            self.clock.at(self.clock.now, lambda: self.caller.ended(call, self.clock.now, "error"))
            return
        self.calls[id(call)] = call
        request = call.request
        call.arrived = max(self.clock.now, self._busy)
        engine = self.engine
        work = self.config.request_seconds + request.prompt * self.config.prompt_token_seconds
        self.later(self._work(self.clock.now, work), lambda: self._hand_over(call, engine))

    def cancel(self, call: Call) -> None:
        """The connection of a call was closed by the other side."""
        if call.ended is None and self.up:
            self.engine.abort(call)
            self._answered(call, "2xx")
            call.ended = self.clock.now

    def stall(self, until: float) -> None:
        """Nothing is done until then; what was there before is done after it."""
        now = self.clock.now
        self._busy = max(self._busy, now) + max(0.0, until - now)
        self._lost += max(0.0, until - now)

    def end(self) -> None:
        """The process ends: every connection breaks."""
        self.up = False
        self.engine.kill()
        for call in list(self.calls.values()):
            self._tell_end(call, "error", "5xx")

    def reset(self) -> None:
        """A new process answers."""
        self.up, self._busy, self._leaked = True, self.clock.now, 0.0

    def page_delay(self) -> float:
        """How long a metrics page asked for now takes (seconds)."""
        return self.standing + self.config.page_seconds / self.config.cores

    @property
    def standing(self) -> float:
        """Seconds until all work that it has taken on is done."""
        return max(0.0, self._busy - self.clock.now)

    # -- from the engine ------------------------------------------------------------------------------------------
    def outputs(self, moment: float, tokens: int) -> float:
        """Hand out a step's tokens; the moment at which that is done."""
        if not tokens:
            return moment
        return self._work(moment, self.config.step_seconds + tokens * self.config.output_token_seconds)

    def first(self, call: Call, moment: float) -> None:
        """The first token of a call is on its way."""
        self.later(moment, lambda: self._tell_first(call))

    def ended(self, call: Call, moment: float, outcome: str) -> None:
        """The last token of a call is on its way."""
        self.later(moment, lambda: self._tell_end(call, outcome, "2xx"))

    def later(self, moment: float, action: Callable[[], None]) -> None:
        """Do what was to be done at ``moment``, later by the stalls that come between."""
        lost = self._lost

        def act() -> None:
            if self._lost > lost:
                self.later(moment + self._lost - lost, action)
            else:
                action()

        self.clock.at(moment, act)

    def refuse_input(self) -> None:
        """A call was answered 4xx before it was one."""
        self.engine.counters.http["4xx"] += 1

    # -- inside ---------------------------------------------------------------------------------------------------
    def _work(self, moment: float, seconds: float) -> float:
        """Take on work; when it is done. Several processes share what there is, as one that is as fast as all."""
        self.engine.counters.process_seconds += seconds
        speed = self.config.cores
        self._busy = max(moment, self._busy) + seconds / (speed * self.config.processes)
        return max(self._busy, moment + seconds / speed)

    def _hand_over(self, call: Call, engine: Engine) -> None:
        if engine is not self.engine or call.ended is not None:
            return  # restarted meanwhile, or the client has left
        engine.counters.http_bytes_in += REQUEST_BYTES + TOKEN_BYTES * call.request.prompt
        if self._failing(self.clock.now):
            self._tell_end(call, "error", "5xx")
        elif call.request.prompt >= engine.config.max_model_len:
            self._tell_end(call, "too long", "4xx")
        elif not engine.submit(call):
            self._tell_end(call, "rejected", "5xx")

    def _tell_first(self, call: Call) -> None:
        if call.ended is None:
            call.first = self.clock.now
            self.caller.first(call, call.first)

    def _tell_end(self, call: Call, outcome: str, status: str) -> None:
        if call.ended is None:
            self._answered(call, status)
            call.ended = self.clock.now
            self.caller.ended(call, call.ended, outcome)

    def _answered(self, call: Call, status: str) -> None:
        self.calls.pop(id(call), None)
        self._leaked += self._fd_leak
        counters = self.engine.counters
        counters.http[status] += 1
        if status == "2xx":
            counters.http_fine.observe(self.clock.now - call.arrived)
            counters.http_coarse.observe(self.clock.now - call.arrived)
