"""A page line by line: what stands where, which family it is of, and what is wrong with how it is written.

Slower than reading a page, which remembers what it saw; used where a person looks at one page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from llmvitals.telemetry.ingest.exposition import (
    has_timestamp,
    name_of,
    number,
    parse_series,
    quoted,
    split_comment,
    split_sample,
)
from llmvitals.telemetry.ingest.page import Limits

_PARTS: Mapping[str, tuple[str, ...]] = {
    "histogram": ("_bucket", "_sum", "_count", "_created"),
    "summary": ("_sum", "_count", "_created"),
    "counter": ("_total", "_created"),
    "info": ("_info",),
    "gaugehistogram": ("_bucket", "_gsum", "_gcount"),
}
"""What the samples of a family are called beside its own name, by the type that its TYPE line says."""
_TYPES = frozenset({*_PARTS, "gauge", "untyped", "unknown", "stateset"})
_SHOWN = 60  # characters of a line in a warning
_NAMED = 1024  # bytes in which a name is looked for


@dataclass(frozen=True, slots=True)
class Line:
    """One sample line. ``number`` counts from 1; ``labels`` are sorted; ``text``: the value as it stands."""

    number: int
    family: str
    name: str
    series: bytes
    labels: tuple[tuple[str, str], ...]
    text: str
    value: float


@dataclass(frozen=True, slots=True)
class Warned:
    """Something about a family that could not be read, or not as it was meant. ``line``: the first; 0 for the page."""

    family: str
    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page's lines. ``types``: family to what its TYPE line says, for all that have one; ``families``: all, in order."""

    lines: tuple[Line, ...]
    types: Mapping[str, str]
    families: tuple[str, ...]
    warnings: tuple[Warned, ...]
    openmetrics: bool


@dataclass(slots=True)
class Warnings:
    """Gathers warnings: of one kind about one family only the first line is told, with the number of the others."""

    _first: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    _more: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, family: str, line: int, what: str, kind: str = "") -> None:
        """Note one; ``kind`` where ``what`` holds what differs from line to line."""
        key = family, kind or what
        if key in self._first:
            self._more[key] = self._more.get(key, 0) + 1
        else:
            self._first[key] = line, what

    def told(self) -> tuple[Warned, ...]:
        """All of them, in the order of the page."""
        found = []
        for key, (line, what) in self._first.items():
            more = self._more.get(key, 0)
            others = f" (and {more} more like it)" if more else ""
            found.append(Warned(key[0], line, what + others))
        return tuple(sorted(found, key=lambda warned: (warned.line, warned.family)))


def read_lines(body: bytes, limits: Limits | None = None) -> Page:
    """Every line of an exposition page, text or OpenMetrics. Never raises."""
    allowed = limits or Limits()
    raw = body.splitlines()
    types, warnings = _types(raw), Warnings()
    names = {name_of(line[:_NAMED]) for line in raw if not line.lstrip().startswith(b"#")}
    lines: list[Line] = []
    families: dict[str, None] = {}
    began: dict[str, int] = {}
    typed: dict[str, int] = {}
    once: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    ended = 0
    for at, line in enumerate(raw, start=1):
        if not line.strip():
            continue
        if line.lstrip().startswith(b"#"):
            comment = split_comment(line.lstrip())
            if comment is not None and comment[0] == "TYPE":
                _type_line(comment, at, typed, began, warnings)
                families.setdefault(comment[1], None)
            ended = ended or (at if comment is not None and comment[0] == "EOF" else 0)
            continue
        family = _family_of(name_of(line[:_NAMED]), types, names)
        if ended:
            warnings.add(family, at, f"stands after # EOF in line {ended}", "after EOF")
        read = _sample(line, at, family, allowed, warnings)
        began.setdefault(family, at)
        if read is None:
            continue
        families.setdefault(family, None)
        first = once.setdefault((read.name, read.labels), at)
        if first != at:
            warnings.add(family, at, f"this series stands in line {first} already; the last one counts", "twice")
        lines.append(read)
    _end(body, raw, types, names, warnings)
    return Page(tuple(lines), types, tuple(families), warnings.told(), ended > 0)


