"""The text between a page and its series: where a line's series ends, what it is called, how its ``le`` is spelled."""

from __future__ import annotations

import math
import re

from prometheus_client.parser import text_string_to_metric_families

# A series (name and optional labels, quotes respected), a value, and what may follow: a timestamp, an exemplar. Every
# repeat is possessive: what a part took it keeps, so that no line, however odd, is tried twice.
_SAMPLE = re.compile(
    rb'\s*+([A-Za-z_:][\w:]*+\s*+(?:\{(?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+\})?+|\{(?:[^"}]++|"(?:[^"\\]++|\\.)*+")++\})'
    rb"\s*+(?<=[\s}])(\S++)(?:\s++(-?[\d.eE+]++))?+(?:\s++#.*+)?+\s*+$"
)
_QUOTED = re.compile(rb'"((?:[^"\\]++|\\.)*+)"?+')
_COMMENT = re.compile(rb"#\s*(TYPE|HELP|EOF)\b[ \t]*(\S*)[ \t]*(.*)")
_NAME = re.compile(rb'\{?\s*"?([A-Za-z_:][\w:]*)')


def split_sample(line: bytes) -> tuple[bytes, bytes] | None:
    """A sample line's series text and value text; timestamp and exemplar are left out. None when it is not a sample."""
    found = _SAMPLE.match(line)
    return (found[1].rstrip(), found[2]) if found else None


def has_timestamp(line: bytes) -> bool:
    """Whether a sample line says of which moment it is."""
    found = _SAMPLE.match(line)
    return found is not None and found[3] is not None


MOST = 2.0**64
"""No number of a page reaches it: it is one more than a counter of 64 bits holds. What does is a page gone wrong, and sums and
products of such numbers are no longer numbers."""


def number(text: bytes) -> float:
    """The number a value's text stands for, NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def countable(value: float) -> float:
    """The value, NaN where it is a number beyond :data:`MOST`; an infinite one stays, since limits may be."""
    return math.nan if MOST <= value < math.inf else value


def quoted(series_text: bytes) -> list[bytes]:
    """The quoted texts of a series, escapes and all, one that never ends included."""
    return _QUOTED.findall(series_text)


def split_comment(line: bytes) -> tuple[str, str, str] | None:
    """Keyword, metric name and text of a TYPE, HELP or EOF line; None for any other comment."""
    found = _COMMENT.match(line)
    if found is None:
        return None
    keyword, name, text = (part.decode("utf-8", "replace") for part in found.groups())
    return keyword, name, text.strip()


def name_of(series_text: bytes) -> str:
    """The metric name at the start of a series text, the quoted spelling included."""
    found = _NAME.match(series_text.lstrip())
    return found[1].decode("ascii") if found else ""


def parse_series(series_text: bytes) -> tuple[str, dict[str, str]]:
    """Name and labels, as the client library reads them. Raises ``ValueError`` on malformed text."""
    text = series_text.decode("utf-8", "replace")
    try:
        for metric in text_string_to_metric_families(text + " 0\n"):
            for sample in metric.samples:
                return sample.name, dict(sample.labels)
    except IndexError:  # the library looks into a label's name without asking whether there is one
        pass
    raise ValueError(text)


def canonical_le(text: str, scale: float = 1.0) -> str:
    """The shortest spelling of a bucket edge: client libraries write 1, 1.0 and 1e0 for the same one.

    ``scale``: one unit of the source in base units; what it adds to the last digits is rounded away. Raises ``ValueError``
    for what is no edge.
    """
    edge = float(text) if scale == 1.0 else float(f"{float(text) * scale:.12g}")
    if math.isnan(edge):
        raise ValueError(text)
    if math.isinf(edge):
        return "+Inf"
    return str(int(edge)) if edge.is_integer() and abs(edge) < 1e15 else repr(edge)
