"""The memory of one target and one kind of page: what each text before a value means.

A page is mostly the text of the page before it with other numbers. So the text before a line's value is looked up in a
dictionary; only text never seen is parsed, by the client library. Text of unwanted series and comments is remembered as
unwanted. The dictionary is emptied when labels churn beyond the limits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from llmvitals.errors import PageError
from llmvitals.series import Series
from llmvitals.telemetry.ingest.exposition import (
    MOST,
    canonical_le,
    countable,
    name_of,
    number,
    parse_series,
    quoted,
    split_comment,
    split_sample,
)
from llmvitals.telemetry.ingest.page import Limits
from llmvitals.telemetry.mapping import Adapter, Entry, Row, plain_name, spelled

# A series of one of these tells which models and labels the page has; each engine shows them from its first page on.
_PROBES = frozenset({"llm_generation_tokens_total", "llm_prompt_tokens_total", "llm_requests_running"})


class Mark(str):
    """What a comment line says: a TYPE line's family, a hint in a HELP line, the end of an OpenMetrics page."""

    __slots__ = ()


class Loss(StrEnum):
    """Why a line's number is not taken."""

    UNREAD = "a line of it could not be read"
    OVERSIZED = "its labels are longer or more than allowed"
    CUT = "the page ends within a line of it"


@dataclass(frozen=True, slots=True)
class Lost:
    """A line that is not read. ``families``: the canonical ones that it may have been of; ``text``: how it begins."""

    why: Loss
    families: tuple[str, ...]
    text: str


Meaning = Series | Entry | Mark | Lost | None
_NEW = Mark("text that was never seen")


@dataclass(slots=True)
class Read:
    """The numbers of one page. ``odd``: series with a number that cannot be; ``lost``: lines that could not be read;
    ``models``: those the page names.
    """

    samples: dict[Series, float]
    specials: dict[Entry, float]
    marks: frozenset[str]
    odd: list[tuple[Series, float]]
    lost: list[Lost]
    models: tuple[str, ...] = ()


