"""Clients: they call, wait, give up, try again, and remember what they got. What they remember is the truth."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Protocol

from llmvitals.simulator.clock import Clock
from llmvitals.simulator.workload import Call, Request, Stream, Workload


class Door(Protocol):
    """Where calls go: the API process, or a gateway."""

    def receive(self, call: Call) -> None:
        """A call comes in."""

    def cancel(self, call: Call) -> None:
        """The client of a call has closed its connection."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client saw of one call (seconds of simulated time; ``first`` None: no token came).

    ``outcome``: see :class:`Call`. ``tpot``: time per output token after the first.
    """

    request: Request
    sent: float
    first: float | None
    ended: float
    tokens: int
    outcome: str
    tenant: str

    @property
    def tpot(self) -> float | None:
        """Seconds per output token after the first; None where there were not two."""
        if self.first is None or self.tokens < 2:
            return None
        return (self.ended - self.first) / (self.tokens - 1)


class Clients:
    """All clients of a workload. ``log``: what ended, in order; ``open``: what has not."""

    def __init__(self, clock: Clock, workload: Workload, door: Door) -> None:
        self.clock = clock
        self.workload = workload
        self.door = door
        self.log: list[Answer] = []
        self.open: dict[int, Call] = {}
        self.sent = self.user_requests = self.retries = 0
        self._number = 0
        self._rngs = [random.Random(f"{workload.seed}/{i}") for i in range(len(workload.streams))]
        self._texts: list[list[Request]] = [[] for _ in workload.streams]
        for index, stream in enumerate(workload.streams):
            if stream.rate > 0:
                clock.at(stream.start + self._gap(index, stream.start), lambda i=index: self._arrive(i))  # type: ignore[misc]
            for client in range(stream.clients):
                moment = stream.start + stream.ramp * client / stream.clients
                clock.at(moment, lambda i=index: self._user(i, closed=True))  # type: ignore[misc]

    # -- arrivals -------------------------------------------------------------------------------------------------
    def _gap(self, index: int, now: float) -> float:
        """Time to the next arrival: a Gamma law whose coefficient of variation is the stream's burstiness."""
        stream, rng = self.workload.streams[index], self._rngs[index]
        rate = stream.rate * (1.0 + stream.swing * math.sin(2.0 * math.pi * now / stream.period))
        if rate <= 0:
            return stream.period / 100.0
        if stream.burstiness == 1.0:
            return rng.expovariate(rate)
        shape = 1.0 / stream.burstiness**2
        return rng.gammavariate(shape, 1.0 / (rate * shape))

    def _arrive(self, index: int) -> None:
        now, stream = self.clock.now, self.workload.streams[index]
        if now >= stream.end:
            return
        self.clock.at(now + self._gap(index, now), lambda: self._arrive(index))
        self._user(index, closed=False)

    def _user(self, index: int, *, closed: bool) -> None:
        """One request of a user: as many model calls at once as the stream fans out to."""
        stream, rng = self.workload.streams[index], self._rngs[index]
        if self.clock.now >= stream.end:
            return
        self.user_requests += 1
        calls = int(stream.fan_out) + (rng.random() < stream.fan_out % 1.0 if stream.fan_out % 1.0 else 0)
        session = (
            rng.randrange(stream.sessions) if stream.sessions > 1 else 0 if stream.sessions else self.user_requests
        )
        for _ in range(calls):
            self._send(self._draw(index, stream, rng, session, closed=closed))

    def _draw(self, index: int, stream: Stream, rng: random.Random, session: int, *, closed: bool) -> Request:
        self._number += 1
        known = self._texts[index]
        if stream.repeats and known and rng.random() < stream.repeats:
            again = rng.choice(known)
            return replace(again, number=self._number, user=self.user_requests, session=session, closed=closed)
        prompt = stream.prompt.draw(rng)
        request = Request(
            number=self._number,
            stream=index,
            prompt=prompt,
            output=stream.output.draw(rng),
            max_tokens=stream.max_tokens,
            ignore_eos=stream.ignore_eos,
            prefix=rng.randrange(stream.prefixes) if stream.prefixes > 1 else 0,
            prefix_tokens=0 if stream.id_first else min(stream.prefix_tokens, prompt),
            adapter=rng.randrange(stream.adapters) if stream.adapters else -1,
            schema=rng.randrange(stream.schemas) if stream.schemas else -1,
            schema_seconds=stream.schema_seconds,
            session=session,
            user=self.user_requests,
            text=self._number,
            closed=closed,
        )
        if stream.repeats and len(known) < 200:
            known.append(request)
        return request

    # -- calls ----------------------------------------------------------------------------------------------------
    def _send(self, request: Request) -> None:
        stream, now = self.workload.streams[request.stream], self.clock.now
        call = Call(request, sent=now)
        self.open[request.number] = call
        self.sent += 1
        if stream.timeout < math.inf:
            self.clock.at(now + stream.timeout, lambda: self._leave(call, "timeout"))
        self.door.receive(call)

    def first(self, call: Call, moment: float) -> None:
        """The first token has come; some clients have seen enough halfway through their answer."""
        stream = self.workload.streams[call.request.stream]
        if stream.leaves and self._rngs[call.request.stream].random() < stream.leaves:
            waited = moment - call.sent
            self.clock.at(moment + min(5.0, waited + 1.0), lambda: self._leave(call, "left"))

    def ended(self, call: Call, moment: float, outcome: str) -> None:
        """An answer has ended, whole or not."""
        if self.open.pop(call.request.number, None) is not None:
            self._note(call, moment, outcome)

    def _leave(self, call: Call, outcome: str) -> None:
        if self.open.pop(call.request.number, None) is not None:
            self.door.cancel(call)
            self._note(call, self.clock.now, outcome)

    def _note(self, call: Call, moment: float, outcome: str) -> None:
        request = call.request
        stream, rng = self.workload.streams[request.stream], self._rngs[request.stream]
        self.log.append(Answer(request, call.sent, call.first, moment, call.tokens, outcome, stream.tenant))
        if outcome not in {"ok", "left", "too long"} and request.attempt < stream.retries:
            longest = stream.backoff * 2.0**request.attempt
            self.retries += 1
            self._number += 1
            again = replace(request, number=self._number, attempt=request.attempt + 1)
            self.clock.at(moment + (rng.uniform(0.0, longest) if stream.jitter else longest), lambda: self._send(again))
        elif request.closed:
            self.clock.at(moment + stream.think, lambda: self._user(request.stream, closed=True))
