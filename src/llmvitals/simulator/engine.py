"""A continuous-batching engine as a discrete-event model: one event is the end of one step.

Requests come from the API process (:mod:`front`) and their tokens go back through it; what it delays, the engine's own
clock for queue and inference does not see, and its clock for first tokens and whole requests does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from llmvitals.simulator.clock import Clock
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.counters import Counters
from llmvitals.simulator.holding import Holding
from llmvitals.simulator.pool import BlockPool
from llmvitals.simulator.roofline import StepCost, step_cost
from llmvitals.simulator.scheduler import Plan, Sequence, State, schedule
from llmvitals.simulator.workload import Call


class Outlet(Protocol):
    """Who takes the engine's outputs: the API process."""

    def outputs(self, moment: float, tokens: int) -> float:
        """``tokens`` came out at ``moment``; the moment at which they are handed out, and measured."""

    def first(self, call: Call, moment: float) -> None:
        """The first token of a call is handed out."""

    def ended(self, call: Call, moment: float, outcome: str) -> None:
        """A call has ended."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the page shows of the engine's state: as of the end of the last step, whatever happens since."""

    running: int = 0
    waiting: int = 0
    usage: float = 0.0
    deferred: int = 0  # of the waiting: for something other than capacity
    swapped: int = 0
    running_adapters: tuple[int, ...] = ()
    waiting_adapters: tuple[int, ...] = ()


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
        self.counters = Counters(config.max_model_len)
        self.state = State(config, BlockPool(config.blocks))
        self.holding = Holding(config, clock, self.counters, random.Random(f"{seed}/holding"))
        self.arrived = 0
        self.alive = True
        self._slowdown = slowdown
        self._stalled_until = stalled_until
        self._extra = first_step_seconds
        self._rng = random.Random(f"{seed}/engine")
        self._busy = False  # a step has begun, or is about to
        self._last_end = -1.0
        self._of: dict[int, Sequence] = {}

    @property
    def in_flight(self) -> int:
        """Requests that have reached the engine and have not ended."""
        return len(self._of)

    def submit(self, call: Call) -> bool:
        """A request reaches the engine; False when its queue is full."""
        config, request = self.config, call.request
        if config.max_queued is not None and len(self.state.waiting) + self.holding.count >= config.max_queued:
            self.counters.rejected += 1
            return False
        asked = request.max_tokens if request.max_tokens is not None else config.default_max_tokens
        room = config.max_model_len - request.prompt
        asked = room if asked is None else min(asked, room)
        now = self.clock.now
        sequence = Sequence(call, queued=now, asked=asked, limit=min(request.output, asked), tokens=request.prompt)
        self.arrived += 1
        self._of[id(call)] = sequence
        self.holding.hold(sequence, self._ready)
        return True

    def abort(self, call: Call) -> None:
        """The client has left: the request goes at the end of the step, and no counter of the engine tells."""
        sequence = self._of.pop(id(call), None)
        if sequence is None:
            return
        sequence.gone = True
        call.tokens = sequence.generated
        if sequence in self.state.waiting:
            self.state.waiting.remove(sequence)
            self.state.pool.release(sequence.blocks)

    def kill(self) -> None:
        """The process ends: nothing goes on."""
        self.alive = False
        for sequence in self._of.values():
            sequence.call.tokens = sequence.generated
        self._of.clear()

    def _ready(self, sequence: Sequence) -> None:
        if sequence.gone:
            return
        self.state.waiting.append(sequence)
        self._wake()

    def _wake(self) -> None:
        """Begin a step, after everything that happens at this same moment."""
        if self._busy or not self.alive:
            return
        self._busy = True
        self.clock.at(self._stalled_until(self.clock.now), self._begin)

    def _begin(self) -> None:
        now, state = self.clock.now, self.state
        if not self.alive:
            return
        later = self._stalled_until(now)
        if later > now:
            if later < float("inf"):
                self.clock.at(later, self._begin)
            return
        if not state.running and not state.waiting:
            self._busy = False
            return
        planned = schedule(state, now)
        if self.config.prefix_caching:
            # Looked up at the first admission only: a preempted request's second lookup is in no counter.
            for sequence in planned.fresh:
                self.counters.query_tokens += sequence.request.prompt
                self.counters.hit_tokens += sequence.cached
        plan = planned.plan
        if not plan:  # everything that waits is held by something that will wake the engine
            self._busy = False
            self._show()
            return
        tokens = sum(count for _, count in plan)
        context = sum(sequence.computed + count for sequence, count in plan)
        cost = step_cost(self.config.machine, len(plan), tokens, context)
        slow = self._slowdown(now)
        seconds = (
            cost.seconds + cost.kernel * (slow - 1.0) + planned.moved_bytes / self.config.swap_bandwidth + self._extra
        )
        self._extra = 0.0
        self.clock.at(now + seconds, lambda: self._commit(cost, slow, plan))

    def _commit(self, cost: StepCost, slow: float, plan: Plan) -> None:
        """The step has ended: tokens appear, full blocks are published, ended requests leave, gauges are set."""
        if not self.alive:
            return
        end = self.clock.now
        counters, size, caching = self.counters, self.config.block_tokens, self.config.prefix_caching
        speaking: list[Sequence] = []
        for sequence, count in plan:
            before = sequence.computed
            sequence.computed = computed = before + count
            if caching and computed // size > before // size and not sequence.gone:
                self._publish(sequence, before // size, computed // size)
            if computed >= sequence.tokens and not sequence.gone:  # else: a chunk of a prompt that is not through yet
                speaking.append(sequence)
        seen = self.outlet.outputs(end, len(speaking))
        prompts = steady = 0
        ended: list[Sequence] = []
        for sequence in speaking:
            sequence.tokens += 1
            sequence.generated += 1
            if sequence.last_token == self._last_end:
                steady += 1
            elif sequence.first_token is None:
                prompts += sequence.request.prompt - sequence.cached
                self._first_token(sequence, end, seen)
            else:
                counters.token_gap.observe(seen - sequence.last_token)
            sequence.last_token = seen
            if sequence.unreported:
                counters.preemptions += sequence.unreported
                sequence.unreported = 0
            if sequence.generated >= sequence.limit:
                ended.append(sequence)
        if steady:
            counters.token_gap.observe(seen - self._last_end, steady)
        if speaking:
            counters.iteration.observe(prompts + len(speaking))
            self._last_end = seen
        counters.generated_tokens += len(speaking)
        counters.steps += 1
        counters.busy_seconds += cost.kernel * slow
        counters.memory_seconds += cost.memory
        counters.compute_seconds += cost.compute
        counters.link_bytes += cost.link_bytes
        for sequence in ended:
            del self._of[id(sequence.call)]
            self._finish(sequence, end, seen)
        gone = [sequence for sequence in self.state.running if sequence.gone]
        if ended or gone:
            self._drop([*ended, *gone])
        self._show()
        self._begin()

    def _drop(self, sequences: list[Sequence]) -> None:
        out = set(map(id, sequences))
        for sequence in sequences:
            self.state.pool.release(sequence.blocks)
            sequence.blocks = []
        self.state.running = [s for s in self.state.running if id(s) not in out]

    def _show(self) -> None:
        state, held = self.state, self.holding.count
        blocked = state.blocked
        self.gauges = Gauges(
            len(state.running),
            len(state.waiting) + held,
            state.pool.usage,
            held + len(blocked),
            sum(1 for s in state.waiting if s.swapped),
            tuple(sorted(state.adapters)) if state.adapters else (),
            tuple(sorted({s.request.adapter for s in blocked})) if blocked else (),
        )

    def _publish(self, sequence: Sequence, start: int, stop: int) -> None:
        for index in range(start, min(stop, len(sequence.blocks))):
            if sequence.blocks[index] is None:
                key = sequence.key(index, self.config.block_tokens)
                if self.state.pool.publish(key):
                    sequence.blocks[index] = key

    def _first_token(self, sequence: Sequence, end: float, seen: float) -> None:
        counters, call = self.counters, sequence.call
        sequence.first_token = end
        counters.first_token.observe(seen - call.arrived)
        counters.prompt_tokens += sequence.request.prompt
        counters.cached_tokens += sequence.cached
        self.outlet.first(call, seen)

    def _finish(self, sequence: Sequence, end: float, seen: float) -> None:
        counters, request, call = self.counters, sequence.request, sequence.call
        first, scheduled = sequence.first_token, sequence.scheduled
        if first is None or scheduled is None:  # pragma: no cover - nobody ends without a token
            raise AssertionError("a request ended before its first token")
        capped = request.ignore_eos or request.output >= sequence.asked
        counters.finished["length" if capped else "stop"] += 1
        counters.e2e.observe(seen - call.arrived)
        counters.queue.observe(scheduled - sequence.queued)
        counters.prefill.observe(first - scheduled)
        counters.decode.observe(end - first)
        counters.inference.observe(end - scheduled)
        counters.per_token.observe((end - first) / (sequence.generated - 1) if sequence.generated > 1 else 0.0)
        counters.request_preemptions.observe(sequence.preemptions)
        counters.request_prompt.observe(request.prompt)
        counters.request_computed.observe(request.prompt - sequence.cached)
        counters.request_generated.observe(sequence.generated)
        counters.request_max_tokens.observe(sequence.asked)
        counters.n.observe(1)
        call.tokens = sequence.generated
        self.outlet.ended(call, seen, "ok")
