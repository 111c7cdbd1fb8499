"""What calls ask again, counted without keeping what they ask: sketches of hashes with a key of this process.

A Count-Min sketch (Cormode and Muthukrishnan, 2005) never counts too little; it counts too much for a key only where other keys
took all of its cells. Two generations of it are kept: the older one is let go when the newer has taken in as many keys as keep
the chance of that below one in a hundred, so that memory is bounded and what was asked long ago is forgotten.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from struct import Struct

DEPTH = 4
_CELL_MOST = 255
_FILL = 4  # a generation takes width / 4 keys: a row is 22 % full then, and 0.22^4 = 0.2 % of strange keys find all cells taken

FIRST_BLOCKS, SMALL, LARGE = 64, 256, 4096
"""Prompts are compared by blocks of 256 bytes (64 tokens or so), from 16 KiB on by blocks of 4,096."""

Cells = tuple[int, int, int, int]
_cells = Struct("<4I").unpack

_DIGITS = b"0123456789"
# what is between its first and last group: quick to find
_UUID = re.compile(rb"-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-")
_BEFORE_AT, _AFTER_AT = re.compile(rb"[\w.+-]{1,64}\Z"), re.compile(rb"[\w.-]{1,255}")


class CountMin:
    """How often keys were added, at least. A key is four numbers of 32 bits, of a hash; ``width`` a power of two."""

    def __init__(self, width: int) -> None:
        self.taken = 0
        self._mask = width - 1
        self._rows = tuple(bytearray(width) for _ in range(DEPTH))

    def count(self, key: Cells) -> int:
        """How often it was added: never less, up to 255; more only where others took all of its cells."""
        one, two, three, four = self._rows
        a, b, c, d = key
        mask = self._mask
        return min(one[a & mask], two[b & mask], three[c & mask], four[d & mask])

    def add(self, key: Cells) -> None:
        """Add it once. Only its lowest cells are raised (conservative update), which keeps others' errors small."""
        lowest = self.count(key)
        if not lowest:
            self.taken += 1
        if lowest < _CELL_MOST:
            for row, place in zip(self._rows, key, strict=True):
                if row[place & self._mask] == lowest:
                    row[place & self._mask] = lowest + 1

    @property
    def full(self) -> bool:
        """Whether it has taken in as many keys as it counts well."""
        return self.taken * _FILL > self._mask


class Sketch:
    """Two generations of a :class:`CountMin`."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._new, self._old = CountMin(width), CountMin(width)

    def seen(self, digest: bytes) -> bool:
        """Whether this hash (16 bytes) was added before; adds it."""
        key = _cells(digest)
        known = self._new.count(key) > 0 or self._old.count(key) > 0
        if self._new.full:
            self._old, self._new = self._new, CountMin(self._width)
        self._new.add(key)
        return known


def normalised(text: bytes) -> bytes:
    """Text without what varies from prompt to prompt: digits (dates, times, numbers), UUIDs, addresses of mail."""
    varying = [(found.start() - 8, found.end() + 12) for found in _UUID.finditer(text)]
    at = text.find(b"@")
    while at >= 0:
        before, after = _BEFORE_AT.search(text, max(0, at - 64), at), _AFTER_AT.match(text, at + 1)
        if before and after:
            varying.append((before.start(), after.end()))
        at = text.find(b"@", at + 1)
    return _without(text, varying).translate(None, _DIGITS)


def _without(text: bytes, spans: list[tuple[int, int]]) -> bytes:
    if not spans:
        return text
    kept, at = [], 0
    for start, end in sorted(spans):
        kept.append(text[at : max(at, start)])
        at = max(at, end)
    return b"".join((*kept, text[at:]))


def blocks(text: bytes) -> Iterator[bytes]:
    """A prompt in blocks, the last one as short as it is."""
    small = FIRST_BLOCKS * SMALL
    for at in range(0, min(len(text), small), SMALL):
        yield text[at : min(at + SMALL, small)]
    for at in range(small, len(text), LARGE):
        yield text[at : at + LARGE]


class Repeats:
    """Whether a call was made before word for word, and how much of its prompt earlier ones begin with."""

    def __init__(self, calls: int = 1 << 18, prefixes: int = 1 << 20) -> None:
        self._key = secrets.token_bytes(32)
        self._calls = Sketch(calls)
        self._prefixes = Sketch(prefixes)

    def asked(self, model: str, texts: tuple[str, ...]) -> tuple[bool, float]:
        """(asked before word for word, share of the prompt in blocks that earlier prompts begin with)."""
        parts = [_bytes(text) for text in (model, *texts)]
        exact = self._hash(b"".join(b"%d " % len(part) for part in parts))
        for part in parts:
            exact.update(part)
        return self._calls.seen(exact.digest()), self._shared(parts[0], normalised(b"\n".join(parts[1:])))

    def _shared(self, model: bytes, text: bytes) -> float:
        shared, unbroken, link = 0, True, model
        for block in blocks(text):
            link = self._hash(link + block).digest()
            known = self._prefixes.seen(link)
            unbroken = unbroken and known
            shared += len(block) if unbroken else 0
        return shared / len(text) if text else 0.0

    def _hash(self, data: bytes) -> hashlib.blake2b:
        return hashlib.blake2b(data, digest_size=16, key=self._key)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
