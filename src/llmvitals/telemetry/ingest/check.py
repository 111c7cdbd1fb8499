"""One page against the support matrix: what of the canonical schema it gives, what it holds beside that, and what is odd.

The page goes through :class:`~llmvitals.telemetry.ingest.ingest.Ingest`, so that what is shown is what an exporter takes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from typing import Any

from llmvitals.errors import LlmvitalsError
from llmvitals.gaps import GapKind
from llmvitals.schema import FAMILIES, Family, Kind, Origin, family_of, origin_of
from llmvitals.series import Series, Snapshot
from llmvitals.telemetry.engines.support import engine_map
from llmvitals.telemetry.ingest.exposition import MOST, countable
from llmvitals.telemetry.ingest.ingest import Ingest
from llmvitals.telemetry.ingest.lines import Line, Page, Warned, Warnings, read_lines
from llmvitals.telemetry.ingest.page import Limits, RawPage, plain, readable
from llmvitals.telemetry.ingest.reader import Reader
from llmvitals.telemetry.ingest.settle import boundless, usable
from llmvitals.telemetry.mapping import Adapter, Entry, How, Support, Unused, plain_name
from llmvitals.telemetry.registry import DOCUMENTS, EVERYWHERE

_NOT_OURS = "none of its series is this source's own number"
_EMPTY = "it is declared on the page and has no value yet"
_TYPES: Mapping[Kind, frozenset[str]] = {
    Kind.GAUGE: frozenset({"gauge", "untyped", "unknown", "info", "stateset"}),
    Kind.COUNTER: frozenset({"counter", "untyped", "unknown"}),
    Kind.HISTOGRAM: frozenset({"histogram", "untyped", "unknown"}),
}
"""What a TYPE line may say of a series that becomes a family of a kind."""
_PARTED, _COUNTED = frozenset({"histogram", "summary"}), ("_count", "_sum")


@dataclass(frozen=True, slots=True)
class Sample:
    """One canonical sample: labels without ``le`` and ``instance``; of a histogram the value is its count."""

    labels: tuple[tuple[str, str], ...]
    value: float


@dataclass(frozen=True, slots=True)
class FamilyState:
    """What a page gives for one canonical family. ``state``: mapped, derived, unsupported or missing.

    ``source``: the series on the page that it came from, or would come from.
    """

    family: str
    state: str
    source: str
    why: str
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class PageReport:
    """A page, held against what its kind can give. ``refused``: why nothing of it is taken; empty when something is."""

    kind: str
    title: str
    format: str
    refused: str
    families: tuple[FamilyState, ...] = ()
    known_unused: tuple[Unused, ...] = ()
    unknown: tuple[str, ...] = ()
    warnings: tuple[Warned, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether everything on the page was understood."""
        return not (self.refused or self.unknown or self.warnings)

    def document(self) -> dict[str, Any]:
        """The report for machines; every number in it is finite."""
        return {
            "kind": self.kind or None,
            "format": self.format or None,
            "refused": self.refused or None,
            "families": [
                {
                    "family": f.family,
                    "state": f.state,
                    "source": f.source,
                    "why": f.why,
                    "samples": [{"labels": dict(s.labels), "value": s.value} for s in f.samples],
                }
                for f in self.families
            ],
            "known_unused": [unused.name for unused in self.known_unused],
            "unknown": list(self.unknown),
            "warnings": [{"family": w.family, "line": w.line, "what": w.what} for w in self.warnings],
        }


def check(page: RawPage, *, place: str, kind: str = "auto", limits: Limits | None = None) -> PageReport:
    """Hold a page against its kind. ``place`` names it in the words of a refusal.

    Raises :class:`~llmvitals.errors.SettingsError` for a kind that is none.
    """
    allowed = limits or Limits()
    ingest = Ingest(instance=place, kind=kind, limits=allowed)
    try:
        body = plain(page, place=place, limits=allowed)
    except LlmvitalsError as error:
        return PageReport("", "", "", _one_line(error))
    try:
        text = readable(page, place=place, limits=allowed, documents=DOCUMENTS)
    except LlmvitalsError as error:
        return PageReport("", "", _format(body, None), _one_line(error))
    lines = read_lines(text, allowed)
    form = _format(
        body, lines if text == body else read_lines(body, allowed)
    )  # a document may be a page that was renamed
    try:
        snapshot = ingest.read(page)
    except LlmvitalsError as error:
        if ingest.adapter is None:
            told = lines.warnings
            if form == "text":  # the first words of lines that are no samples are nobody's families
                told = tuple(Warned("", warned.line, warned.what) for warned in told)
            return PageReport("", "", form, _one_line(error), warnings=told)
        return _report(ingest.reader, None, lines, form, _one_line(error))
    return _report(ingest.reader, snapshot, lines, form, "")


def _one_line(error: LlmvitalsError) -> str:
    return " ".join(str(error).split())