def _types(raw: Iterable[bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in raw:
        comment = split_comment(line.lstrip()) if line.lstrip().startswith(b"#") else None
        if comment is not None and comment[0] == "TYPE" and comment[1]:
            found.setdefault(comment[1], comment[2].lower())
    return found


def _type_line(
    comment: tuple[str, str, str], at: int, typed: dict[str, int], began: Mapping[str, int], warnings: Warnings
) -> None:
    _, name, kind = comment
    first = typed.setdefault(name, at)
    if kind.lower() not in _TYPES:
        warnings.add(name, at, f"its TYPE line names no type ('{kind[:_SHOWN]}')", "type")
    if first != at:
        warnings.add(name, at, f"second TYPE line, the first is line {first}; read as one family", "second type")
    elif name in began:
        warnings.add(name, at, f"TYPE line after samples of it, which begin in line {began[name]}", "late type")


def _family_of(name: str, types: Mapping[str, str], names: set[str]) -> str:
    """The family of a sample: as the TYPE lines say, else by the names beside it."""
    if name in types:
        return name
    for kind, parts in _PARTS.items():
        for part in parts:
            base = name.removesuffix(part)
            if base != name and types.get(base) == kind:
                return base
    for part in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(part)
        if base != name and f"{base}_bucket" in names:
            return base
    return name


def _sample(line: bytes, at: int, family: str, limits: Limits, warnings: Warnings) -> Line | None:
    """One sample line, or None after a warning that says why it is none."""
    shown = line.strip()[:_SHOWN].decode("utf-8", "replace")
    if len(line) > limits.max_line_bytes:
        warnings.add(family, at, f"a line of more than {limits.max_line_bytes} bytes is left out", "long line")
        return None
    split = split_sample(line)
    if split is None:
        warnings.add(family, at, f"cannot be read as a sample: '{shown}'", "malformed")
        return None
    series, text = split
    texts = quoted(series)
    longest = max(map(len, texts), default=0)
    if longest > limits.max_label_length or len(texts) > 2 * limits.max_labels + 1:
        what = f"a label of {longest} bytes" if longest > limits.max_label_length else f"{len(texts)} labels"
        warnings.add(family, at, f"left out for {what}, more than the {_allowed(longest, limits)} allowed", "labels")
        return None
    try:
        name, labels = parse_series(series)
    except ValueError:
        warnings.add(family, at, f"its labels cannot be read: '{shown}'", "malformed")
        return None
    if len(labels) > limits.max_labels:
        warnings.add(
            family, at, f"left out for {len(labels)} labels, more than the {limits.max_labels} allowed", "labels"
        )
        return None
    value = number(text)
    told = text.decode("utf-8", "replace")
    if math.isnan(value) and told.lower().lstrip("+-") != "nan":
        warnings.add(family, at, f"'{told[:_SHOWN]}' is no number", "no number")
    if has_timestamp(line):
        warnings.add("", at, "samples carry timestamps, which are not used: they may be older than they look")
    return Line(at, family, name, series, tuple(sorted(labels.items())), told, value)


def _allowed(longest: int, limits: Limits) -> int:
    return limits.max_label_length if longest > limits.max_label_length else 2 * limits.max_labels + 1


def _end(body: bytes, raw: list[bytes], types: Mapping[str, str], names: set[str], warnings: Warnings) -> None:
    """A page whose last line is not ended may have been cut, and what stands there may be half a number."""
    if raw and not body.endswith((b"\n", b"\r")) and not raw[-1].lstrip().startswith(b"#"):
        family = _family_of(name_of(raw[-1][:_NAMED]), types, names)
        warnings.add(family, len(raw), "the page ends within this line, which is left out: it may be cut", "cut")
