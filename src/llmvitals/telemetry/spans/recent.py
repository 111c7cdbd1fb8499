"""Which spans have been here: a sender that got no answer in time sends its batch again, and each span counts once."""

from __future__ import annotations

MOST = 65_536
"""So many of the newest spans are always remembered, and never more than twice as many (about 160 bytes each)."""


class Recent:
    """A bounded memory in two halves: when the newer one is full, the older one is forgotten whole."""

    __slots__ = ("_most", "_newer", "_older")

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._newer: set[str] = set()
        self._older: set[str] = set()

    def first(self, trace_id: str, span_id: str) -> bool:
        """Whether this span was not here before; it was from now on."""
        key = trace_id + span_id
        if key in self._newer or key in self._older:
            return False
        if len(self._newer) >= self._most:
            self._older, self._newer = self._newer, set()
        self._newer.add(key)
        return True

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._newer) + len(self._older)
