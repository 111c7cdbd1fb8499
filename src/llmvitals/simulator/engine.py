"""A continuous-batching engine as a discrete-event model: one event is the end of one step.

Deterministic: the same configuration and workload give the same numbers to the last bit, however time is advanced.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.counters import Counters
from llmvitals.simulator.pool import BlockPool
from llmvitals.simulator.roofline import StepCost, step_cost
from llmvitals.simulator.scheduler import Plan, Sequence, State, fcfs
from llmvitals.simulator.workload import Request, Traffic, Workload


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the page shows of the engine's state: as of the end of the last step, whatever happens since."""

    running: int = 0
    waiting: int = 0
    usage: float = 0.0


class Engine:
    """The engine's state and its clock (``now``, seconds of simulated time since the start)."""

    def __init__(self, config: EngineConfig, workload: Workload) -> None:
        self.config = config
        self.now = 0.0
        self.gauges = Gauges()
        self.counters = Counters(config.max_model_len)
        self.state = State(config, BlockPool(config.blocks))
        self.traffic = Traffic(workload)
        self.arrived = 0
        self._flight: tuple[float, StepCost, Plan] | None = None  # the step that has begun: its end, cost and plan
        self._last_end = -1.0

    def advance(self, until: float) -> None:
        """Let time pass up to ``until``; a step that ends later stays in flight and is not seen yet."""
        while self._flight is not None or self._begin(until):
            if self._flight is None:
                continue
            if self._flight[0] > until:
                break
            self._commit(*self._flight)
            self._flight = None
        self.now = max(self.now, until)

    @property
    def in_flight(self) -> int:
        """Requests that have reached the engine and have not ended."""
        return len(self.state.running) + len(self.state.waiting)

    def _begin(self, until: float) -> bool:
        """Start the next step; False when nothing is to be done by ``until``."""
        state = self.state
        if not state.running and not state.waiting:
            if self.traffic.next_at > until:
                return False
            self.now = max(self.now, self.traffic.next_at)
        while self.traffic.next_at <= self.now:
            self._receive(self.traffic.pop())
        if not state.running and not state.waiting:
            return True
        plan, _, fresh = fcfs(state, self.now)
        if self.config.prefix_caching:
            # Looked up at the first admission only: a preempted request's second lookup is in no counter.
            for sequence in fresh:
                self.counters.query_tokens += sequence.request.prompt
                self.counters.hit_tokens += sequence.cached
        tokens = sum(count for _, count in plan)
        context = sum(sequence.computed + count for sequence, count in plan)
        cost = step_cost(self.config.machine, len(plan), tokens, context)
        self._flight = (self.now + cost.seconds, cost, plan)
        return True

    def _receive(self, request: Request) -> None:
        room = self.config.max_model_len - request.prompt
        if room < 1:
            self.counters.refused += 1
            self.traffic.ended(request, self.now)
            return
        limit = min(request.output, room if request.max_tokens is None else min(request.max_tokens, room))
        self.arrived += 1
        self.state.waiting.append(Sequence(request, queued=self.now, limit=limit, tokens=request.prompt))

    def _commit(self, end: float, cost: StepCost, plan: Plan) -> None:
        """The step has ended: tokens appear, full blocks are published, ended requests leave, gauges are set."""
        counters, size, caching = self.counters, self.config.block_tokens, self.config.prefix_caching
        pool = self.state.pool
        prompts = outputs = steady = 0
        ended: list[Sequence] = []
        for sequence, count in plan:
            before = sequence.computed
            sequence.computed = computed = before + count
            if caching and computed // size > before // size:
                self._publish(sequence, before // size, computed // size)
            if computed < sequence.tokens:
                continue  # a chunk of a prompt that is not through yet
            outputs += 1
            sequence.tokens += 1
            sequence.generated += 1
            if sequence.last_token == self._last_end:
                steady += 1
            elif sequence.first_token is None:
                prompts += sequence.request.prompt - sequence.cached
                self._first_token(sequence, end)
            else:
                counters.token_gap.observe(end - sequence.last_token)
            sequence.last_token = end
            if sequence.unreported:
                counters.preemptions += sequence.unreported
                sequence.unreported = 0
            if sequence.generated >= sequence.limit:
                ended.append(sequence)
        if steady:
            counters.token_gap.observe(end - self._last_end, steady)
        if outputs:
            counters.iteration.observe(prompts + outputs)
        counters.generated_tokens += outputs
        counters.steps += 1
        counters.busy_seconds += cost.kernel
        counters.memory_seconds += cost.memory
        counters.compute_seconds += cost.compute
        self._last_end = self.now = end
        for sequence in ended:
            pool.release(sequence.blocks)
            self._finish(sequence, end)
        if ended:
            gone = set(map(id, ended))
            self.state.running = [s for s in self.state.running if id(s) not in gone]
        self.gauges = Gauges(len(self.state.running), len(self.state.waiting), pool.usage)

    def _publish(self, sequence: Sequence, start: int, stop: int) -> None:
        for index in range(start, stop):
            if sequence.blocks[index] is None:
                key = sequence.key(index, self.config.block_tokens)
                if self.state.pool.publish(key):
                    sequence.blocks[index] = key

    def _first_token(self, sequence: Sequence, end: float) -> None:
        counters = self.counters
        sequence.first_token = end
        counters.first_token.observe(end - sequence.request.arrival)
        counters.prompt_tokens += sequence.request.prompt
        counters.cached_tokens += sequence.cached

    def _finish(self, sequence: Sequence, end: float) -> None:
        counters, request = self.counters, sequence.request
        first, scheduled = sequence.first_token, sequence.scheduled
        if first is None or scheduled is None:  # pragma: no cover - nobody ends without a token
            raise AssertionError("a request ended before its first token")
        room = self.config.max_model_len - request.prompt
        asked = room if request.max_tokens is None else min(request.max_tokens, room)
        capped = request.ignore_eos or request.output >= asked
        counters.finished["length" if capped else "stop"] += 1
        total = end - request.arrival
        counters.e2e.observe(total)
        counters.queue.observe(scheduled - sequence.queued)
        counters.prefill.observe(first - scheduled)
        counters.decode.observe(end - first)
        counters.inference.observe(end - scheduled)
        counters.per_token.observe((end - first) / (sequence.generated - 1) if sequence.generated > 1 else 0.0)
        counters.request_preemptions.observe(sequence.preemptions)
        counters.request_prompt.observe(request.prompt)
        counters.request_computed.observe(request.prompt - sequence.cached)
        counters.request_generated.observe(sequence.generated)
        counters.request_max_tokens.observe(asked)
        counters.n.observe(1)
        counters.http_fine.observe(total)
        counters.http_coarse.observe(total)
        counters.http_bytes_in += 200 + 4 * request.prompt  # four characters a token, and the request's JSON
        self.traffic.ended(request, end)
