"""First come, first served, with chunked prefill and preemption: vLLM V1's default scheduler, and V0's.

Running sequences go first, in the order of their admission; when no block is free the last admitted one is thrown back
to the head of the queue and its KV is lost (or moved to host memory). New ones are admitted only in steps that preempted
nobody, while a seat, the step's token budget and free blocks are there: for the prompt's next chunk, or
(``reserve_full_prompt``) for the whole of it beside what prompts under way still need. Without chunked prefill a step
either computes whole prompts, which go first, or decodes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from llmvitals.simulator.config import EngineConfig, Preemption
from llmvitals.simulator.pool import BlockPool, Key
from llmvitals.simulator.workload import Call, Request


@dataclass(slots=True, eq=False)
class Sequence:
    """A request inside the engine. ``computed``: tokens whose KV is in the pool; ``tokens``: prompt plus generated.

    ``asked``: max_tokens as the engine resolved it; ``limit``: generated tokens at which it ends; ``received``: its
    prompt's KV came from elsewhere; ``swapped``: its KV is in host memory; ``gone``: its client has left.
    """

    call: Call
    queued: float
    asked: int
    limit: int
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
    received: bool = False
    swapped: bool = False
    gone: bool = False

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self.call.request

    def key(self, index: int, block_tokens: int) -> Key:
        """Under which a full block is published: shared inside the shared prefix, its own elsewhere."""
        request = self.call.request
        if (index + 1) * block_tokens <= request.prefix_tokens:
            return ("prefix", request.stream, request.prefix, index)
        return ("own", request.text, index)


@dataclass(slots=True)
class State:
    """What a scheduler may look at and change. ``adapters``: those of running sequences; ``blocked``: waiting sequences
    that were passed over in the last step because no adapter slot was free.
    """

    config: EngineConfig
    pool: BlockPool
    waiting: deque[Sequence] = field(default_factory=deque)
    running: list[Sequence] = field(default_factory=list)
    adapters: set[int] = field(default_factory=set)
    blocked: list[Sequence] = field(default_factory=list)


@dataclass(slots=True)
class Planned:
    """The next step: who computes how many tokens, who was thrown out, who was admitted for the first time, and the bytes
    that move between device and host for it.
    """

    plan: list[tuple[Sequence, int]] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    fresh: list[Sequence] = field(default_factory=list)
    moved_bytes: float = 0.0


Plan = list[tuple[Sequence, int]]


def schedule(state: State, now: float) -> Planned:
    """Plan the next step."""
    state.running = [s for s in state.running if not s.gone] if any(s.gone for s in state.running) else state.running
    planned = Planned()
    if state.config.chunked_prefill:
        budget = _decode(state, planned, state.config.max_num_batched_tokens)
        if not planned.preempted:
            _admit(state, planned, budget, now)
    else:
        _admit(state, planned, state.config.max_num_batched_tokens, now)
        if not planned.plan:
            _decode(state, planned, state.config.max_num_batched_tokens)
    return planned


def _decode(state: State, planned: Planned, budget: int) -> int:
    """Plan running sequences, oldest first, throwing out the newest where blocks are short; what is left of the budget."""
    running, size = state.running, state.config.block_tokens
    index = 0
    while index < len(running) and budget > 0:
        sequence = running[index]
        count = min(sequence.tokens - sequence.computed, budget)
        need = -(-(sequence.computed + count) // size) - len(sequence.blocks)
        while need > 0 and not state.pool.take(need):
            victim = running.pop()
            _preempt(state, planned, victim)
            if victim is sequence:
                return budget
        if need > 0:
            sequence.blocks.extend([None] * need)
        planned.plan.append((sequence, count))
        budget -= count
        index += 1
    return budget


def _preempt(state: State, planned: Planned, sequence: Sequence) -> None:
    planned.preempted.append(sequence)
    state.pool.release(sequence.blocks)
    sequence.blocks = []
    sequence.preemptions += 1
    sequence.unreported += 1
    if state.config.preemption is Preemption.SWAP:
        sequence.swapped = True
        planned.moved_bytes += sequence.computed * state.config.machine.kv_bytes_per_token
    else:
        sequence.computed = 0
    state.waiting.appendleft(sequence)


def _admit(state: State, planned: Planned, budget: int, now: float) -> None:
    config = state.config
    state.adapters = {s.request.adapter for s in state.running if s.request.adapter >= 0}
    state.blocked = []
    passed: list[Sequence] = []
    while state.waiting and budget > 0 and len(state.running) < config.max_num_seqs:
        sequence = state.waiting[0]
        adapter = sequence.request.adapter
        if adapter >= 0 and adapter not in state.adapters and len(state.adapters) >= config.max_loras:
            passed.append(state.waiting.popleft())
            continue
        count = _enter(state, planned, sequence, budget)
        if count is None:
            break
        if adapter >= 0:
            state.adapters.add(adapter)
        if sequence.scheduled is None:
            sequence.scheduled = now
            sequence.cached = sequence.computed if not sequence.received else 0
            planned.fresh.append(sequence)
        planned.plan.append((sequence, count))
        budget -= count
    state.blocked = passed
    state.waiting.extendleft(reversed(passed))


def _enter(state: State, planned: Planned, sequence: Sequence, budget: int) -> int | None:
    """Give the head of the queue a seat and its blocks; how many tokens it computes, or None when it does not fit."""
    config, size = state.config, state.config.block_tokens
    hits: list[Key] = []
    there = sequence.computed if sequence.swapped else 0
    if sequence.received and not sequence.preemptions:
        there = sequence.tokens - 1  # the last token is always computed, so that there is something to sample from
    elif config.prefix_caching and not there:
        keys = [sequence.key(i, size) for i in range((sequence.tokens - 1) // size)]
        hits = keys[: state.pool.match(keys)]
        there = len(hits) * size
    rest = sequence.tokens - there
    if not config.chunked_prefill and rest > budget and planned.plan:
        return None  # whole prompts only; one that is longer than any step gets a step of its own
    count = rest if not config.chunked_prefill else min(rest, budget)
    need = -(-(there + count) // size) - len(hits)
    whole = config.reserve_full_prompt or not config.chunked_prefill
    if whole and not _fits_whole(state, sequence, hits):
        return None
    if not state.pool.admit(hits, need):
        return None
    state.waiting.popleft()
    state.running.append(sequence)
    sequence.computed = there
    sequence.blocks = [*hits, *[None] * need]
    if sequence.swapped:
        sequence.swapped = False
        planned.moved_bytes += there * config.machine.kv_bytes_per_token
    return count


def _fits_whole(state: State, sequence: Sequence, hits: list[Key]) -> bool:
    size, free = state.config.block_tokens, state.pool.free
    need = -(-sequence.tokens // size) - state.pool.shared(hits)
    if need > free:
        return False
    return need + sum(-(-s.tokens // size) - len(s.blocks) for s in state.running if s.computed + 1 < s.tokens) <= free
