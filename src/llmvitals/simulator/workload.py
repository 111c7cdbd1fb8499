"""Who sends what: streams of requests over time, drawn from a seed.

A stream is open (arrivals at ``rate``) or closed (``clients`` that send the next request when the last one has ended),
or both. Phases are streams with a start and an end; tenants are streams with names.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Lengths:
    """Token counts: log-normal with this mean and coefficient of variation; ``spread`` 0 is a fixed length.

    A spread of 1 and more is heavy-tailed, as public traces of chat are. ``high`` cuts what is drawn.
    """

    mean: float
    spread: float = 0.0
    low: int = 1
    high: int | None = None

    def draw(self, rng: random.Random) -> int:
        """One length, between ``low`` and ``high``."""
        if self.spread <= 0:
            return self._cut(self.mean)
        sigma = math.sqrt(math.log1p(self.spread**2))
        return self._cut(rng.lognormvariate(math.log(self.mean) - sigma**2 / 2, sigma))

    def _cut(self, drawn: float) -> int:
        length = max(self.low, round(drawn))
        return length if self.high is None else min(length, self.high)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that was recorded: when it was sent (seconds from the stream's start) and what it was.

    ``output``: what the model said, or would have said; ``leaves``: seconds after which its client closed the connection.
    """

    at: float
    prompt: int
    output: int
    max_tokens: int | None = None
    prefix: int = 0
    adapter: int = -1
    leaves: float = math.inf


@dataclass(frozen=True, slots=True)
class Stream:
    """One kind of traffic from ``start`` to ``end`` (seconds of simulated time).

    ``rate``: arrivals of user requests per second; gaps have the coefficient of variation ``burstiness`` (1: Poisson) and
    the rate swings by ``swing`` (0-1) around its mean with ``period``, as a sine that is ``phase`` seconds old at time 0.
    ``clients``: closed-loop clients, the first requests spread evenly over ``ramp`` seconds, each waiting ``think`` seconds
    on average between requests (coefficient of variation ``think_spread``; 0 and 0: an agent that calls again as soon as
    it is answered), and no less than ``backoff`` after one that failed for good.

    ``prefix_tokens`` of each prompt are one of ``prefixes`` shared texts; ``id_first``: something that varies stands
    before them, so that no block of them is ever the same. ``max_tokens`` None: the client sets none, so the model's limit
    is what is asked for. ``adapters``: how many LoRA adapters it uses (0: the base model); ``schemas``: how many grammars
    (0: none), each of ``schema_seconds`` to compile.

    ``timeout``: seconds after which a client gives up; it tries again up to ``retries`` times, ``backoff`` x 2^n seconds
    later (drawn between 0 and that with ``jitter``: AWS' full jitter), while all retries of the stream stay under
    ``retry_budget`` of its first attempts (inf: no budget). ``leaves``: share of clients that go away halfway through.
    ``patience``: seconds that a client waits for its first token on average before it goes away for good (exponential, as
    in Palm's and Erlang's A model). ``fan_out``: model calls per user request, all at once, on average (at least one).
    ``sessions``: how many sessions the requests belong to (0: one each); a closed-loop client stays in one. ``loops``: each
    call is the same tool call again. ``repeats``: share of calls that repeat an earlier one word for word.

    ``replay``: recorded requests in the order in which they were sent. They take the place of what would be drawn (lengths,
    max_tokens, prefix, adapter; the first grammar where there are several): sent at their moments, or by ``clients`` one
    after the other, from the first again when all were sent.
    """

    name: str = "default"
    start: float = 0.0
    end: float = math.inf
    rate: float = 0.0
    burstiness: float = 1.0
    swing: float = 0.0
    period: float = DAY
    phase: float = 0.0
    clients: int = 0
    ramp: float = 0.0
    think: float = 0.0
    think_spread: float = 0.0
    prompt: Lengths = Lengths(128)
    output: Lengths = Lengths(64)
    max_tokens: int | None = None
    ignore_eos: bool = False  # every request runs to its max_tokens or drawn length and ends for length
    prefix_tokens: int = 0
    prefixes: int = 1
    id_first: bool = False
    adapters: int = 0
    schemas: int = 0
    schema_seconds: float = 0.0
    tenant: str = "default"
    timeout: float = math.inf
    retries: int = 0
    backoff: float = 1.0
    jitter: bool = True
    retry_budget: float = math.inf
    leaves: float = 0.0
    patience: float = math.inf
    fan_out: float = 1.0
    sessions: int = 0
    loops: bool = False
    repeats: float = 0.0
    replay: tuple[Sent, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """All streams and the seed from which every arrival and length is drawn. ``planned_calls``: see the gateway."""

    streams: tuple[Stream, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One model call as its client makes it; ``output`` is how much the model would say if nobody stopped it.

    ``prefix``: which shared text it begins with; ``adapter`` and ``schema``: which it uses (-1: none); ``text``: calls
    with the same number are the same word for word; ``user``: the user request that it belongs to; ``attempt``: 0, or
    which retry it is; ``leaves``: seconds after which its client closes the connection.
    """

    number: int
    stream: int
    prompt: int
    output: int
    max_tokens: int | None = None
    ignore_eos: bool = False
    prefix: int = 0
    prefix_tokens: int = 0
    adapter: int = -1
    schema: int = -1
    schema_seconds: float = 0.0
    session: int = 0
    user: int = 0
    text: int = 0
    attempt: int = 0
    leaves: float = math.inf
    closed: bool = False  # a closed-loop client waits for it


@dataclass(slots=True, eq=False)
class Call:
    """A request on its way: what its client has seen of it (seconds of simulated time; None: not yet).

    ``arrived``: when the API process took it up, which is where the engine's own clock for it starts. ``outcome``: "ok",
    or why there was no whole answer: "rejected", "timeout", "left", "error", "cut", "dropped", "too long".
    ``name``: its id, where it came from outside the simulation; ``trace``: the W3C traceparent that it came with.
    """

    request: Request
    sent: float
    arrived: float = 0.0
    first: float | None = None
    ended: float | None = None
    tokens: int = 0
    outcome: str = ""
    cached: bool = False  # answered from a response cache: no engine saw it
    name: str = ""
    trace: str = ""
