"""Pages changed as bytes, without a care for what was touched: what any proxy, disk, writer or attacker may make of one."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from random import Random

from support.fuzz_pages import HUGE, NO_NUMBERS, changed, cut

Wild = Callable[[bytes, bytes, Random], bytes]

_NO_TEXT = (
    b"\xff",
    b"\xc3",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xc0\xaf",
    b"\xef\xbf\xbf",
    b"\x00",
)
"""Bytes that are no UTF-8: lone ones, halves, surrogates, over-long ones."""

_TYPES = (
    b"gauge",
    b"counter",
    b"histogram",
    b"summary",
    b"untyped",
    b"stateset",
    b"info",
    b"gaugehistogram",
    b"",
    b"\xff",
)
_VALUE = re.compile(rb" ([0-9][^ \n]*)$", re.MULTILINE)
_TYPE = re.compile(rb"^(# TYPE [^ \n]*) \S*$", re.MULTILINE)
_LABEL = re.compile(rb'([a-zA-Z_]+)="([^"\n]*)"')


def _flip(body: bytes, other: bytes, random: Random) -> bytes:
    """Single bits, as bad memory has them."""
    page = bytearray(body)
    for _ in range(random.choice((1, 1, 8, 64)) if page else 0):
        page[random.randrange(len(page))] ^= 1 << random.randrange(8)
    return bytes(page)


def _cut(body: bytes, other: bytes, random: Random) -> bytes:
    return cut(body, random)


def _slice(body: bytes, other: bytes, random: Random) -> bytes:
    """A stretch taken out, or written twice."""
    start = random.randrange(len(body) + 1)
    end = min(len(body), start + random.randrange(1 + len(body) // 2))
    return body[:start] + body[start:end] * random.choice((0, 2, 2)) + body[end:]


def _after(body: bytes, other: bytes, random: Random) -> bytes:
    """Two engines' pages, one after the other."""
    return body + random.choice((b"", b"\n", b"# EOF\n")) + other


def _among(body: bytes, other: bytes, random: Random) -> bytes:
    """Two engines' pages, line by line, as two writers into one pipe give them."""
    lines, others = body.splitlines(keepends=True), other.splitlines(keepends=True)
    for line in others[: random.randrange(1 + len(others))]:
        lines.insert(random.randrange(1 + len(lines)), line)
    return b"".join(lines)


def _spliced(body: bytes, other: bytes, random: Random) -> bytes:
    """The beginning of one page and the end of another, in the middle of a line."""
    return cut(body, random) + other[random.randrange(len(other) + 1) :]


def _no_text(body: bytes, other: bytes, random: Random) -> bytes:
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(body) + 1)
        body = body[:at] + random.choice(_NO_TEXT) + body[at:]
    return body


def _marks(body: bytes, other: bytes, random: Random) -> bytes:
    """A byte order mark where pages were put together; UTF-16 where a shell wrote the file."""
    at = random.choice((0, random.randrange(len(body) + 1)))
    if random.randrange(8) == 0:
        return body.decode("latin-1").encode("utf-16")
    return body[:at] + b"\xef\xbb\xbf" + body[at:]


def _ends(body: bytes, other: bytes, random: Random) -> bytes:
    """Each line with an end of its own."""
    return b"".join(
        line + random.choice((b"\n", b"\r\n", b"\r", b"\n\n", b" \n", b"\x0b", b"")) for line in body.split(b"\n")
    )


def _types(body: bytes, other: bytes, random: Random) -> bytes:
    return _TYPE.sub(lambda found: found[1] + b" " + random.choice(_TYPES), body)


def _values(body: bytes, other: bytes, random: Random) -> bytes:
    """Many numbers at once are none, or are at the ends of what a float holds."""
    of, share = random.choice((NO_NUMBERS, HUGE)), random.choice((0.05, 0.5, 1.0))
    return _VALUE.sub(lambda found: b" " + (random.choice(of) if random.random() < share else found[1]), body)


def _moved(body: bytes, other: bytes, random: Random) -> bytes:
    """All numbers greater or smaller than they were: a busy while, a restart."""
    factor = random.choice((0.0, 0.5, 1.001, 1.1, 2.0, 1e6))

    def times(found: re.Match[bytes]) -> bytes:
        try:
            return b" %r" % (float(found[1]) * factor) if random.random() < 0.9 else found[0]
        except ValueError:
            return found[0]

    return _VALUE.sub(times, body)


def _labels(body: bytes, other: bytes, random: Random) -> bytes:
    """Names and values of labels change places, or one value stands everywhere."""
    turn = random.randrange(3)
    said = random.choice((b"", b"+Inf", b"NaN", b"0", b"\\n", b"a" * 300, b"\xc3\xa4"))

    def other_way(found: re.Match[bytes]) -> bytes:
        if random.random() < 0.7:
            return found[0]
        return (b'%s="%s"' % (found[2], found[1]), b'%s="%s"' % (found[1], said), found[0] + b"," + found[0])[turn]

    return _LABEL.sub(other_way, body)


def _packed(body: bytes, other: bytes, random: Random) -> bytes:
    """Compressed, compressed twice, and compressed and damaged."""
    packed = gzip.compress(body, compresslevel=1)
    return random.choice(
        (packed, gzip.compress(packed), cut(packed, random), _flip(packed, b"", random), packed + body[:99])
    )


def _deep(body: bytes, other: bytes, random: Random) -> bytes:
    """Brackets within brackets, as a document or in a line of a page."""
    nest = random.choice((b"[", b"{", b'{"a":', b'{a="', b"(")) * random.choice((10, 1000, 50_000))
    return random.choice((nest, nest + body, body + b"\n" + nest, body.replace(b"{", b"{" + nest[:300], 3)))


WILD: tuple[Wild, ...] = (
    *(_flip, _flip, _cut, _slice, _after, _among, _spliced, _no_text, _marks, _ends, _types, _values, _values),
    *(_moved, _moved, _moved, _moved, _labels, _packed, _deep),
)


def wild(body: bytes, other: bytes, random: Random) -> bytes:
    """A page after changes to lines, to its bytes, or to both; ``other``: another page that it may get mixed up with."""
    turn = random.randrange(4)
    if turn != 0 and body:
        body = changed(body, random, most=3).body()
    if turn != 1:
        for _ in range(random.choice((1, 1, 2, 3))):
            body = random.choice(WILD)(body, other, random)
    return body
