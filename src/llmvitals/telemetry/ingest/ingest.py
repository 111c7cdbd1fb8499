"""From pages to canonical snapshots, one :class:`Ingest` per target.

A page is mostly the text of the page before it with other numbers. So the text before a line's value is looked up in a
dictionary that remembers what it means; only text never seen is parsed, by the client library. Text of unwanted series
and comments is remembered as unwanted. The dictionary is emptied when labels churn beyond the limits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from llmvitals.errors import LlmvitalsError, PageError, SettingsError
from llmvitals.gaps import GapKind
from llmvitals.schema import BY_NAME, family_of
from llmvitals.series import Series, Snapshot
from llmvitals.telemetry.engines import ADAPTERS, FOREIGN, claims, speaks
from llmvitals.telemetry.ingest.exposition import canonical_le, name_of, parse_series, split_comment, split_sample
from llmvitals.telemetry.ingest.page import Limits, RawPage, readable
from llmvitals.telemetry.mapping import Adapter, Entry, FamilyGap, Parts, Row, exposed, plain_name

_PROBES = frozenset({"llm_generation_tokens_total", "llm_prompt_tokens_total", "llm_requests_running"})
_UNUSABLE = "the page holds no usable number: NaN, infinite, negative, blank or outside its range"

_POINT_AT = (
    f"Point at the metrics page of one of: {', '.join(adapter.title for adapter in ADAPTERS)}; "
    "a vLLM started with --disable-log-stats shows none of its own."
)

KINDS: tuple[str, ...] = ("auto", *(adapter.kind for adapter in ADAPTERS))


class Mark(str):
    """What a comment line says: a TYPE line's family, a hint in a HELP line, the end of an OpenMetrics page."""

    __slots__ = ()


Meaning = Series | Entry | Mark | None
_NEW = Mark("text that was never seen")


