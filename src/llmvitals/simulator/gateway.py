"""A proxy between clients and the API process: a bounded queue with a time to live, a breaker, a response cache.

It has one connection to each client and one to the engine for each call that it has sent on. What it books as a call's
status is what became of the call, as gateways for models do, and not what the header of a stream had promised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from llmvitals.simulator.clock import Clock
from llmvitals.simulator.front import Caller
from llmvitals.simulator.gateway_book import Book
from llmvitals.simulator.gateway_parts import Breaker, CallQueue, Connections, LastMinute
from llmvitals.simulator.setup import Gateway
from llmvitals.simulator.workload import Call, Stream

CACHE_SECONDS = 0.002
"""How long an answer from the response cache takes: a look-up in memory over a local network."""

STATUS = {"ok": "200", "too long": "400", "rejected": "503", "error": "500", "cut": "504"}
"""Outcome of a call that was sent on, as an HTTP status."""

FAILED = ("rejected", "error", "cut")
"""Outcomes that count against the engine at the breaker: 5xx and timeouts."""


class Upstream(Protocol):
    """Where the gateway sends calls on: the API process."""

    @property
    def ready(self) -> bool:
        """Whether calls may be led there at all."""

    def accepts(self) -> bool:
        """Whether a new connection can be made."""

    def receive(self, call: Call) -> None:
        """A call comes in."""

    def cancel(self, call: Call) -> None:
        """The connection of a call was closed."""


@dataclass(slots=True, eq=False)
class Passage:
    """A call inside the gateway. ``shared``: tokens of its prompt that earlier ones share; ``gone``: its client has left."""

    call: Call
    stream: Stream
    entered: float
    shared: int
    gone: bool = False


Answered = Callable[[Passage, str], None]
"""Told of each call as its client has its answer, or has left: with the HTTP status that was booked."""


class GatewayServer:
    """``caller``: the clients; ``upstream``: the API process; ``streams``: whose calls come, by their index.

    ``foreign_ports``: ephemeral ports that others hold. A queue needs a ``concurrency`` to stand behind.
    """

    def __init__(
        self, config: Gateway, clock: Clock, upstream: Upstream, streams: Sequence[Stream], *, foreign_ports: int = 0
    ) -> None:
        self.config = config
        self.clock = clock
        self.upstream = upstream
        self.streams = streams
        self.foreign_ports = foreign_ports
        self.caller: Caller
        self.book = Book(tuple(dict.fromkeys(stream.tenant for stream in streams)))
        self.breaker = Breaker(clock, config.breaker_ratio, config.breaker_seconds)
        self.last_minute = LastMinute(clock)
        self.on_answer: Answered | None = None
        self._queue = CallQueue(dict(config.weights))
        self._links = Connections(clock, config.ephemeral_ports - foreign_ports, keep_alive=config.keep_alive)
        self._open: dict[Call, Passage] = {}  # their clients wait
        self._sent: dict[Call, Passage] = {}  # the engine has them, whether or not their clients still wait
        self._answers: dict[int, int] = {}  # response cache: text to tokens
        self._user = 0

    # -- what there is, at this moment ----------------------------------------------------------------------------
    @property
    def waiting(self) -> int:
        """Calls in the queue."""
        return len(self._queue)

    @property
    def open_calls(self) -> int:
        """Calls whose clients wait for an answer."""
        return len(self._open)

    @property
    def open_upstream(self) -> int:
        """Calls that the engine has been given and that have not ended there."""
        return len(self._sent)

    @property
    def connections(self) -> int:
        """Connections that carry a call: to clients and to the engine, as nginx' worker_connections counts them."""
        return len(self._open) + self._links.in_use

    @property
    def quiet_ports(self) -> int:
        """Ephemeral ports whose connections carry nothing: kept alive, or in TIME_WAIT without keep_alive."""
        return self._links.quiet

    @property
    def time_wait(self) -> int:
        """Ephemeral ports in TIME_WAIT."""
        return 0 if self.config.keep_alive else self._links.quiet

    @property
    def ports_used(self) -> int:
        """Ephemeral ports in use on this host, TIME_WAIT and other processes' included."""
        return self._links.in_use + self._links.quiet + self.foreign_ports

    # -- from the clients -----------------------------------------------------------------------------------------
    def receive(self, call: Call) -> None:
        """A call comes in."""
        config, request = self.config, call.request
        stream = self.streams[request.stream]
        if request.user > self._user:
            self._user = request.user
            self.book.user_requests += 1
        if not request.attempt:
            self.last_minute.add((request.stream, request.session), same_tool=stream.loops)
        passage = Passage(call, stream, self.clock.now, self.book.seen(request, stream))
        self._open[call] = passage
        if self.connections > config.connection_limit:
            self._not_connected(passage)
        elif config.response_cache and request.text in self._answers:
            self.book.cache_hits += 1
            self.clock.at(self.clock.now + CACHE_SECONDS, lambda: self._from_cache(passage))
        elif self.breaker.refuses:
            self._answer(passage, "rejected", "503")
        elif not config.concurrency or len(self._sent) < config.concurrency:
            self._send_on(passage)
        elif config.queue_limit is not None and len(self._queue) >= config.queue_limit:
            self.book.dropped["full"] += 1
            self._answer(passage, "rejected", "429")
        else:
            self._queue.push(call, stream.tenant)
            if config.ttl < math.inf:
                self.clock.at(self.clock.now + config.ttl, lambda: self._expire(passage))

    def cancel(self, call: Call) -> None:
        """The client of a call has left."""
        passage = self._open.pop(call, None)
        if passage is None:
            return
        passage.gone = True
        self.book.disconnects += 1
        self.book.answered[passage.stream.tenant, "499"] += 1
        if self.on_answer is not None:
            self.on_answer(passage, "499")
        if self._leave_queue(passage):
            self.book.dropped["left"] += 1
        elif call in self._sent:
            if self.config.cancel_seconds <= 0:
                self._hang_up(passage)
            elif self.config.cancel_seconds < math.inf:
                self.clock.at(self.clock.now + self.config.cancel_seconds, lambda: self._hang_up(passage))
        else:  # it was being answered from the cache
            call.ended = self.clock.now

    # -- from the engine ------------------------------------------------------------------------------------------
    def first(self, call: Call, moment: float) -> None:
        """The first token of a call has come from upstream."""
        passage = self._open.get(call)
        if passage is not None:
            self.book.first(call.request.prompt, moment - passage.entered)
            self.caller.first(call, moment)

    def ended(self, call: Call, moment: float, outcome: str) -> None:
        """An answer from upstream has ended."""
        passage = self._sent.get(call)
        if passage is None:
            return
        if outcome == "error" and call.first is not None:
            self.book.cut["upstream"] += 1
        if outcome == "ok" and self.config.response_cache:
            self._answers[call.request.text] = call.tokens
        self.breaker.result(call, failed=outcome in FAILED)
        self._release(passage, worked=outcome == "ok" or call.first is not None)
        if not passage.gone:
            self._answer(passage, outcome, STATUS[outcome])
        self._next()

    # -- inside ---------------------------------------------------------------------------------------------------
    def _send_on(self, passage: Passage) -> None:
        call, config = passage.call, self.config
        if config.concurrency:
            self.book.queue_seconds[passage.stream.tenant].observe(self.clock.now - passage.entered)
        if not self.breaker.admit(call):
            self._answer(passage, "rejected", "503")
            return
        if not self.upstream.ready:  # the service has no endpoint: nothing is tried
            self.breaker.result(call, failed=True)
            self._answer(passage, "error", "503")
            return
        if self.connections >= config.connection_limit or not self.upstream.accepts() or not self._links.take():
            self.breaker.result(call, failed=True)
            self._not_connected(passage)
            return
        self._sent[call] = passage
        self.book.sent_on(call.request.prompt, passage.shared)
        self._queue.charge(passage.stream.tenant, call.request.prompt)
        if config.read_timeout < math.inf:
            self.clock.at(self.clock.now + config.read_timeout, lambda: self._cut(passage))
        self.upstream.receive(call)

    def _next(self) -> None:
        while self._queue and len(self._sent) < self.config.concurrency:
            self._send_on(self._open[self._queue.pop()])

    def _leave_queue(self, passage: Passage) -> bool:
        if not self._queue.remove(passage.call, passage.stream.tenant):
            return False
        self.book.queue_seconds[passage.stream.tenant].observe(self.clock.now - passage.entered)
        return True

    def _expire(self, passage: Passage) -> None:
        if self._leave_queue(passage):
            self.book.dropped["ttl"] += 1
            self._answer(passage, "dropped", "504")

    def _cut(self, passage: Passage) -> None:
        """The proxy has waited long enough: it closes both sides."""
        if passage.call not in self._sent:
            return
        if not passage.gone:
            self.book.cut["timeout"] += 1
            self.breaker.result(passage.call, failed=True)
            self._hang_up(passage)
            self._answer(passage, "cut", STATUS["cut"])
        else:
            self._hang_up(passage)

    def _hang_up(self, passage: Passage) -> None:
        """Close the connection to the engine."""
        if passage.call in self._sent:
            self.upstream.cancel(passage.call)
            self.breaker.forget(passage.call)
            self._release(passage, worked=True)
            self._next()

    def _release(self, passage: Passage, *, worked: bool) -> None:
        """The engine is done with a call, and did something for it or not."""
        call, tenant = passage.call, passage.stream.tenant
        del self._sent[call]
        self._links.give()
        self._queue.charge(tenant, call.tokens)
        if worked:
            self.book.tokens[tenant] += call.request.prompt + call.tokens

    def _from_cache(self, passage: Passage) -> None:
        call, now = passage.call, self.clock.now
        if passage.gone:
            return
        call.cached, call.tokens = True, self._answers[call.request.text]
        call.arrived = call.sent
        call.first = call.ended = now
        self.first(call, now)
        self._answer(passage, "ok", "200")

    def _not_connected(self, passage: Passage) -> None:
        self.book.connect_errors += 1
        self._answer(passage, "error", "503")

    def _answer(self, passage: Passage, outcome: str, status: str) -> None:
        """Tell the client, and book it."""
        call = passage.call
        del self._open[call]
        call.ended = self.clock.now if call.ended is None else call.ended
        self.book.answered[passage.stream.tenant, status] += 1
        if self.on_answer is not None:
            self.on_answer(passage, status)
        self.caller.ended(call, self.clock.now, outcome)
