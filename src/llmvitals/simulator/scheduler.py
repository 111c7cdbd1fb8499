"""First come, first served, with chunked prefill and preemption by recompute: vLLM V1's default scheduler.

Running sequences go first, in the order of their admission; when no block is free the last admitted one is thrown back
to the head of the queue and its KV is lost. New ones are admitted only in steps that preempted nobody, while a seat,
the step's token budget and free blocks are there: for the prompt's next chunk, or (``reserve_full_prompt``) for the
whole of it beside what prompts under way still need.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.pool import BlockPool, Key
from llmvitals.simulator.workload import Request


@dataclass(slots=True, eq=False)
class Sequence:
    """A request inside the engine. ``computed``: tokens whose KV is in the pool; ``tokens``: prompt plus generated."""

    request: Request
    queued: float
    limit: int  # generated tokens at which it ends
    tokens: int = 0
    computed: int = 0
    generated: int = 0
    cached: int = 0
    blocks: list[Key | None] = field(default_factory=list)
    scheduled: float | None = None
    first_token: float | None = None
    last_token: float = 0.0
    preemptions: int = 0
    unreported: int = 0  # preemptions that its next output will report

    def key(self, index: int, block_tokens: int) -> Key:
        """Under which a full block is published: shared inside the shared prefix, its own elsewhere."""
        if (index + 1) * block_tokens <= self.request.prefix_tokens:
            return ("prefix", self.request.stream, self.request.prefix, index)
        return ("own", self.request.number, index)


@dataclass(slots=True)
class State:
    """What a scheduler may look at and change."""

    config: EngineConfig
    pool: BlockPool
    waiting: deque[Sequence] = field(default_factory=deque)
    running: list[Sequence] = field(default_factory=list)


Plan = list[tuple[Sequence, int]]
"""Who computes how many tokens in the next step."""


def fcfs(state: State, now: float) -> tuple[Plan, list[Sequence], list[Sequence]]:
    """Plan the next step. Returns the plan, the sequences preempted and those admitted for the first time."""
    config, running = state.config, state.running
    size, budget = config.block_tokens, config.max_num_batched_tokens
    plan: Plan = []
    preempted: list[Sequence] = []
    index = 0
    while index < len(running) and budget > 0:
        sequence = running[index]
        count = min(sequence.tokens - sequence.computed, budget)
        need = -(-(sequence.computed + count) // size) - len(sequence.blocks)
        while need > 0 and not state.pool.take(need):
            victim = running.pop()
            _preempt(state, victim)
            preempted.append(victim)
            if victim is sequence:
                return plan, preempted, []
        if need > 0:
            sequence.blocks.extend([None] * need)
        plan.append((sequence, count))
        budget -= count
        index += 1
    return plan, preempted, [] if preempted else _admit(state, plan, budget, now)


def _preempt(state: State, sequence: Sequence) -> None:
    state.pool.release(sequence.blocks)
    sequence.blocks = []
    sequence.computed = 0
    sequence.preemptions += 1
    sequence.unreported += 1
    state.waiting.appendleft(sequence)


def _admit(state: State, plan: Plan, budget: int, now: float) -> list[Sequence]:
    config = state.config
    size = config.block_tokens
    fresh: list[Sequence] = []
    while state.waiting and budget > 0 and len(state.running) < config.max_num_seqs:
        sequence = state.waiting[0]
        hits: list[Key] = []
        if config.prefix_caching:
            # The last token is always computed, so that there is something to sample from.
            keys = [sequence.key(i, size) for i in range((sequence.tokens - 1) // size)]
            hits = keys[: state.pool.match(keys)]
        count = min(sequence.tokens - len(hits) * size, budget)
        need = -(-(len(hits) * size + count) // size) - len(hits)
        if config.reserve_full_prompt and not _fits_whole(state, sequence, hits):
            break
        if not state.pool.admit(hits, need):
            break
        state.waiting.popleft()
        state.running.append(sequence)
        sequence.computed = len(hits) * size
        sequence.blocks = [*hits, *[None] * need]
        if sequence.scheduled is None:
            sequence.scheduled = now
            sequence.cached = sequence.computed
            fresh.append(sequence)
        plan.append((sequence, count))
        budget -= count
    return fresh


def _fits_whole(state: State, sequence: Sequence, hits: list[Key]) -> bool:
    size, free = state.config.block_tokens, state.pool.free
    need = -(-sequence.tokens // size) - state.pool.shared(hits)
    if need > free:
        return False
    return need + sum(-(-s.tokens // size) - len(s.blocks) for s in state.running if s.computed + 1 < s.tokens) <= free
