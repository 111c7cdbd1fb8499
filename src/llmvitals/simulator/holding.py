"""What a request may wait for before capacity: a grammar that compiles on the CPU, or KV on its way from elsewhere."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from llmvitals.simulator.clock import Clock
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.counters import Counters
from llmvitals.simulator.sequence import Sequence

Ready = Callable[[Sequence], None]


class Holding:
    """Requests that the engine has taken up and that are not yet in its queue."""

    def __init__(self, config: EngineConfig, clock: Clock, counters: Counters, rng: random.Random) -> None:
        self.config = config
        self._held: set[Sequence] = set()
        self._clock = clock
        self._counters = counters
        self._rng = rng
        self._workers = [0.0] * max(1, config.grammar_workers)  # when each is free again
        self._compiled: dict[tuple[int, int], float] = {}  # (stream, schema): when its grammar is there
        self._link = 0.0  # when the link is free again

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._held)

    def hold(self, sequence: Sequence, ready: Ready) -> None:
        """Call ``ready`` once nothing but capacity holds the sequence; at once when nothing does."""
        now = self._clock.now
        moment = max(self._grammar(sequence, now), self._transfer(sequence, now))
        if moment <= now:
            ready(sequence)
            return
        self._held.add(sequence)

        def done() -> None:
            if self.release(sequence):
                ready(sequence)

        self._clock.at(moment, done)

    def release(self, sequence: Sequence) -> bool:
        """Hold a sequence no longer; False when it was not held. What it has begun (a compilation) goes on."""
        held = sequence in self._held
        self._held.discard(sequence)
        return held

    def _grammar(self, sequence: Sequence, now: float) -> float:
        request = sequence.request
        if request.schema < 0:
            return now
        key = (request.stream, request.schema)
        if key not in self._compiled:
            begin = max(now, heapq.heappop(self._workers))
            self._compiled[key] = begin + request.schema_seconds
            heapq.heappush(self._workers, self._compiled[key])
        return self._compiled[key]

    def _transfer(self, sequence: Sequence, now: float) -> float:
        link = self.config.transfer
        if link is None:
            return now
        if self._rng.random() < link.failures:
            self._counters.kv_transfer_failures += 1
            return now + link.timeout
        size = sequence.request.prompt * self.config.machine.kv_bytes_per_token
        self._link = max(now, self._link) + size / link.bandwidth
        sequence.received = sequence.request.prompt - 1  # the last token is computed here: something to sample from
        self._counters.kv_transfer.observe(self._link + link.latency - now)
        self._counters.kv_transfer_bytes.observe(size)
        return self._link + link.latency
