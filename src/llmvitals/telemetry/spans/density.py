"""How many messages an export is made of, counted before they are.

A span that says nothing takes two bytes on the wire, some 170 in memory, and as long to look at as another: four megabytes of
them, which pack into four thousand bytes, would take 340 MB and keep the other senders waiting for seconds.
"""

from __future__ import annotations

SMALL = 256 * 1024
"""Bytes up to which an export is not looked at: it holds little, however dense. OpenTelemetry's senders batch 512 spans."""

LEAST_BYTES = 24
"""What a span takes on the wire at least, rather too little: its ids, times and name alone take 50."""

_FIELDS = (1, 2, 2)
"""What holds spans, by level: ExportTraceServiceRequest.resource_spans, ResourceSpans.scope_spans, ScopeSpans.spans."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_LONGEST = 70
"""Bits of the ten bytes that a number may take."""


def is_dense(body: bytes) -> bool:
    """Whether an export holds more spans, or more of what holds spans, than so many bytes can tell of.

    Where it is damaged it is looked at no further, and no more is a decoder; groups, which OTLP has not, are as good as too many.
    """
    if len(body) <= SMALL:
        return False
    most = len(body) // LEAST_BYTES
    counts = [0] * len(_FIELDS)
    try:
        _count(body, 0, len(body), 0, counts, most)
    except KeyError:
        return True
    except (IndexError, ValueError):
        pass
    return max(counts) > most


def _count(body: bytes, at: int, end: int, level: int, counts: list[int], most: int) -> None:
    """Count the messages of this level and below that lie between two places of the body, until one level has too many."""
    wanted, below = _FIELDS[level], level + 1
    while at < end and max(counts) <= most:
        tag, at = _varint(body, at)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _varint(body, at)
            if tag >> 3 == wanted:
                counts[level] += 1
                if below < len(_FIELDS):
                    _count(body, at, min(at + size, end), below, counts, most)
            at += size
        elif kind == _VARINT:
            _, at = _varint(body, at)
        else:
            at += _SIZES[kind]


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends. Raises ``IndexError`` past the body, ``ValueError`` for what is longer than any."""
    value = shift = 0
    while shift < _LONGEST:
        byte = body[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("longer than any number")
