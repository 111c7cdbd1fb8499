"""Clients: they call, wait, give up, try again, and remember what they got. What they remember is the truth."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Protocol

from llmvitals.simulator.arrivals import Budget, gap, spread_around
from llmvitals.simulator.clock import Clock
from llmvitals.simulator.workload import Call, Request, Stream, Workload

ROUND_TRIP = 0.001
"""The least time between an answer and a client's next call (seconds): a local network's."""

REMEMBERED = 200
"""Calls of a stream from which repeats are drawn."""

FINAL = frozenset({"ok", "left", "too long"})
"""Outcomes after which nobody tries again."""


class Door(Protocol):
    """Where calls go: the API process, or a gateway."""

    def receive(self, call: Call) -> None:
        """A call comes in."""

    def cancel(self, call: Call) -> None:
        """The client of a call has closed its connection."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client saw of one call (seconds of simulated time; ``first`` None: no token came).

    ``outcome``: see :class:`Call`. ``tpot``: time per output token after the first. ``cached``: no engine computed it.
    """

    request: Request
    sent: float
    first: float | None
    ended: float
    tokens: int
    outcome: str
    tenant: str
    cached: bool = False

    @property
    def tpot(self) -> float | None:
        """Seconds per output token after the first; None where there were not two."""
        if self.first is None or self.tokens < 2:
            return None
        return (self.ended - self.first) / (self.tokens - 1)


@dataclass(slots=True)
class _Visit:
    """A closed-loop client's user request: which client it is, how many of its calls are out, whether one has failed."""

    client: int
    out: int
    failed: bool = False