def _format(body: bytes, lines: Page | None) -> str:
    """The form of what came, before a source made a page of it."""
    start = body[:2048].lstrip()
    samples = lines is not None and any(not math.isnan(line.value) for line in lines.lines)
    if start.startswith((b"{", b"[")) and not samples:
        return "json"
    if start.startswith(b"<"):
        return "html"
    if lines is None or not (samples or lines.types):
        return "text"
    return "openmetrics" if lines.openmetrics else "prometheus"


# -- what the page holds ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Taken:
    """What became of a page's lines: canonical family to the families on the page that it came from, and the reverse."""

    sources: Mapping[str, tuple[str, ...]]
    used: frozenset[str]
    rows: Mapping[str, bool]  # canonical family to whether a row gives it as it stands
    declared: Mapping[str, str]  # canonical family to the family on the page whose TYPE line promises it


def _report(reader: Reader, snapshot: Snapshot | None, lines: Page, form: str, refused: str) -> PageReport:
    adapter = reader.adapter
    warnings = Warnings()
    taken = _taken(reader, lines, warnings)
    known, unknown = _rest(reader, lines, taken)
    strangers = frozenset(unknown)
    for line in lines.lines:  # of what nobody takes only strangers' odd numbers are worth a word
        if line.family in strangers and not math.isfinite(line.value):
            warnings.add(line.family, line.number, f"{line.text[:60]} is no number that can be shown", "not finite")
    told = tuple(sorted((*lines.warnings, *warnings.told()), key=lambda warned: warned.line))
    if form in {"json", "text"}:  # lines of a page that was made of a document are nobody's lines
        told = tuple(Warned(warned.family, 0, warned.what) for warned in told)
    families = _families(adapter, snapshot, taken) if snapshot is not None else ()
    return PageReport(adapter.kind, adapter.title, form, refused, families, known, tuple(unknown), told)


def _taken(reader: Reader, lines: Page, warnings: Warnings) -> _Taken:
    sources: dict[str, dict[str, None]] = {}
    used: set[str] = set()
    plainly: dict[str, bool] = {}
    owner: dict[Series, Line] = {}
    for line in lines.lines:
        meaning = reader.meaning(line.series)
        if not isinstance(meaning, Series | Entry):
            continue
        used.add(line.family)
        series = meaning if isinstance(meaning, Series) else meaning.series
        family = family_of(series.name)
        if family is None:
            continue
        sources.setdefault(family.name, {}).setdefault(line.family)
        entry = meaning if isinstance(meaning, Entry) else None
        special = entry is not None and bool(entry.row.special)
        plainly[family.name] = plainly.get(family.name, False) or not special
        _judge(line, entry, series, family, warnings)
        if not special:
            _type(line, reader, family, lines, warnings)
        if entry is None or not (entry.row.add or entry.row.special or entry.stand_in):
            first = owner.setdefault(series, line)
            if (first.name, first.labels) != (line.name, line.labels):
                what = f"becomes the same {family.name} as line {first.number}; only the last one counts"
                warnings.add(line.family, line.number, what, "same")
    named = {reader.plain(family): family for family in lines.types}
    declared = {row.family: named[name] for row in reader.adapter.rows if (name := plain_name(row.source)) in named}
    return _Taken({name: tuple(found) for name, found in sources.items()}, frozenset(used), plainly, declared)


_ODD: tuple[tuple[Callable[[float], bool], str], ...] = (
    (math.isnan, "is no data"),
    (math.isinf, "is infinite"),
    (lambda value: value < 0.0, "is negative"),
    (lambda value: value >= MOST, "is more than a counter can hold"),
    (lambda value: True, "is outside its range, or stands for 'blank'"),
)


def _judge(line: Line, entry: Entry | None, series: Series, family: Family, warnings: Warnings) -> None:
    """Warn of a number that cannot be, as reading judges it."""
    value = line.value
    if entry is None:
        fine = 0.0 <= value < MOST or boundless(series, value)
    else:
        known = countable(value)
        fine = known == entry.row.nothing or usable(entry, known) is not None
    if not fine:
        what = next(words for test, words in _ODD if test(value))
        text = f"{line.text[:60]} {what}: it is not taken as {family.name}"
        warnings.add(line.family, line.number, text, what)


def _type(line: Line, reader: Reader, family: Family, lines: Page, warnings: Warnings) -> None:
    """Warn of a TYPE line that says something else than what is made of the series."""
    said = lines.types.get(line.family, "")
    if said in _PARTED and line.name.endswith(_COUNTED):
        said = "counter" if family.kind is Kind.COUNTER else said
    rows = [row for row in reader.wanted(line.name) if row.family == family.name]
    expected = _TYPES[family.kind] | {row.typed for row in rows}
    if said and said not in expected and not any(row.part for row in rows):
        what = f"its TYPE line says {said}, and {family.name} is a {family.kind}"
        warnings.add(line.family, line.number, what, "kind")


