"""Sessions and users' requests, counted without keeping who they are: hashes with a key of this process, for a short while."""

from __future__ import annotations

import hashlib
import secrets
import statistics
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

_KEY = secrets.token_bytes(16)
MINUTE = 60
MOST = 50_000
"""Entries (a session and a second, a tool call and a second) that are kept at most; later ones that would be new are left out,
so that a session that calls often is in it all the same."""


class Hash:
    """64 bits for text that is not to be kept, different in each process."""

    def __init__(self, *parts: str | bytes) -> None:
        self._digest = hashlib.blake2b(digest_size=8, key=_KEY)
        for part in parts:
            data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            self._digest.update(len(data).to_bytes(8, "little"))
            self._digest.update(data)

    def more(self, data: bytes) -> None:
        """The text goes on."""
        self._digest.update(data)

    @property
    def value(self) -> int:
        """The hash of all that came so far."""
        return int.from_bytes(self._digest.digest(), "little")


def hashed(*parts: str | bytes) -> int:
    """The hash of several texts in this order."""
    return Hash(*parts).value


@dataclass(slots=True)
class LastMinute:
    """How often each key came in the last minute, to the second. ``clock``: seconds."""

    clock: Callable[[], float]
    _seconds: deque[tuple[int, Counter[int]]] = field(default_factory=deque)
    _total: Counter[int] = field(default_factory=Counter)
    _entries: int = 0

    def add(self, key: int) -> None:
        """It came now."""
        second = self.forget()
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append((second, Counter()))
        here = self._seconds[-1][1]
        if key not in here:
            if self._entries >= MOST:
                return
            self._entries += 1
        here[key] += 1
        self._total[key] += 1

    def forget(self) -> int:
        """Let go what is older than a minute; gives the second that it is."""
        second = int(self.clock())
        while self._seconds and self._seconds[0][0] <= second - MINUTE:
            for key, n in self._seconds.popleft()[1].items():
                self._entries -= 1
                self._total[key] -= n
                if not self._total[key]:
                    del self._total[key]
        return second

    def peak(self) -> int:
        """The most that one key came."""
        self.forget()
        return max(self._total.values(), default=0)

    def median(self) -> float:
        """How often the median key came that came at all; 0 where none did."""
        self.forget()
        return float(statistics.median(self._total.values())) if self._total else 0.0


@dataclass(slots=True)
class Fresh:
    """Whether a key is seen for the first time: the latest ``most`` of them are remembered, and up to as many before those."""

    most: int = 50_000
    _new: set[int] = field(default_factory=set)
    _old: set[int] = field(default_factory=set)

    def first(self, key: int) -> bool:
        """Remember a key; true when it was not known."""
        known = key in self._new or key in self._old
        if key not in self._new:
            if len(self._new) >= self.most:
                self._old, self._new = self._new, set()
            self._new.add(key)
        return not known


class Sessions:
    """Calls by session, and one tool with the same arguments by session."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.calls = LastMinute(clock)
        self.tools = LastMinute(clock)
        self._told = Fresh()

    def called(self, tenant: str, session: str) -> None:
        """A session makes a call."""
        self.calls.add(hashed(tenant, session))

    def used_tool(self, tenant: str, session: str, call_id: str, spelled: str) -> None:
        """What a call says that its session's latest answer called; told again (a retry), it counts once."""
        if not call_id or self._told.first(hashed(tenant, session, call_id, spelled)):
            self.tools.add(hashed(tenant, session, spelled))

    def repeats(self) -> int:
        """Most repeats of one tool with the same arguments: the first time is none."""
        return max(0, self.tools.peak() - 1)
