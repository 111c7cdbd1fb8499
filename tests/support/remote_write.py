"""Samples into a running Prometheus through its remote write receiver: unlike a backfill it takes the marks of series that
went away, so that a test can say when a page no longer showed something.
"""

from __future__ import annotations

import struct
import urllib.request
from collections.abc import Iterable, Mapping
from itertools import pairwise

from llmvitals.series import Series

FLAG = "--web.enable-remote-write-receiver"
_STALE = struct.pack("<Q", 0x7FF0000000000002)  # Prometheus, model/value: StaleNaN
_LITERAL = 1 << 16


def push(url: str, points: Mapping[Series, Iterable[tuple[int, float | None]]]) -> None:
    """Write series, each in order of time (milliseconds); None marks that the series was gone. In one request, for a fresh
    database takes nothing that is much older than what it holds.
    """
    request = urllib.request.Request(
        f"{url}/api/v1/write",
        _snappy(b"".join(_field(1, _series(key, values)) for key, values in points.items())),
        {
            "Content-Encoding": "snappy",
            "Content-Type": "application/x-protobuf",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        },
    )
    urllib.request.urlopen(request, timeout=60).close()


def turned(pages: Iterable[tuple[int, Mapping[Series, float]]]) -> dict[Series, list[tuple[int, float | None]]]:
    """Pages in order of time as series, each with a mark at the first page that no longer shows it."""
    points: dict[Series, list[tuple[int, float | None]]] = {}
    ordered = list(pages)
    for t, page in ordered[:1]:
        for key, value in page.items():
            points[key] = [(t, value)]
    for (_, before), (t, page) in pairwise(ordered):
        for key in before.keys() - page.keys():
            points[key].append((t, None))
        for key, value in page.items():
            points.setdefault(key, []).append((t, value))
    return points


def _series(key: Series, values: Iterable[tuple[int, float | None]]) -> bytes:
    named = sorted((("__name__", key.name), *key.labels))
    labels = (_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in named if value)
    samples = (
        _field(2, b"\x09" + (_STALE if v is None else struct.pack("<d", v)) + b"\x10" + _varint(t)) for t, v in values
    )
    return b"".join((*labels, *samples))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def _snappy(content: bytes) -> bytes:
    """Snappy's block format without compressing anything: literals alone."""
    parts = [content[at : at + _LITERAL] for at in range(0, len(content), _LITERAL)]
    return _varint(len(content)) + b"".join(b"\xf4" + struct.pack("<H", len(part) - 1) + part for part in parts)
