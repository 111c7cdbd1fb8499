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
from llmvitals.simulator.decoding import Decoding
from llmvitals.simulator.dialect import COUNTING
from llmvitals.simulator.pool import BlockPool, Key
from llmvitals.simulator.sequence import Sequence


@dataclass(slots=True)
class State:
    """What a scheduler may look at and change. ``running``: in the order of their admission; ``prompts``: those of them
    whose prompt is not through; ``adapters``: how many of them use which; ``blocked``: waiting sequences that were passed
    over in the last step because no adapter slot was free; ``swapped``: how many wait with their KV in host memory.
    """

    config: EngineConfig
    pool: BlockPool
    decoding: Decoding
    waiting: deque[Sequence] = field(default_factory=deque)
    running: list[Sequence] = field(default_factory=list)
    prompts: list[Sequence] = field(default_factory=list)
    adapters: dict[int, int] = field(default_factory=dict)
    blocked: list[Sequence] = field(default_factory=list)
    swapped: int = 0
    admitted: int = 0

    def dismiss(self, sequences: list[Sequence]) -> None:
        """Take running sequences out of the batch and give their blocks back."""
        out = set(map(id, sequences))
        for sequence in sequences:
            self._stop(sequence)
        self.running = [s for s in self.running if id(s) not in out]

    def evict(self) -> Sequence:
        """Take the last admitted sequence out of the batch and give its blocks back."""
        sequence = self.running.pop()
        self._stop(sequence)
        return sequence

    def _stop(self, sequence: Sequence) -> None:
        if sequence.decoding:
            self.decoding.leave(sequence)
        elif sequence in self.prompts:
            self.prompts.remove(sequence)
        self.pool.release(sequence.blocks)
        sequence.blocks = []
        if sequence.adapter >= 0:
            self.adapters[sequence.adapter] -= 1
            if not self.adapters[sequence.adapter]:
                del self.adapters[sequence.adapter]


Chunks = list[tuple[Sequence, int]]


@dataclass(slots=True)
class Planned:
    """The next step: whether all that decode take a turn, which prompts are computed and how many tokens of each, who was
    thrown out, who was admitted for the first time, and the bytes that move between device and host for it.
    """

    turn: bool = False
    chunks: Chunks = field(default_factory=list)
    preempted: int = 0
    fresh: list[Sequence] = field(default_factory=list)
    moved_bytes: float = 0.0


def schedule(state: State, now: float) -> Planned:
    """Plan the next step."""
    planned = Planned()
    budget = state.config.max_num_batched_tokens
    if state.config.chunked_prefill:
        _decode(state, planned)
        budget -= state.decoding.tokens
        for sequence in state.prompts[:]:
            budget = _go_on(state, planned, sequence, budget)
        if not planned.preempted:
            _admit(state, planned, budget, now)
    else:
        _admit(state, planned, budget, now)
        if not planned.chunks:
            _decode(state, planned)
    return planned


def _decode(state: State, planned: Planned) -> None:
    """A turn for all that decode; those without a block for it get one, oldest first."""
    decoding = state.decoding
    for sequence, need in decoding.needs():
        if sequence.decoding:
            _grow(state, planned, sequence, need)
    planned.turn = decoding.count > 0


