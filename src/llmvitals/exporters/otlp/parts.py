"""Metrics in exports that a collector takes: gRPC servers refuse messages beyond 4 MiB unless they are told otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from llmvitals.exporters.otlp.model import Bars, Metric, Point

MOST_BYTES = 3 * 1024 * 1024
"""Of one export, as :func:`size_of` reckons; that is never too little, and what is beside the points fits into the rest."""

_POINT_BYTES, _ATTRIBUTE_BYTES, _BUCKET_BYTES, _EXEMPLAR_BYTES, _FAMILY_BYTES = 48, 16, 16, 64, 64
_UTF8 = 4  # bytes that a character may take at most


def size_of(point: Point) -> int:
    """Bytes that a point takes on the wire, rather too many: text with all its tags and lengths, numbers of eight bytes."""
    size = _POINT_BYTES
    for name, value in point.attributes:
        size += _ATTRIBUTE_BYTES + _bytes(name) + _bytes(value)
    if isinstance(point, Bars):
        size += _BUCKET_BYTES * (len(point.counts) + 1) + _EXEMPLAR_BYTES * len(point.exemplars)
    return size


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else _UTF8 * len(text)


def parts(metrics: Iterable[Metric], most: int = MOST_BYTES) -> Iterator[list[Metric]]:
    """The metrics in as few lists as fit into ``most`` bytes each. A point alone may be larger than that."""
    part: list[Metric] = []
    size = 0
    for metric in metrics:
        head = _FAMILY_BYTES + _bytes(metric.name) + _bytes(metric.help)
        points: list[Point] = []
        size += head
        for point in metric.points:
            more = size_of(point)
            if size + more > most and (points or part):
                if points:
                    part.append(replace(metric, points=points))
                yield part
                part, points, size = [], [], head
            points.append(point)
            size += more
        if points:
            part.append(replace(metric, points=points))
    if part:
        yield part
