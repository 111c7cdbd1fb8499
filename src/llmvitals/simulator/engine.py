"""A continuous-batching engine as a discrete-event model: one event is the end of one step.

Requests come from the API process (:mod:`front`) and their tokens go back through it; what it delays, the engine's own
clock for queue, inference and gaps between tokens does not see, and its clock for first tokens and whole requests does.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from llmvitals.simulator import tally
from llmvitals.simulator.clock import Clock
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.counters import Counters
from llmvitals.simulator.decoding import Decoding
from llmvitals.simulator.dialect import COUNTING
from llmvitals.simulator.holding import Holding
from llmvitals.simulator.pool import BlockPool
from llmvitals.simulator.reports import Reports
from llmvitals.simulator.roofline import StepCost, step_cost, with_drafting
from llmvitals.simulator.scheduler import Planned, State, schedule
from llmvitals.simulator.sequence import Sequence
from llmvitals.simulator.workload import Call


class Outlet(Protocol):
    """Who takes the engine's outputs: the API process."""

    @property
    def open_fds(self) -> int:
        """Descriptors that it holds."""

    @property
    def max_fds(self) -> int:
        """Descriptors that it may hold."""

    @property
    def held(self) -> int:
        """Calls that it holds."""

    @property
    def unanswered(self) -> int:
        """Those of them whose first token has not come."""

    def outputs(self, moment: float, tokens: int) -> float:
        """``tokens`` came out at ``moment``; the moment at which they are handed out, and measured."""

    def first(self, call: Call, moment: float) -> None:
        """The first token of a call is handed out."""

    def ended(self, call: Call, moment: float, outcome: str) -> None:
        """A call has ended."""


Ended = Callable[[Sequence, float, float], None]
"""Told of each request that ends by itself: its moment on the engine's clock, and when the API process measured it."""

Stepped = Callable[[float], None]
"""Told of each step that brought tokens: when the API process hands them out."""


class Gauges(NamedTuple):
    """What the page shows of the engine's state: as of the end of the last step, whatever happens since."""

    running: int = 0
    waiting: int = 0
    usage: float = 0.0
    deferred: int = 0  # of the waiting: for something other than capacity
    swapped: int = 0
    running_adapters: tuple[int, ...] = ()
    waiting_adapters: tuple[int, ...] = ()
    held: int = 0  # of the deferred: those that are not in the queue yet


@dataclass(slots=True)
class Step:
    """A step that has begun; ``slow``: by how much its kernels are slowed (1: not). ``there``: the state that it began
    with, where gauges are those of a step.
    """

    planned: Planned
    cost: StepCost
    slow: float
    there: Gauges | None = None


