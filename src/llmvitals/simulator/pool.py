"""The paged KV pool: counts of blocks, and a prefix cache over blocks that nobody holds any more.

A block is private, or published under a key once it is full. A published block that nobody references stays findable
until its space is needed (least recently used first); it counts as free, as in vLLM. One simplification: unpublished
free blocks are taken before published ones, where vLLM keeps both in one queue.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

Key = Hashable


class BlockPool:
    """``capacity`` blocks, of which ``held`` are referenced by running sequences."""

    __slots__ = ("_idle", "_refs", "capacity", "held")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.held = 0
        self._refs: dict[Key, int] = {}  # published and referenced
        self._idle: OrderedDict[Key, None] = OrderedDict()  # published and free, oldest first

    @property
    def free(self) -> int:
        """Blocks that may be taken; idle published ones included."""
        return self.capacity - self.held

    @property
    def usage(self) -> float:
        """Referenced blocks over capacity (0-1): what ``kv_cache_usage_perc`` shows."""
        return self.held / self.capacity

    def __contains__(self, key: Key) -> bool:
        """Whether the cache holds this block."""
        return key in self._refs or key in self._idle

    def shared(self, hits: Sequence[Key]) -> int:
        """How many of these cached blocks somebody references: they cost no free block."""
        return sum(1 for key in hits if key in self._refs)

    def admit(self, hits: Sequence[Key], fresh: int) -> bool:
        """Reference the cached ``hits`` and take ``fresh`` blocks, or take nothing and say False."""
        revived = len(hits) - self.shared(hits)
        if revived + fresh > self.free:
            return False
        for key in hits:
            if key in self._idle:
                del self._idle[key]
                self._refs[key] = 1
                self.held += 1
            else:
                self._refs[key] += 1
        return self.take(fresh)

    def take(self, count: int) -> bool:
        """Take ``count`` private blocks, evicting idle published ones where needed; False when they do not fit."""
        if count > self.free:
            return False
        self.held += count
        for _ in range(self.held + len(self._idle) - self.capacity):
            self._idle.popitem(last=False)
        return True

    def publish(self, key: Key) -> bool:
        """Make a private block findable; False when the key is taken (the block then stays private, as in vLLM)."""
        if key in self._refs or key in self._idle:
            return False
        self._refs[key] = 1
        return True

    def release(self, blocks: Sequence[Key | None]) -> None:
        """Give back a sequence's blocks (None: private), last first, so that the tail of a prefix is evicted first."""
        refs, idle, kept = self._refs, self._idle, 0
        for key in reversed(blocks):
            if key is None:
                continue
            if refs[key] > 1:
                refs[key] -= 1
                kept += 1
            else:
                del refs[key]
                idle[key] = None
        self.held -= len(blocks) - kept
