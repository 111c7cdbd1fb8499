"""The memory of one target and one kind of page: what each text before a value means.

A page is mostly the text of the page before it with other numbers. So the text before a line's value is looked up in a
dictionary; only text never seen is parsed, by the client library. Text of unwanted series and comments is remembered as
unwanted. The dictionary is emptied when labels churn beyond the limits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from llmvitals.errors import PageError
from llmvitals.series import Series
from llmvitals.telemetry.ingest.exposition import canonical_le, name_of, parse_series, split_comment, split_sample
from llmvitals.telemetry.ingest.page import Limits
from llmvitals.telemetry.mapping import Adapter, Entry, Row, exposed, plain_name

# A series of one of these tells which models and labels the page has; each engine shows them from its first page on.
_PROBES = frozenset({"llm_generation_tokens_total", "llm_prompt_tokens_total", "llm_requests_running"})


class Mark(str):
    """What a comment line says: a TYPE line's family, a hint in a HELP line, the end of an OpenMetrics page."""

    __slots__ = ()


Meaning = Series | Entry | Mark | None
_NEW = Mark("text that was never seen")


@dataclass(slots=True)
class Read:
    """The numbers of one page. ``odd``: series whose number cannot be; ``models``: those the page names."""

    samples: dict[Series, float]
    specials: dict[Entry, float]
    marks: frozenset[str]
    odd: list[Series]
    models: tuple[str, ...] = ()


class Reader:
    """Reads the pages of one target as long as they are of one kind."""

    def __init__(self, adapter: Adapter, base: Mapping[str, str], limits: Limits) -> None:
        self.adapter = adapter
        self._base = base
        self._limits = limits
        self._names = {
            prefix + name.removeprefix(own): rows
            for name, rows in exposed(adapter.rows).items()
            for own, prefix in _spellings(adapter, name)
        }
        self._families = frozenset(
            plain_name(row.source) for row in adapter.rows if not row.source.startswith("label:")
        )
        self._known: dict[bytes, Meaning] = {}
        self._held = 0  # bytes of text in the dictionary
        self._probes: dict[Series, tuple[str, frozenset[str]]] = {}  # series to model and telling labels
        self._seen: set[str] = set()
        self._unread: list[str] = []
        self._oversized = 0

    def notes(self) -> tuple[str, ...]:
        """Sentences about what the newest page lost."""
        notes = []
        if self._unread:
            notes.append(f"{len(self._unread)} lines could not be read, the first is '{self._unread[0]}'")
        if self._oversized:
            notes.append(f"{self._oversized} series were left out because their labels are longer or more than allowed")
        return tuple(notes)

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
        odd: list[Series] = []
        self._unread, self._oversized = [], 0
        top = math.inf
        for line in body.splitlines():
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
                    odd.append(meaning)
            elif isinstance(meaning, Mark):
                marks.append(meaning)
            elif meaning is not None:
                specials[meaning] = _number(text)
        if len(samples) + len(specials) > self._limits.max_samples:
            raise PageError(
                f"the page has more than {self._limits.max_samples} samples",
                place=self._base["instance"],
                remedy="Raise exporter.max_samples, or find the label that multiplies them.",
            )
        return Read(samples, specials, frozenset(marks), odd)

    def _learn(self, line: bytes, head: bytes) -> tuple[Meaning, bytes]:
        """What a line means whose text was never seen, and its value's text."""
        limit = self._limits.max_label_length * self._limits.max_labels
        if len(line) > limit:
            self._oversized += 1
            return None, b""
        if line.lstrip().startswith(b"#"):
            return self._learn_comment(line, head), b""
        split = split_sample(line)
        if split is None:
            if line.strip() and name_of(line) in self._names:
                self._unread.append(line[:60].decode("utf-8", "replace"))
            return None, b""
        series_text, value = split
        if series_text in self._known:  # a timestamp or an exemplar follows the value
            return self._known[series_text], value
        name = name_of(series_text)
        rows = self._names.get(name)
        meaning: Meaning = None
        if rows is not None:
            try:
                meaning = self._meaning(rows, parse_series(series_text)[1])
            except ValueError:
                self._unread.append(line[:60].decode("utf-8", "replace"))
                return None, b""
        self._remember(series_text, meaning)
        if meaning is not None:
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
            self._probes.clear()
            self._seen.clear()
            self._held = 0
        self._known[text] = meaning
        self._held += len(text)

    def _meaning(self, rows: tuple[tuple[Row, str], ...], labels: dict[str, str]) -> Meaning:
        if len(labels) > self._limits.max_labels or any(
            len(v) > self._limits.max_label_length for v in labels.values()
        ):
            self._oversized += 1
            return None
        found = next(((r, n) for r, n in rows if all(labels.get(k, "") in vs for k, vs in r.only)), None)
        whose = self.adapter.identity(labels)
        if found is None or whose is None:
            return None
        row, name = found
        canonical = {**self._base, **whose.labels, **dict(row.fixed)}
        canonical.update((ours, labels[theirs]) for ours, theirs in row.labels if labels.get(theirs))
        if "le" in labels:
            canonical["le"] = canonical_le(labels["le"], row.scale)
        series = Series(name, tuple(sorted(canonical.items())))
        if name in _PROBES:
            self._probes[series] = whose.labels.get("model", ""), self._telling(labels)
        stand_in = row.fallback or whose.stand_in
        if stand_in or not row.plain:
            return Entry(row, series, labels, stand_in)
        return series

    def _telling(self, labels: Mapping[str, str]) -> frozenset[str]:
        """Marks for source labels whose presence tells releases apart."""
        return frozenset(f"label:{name}" for name in self.adapter.telling if name in labels)


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _spellings(adapter: Adapter, name: str) -> list[tuple[str, str]]:
    """The prefixes under which a name may stand on a page: (own prefix, spelled prefix)."""
    found = [(own, spelled) for own, spelled in adapter.prefixes if name.startswith(own)]
    return found or [("", "")]