class Engine:
    """The engine's state. ``slowdown(moment)``: by how much kernels are slowed (1: not), ``stalled_until(moment)``: the
    end of a stall that covers the moment, or the moment itself.
    """

    def __init__(
        self,
        config: EngineConfig,
        clock: Clock,
        outlet: Outlet,
        *,
        seed: int = 0,
        first_step_seconds: float = 0.0,
        slowdown: Callable[[float], float] = lambda moment: 1.0,
        stalled_until: Callable[[float], float] = lambda moment: moment,
    ) -> None:
        self.config = config
        self.clock = clock
        self.outlet = outlet
        self.gauges = Gauges()
        self.counters = Counters(config.max_model_len, COUNTING[config.dialect])
        self.reports = Reports(self.gauges)
        self.adapter_sets: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}  # when each was last seen
        pool = BlockPool(config.blocks)
        self.state = State(config, pool, Decoding(config, pool, self.counters, random.Random(f"{seed}/engine")))
        self.holding = Holding(config, clock, self.counters, random.Random(f"{seed}/holding"))
        self.arrived = 0
        self.alive = True
        self.on_end: Ended | None = None
        self.on_step: Stepped | None = None
        self._slowdown = slowdown
        self._stalled_until = stalled_until
        self._extra = first_step_seconds
        self._busy = False  # a step has begun, or is about to
        self._step: Step | None = None  # the one under way
        self._of: dict[int, Sequence] = {}
        self._inbox: list[Sequence] = []  # arrived since the last step began
        self._left: list[Sequence] = []  # whose clients went since then

    @property
    def in_flight(self) -> int:
        """Requests that have reached the engine and have not ended."""
        return len(self._of)

    def said(self, call: Call) -> int | None:
        """Tokens that a request has generated so far; None of one that is not here."""
        sequence = self._of.get(id(call))
        return None if sequence is None else self.state.decoding.said(sequence)

    # -- from the API process -------------------------------------------------------------------------------------
    def submit(self, call: Call) -> bool:
        """A request reaches the engine; False when it has too many."""
        config, request = self.config, call.request
        if config.max_queued is not None and len(self._of) >= config.max_num_seqs + config.max_queued:
            self.counters.rejected += 1
            return False
        asked = request.max_tokens if request.max_tokens is not None else config.default_max_tokens
        room = config.max_model_len - request.prompt
        asked = room if asked is None else min(asked, room)
        sequence = Sequence(call, asked, min(request.output, asked), request.adapter, tokens=request.prompt)
        self.arrived += 1
        tally.came(self.counters, sequence)
        self._of[id(call)] = sequence
        self._inbox.append(sequence)
        self._wake()
        return True

    def abort(self, call: Call) -> None:
        """The client has left: the request goes at the end of the step, and no counter of the engine tells."""
        sequence = self._of.pop(id(call), None)
        if sequence is None:
            return
        self.state.decoding.settle(sequence)
        call.tokens = sequence.generated
        sequence.gone = True
        tally.left(self.counters, sequence, self.clock.now)
        self._left.append(sequence)
        if not self._busy:
            self._dismiss_left()
            self._show()

    def kill(self) -> None:
        """The process ends: nothing goes on."""
        self.alive = False
        for sequence in self._of.values():
            self.state.decoding.settle(sequence)
            sequence.call.tokens = sequence.generated
        self._of.clear()

    # -- between steps --------------------------------------------------------------------------------------------
    def _wake(self) -> None:
        """Begin a step, after everything that happens at this same moment."""
        if not self._busy and self.alive:
            self._busy = True
            self.clock.at(self._stalled_until(self.clock.now), self._begin)

    def _ready(self, sequence: Sequence) -> None:
        """Nothing but capacity holds a request any longer: it stands where its arrival puts it."""
        waiting = self.state.waiting
        if not waiting or waiting[-1].queued <= sequence.queued:
            waiting.append(sequence)
        else:
            later = (i for i, other in enumerate(waiting) if other.queued > sequence.queued and not other.preemptions)
            waiting.insert(next(later, len(waiting)), sequence)
        self._wake()

    def _take_up(self, now: float) -> None:
        """What has arrived during a step is queued after it; until then nobody counts it (vLLM's input queue)."""
        arrived, self._inbox = self._inbox, []
        for sequence in arrived:
            if not sequence.gone:
                sequence.queued = now
                self.holding.hold(sequence, self._ready)

    def _dismiss_left(self) -> None:
        """Take those out whose clients have gone."""
        state, left = self.state, self._left
        self._left = []
        state.dismiss([sequence for sequence in left if sequence.blocks])
        for sequence in left:
            if not self.holding.release(sequence) and sequence in state.waiting:
                state.waiting.remove(sequence)
                state.swapped -= sequence.swapped
        state.blocked = [sequence for sequence in state.blocked if not sequence.gone]

    # -- one step -------------------------------------------------------------------------------------------------
    def _begin(self) -> None:
        now, state = self.clock.now, self.state
        if not self.alive:
            return
        later = self._stalled_until(now)
        if later > now:
            if later < math.inf:
                self.clock.at(later, self._begin)
            return
        if self._left:
            self._dismiss_left()
        if self._inbox:
            self._take_up(now)
        planned = schedule(state, now) if state.running or state.waiting else Planned()
        if not planned.turn and not planned.chunks:  # whatever holds those that wait will wake the engine
            self._busy = False
            self._show()
            return
        if self.config.prefix_caching:
            # Looked up at the first admission only: a preempted request's second lookup is in no counter.
            for sequence in planned.fresh:
                self.counters.query_tokens += sequence.request.prompt
                self.counters.hit_tokens += sequence.cached
        self._report(planned, now)
        cost, slow = self._cost(planned), self._slowdown(now)
        moved = planned.moved_bytes / self.config.swap_bandwidth
        self._step = Step(planned, cost, slow, self._look() if self.counters.dialect.polled else None)
        self.clock.at(now + cost.seconds + cost.kernel * (slow - 1.0) + moved + self._extra, self._commit)
        self._extra = 0.0

    def _report(self, planned: Planned, now: float) -> None:
        """What is counted as a step begins, and what is written before its prompts are computed."""
        self.counters.evicted += planned.preempted
        for sequence in planned.fresh:
            self.counters.waited.observe(now - sequence.queued)
        if planned.chunks and self.counters.dialect.reports:
            there = self._look()
            looked_up = sum(sequence.request.prompt for sequence in planned.fresh)
            hits = sum(sequence.cached for sequence in planned.fresh) / looked_up if looked_up else 0.0
            self.reports.prefill(now, there._replace(running=there.running - len(planned.chunks)), hits)

    def _cost(self, planned: Planned) -> StepCost:
        machine, decoding = self.config.machine, self.state.decoding
        sequences = tokens = context = 0
        pairs = 0.0
        for sequence, count in planned.chunks:
            pairs += count * (sequence.computed + count / 2)
            sequences += 1
            tokens += count
            context += sequence.computed + count
        if not planned.turn:
            return step_cost(machine, sequences, tokens, context, pairs)
        tokens += decoding.tokens
        context += decoding.context + decoding.tokens
        pairs += decoding.context * decoding.width
        cost = step_cost(machine, sequences + decoding.count, tokens, context, pairs)
        if decoding.speculation:
            plain = step_cost(machine, decoding.count, decoding.count, decoding.context + decoding.count)
            cost = with_drafting(cost, plain, decoding.speculation.tokens * decoding.speculation.cost)
        return cost

    def _commit(self) -> None:
        """The step has ended: tokens appear, full blocks are published, ended requests leave, gauges are set."""
        step, end = self._step, self.clock.now
        if not self.alive or step is None:
            return
        self._step = None
        if self._left:
            self._dismiss_left()
        counters, state, decoding = self.counters, self.state, self.state.decoding
        tokens = prompts = 0
        ended: list[Sequence] = []
        if step.planned.turn:
            turn = decoding.turn(end)
            tokens, ended = turn.tokens, turn.ended
        through = self._computed(step.planned)
        tokens += len(through)
        seen = self.outlet.outputs(end, tokens)
        for sequence in through:
            if sequence.first_token is None:
                prompts += sequence.request.prompt - sequence.cached - sequence.received
            self._speak(sequence, end, seen)
            if sequence.generated >= sequence.limit:
                ended.append(sequence)
            else:
                decoding.join(sequence)
        tally.step(counters, step.cost, step.slow, tokens, prompts)
        if ended:
            state.dismiss(ended)
            for sequence in ended:
                del self._of[id(sequence.call)]
                sequence.call.tokens = sequence.generated
                tally.finished(counters, sequence, end, seen)
                self.outlet.ended(sequence.call, seen, "ok")
                if self.on_end is not None:
                    self.on_end(sequence, end, seen)
        if tokens and self.on_step is not None:
            self.on_step(seen)
        self._show()
        if step.there is not None:
            self.reports.step(end, step.there)
        if step.planned.turn and self.counters.dialect.reports:
            self.reports.decode(end, self.gauges, counters.steps)
        self._begin()

    def _computed(self, planned: Planned) -> list[Sequence]:
        """Chunks of prompts have been computed; the sequences whose prompt is through and that say something now."""
        state, through = self.state, []
        for sequence, count in planned.chunks:
            if sequence.gone:
                continue
            before = sequence.computed
            sequence.computed += count
            state.decoding.publish(sequence, before)
            if sequence.computed >= sequence.tokens:
                state.prompts.remove(sequence)
                through.append(sequence)
        return through

    def _speak(self, sequence: Sequence, end: float, seen: float) -> None:
        """The first token of a sequence, or the first one since it was preempted."""
        counters = self.counters
        sequence.tokens += 1
        sequence.generated += 1
        if sequence.first_token is None:
            sequence.first_token = end
            tally.first_token(counters, sequence, seen)
            self.outlet.first(sequence.call, seen)
        else:
            counters.token_gap.observe(end - sequence.last_token)
        sequence.last_token = end
        counters.preemptions += sequence.unreported
        sequence.unreported = 0

    def _show(self) -> None:
        self.gauges = there = self._look()
        if there.running_adapters or there.waiting_adapters or self.adapter_sets:
            self.adapter_sets[there.running_adapters, there.waiting_adapters] = self.clock.now

    def _look(self) -> Gauges:
        state, held = self.state, self.holding.count
        return Gauges(
            len(state.running),
            len(state.waiting) + held,
            state.pool.usage,
            held + len(state.blocked),
            state.swapped,
            tuple(sorted(state.adapters)) if state.adapters else (),
            tuple(sorted({s.adapter for s in state.blocked})) if state.blocked else (),
            held,
        )
