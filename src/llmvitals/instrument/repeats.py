"""What calls ask again, counted without keeping what they ask: sketches of hashes with a key of this process.

A Count-Min sketch (Cormode and Muthukrishnan, 2005) never counts too little; it counts too much for a key only where other keys
took all of its cells. Two generations of it are kept: the older one is let go when the newer has taken in as many keys as keep
the chance of that below one in a hundred, so that memory is bounded and what was asked long ago is forgotten.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator

DEPTH = 4
_CELL_MOST = 255
_FILL = 4  # a generation takes width / 4 keys: a row is 22 % full then, and 0.22^4 = 0.2 % of strange keys find all cells taken

FIRST_BLOCKS, SMALL, LARGE = 64, 256, 4096
"""Prompts are compared by blocks of 256 characters (64 tokens or so), from 16 Ki characters on by blocks of 4,096."""

_IDS = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F-]{22}|[\w.+-]+@[\w-]+\.[\w.-]+")
_DIGITS = str.maketrans("", "", "0123456789")


class CountMin:
    """How often keys were added, at least; a key is 16 bytes that are a hash already."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.taken = 0
        self._rows = tuple(bytearray(width) for _ in range(DEPTH))

    def count(self, key: bytes) -> int:
        """How often it was added: never less, up to 255; more only where others took all of its cells."""
        return min(row[at] for row, at in self._cells(key))

    def add(self, key: bytes) -> None:
        """Add it once. Only its lowest cells are raised (conservative update), which keeps others' errors small."""
        cells = self._cells(key)
        lowest = min(row[at] for row, at in cells)
        if not lowest:
            self.taken += 1
        if lowest < _CELL_MOST:
            for row, at in cells:
                if row[at] == lowest:
                    row[at] = lowest + 1

    @property
    def full(self) -> bool:
        """Whether it has taken in as many keys as it counts well."""
        return self.taken >= self.width // _FILL

    def _cells(self, key: bytes) -> list[tuple[bytearray, int]]:
        return [
            (row, int.from_bytes(key[4 * i : 4 * i + 4], "little") % self.width) for i, row in enumerate(self._rows)
        ]


class Sketch:
    """Two generations of a :class:`CountMin`."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._new, self._old = CountMin(width), CountMin(width)

    def seen(self, key: bytes) -> bool:
        """Whether it was added before; adds it."""
        known = self._new.count(key) > 0 or self._old.count(key) > 0
        if self._new.full:
            self._old, self._new = self._new, CountMin(self._width)
        self._new.add(key)
        return known


def normalised(text: str) -> str:
    """Text without what varies from prompt to prompt: digits (dates, times, numbers), UUIDs, addresses of mail."""
    if "-" in text or "@" in text:
        text = _IDS.sub("", text)
    return text.translate(_DIGITS)


def blocks(texts: Iterable[str]) -> Iterator[str]:
    """The parts of a prompt as blocks, the last one as short as it is."""
    text = "\n".join(texts)
    at = 0
    small = min(len(text), FIRST_BLOCKS * SMALL)
    while at < small:
        yield text[at : at + SMALL]
        at += SMALL
    while at < len(text):
        yield text[at : at + LARGE]
        at += LARGE


class Repeats:
    """Whether a call was made before word for word, and how much of its prompt earlier ones begin with."""

    def __init__(self, calls: int = 1 << 18, prefixes: int = 1 << 20) -> None:
        self._key = secrets.token_bytes(32)
        self._calls = Sketch(calls)
        self._prefixes = Sketch(prefixes)

    def asked(self, model: str, texts: tuple[str, ...]) -> tuple[bool, float]:
        """(asked before word for word, share of the prompt's characters in blocks that earlier prompts begin with)."""
        exact = self._hash()
        for text in (model, *texts):
            exact.update(f"{len(text)}\n{text}".encode("utf-8", "surrogatepass"))
        shared = total = 0
        link, unbroken = model.encode("utf-8", "surrogatepass"), True
        for block in blocks(normalised(text) for text in texts):
            link = self._hash(link, block).digest()
            known = self._prefixes.seen(link)
            unbroken = unbroken and known
            total += len(block)
            shared += len(block) if unbroken else 0
        return self._calls.seen(exact.digest()), shared / total if total else 0.0

    def _hash(self, link: bytes = b"", block: str = "") -> hashlib.blake2b:
        return hashlib.blake2b(link + block.encode("utf-8", "surrogatepass"), digest_size=16, key=self._key)
