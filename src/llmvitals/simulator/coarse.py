"""The arrival-level mode: the same deployment, with all decode steps between two arrivals or completions as one event.

Admission, prefill, preemption, the prefix cache and everything outside the engine are those of the fine model, step by
step; only turns in which nothing else happens are taken together, under the roofline's time for each of them. What differs:
KV that decoding fills is counted on average and not block by block (:mod:`coarse_decoding`), generated text can be found in
the prefix cache when its request has ended, gaps between tokens are means over such a stretch, and the API process is
charged for a stretch at its end.

Against the fine model on the same requests: throughput, running, waiting and latencies are the same while nobody is
preempted, mean KV usage within 0.3 %, tokens found in the prefix cache under eviction within 0.3 %. Under thrash
throughput is within 0.2 %, preemptions within 1 %, mean running within 2 %, mean waiting within 6 %, time to first token
within 2 %: sequences that fill blocks together ask for them together, and an average does not. Speculative decoding is
drawn turn by turn, so that it is exact and no faster.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from dataclasses import dataclass

from llmvitals.simulator.coarse_decoding import CoarseDecoding
from llmvitals.simulator.engine import Engine
from llmvitals.simulator.front import ApiServer
from llmvitals.simulator.roofline import StepCost, step_cost
from llmvitals.simulator.scheduler import Planned
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Call
from llmvitals.simulator.world import World


@dataclass(frozen=True, slots=True)
class Ramp:
    """What each turn adds: ``first`` for the first one, and ``slope`` more for each later one."""

    first: float
    slope: float

    def total(self, turns: int) -> float:
        """The sum over so many turns."""
        return turns * (self.first + self.slope * (turns - 1) / 2.0)

    def within(self, amount: float, most: int) -> int:
        """How many whole turns add up to no more than ``amount``, ``most`` at the most."""
        if self.total(most) <= amount:
            return most
        linear = self.first - self.slope / 2.0
        turns = int(2.0 * amount / (linear + math.sqrt(linear**2 + 2.0 * self.slope * amount)))
        while turns > 0 and self.total(turns) > amount:
            turns -= 1
        return turns


@dataclass(slots=True)
class Stretch:
    """``turns`` decode turns from ``start`` on, of at most ``most``; ``first`` and ``last``: the costs of the first and the
    ``most``-th, between which they grow evenly, as the context does; ``seconds``: how long each lasts, with kernels
    slowed by ``slow``; ``booked``: turns that have ended and been booked.
    """

    start: float
    most: int
    first: StepCost
    last: StepCost
    seconds: Ramp
    slow: float
    turns: int = 0
    booked: int = 0

    @classmethod
    def of(cls, start: float, most: int, first: StepCost, last: StepCost, slow: float) -> Stretch:
        """``slow``: by how much kernels are slowed (1: not)."""
        one, other = first.seconds + first.kernel * (slow - 1.0), last.seconds + last.kernel * (slow - 1.0)
        return cls(start, most, first, last, Ramp(one, max(0.0, other - one) / (most - 1)), slow)

    @property
    def end(self) -> float:
        """When the last turn ends."""
        return self.start + self.seconds.total(self.turns)

    def done(self, moment: float) -> int:
        """How many turns have ended by then."""
        return self.seconds.within(moment - self.start, self.most)

    def ends(self, turn: int) -> float:
        """When the turn with this number, from 1, ends."""
        return self.start + self.seconds.total(turn)

    def cost(self, turns: int) -> StepCost:
        """What so many turns after those that are booked cost together."""
        first, last = self.first, self.last
        share = (self.booked + (turns - 1) / 2.0) / (self.most - 1)
        of_first, of_last = turns * (1.0 - share), turns * share
        return StepCost(
            of_first * first.seconds + of_last * last.seconds,
            of_first * first.kernel + of_last * last.kernel,
            of_first * first.memory + of_last * last.memory,
            of_first * first.compute + of_last * last.compute,
            of_first * first.link_bytes + of_last * last.link_bytes,
        )


class CoarseEngine(Engine):
    """An engine that takes decode turns together.

    ``horizon``: the moment up to which time is to pass: nobody looks before it, so a stretch may reach it and no further.
    ``edges``: moments at which kernels become slower or faster, or stop. ``front``: the API process, for which each token
    is work.
    """

    horizon: float = math.inf
    edges: tuple[float, ...] = ()
    front: ApiServer | None = None
    _stretch: Stretch | None = None
    _many: CoarseDecoding | None = None  # None: speculation, which is drawn turn by turn

    def take_together(self, front: ApiServer, edges: tuple[float, ...]) -> None:
        """Decode turns are taken together from here on; to be said before the first request comes."""
        self.front, self.edges = front, edges
        if self.config.speculation is None:
            self._many = CoarseDecoding(self.config, self.state.pool, self.counters, random.Random(0))
            self.state.decoding = self._many

    def abort(self, call: Call) -> None:
        """The client has left: what its request has said by now counts."""
        self._cut()
        super().abort(call)

    def kill(self) -> None:
        """The process ends: nothing goes on."""
        self._cut()
        super().kill()

    def _wake(self) -> None:
        if self._stretch is None:
            super()._wake()
        else:
            self._cut()

    def _cost(self, planned: Planned) -> StepCost:
        cost = super()._cost(planned)
        alone = planned.turn and not (planned.chunks or planned.preempted or planned.moved_bytes or self._extra)
        self._stretch = self._plan(self._many, cost) if alone and self._many is not None else None
        return cost

    def _plan(self, decoding: CoarseDecoding, cost: StepCost) -> Stretch | None:
        """As many turns as nothing else happens in, by what is known now."""
        now, most, count = self.clock.now, decoding.most(), decoding.count
        if most < 2:
            return None
        context = decoding.context + count * most
        last = step_cost(self.config.machine, count, count, context, context - count)
        stretch = Stretch.of(now, most, cost, last, self._slowdown(now))
        edge = bisect_right(self.edges, now)
        until = min(self.horizon, self.edges[edge] if edge < len(self.edges) else math.inf)
        stretch.turns = stretch.done(until)
        if stretch.turns < 2:
            return None
        decoding.reserve(stretch.turns)
        return stretch

    def _cut(self) -> None:
        """Something happens: the stretch ends with the turn under way, and those before it are booked."""
        stretch = self._stretch
        if stretch is None:
            return
        done = min(stretch.done(self.clock.now), stretch.turns - 1)
        self._book(stretch, done - stretch.booked)
        if done + 1 < stretch.turns:
            stretch.turns = done + 1
            if done:
                self.clock.at(stretch.end, lambda: self._land(stretch))

    def _commit(self) -> None:
        """The first turn has ended: that is all, or the others follow."""
        stretch = self._stretch
        if stretch is None or stretch.turns < 2:
            self._stretch = None
            super()._commit()
        elif self.alive:
            self.clock.at(stretch.end, lambda: self._land(stretch))

    def _land(self, stretch: Stretch) -> None:
        """All turns of a stretch have ended, if it still ends now: the last one does as any step does."""
        step = self._step
        if self._stretch is not stretch or step is None or self.clock.now < stretch.end or not self.alive:
            return
        self._book(stretch, stretch.turns - 1 - stretch.booked)
        self._stretch = None
        step.cost = stretch.cost(1)
        super()._commit()

    def _book(self, stretch: Stretch, turns: int) -> None:
        """So many turns in which nobody ended are over."""
        decoding, counters = self._many, self.counters
        if decoding is None or turns <= 0:
            return
        count, cost, before = decoding.count, stretch.cost(turns), stretch.booked
        stretch.booked += turns
        first, last = stretch.ends(before + 1), stretch.ends(stretch.booked)
        decoding.advance(turns, first, last)
        self._charge(count * turns, last - stretch.ends(before))
        counters.iteration.observe(count, turns)
        counters.generated_tokens += count * turns
        counters.steps += turns
        counters.busy_seconds += cost.kernel * stretch.slow
        counters.memory_seconds += cost.memory
        counters.compute_seconds += cost.compute
        counters.link_bytes += cost.link_bytes

    def _charge(self, tokens: int, seconds: float) -> None:
        """Hand out tokens that came within so many seconds: what exceeds the API process' speed stands before it, and all
        of it where more than these seconds' work stood there already.
        """
        front = self.front
        if front is None or not front.config.output_token_seconds:
            return
        cost = front.config.output_token_seconds
        speed = front.config.cores * front.config.processes / cost
        late = tokens if front.standing > 0.0 else max(0, tokens - int(speed * seconds))
        self.counters.process_seconds += (tokens - late) * cost
        front.outputs(self.clock.now, late)


class CoarseWorld(World):
    """A deployment in the arrival-level mode."""

    engine_type = CoarseEngine

    def __init__(self, setup: Setup) -> None:
        faults = setup.faults
        spans = [*faults.stalls, *((slow.start, slow.end) for slow in faults.slow)]
        moments = [moment for span in spans for moment in span]
        moments += [faults.dies_at, *(restart.down for restart in faults.restarts)]
        self._edges = tuple(sorted(moment for moment in moments if moment < math.inf))
        self._until = 0.0
        super().__init__(setup)

    def advance(self, until: float) -> None:
        """Let time pass up to ``until``; no stretch of decode turns goes beyond it."""
        self._until = until
        self._look_ahead()
        super().advance(until)

    def _boot(self, first_step_seconds: float) -> None:
        super()._boot(first_step_seconds)
        if isinstance(self.engine, CoarseEngine):
            self.engine.take_together(self.front, self._edges)
        self._look_ahead()

    def _look_ahead(self) -> None:
        if isinstance(self.engine, CoarseEngine):
            self.engine.horizon = self._until
