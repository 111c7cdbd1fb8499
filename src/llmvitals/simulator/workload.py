"""Who sends what: streams of requests over time, drawn from a seed.

A stream is open (Poisson arrivals at ``rate``) or closed (``clients`` that send the next request when the last one has
ended), or both. Phases are streams with a start and an end; tenants are streams with names.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Lengths:
    """Token counts: log-normal with this mean and coefficient of variation; ``spread`` 0 is a fixed length."""

    mean: float
    spread: float = 0.0
    low: int = 1

    def draw(self, rng: random.Random) -> int:
        """One length, at least ``low``."""
        if self.spread <= 0:
            return max(self.low, round(self.mean))
        sigma = math.sqrt(math.log1p(self.spread**2))
        return max(self.low, round(rng.lognormvariate(math.log(self.mean) - sigma**2 / 2, sigma)))


@dataclass(frozen=True, slots=True)
class Stream:
    """One kind of traffic from ``start`` to ``end`` (seconds of simulated time).

    ``rate``: Poisson arrivals per second. ``clients``: closed-loop clients, the first requests spread evenly over
    ``ramp`` seconds, each waiting ``think`` seconds between requests. ``prefix_tokens`` of each prompt are one of
    ``prefixes`` shared texts. ``max_tokens`` None: the client sets none, so the model's limit is what is asked for.
    """

    name: str = "default"
    start: float = 0.0
    end: float = math.inf
    rate: float = 0.0
    clients: int = 0
    ramp: float = 0.0
    think: float = 0.0
    prompt: Lengths = Lengths(128)
    output: Lengths = Lengths(64)
    max_tokens: int | None = None
    ignore_eos: bool = False  # every request runs to its max_tokens or drawn length and ends for length
    prefix_tokens: int = 0
    prefixes: int = 1


@dataclass(frozen=True, slots=True)
class Workload:
    """All streams and the seed from which every arrival and length is drawn."""

    streams: tuple[Stream, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it reaches the server; ``output`` is how much the model would say if nobody stopped it."""

    number: int
    arrival: float
    stream: int
    prompt: int
    output: int
    max_tokens: int | None
    ignore_eos: bool
    prefix: int
    prefix_tokens: int
    closed: bool  # a closed-loop client waits for it


@dataclass(slots=True)
class Traffic:
    """A workload as it unfolds: the only mutable part. Each stream draws from a generator of its own."""

    workload: Workload
    _rngs: list[random.Random] = field(init=False)
    _due: list[tuple[float, int, int, bool]] = field(init=False, default_factory=list)  # time, order, stream, open
    _order: int = 0
    _number: int = 0

    def __post_init__(self) -> None:
        seed = self.workload.seed
        self._rngs = [random.Random(f"{seed}/{i}") for i in range(len(self.workload.streams))]
        for index, stream in enumerate(self.workload.streams):
            if stream.rate > 0:
                self._push(stream.start + self._rngs[index].expovariate(stream.rate), index, open_=True)
            for client in range(stream.clients):
                self._push(stream.start + stream.ramp * client / stream.clients, index, open_=False)

    @property
    def next_at(self) -> float:
        """The moment of the next arrival; infinity when none is due."""
        return self._due[0][0] if self._due else math.inf

    def pop(self) -> Request:
        """The next request; for an open stream the one after it is drawn at once."""
        moment, _, index, open_ = heapq.heappop(self._due)
        stream, rng = self.workload.streams[index], self._rngs[index]
        if open_:
            self._push(moment + rng.expovariate(stream.rate), index, open_=True)
        self._number += 1
        prompt = stream.prompt.draw(rng)
        return Request(
            number=self._number,
            arrival=moment,
            stream=index,
            prompt=prompt,
            output=stream.output.draw(rng),
            max_tokens=stream.max_tokens,
            ignore_eos=stream.ignore_eos,
            prefix=rng.randrange(stream.prefixes) if stream.prefixes > 1 else 0,
            prefix_tokens=min(stream.prefix_tokens, prompt),
            closed=not open_,
        )

    def ended(self, request: Request, now: float) -> None:
        """A request has ended: its closed-loop client sends the next one."""
        if request.closed:
            self._push(now + self.workload.streams[request.stream].think, request.stream, open_=False)

    def _push(self, moment: float, index: int, *, open_: bool) -> None:
        if moment < self.workload.streams[index].end:
            self._order += 1
            heapq.heappush(self._due, (moment, self._order, index, open_))