class Clients:
    """All clients of a workload. ``log``: what ended, in order; ``open``: what has not; ``sent``: calls, of which
    ``retries`` repeat a failed one; ``user_requests``: what users asked for.

    What arrives is drawn apart from how clients react to what they get, so that the same seed brings the same requests to
    a deployment that works and to one that does not.
    """

    def __init__(self, clock: Clock, workload: Workload, door: Door) -> None:
        self.clock = clock
        self.workload = workload
        self.door = door
        self.log: list[Answer] = []
        self.open: dict[int, Call] = {}
        self.sent = self.user_requests = self.retries = 0
        self._number = 0
        self._visits: dict[int, _Visit] = {}
        self._rngs = [random.Random(f"{workload.seed}/{i}") for i in range(len(workload.streams))]
        self._moods = [random.Random(f"{workload.seed}/{i}/mood") for i in range(len(workload.streams))]
        self._budgets = [Budget(stream.retry_budget) for stream in workload.streams]
        self._replayed = [0] * len(workload.streams)
        self._texts: list[list[Request]] = [[] for _ in workload.streams]
        for index, stream in enumerate(workload.streams):
            if stream.rate > 0:
                clock.at(self._next(index, stream.start), lambda i=index: self._arrive(i))  # type: ignore[misc]
            if not stream.clients:
                for sent in stream.replay:
                    clock.at(stream.start + sent.at, lambda i=index: self._user(i, None))  # type: ignore[misc]
            for client in range(stream.clients):
                moment = stream.start + stream.ramp * client / stream.clients
                clock.at(moment, lambda i=index, c=client: self._user(i, c))  # type: ignore[misc]

    # -- arrivals -------------------------------------------------------------------------------------------------
    def _next(self, index: int, now: float) -> float:
        return now + gap(self.workload.streams[index], self._rngs[index], now)

    def _arrive(self, index: int) -> None:
        now = self.clock.now
        if now >= self.workload.streams[index].end:
            return
        self.clock.at(self._next(index, now), lambda: self._arrive(index))
        self._user(index, None)

    def _user(self, index: int, client: int | None) -> None:
        """One request of a user: as many model calls at once as the stream fans out to. ``client``: a closed-loop one."""
        stream, rng = self.workload.streams[index], self._rngs[index]
        if self.clock.now >= stream.end:
            return
        self.user_requests += 1
        share = stream.fan_out % 1.0
        calls = max(1, int(stream.fan_out) + (rng.random() < share if share else 0))
        if client is not None:
            self._visits[self.user_requests] = _Visit(client, calls)
        session = self._session(stream, rng, client)
        for _ in range(calls):
            self._send(self._draw(index, stream, rng, session, closed=client is not None))

    def _session(self, stream: Stream, rng: random.Random, client: int | None) -> int:
        if not stream.sessions:
            return self.user_requests
        if client is not None:
            return client % stream.sessions
        return rng.randrange(stream.sessions) if stream.sessions > 1 else 0

    def _draw(self, index: int, stream: Stream, rng: random.Random, session: int, *, closed: bool) -> Request:
        self._number += 1
        if stream.replay:
            return self._recorded(index, stream, session, closed=closed)
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
        if stream.repeats and len(known) < REMEMBERED:
            known.append(request)
        return request

    def _recorded(self, index: int, stream: Stream, session: int, *, closed: bool) -> Request:
        sent = stream.replay[self._replayed[index] % len(stream.replay)]
        self._replayed[index] += 1
        return Request(
            number=self._number,
            stream=index,
            prompt=sent.prompt,
            output=sent.output,
            max_tokens=sent.max_tokens,
            ignore_eos=stream.ignore_eos,
            prefix=sent.prefix,
            prefix_tokens=0 if stream.id_first else min(stream.prefix_tokens, sent.prompt),
            adapter=sent.adapter,
            schema=0 if stream.schemas else -1,
            schema_seconds=stream.schema_seconds,
            session=session,
            user=self.user_requests,
            text=self._number,
            leaves=sent.leaves,
            closed=closed,
        )

    def outside(self) -> tuple[int, int]:
        """A number for a call of somebody else, and one for the user request that it is."""
        self._number += 1
        self.user_requests += 1
        return self._number, self.user_requests

    # -- calls ----------------------------------------------------------------------------------------------------
    def _send(self, request: Request) -> None:
        stream, now = self.workload.streams[request.stream], self.clock.now
        call = Call(request, sent=now)
        self.open[request.number] = call
        self.sent += 1
        if request.attempt:
            self.retries += 1
        else:
            self._budgets[request.stream].earn()
        if request.leaves < math.inf:
            self.clock.at(now + request.leaves, lambda: self._leave(call, "left"))
        if stream.timeout < math.inf:
            self.clock.at(now + stream.timeout, lambda: self._leave(call, "timeout"))
        if stream.patience < math.inf:
            waits = self._moods[request.stream].expovariate(1.0 / stream.patience)
            self.clock.at(now + waits, lambda: self._lose_patience(call))
        self.door.receive(call)

    def first(self, call: Call, moment: float) -> None:
        """The first token has come; some clients have seen enough halfway through their answer."""
        stream = self.workload.streams[call.request.stream]
        if stream.leaves and self._moods[call.request.stream].random() < stream.leaves:
            waited = moment - call.sent
            self.clock.at(moment + min(5.0, waited + 1.0), lambda: self._leave(call, "left"))

    def ended(self, call: Call, moment: float, outcome: str) -> None:
        """An answer has ended, whole or not."""
        if self.open.pop(call.request.number, None) is not None:
            self._note(call, moment, outcome)

    def _lose_patience(self, call: Call) -> None:
        if call.first is None:
            self._leave(call, "left")

    def _leave(self, call: Call, outcome: str) -> None:
        if self.open.pop(call.request.number, None) is not None:
            self.door.cancel(call)
            self._note(call, self.clock.now, outcome)

    def _note(self, call: Call, moment: float, outcome: str) -> None:
        request = call.request
        stream, mood = self.workload.streams[request.stream], self._moods[request.stream]
        call.outcome = outcome
        self.log.append(
            Answer(request, call.sent, call.first, moment, call.tokens, outcome, stream.tenant, call.cached)
        )
        if outcome not in FINAL and request.attempt < stream.retries and self._budgets[request.stream].spend():
            longest = stream.backoff * 2.0**request.attempt
            self._number += 1
            again = replace(request, number=self._number, attempt=request.attempt + 1)
            wait = max(ROUND_TRIP, mood.uniform(0.0, longest) if stream.jitter else longest)
            self.clock.at(moment + wait, lambda: self._send(again))
        elif request.closed:
            self._return(request, moment, failed=outcome not in FINAL)

    def _return(self, request: Request, moment: float, *, failed: bool) -> None:
        """A call of a closed-loop client is over: when it was the last of its user request, the client comes again."""
        visit = self._visits[request.user]
        visit.out -= 1
        visit.failed = visit.failed or failed
        if visit.out:
            return
        del self._visits[request.user]
        stream = self.workload.streams[request.stream]
        pause = spread_around(stream.think, stream.think_spread, self._moods[request.stream])
        wait = max(ROUND_TRIP, pause, stream.backoff if visit.failed else 0.0)
        self.clock.at(moment + wait, lambda: self._user(request.stream, visit.client))
