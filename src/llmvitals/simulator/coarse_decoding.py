"""Decoding many turns at a time: their KV grows as one, and a sequence has its own blocks again once it leaves."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.counters import Counters
from llmvitals.simulator.decoding import Decoding, Turn
from llmvitals.simulator.pool import BlockPool
from llmvitals.simulator.sequence import Sequence


class CoarseDecoding(Decoding):
    """Blocks that decoding fills are counted for all sequences together, one for every block's size of tokens: what they
    need on average, with ends of blocks evenly spread. A block becomes findable when its sequence leaves. Drafts are drawn
    turn by turn, so there is no speculation here.
    """

    def __init__(self, config: EngineConfig, pool: BlockPool, counters: Counters, rng: random.Random) -> None:
        super().__init__(config, pool, counters, rng)
        self._members: dict[Sequence, int] = {}  # in the order in which they joined: tokens that each then held
        self._before = 0  # the sum of those
        self._shared = 0  # blocks that hold what they have generated since

    def join(self, sequence: Sequence) -> None:
        """A sequence has said the first token since its admission."""
        self._members[sequence] = sequence.computed
        self._before += sequence.computed
        super().join(sequence)

    def leave(self, sequence: Sequence) -> None:
        """A sequence takes no further part; its blocks are its own again, for the pool to take back."""
        before = self._members.pop(sequence)
        super().leave(sequence)
        self._before -= before
        own = -(-sequence.computed // self._size) - len(sequence.blocks)
        sequence.blocks.extend([None] * own)
        self._shared -= own
        self._balance()
        self.publish(sequence, before)

    def needs(self) -> Iterator[tuple[Sequence, int]]:
        """The blocks that the next turn needs, in the name of the sequence that has decoded for longest."""
        need = self._wanted(1) - self._shared
        if need <= 0:
            return
        oldest = next(iter(self._members))
        held = len(oldest.blocks)
        yield oldest, need
        taken = len(oldest.blocks) - held
        if taken > 0:
            del oldest.blocks[held:]
            self._shared += taken

    def turn(self, moment: float) -> Turn:
        """One turn."""
        turn = super().turn(moment)
        self._balance()
        return turn

    def advance(self, turns: int, first: float, last: float) -> None:
        """Turns in which nobody ends, the first of them at ``first`` and the last at ``last``: gaps between are their mean."""
        gaps = self._counters.token_gap
        for sequence in self._joined:
            gaps.observe(first - sequence.last_token)
        if self.count > len(self._joined):
            gaps.observe(first - self._last, self.count - len(self._joined))
        if turns > 1:
            gaps.observe((last - first) / (turns - 1), self.count * (turns - 1))
        self._joined.clear()
        self._last = last
        self._turns += turns
        self.context += self.count * turns

    def most(self) -> int:
        """Turns until the next one says its last token, or until the pool may be full; 0 when not one more fits."""
        room = (self._shared + self._pool.free) * self._size - (self.context - self._before)
        return min(min(self._due) - self._turns, room // self.count)

    def reserve(self, turns: int) -> None:
        """Take the blocks for so many turns, which are there."""
        need = max(0, self._wanted(turns) - self._shared)
        if self._pool.take(need):
            self._shared += need

    def _balance(self) -> None:
        """Give back what is not needed for tokens that there are, or take what is: a block, where ends are not spread."""
        surplus = self._shared - self._wanted(0)
        self._pool.held -= surplus
        self._shared -= surplus

    def _wanted(self, turns: int) -> int:
        return math.ceil((self.context - self._before + self.count * turns) / self._size)

    def _attend(self, sequence: Sequence, turn: Turn) -> None:
        self.settle(sequence)
        turn.ended.append(sequence)

    def _await(self, sequence: Sequence) -> None:
        """Nothing happens to a sequence until it ends."""
        sequence.due = self._turns + sequence.limit - sequence.generated
        self._due.setdefault(sequence.due, []).append(sequence)