class Ingest:
    """Reads one target's pages. ``kind`` is one of :data:`KINDS`; ``labels`` are added to every sample."""

    def __init__(
        self,
        *,
        instance: str,
        kind: str = "auto",
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        if kind not in KINDS:
            raise SettingsError(f"unknown kind '{kind}'", place=instance, remedy=f"Use one of: {', '.join(KINDS)}.")
        self._instance = instance
        self._kind = kind
        self._limits = limits or Limits()
        self._base = {**(labels or {}), "instance": instance}
        self._reader: _Reader | None = None
        self._notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the newest page, in sentences."""
        return self._notes

    def snapshot(self, page: RawPage) -> Snapshot:
        """The page as a snapshot; a page that cannot be read gives ``llm_target_up`` 0 and a sentence. Never raises."""
        try:
            return self.read(page)
        except LlmvitalsError as error:
            samples = self._target(page, up=0.0)
            samples.setdefault(self._own("llm_target_status"), 0.0)
            return Snapshot(page.t, samples, detail=str(error))

    def read(self, page: RawPage) -> Snapshot:
        """The page as a snapshot.

        Raises :class:`~llmvitals.errors.UnreachableError` when there was no page, and
        :class:`~llmvitals.errors.PageError` when it cannot be read or is none of an engine that is understood.
        """
        body = readable(page, place=self._instance, limits=self._limits)
        reader = self._reader_for(body)
        samples = reader.samples(body)
        self._notes = reader.notes()
        if reader.adapter.kind != "llmvitals":
            samples.update(self._target(page, up=1.0))
        return Snapshot(page.t, samples)

    def _own(self, family: str) -> Series:
        return Series(family, tuple(sorted(self._base.items())))

    def _target(self, page: RawPage, *, up: float) -> dict[Series, float]:
        samples = {self._own("llm_target_up"): up}
        if page.took is not None:
            samples[self._own("llm_target_answer_seconds")] = page.took
        if page.status is not None:
            samples[self._own("llm_target_status")] = float(page.status)
        return samples

    def _reader_for(self, body: bytes) -> _Reader:
        adapter = claims(body, self._kind)
        if adapter is None:
            self._reader = None
            raise self._not_understood(body)
        if self._reader is None or self._reader.adapter is not adapter:
            self._reader = _Reader(adapter, self._base, self._limits)
        return self._reader

    def _not_understood(self, body: bytes) -> PageError:
        foreign = next((title for start, title in FOREIGN if speaks(body, start)), None)
        wanted = next((a for a in ADAPTERS if a.kind == self._kind), None)
        if foreign is not None:
            thing = f"this is a page of {foreign}, which is not understood here"
        elif wanted is not None:
            thing = f"this is no page of {wanted.title}"
        elif any(split_sample(line) for line in body[:65536].splitlines()):
            thing = "this is a metrics page, but of no engine that is understood"
        else:
            return PageError(
                "there is no metric on it", place=self._instance, remedy="Check the URL; engines serve /metrics."
            )
        remedy = wanted.none_found if wanted is not None else _POINT_AT
        return PageError(thing, place=self._instance, remedy=remedy)


class _Reader:
    """The memory of one target and one kind of page."""

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
        self._static: dict[frozenset[str], tuple[dict[Series, float], tuple[FamilyGap, ...]]] = {}
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

    def samples(self, body: bytes) -> dict[Series, float]:
        """All canonical samples of the page, the target's own excepted. Raises PageError when there is none."""
        samples, specials, marks, odd = self._values(body)
        if not self._has_own(samples, specials):
            raise PageError(
                f"there is no series of {self.adapter.title} on it",
                place=self._base["instance"],
                remedy=self.adapter.none_found,
            )
        if not marks & self._families:  # a page without TYPE lines: the names it showed so far have to do
            marks |= self._seen
        probes = [told for series, told in self._probes.items() if series in samples]
        models = tuple(sorted({model for model, _ in probes if model}))
        marks = marks.union(*(told for _, told in probes), *(self._telling(entry.source) for entry in specials))
        parts = Parts(samples, [], marks, models, self._base)
        self._finish(parts, specials, odd)
        self.adapter.derive(parts)
        self._know(parts)
        return samples

    def _has_own(self, samples: Mapping[Series, float], specials: Mapping[Entry, float]) -> bool:
        shared = self.adapter.shared
        if not shared:
            return bool(samples or specials)
        own = any(not series.name.startswith(shared) for series in samples)
        return own or any(not entry.series.name.startswith(shared) for entry in specials)

    def _values(self, body: bytes) -> tuple[dict[Series, float], dict[Entry, float], frozenset[str], list[Series]]:
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
        return samples, specials, frozenset(marks), odd

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
            canonical["le"] = canonical_le(labels["le"])
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

    def _finish(self, parts: Parts, specials: dict[Entry, float], odd: list[Series]) -> None:
        """Bring values that are not plain into the samples: units, sums, ranges, then what only stands in."""
        samples, stand_in, kept = parts.samples, {}, []
        for entry, raw in specials.items():
            row, series = entry.row, entry.series
            if row.special:
                kept.append((entry, raw))
                continue
            if raw == row.nothing:
                parts.gaps.append(FamilyGap(row.family, GapKind.NO_TRAFFIC, "the engine has measured nothing yet"))
                continue
            value = raw * row.scale + row.offset if raw < row.ceiling else math.nan
            top = 1.0 if BY_NAME[row.family].unit == "ratio" else math.inf
            if not 0.0 <= value <= top or math.isinf(value):
                odd.append(series)
            elif entry.stand_in:
                stand_in[series] = value
            elif row.add:
                samples[series] = samples.get(series, 0.0) + value
            else:
                samples[series] = value
        for series, value in stand_in.items():
            samples.setdefault(series, value)
        parts.specials = kept
        for series in odd:
            family = family_of(series.name)
            if family is not None and series not in samples:
                rank = tuple((k, v) for k, v in series.labels if k in {"model", "rank", "gpu"})
                parts.gaps.append(FamilyGap(family.name, GapKind.MISSING, _UNUSABLE, rank))

    def _know(self, parts: Parts) -> None:
        """Add what is known of the page itself: engine, version, and the families it cannot give."""
        known = self._static.get(parts.marks)
        if known is None:
            if len(self._static) > 64:
                self._static.clear()
            known = self._static[parts.marks] = self._page_facts(parts.marks)
        parts.samples.update(known[0])
        for gap in parts.gaps:
            parts.samples[self._gap(gap)] = 1.0

    def _page_facts(self, marks: frozenset[str]) -> tuple[dict[Series, float], tuple[FamilyGap, ...]]:
        version, gaps = self.adapter.static(marks)
        samples = {self._gap(gap): 1.0 for gap in gaps}
        if version:
            info = {**self._base, "engine": self.adapter.kind, "version": version}
            samples[Series("llm_target_info", tuple(sorted(info.items())))] = 1.0
        return samples, gaps

    def _gap(self, gap: FamilyGap) -> Series:
        labels = {**self._base, "engine": self.adapter.kind, **dict(gap.labels)}
        labels |= {"family": gap.family, "gap": gap.kind.value, "reason": gap.reason}
        return Series("llm_family_gap", tuple(sorted(labels.items())))


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _spellings(adapter: Adapter, name: str) -> list[tuple[str, str]]:
    """The prefixes under which a name may stand on a page: (own prefix, spelled prefix)."""
    found = [(own, spelled) for own, spelled in adapter.prefixes if name.startswith(own)]
    return found or [("", "")]
