"""Sequences past their prompt. They move in step, so that a turn costs what happens in it and not who takes part.

Each turn gives each of them one token (with speculation: one and those drafts that were accepted). Who fills a block or
ends does so in a turn that is known when it joins; in between nothing is kept per sequence, and its figures are brought up
to date when something happens to it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.counters import Counters
from llmvitals.simulator.pool import BlockPool
from llmvitals.simulator.sequence import Sequence


@dataclass(slots=True)
class Turn:
    """What a turn brought: tokens in all, and who has said its last one."""

    tokens: int
    ended: list[Sequence] = field(default_factory=list)


class Decoding:
    """``count`` sequences that hold ``context`` tokens of KV; ``width``: tokens that each computes per turn."""

    def __init__(self, config: EngineConfig, pool: BlockPool, counters: Counters, rng: random.Random) -> None:
        self.count = 0
        self.context = 0
        self.speculation = config.speculation
        self.width = 1 + (config.speculation.tokens if config.speculation else 0)
        self._caching = config.prefix_caching
        self._size = config.block_tokens
        self._pool = pool
        self._counters = counters
        self._rng = rng
        self._turns = 0
        self._last = 0.0  # the moment of the last turn
        self._due: dict[int, list[Sequence]] = {}
        self._joined: list[Sequence] = []  # since the last turn
        self._short: list[Sequence] = []  # without a block for the next turn

    @property
    def tokens(self) -> int:
        """Tokens that the next turn computes."""
        return self.count * self.width

    def join(self, sequence: Sequence) -> None:
        """A sequence has said the first token since its admission."""
        self.count += 1
        self.context += sequence.computed
        sequence.decoding = True
        sequence.since = self._turns
        self._joined.append(sequence)
        self._await(sequence)

    def leave(self, sequence: Sequence) -> None:
        """A sequence takes no further part; its figures are up to date from here on."""
        if sequence in self._joined:
            self._joined.remove(sequence)
        else:
            sequence.last_token = self._last
        self.settle(sequence)
        self.count -= 1
        self.context -= sequence.computed
        sequence.decoding = False

    def settle(self, sequence: Sequence) -> None:
        """Bring the figures of a sequence up to date."""
        if sequence.decoding and not self.speculation:
            self._add(sequence, self._turns - sequence.since)

    def needs(self) -> Iterator[tuple[Sequence, int]]:
        """Who needs how many blocks before the next turn, in the order of admission. Who has left by then needs none."""
        short, self._short = self._short, []
        for sequence in sorted(short, key=lambda s: s.admission):
            if sequence.decoding:
                yield sequence, -(-(sequence.computed + self.width) // self._size) - len(sequence.blocks)

    def turn(self, moment: float) -> Turn:
        """All of them say something at ``moment`` (the engine's clock, on which vLLM measures these gaps).

        One gap is observed per sequence and turn, however many tokens it brought.
        """
        gaps = self._counters.token_gap
        for sequence in self._joined:
            gaps.observe(moment - sequence.last_token)
        if self.count > len(self._joined):
            gaps.observe(moment - self._last, self.count - len(self._joined))
        self._joined.clear()
        self._last = moment
        self._turns += 1
        turn = Turn(0 if self.speculation else self.count)
        self.context += turn.tokens
        for sequence in self._due.pop(self._turns, ()):
            if sequence.decoding and sequence.due == self._turns:
                sequence.due = 0  # one that was preempted and came back may stand here twice
                self._attend(sequence, turn)
        return turn

    def publish(self, sequence: Sequence, before: int) -> None:
        """Make the blocks findable that were filled since ``before`` tokens were computed."""
        if not self._caching:
            return
        size, blocks, publish = self._size, sequence.blocks, self._pool.publish
        for index in range(before // size, sequence.computed // size):
            if blocks[index] is None and publish(key := sequence.key(index, size)):
                blocks[index] = key

    def _attend(self, sequence: Sequence, turn: Turn) -> None:
        before = sequence.computed
        if self.speculation:
            said = min(1 + self._accepted(), sequence.limit - sequence.generated)
            self._add(sequence, said)
            self.context += said
            turn.tokens += said
        else:
            self.settle(sequence)
        self.publish(sequence, before)
        if sequence.generated >= sequence.limit:
            turn.ended.append(sequence)
        else:
            self._await(sequence)

    def _add(self, sequence: Sequence, tokens: int) -> None:
        sequence.since = self._turns
        sequence.computed += tokens
        sequence.tokens += tokens
        sequence.generated += tokens

    def _await(self, sequence: Sequence) -> None:
        """Note whether it needs a block, and after which turn the next thing happens to it."""
        if sequence.computed + self.width > len(sequence.blocks) * self._size:
            self._short.append(sequence)
        turns = 1
        if not self.speculation:
            turns = min(sequence.limit - sequence.generated, self._size - sequence.computed % self._size)
        sequence.due = self._turns + turns
        self._due.setdefault(sequence.due, []).append(sequence)

    def _accepted(self) -> int:
        """How many drafts of one sequence are accepted: each with the same chance, while all before it were."""
        speculation, counters = self.speculation, self._counters
        if speculation is None:
            return 0
        accepted = 0
        while accepted < speculation.tokens and self._rng.random() < speculation.acceptance:
            counters.accepted_per_position[accepted] = counters.accepted_per_position.get(accepted, 0) + 1
            accepted += 1
        counters.drafts += 1
        counters.draft_tokens += speculation.tokens
        counters.accepted_tokens += accepted
        return accepted