def _rest(reader: Reader, lines: Page, taken: _Taken) -> tuple[tuple[Unused, ...], tuple[str, ...]]:
    """The families of the page that nothing is taken from: those that are known, with why, and the others."""
    known: list[Unused] = []
    unknown: list[str] = []
    named = {line.family: line.name for line in lines.lines}
    rows = [(re.compile(translate(row.name)).match, row) for row in (*reader.adapter.unused, *EVERYWHERE)]
    for family in lines.families:
        if family in taken.used:
            continue
        spelled = dict.fromkeys((family, family.removesuffix("_total"), reader.plain(family)))
        found = next((row for matches, row in rows if any(map(matches, spelled))), None)
        if found is not None:
            known.append(Unused(family, found.why))
        elif reader.wanted(named.get(family, family)) or reader.declares(family):
            known.append(Unused(family, _NOT_OURS if family in named else _EMPTY))
        else:
            unknown.append(family)
    return tuple(known), tuple(unknown)


# -- what the schema asks for ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Gap:
    kind: str
    reason: str


def _families(adapter: Adapter, snapshot: Snapshot, taken: _Taken) -> tuple[FamilyState, ...]:
    samples = _samples(snapshot, {"le", "instance"} if adapter.versions else {"le"})
    gaps = _gaps(snapshot)
    asked = [f for f in FAMILIES if _asked(f.name, adapter, samples)]
    support = {told.family: told for told in engine_map(adapter, families=asked).support}
    return tuple(
        _state(family.name, adapter, samples.get(family.name), gaps.get(family.name, ()), support[family.name], taken)
        for family in asked
    )


def _asked(name: str, adapter: Adapter, given: Mapping[str, object]) -> bool:
    """The families of a source's own kind, and those of others that it gives. A page of ours may give any."""
    origin = origin_of(name)
    return origin is not Origin.TARGET and (origin is adapter.origin or name in given or not adapter.versions)


def _state(
    name: str,
    adapter: Adapter,
    samples: tuple[Sample, ...] | None,
    gaps: tuple[_Gap, ...],
    support: Support,
    taken: _Taken,
) -> FamilyState:
    sources = ", ".join(taken.sources.get(name, ()))
    derived = next((d for d in adapter.derived if d.family == name), None)
    by_rule = derived is not None and not taken.rows.get(name, False)
    given = How.DERIVED if by_rule else How.MAPPED
    from_ = derived.source if derived is not None and by_rule else sources or support.source
    why = "; ".join(dict.fromkeys(gap.reason for gap in gaps))
    if samples is not None:
        how = derived.how if derived is not None and by_rule else support.note
        sum_only = "" if samples else "only its sum is on the page"
        return FamilyState(name, given, from_, "; ".join(filter(None, (how, why, sum_only))), samples)
    worst = _worst(gaps)
    if worst is not None:
        state = {GapKind.UNSUPPORTED: "unsupported", GapKind.MISSING: "missing"}.get(worst, given.value)
        return FamilyState(name, state, from_, why)
    if support.how is How.UNSUPPORTED:
        return FamilyState(name, "unsupported", "", support.note)
    if name in taken.declared:
        return FamilyState(name, given, taken.declared[name], _EMPTY)
    return FamilyState(name, "missing", from_, f"{from_} should be on the page and is not")


def _worst(gaps: tuple[_Gap, ...]) -> GapKind | None:
    """The gap that says most about a family with no sample: what should be there first."""
    kinds = {gap.kind for gap in gaps}
    order = (GapKind.MISSING, GapKind.NO_TRAFFIC, GapKind.UNSUPPORTED)
    return next((kind for kind in order if kind.value in kinds), GapKind.NO_TRAFFIC if kinds else None)


def _samples(snapshot: Snapshot, without: set[str]) -> dict[str, tuple[Sample, ...]]:
    """Canonical families and their samples; of a histogram one for each set of labels: its count, or its last bucket."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for series, value in snapshot.samples.items():
        family = family_of(series.name)
        if family is None:
            continue
        labels = tuple(pair for pair in series.labels if pair[0] not in without)
        mine = found.setdefault(family.name, {})
        if family.kind is not Kind.HISTOGRAM or series.name.endswith("_count"):
            mine[labels] = value
        elif series.label("le") == "+Inf":
            mine.setdefault(labels, value)
    return {name: tuple(Sample(*pair) for pair in sorted(mine.items())) for name, mine in found.items()}


def _gaps(snapshot: Snapshot) -> dict[str, tuple[_Gap, ...]]:
    found: dict[str, list[_Gap]] = {}
    for series in snapshot.samples:
        if series.name == "llm_family_gap":
            gap = _Gap(series.label("gap"), series.label("reason"))
            found.setdefault(series.label("family"), []).append(gap)
    return {name: tuple(gaps) for name, gaps in found.items()}