def _go_on(state: State, planned: Planned, sequence: Sequence, budget: int) -> int:
    """The next chunk of a prompt under way; what is left of the budget."""
    count = min(sequence.tokens - sequence.computed, budget)
    if count <= 0 or not sequence.blocks:
        return budget
    need = -(-(sequence.computed + count) // state.config.block_tokens) - len(sequence.blocks)
    if not _grow(state, planned, sequence, need):
        return budget
    planned.chunks.append((sequence, count))
    return budget - count


def _grow(state: State, planned: Planned, sequence: Sequence, need: int) -> bool:
    """Give a running sequence blocks, throwing out the newest where they are short; False when that is itself."""
    if need <= 0:
        return True
    while not state.pool.take(need):
        victim = state.evict()
        _preempt(state, planned, victim)
        if victim is sequence:
            return False
    sequence.blocks.extend([None] * need)
    return True


def _preempt(state: State, planned: Planned, sequence: Sequence) -> None:
    planned.preempted += 1
    sequence.preemptions += 1
    sequence.unreported += 1
    if state.config.preemption is Preemption.SWAP:
        sequence.swapped = True
        state.swapped += 1
        planned.moved_bytes += sequence.computed * state.config.machine.kv_bytes_per_token
    else:
        sequence.computed = 0
    state.waiting.appendleft(sequence)


def _admit(state: State, planned: Planned, budget: int, now: float) -> None:
    config = state.config
    passed: list[Sequence] = []
    while state.waiting and budget > 0 and len(state.running) < config.max_num_seqs:
        sequence = state.waiting[0]
        adapter = sequence.adapter
        if adapter >= 0 and adapter not in state.adapters and len(state.adapters) >= config.max_loras:
            passed.append(state.waiting.popleft())
            continue
        count = _enter(state, planned, sequence, budget)
        if count is None:
            break
        if adapter >= 0:
            state.adapters[adapter] = state.adapters.get(adapter, 0) + 1
        if sequence.scheduled is None:
            sequence.scheduled = now
            sequence.cached = 0 if sequence.received else sequence.computed
            planned.fresh.append(sequence)
        planned.chunks.append((sequence, count))
        budget -= count
    state.blocked = passed
    state.waiting.extendleft(reversed(passed))


def _enter(state: State, planned: Planned, sequence: Sequence, budget: int) -> int | None:
    """Give the head of the queue a seat and its blocks; how many tokens it computes, or None when it does not fit."""
    config, size = state.config, state.config.block_tokens
    hits: list[Key] = []
    there = sequence.computed if sequence.swapped else 0
    if sequence.received and not sequence.preemptions:
        there = sequence.received
    elif config.prefix_caching and not there:
        hits = _found(state.pool, sequence, size)
        there = len(hits) * size
    rest = sequence.tokens - there
    if not config.chunked_prefill and rest > budget and planned.chunks:
        return None  # whole prompts only; one that is longer than any step gets a step of its own
    count = rest if not config.chunked_prefill else min(rest, budget)
    need = -(-(there + count) // size) - len(hits)
    whole = config.reserve_full_prompt or not config.chunked_prefill
    if whole and not _fits_whole(state, sequence, hits):
        return None
    if COUNTING[config.dialect].reserves and not _fits_to_its_end(state, sequence):
        return None
    if not state.pool.admit(hits, need):
        return None
    state.waiting.popleft()
    state.running.append(sequence)
    state.prompts.append(sequence)
    state.admitted += 1
    sequence.admission = state.admitted
    sequence.computed = there
    sequence.blocks = [*hits, *[None] * need]
    if sequence.swapped:
        sequence.swapped = False
        state.swapped -= 1
        planned.moved_bytes += there * config.machine.kv_bytes_per_token
    return count


def _found(pool: BlockPool, sequence: Sequence, size: int) -> list[Key]:
    """Leading full blocks of the sequence that the cache holds; its last token is always computed."""
    hits: list[Key] = []
    for index in range((sequence.tokens - 1) // size):
        key = sequence.key(index, size)
        if key not in pool:
            break
        hits.append(key)
    return hits


def _fits_to_its_end(state: State, sequence: Sequence) -> bool:
    """Whether it fits beside all that run if each of them says all that it may (shared blocks counted for each)."""
    size = state.config.block_tokens
    return sum(-(-(s.request.prompt + s.asked) // size) for s in (*state.running, sequence)) <= state.config.blocks


def _fits_whole(state: State, sequence: Sequence, hits: list[Key]) -> bool:
    size, free = state.config.block_tokens, state.pool.free
    need = -(-sequence.tokens // size) - state.pool.shared(hits)
    return need + sum(-(-s.tokens // size) - len(s.blocks) for s in state.prompts) <= free