class Reader:
    """Reads the pages of one target as long as they are of one kind."""

    def __init__(self, adapter: Adapter, base: Mapping[str, str], limits: Limits) -> None:
        self.adapter = adapter
        self._base = base
        self._limits = limits
        self._names = spelled(adapter)
        self._families = frozenset(
            plain_name(row.source) for row in adapter.rows if not row.source.startswith("label:")
        )
        self._known: dict[bytes, Meaning] = {}
        self._entries: dict[tuple[str, frozenset[tuple[str, str]]], Entry] = {}  # one for each series, however spelled
        self._held = 0  # bytes of text in the dictionary
        self._probes: dict[Series, tuple[str, frozenset[str]]] = {}  # series to model and telling labels
        self._seen: set[str] = set()
        self._lost: list[Lost] = []

    def notes(self) -> tuple[str, ...]:
        """Sentences about what the newest page lost."""
        notes = []
        for why, words in _NOTES.items():
            lines = [lost for lost in self._lost if lost.why is why]
            if lines:
                families = ", ".join(sorted({family for lost in lines for family in lost.families}))
                of = f" (of {families})" if families else ""
                notes.append(f"{len(lines)} {words}{of}, the first is '{lines[0].text}'")
        return tuple(notes)

    def wanted(self, name: str) -> tuple[Row, ...]:
        """The rows that answer to a sample's name."""
        return tuple(row for row, _ in self._names.get(name, ()))

    def meaning(self, series_text: bytes) -> Meaning:
        """What the text of a series means on pages of this kind."""
        known = self._known.get(series_text, _NEW)
        return self._learn(series_text + b" 0", series_text)[0] if known is _NEW else known

    def plain(self, name: str) -> str:
        """A name as its family is compared: in the source's own spelling, without suffixes."""
        return self._plain(name)

    def declares(self, name: str) -> bool:
        """Whether a TYPE line's name is that of a family that is taken."""
        return self._plain(name) in self._families

    def read(self, body: bytes) -> Read:
        """All numbers of the page that are wanted. Raises PageError when none is this kind's own, or when too many are."""
        found = self._values(body)
        if not self._has_own(found):
            raise PageError(
                f"there is no series of {self.adapter.title} on it",
                place=self._base["instance"],
                remedy=self.adapter.none_found,
            )
        if not found.marks & self._families:  # a page without TYPE lines: the names it showed so far have to do
            found.marks |= self._seen
        probes = [told for series, told in self._probes.items() if series in found.samples]
        found.models = tuple(sorted({model for model, _ in probes if model}))
        telling = (self._telling(entry.source) for entry in found.specials)
        found.marks = found.marks.union(*(told for _, told in probes), *telling)
        return found

    def _has_own(self, found: Read) -> bool:
        shared = self.adapter.shared
        if not shared:
            return bool(found.samples or found.specials)
        own = any(not series.name.startswith(shared) for series in found.samples)
        return own or any(not entry.series.name.startswith(shared) for entry in found.specials)

    def _values(self, body: bytes) -> Read:
        known, new = self._known, _NEW
        samples: dict[Series, float] = {}
        specials: dict[Entry, float] = {}
        marks: list[str] = []
        odd: list[tuple[Series, float]] = []
        lost = self._lost = []
        top = MOST
        for line in self._whole(body).splitlines():
            head, _, text = line.rpartition(b" ")
            meaning = known.get(head, new)
            if meaning is None:
                continue
            if meaning is new:
                meaning, text = self._learn(line, head)
            if isinstance(meaning, Series):
                try:
                    value = float(text)
                except ValueError:
                    value = math.nan
                if 0.0 <= value < top:
                    samples[meaning] = value
                else:
                    odd.append((meaning, value))
            elif isinstance(meaning, Mark):
                marks.append(meaning)
            elif isinstance(meaning, Lost):
                lost.append(meaning)
            elif meaning is not None:
                specials[meaning] = countable(number(text))
        if len(samples) + len(specials) > self._limits.max_samples:
            raise PageError(
                f"the page has more than {self._limits.max_samples} samples",
                place=self._base["instance"],
                remedy="Raise exporter.max_samples, or find the label that multiplies them.",
            )
        return Read(samples, specials, frozenset(marks), odd, lost)

    def _whole(self, body: bytes) -> bytes:
        """The page up to its last line end: a number that it ends in may be half of one."""
        if body.endswith((b"\n", b"\r")):
            return body
        last = max(body.rfind(b"\n"), body.rfind(b"\r")) + 1
        line = body[last:]
        if line.lstrip().startswith(b"#"):
            return body
        lost = self._lose(Loss.CUT, line)
        if lost.families:
            self._lost.append(lost)
        return body[:last]

    def _lose(self, why: Loss, text: bytes) -> Lost:
        """A line that is not read, with the canonical families that a line of this name may be of."""
        rows = self.wanted(name_of(text[:_NAMED]))
        families = tuple(dict.fromkeys(row.family for row in rows if row.family))
        return Lost(why, families, text[:60].decode("utf-8", "replace"))

    def _learn(self, line: bytes, head: bytes) -> tuple[Meaning, bytes]:
        """What a line means whose text was never seen, and its value's text."""
        if len(line) > self._limits.max_line_bytes:
            return self._lose(Loss.OVERSIZED, line), b""
        if line.lstrip().startswith(b"#"):
            return self._learn_comment(line, head), b""
        split = split_sample(line) or split_sample(line.rstrip() + _NO_VALUE)
        if split is None:
            lost = self._lose(Loss.UNREAD, line)
            return (lost if lost.families else None), b""
        series_text, value = split
        if series_text in self._known:  # a timestamp or an exemplar follows the value
            return self._known[series_text], value
        name = name_of(series_text)
        rows = self._names.get(name)
        meaning = self._meaning(rows, series_text) if rows is not None else None
        self._remember(series_text, meaning)
        if isinstance(meaning, Series | Entry):
            self._seen.add(self._plain(name))
        return meaning, value

    def _learn_comment(self, line: bytes, head: bytes) -> Meaning:
        comment = split_comment(line)
        if comment is None:
            return None  # free text may change with every page: not worth remembering
        keyword, name, text = comment
        if keyword == "TYPE":
            plain = self._plain(name)
            mark = Mark(plain) if plain in self._families else None
        else:
            hint = self.adapter.hint(keyword, name, text)
            mark = Mark(hint) if hint else None
        if text and keyword != "EOF":  # what stands before the last space must name the family
            self._remember(head, mark)
        return mark

    def _plain(self, name: str) -> str:
        own = next(
            (own + name.removeprefix(spelled) for own, spelled in self.adapter.prefixes if name.startswith(spelled)),
            name,
        )
        return plain_name(own)

    def _remember(self, text: bytes, meaning: Meaning) -> None:
        if self._held > 2 * self._limits.max_page_bytes or len(self._known) > 4 * self._limits.max_samples:
            self._known.clear()
            self._entries.clear()
            self._probes.clear()
            self._seen.clear()
            self._held = 0
        self._known[text] = meaning
        self._held += len(text)

    def _meaning(self, rows: tuple[tuple[Row, str], ...], series_text: bytes) -> Meaning:
        limits = self._limits
        texts = quoted(series_text)  # measured before they are parsed, which takes a square of their length
        if len(texts) > 2 * limits.max_labels + 1 or any(len(t) > 4 * limits.max_label_length for t in texts):
            return self._lose(Loss.OVERSIZED, series_text)
        try:
            _, labels = parse_series(series_text)
        except ValueError:
            return self._lose(Loss.UNREAD, series_text)
        if len(labels) > limits.max_labels or any(len(v) > limits.max_label_length for v in labels.values()):
            return self._lose(Loss.OVERSIZED, series_text)
        found = next(((r, n) for r, n in rows if all(labels.get(k, "") in vs for k, vs in r.only)), None)
        whose = self.adapter.identity(labels)
        if found is None or whose is None:
            return None
        row, name = found
        canonical = {**self._base, **whose.labels, **dict(row.fixed)}
        canonical.update((ours, labels[theirs]) for ours, theirs in row.labels if labels.get(theirs))
        if "le" in labels:
            try:
                canonical["le"] = canonical_le(labels["le"], row.scale)
            except ValueError:
                return self._lose(Loss.UNREAD, series_text)
        series = Series(name, tuple(sorted(canonical.items())))
        if name in _PROBES:
            self._probes[series] = whose.labels.get("model", ""), self._telling(labels)
        stand_in = 2 * whose.stand_in + row.fallback
        if stand_in or not row.plain:
            same = (row.source + name, frozenset(labels.items()))
            return self._entries.setdefault(same, Entry(row, series, labels, stand_in))
        return series

    def _telling(self, labels: Mapping[str, str]) -> frozenset[str]:
        """Marks for source labels whose presence tells releases apart."""
        return frozenset(f"label:{name}" for name in self.adapter.telling if name in labels)


_NO_VALUE = b" -"  # a series without a value is known, and its number is none
_NAMED = 1024  # bytes in which a name is looked for
_NOTES = {
    Loss.UNREAD: "lines could not be read",
    Loss.OVERSIZED: "series were left out because their labels are longer or more than allowed",
    Loss.CUT: "line was left out because the page ends within it",
}
