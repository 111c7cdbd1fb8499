"""From the numbers of a page to its samples: units, sums, ranges, stand-ins, and what is known of the page itself."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from llmvitals.gaps import GapKind, family_gap
from llmvitals.schema import BY_NAME, family_of
from llmvitals.series import Series
from llmvitals.telemetry.ingest.reader import Read
from llmvitals.telemetry.mapping import BLANKED, UNUSABLE, Adapter, Entry, FamilyGap, Parts, Row, plain_name, scale_of

_BOUNDLESS = "nothing bounds it: the page says +Inf"
_HALF = "the page holds only a part of the histogram"
_TOP = ("le", "+Inf")
_WORD = 8  # characters of a name that is surely one of a series
_MOST_MARKS = 64  # kinds of page that one target is remembered to have shown


class Settle:
    """Settles the pages of one target; remembers what follows from a page's marks alone."""

    def __init__(self, adapter: Adapter, base: Mapping[str, str]) -> None:
        self._adapter = adapter
        self._base = base
        self._facts: dict[frozenset[str], dict[Series, float]] = {}
        self._count = adapter.counting() if adapter.counting is not None else None
        self._fed = {row.source: _fed_by(row, adapter) for row in adapter.rows if row.special}

    def samples(self, read: Read) -> dict[Series, float]:
        """The canonical samples of a page, the target's own excepted."""
        parts = Parts(read.samples, [], read.marks, read.models, self._base, entries=tuple(read.specials))
        bad = _bring_in(parts, read)
        shaky = [(entry, raw) for entry, raw in parts.specials if not (0.0 <= raw < math.inf)]
        shown = set(parts.samples) if bad or shaky else set()
        self._adapter.derive(parts)
        if self._count is not None:
            self._count(parts)
        if shaky:
            bad += _unsaid(parts, shaky, self._fed)
        if bad:
            _withhold(parts.samples, shown, bad)
        if _uneven(parts.samples):
            _mend_halves(parts, {family for lost in read.lost for family in lost.families})
        known = self._facts.get(parts.marks)
        if known is None:
            if len(self._facts) >= _MOST_MARKS:
                self._facts.clear()
            known = self._facts[parts.marks] = self._page_facts(parts.marks)
        if read.lost:
            told = {family for lost in read.lost for family in lost.families}
            known = {series: value for series, value in known.items() if series.label("family") not in told}
        parts.samples.update(known)
        parts.samples.update({self._gap(gap): 1.0 for gap in parts.gaps})
        return parts.samples

    def _page_facts(self, marks: frozenset[str]) -> dict[Series, float]:
        """Engine, version, and the families that a page with these marks cannot give."""
        version, gaps = self._adapter.static(marks)
        facts = {self._gap(gap): 1.0 for gap in gaps}
        if version:
            info = {**self._base, "engine": self._adapter.kind, "version": version}
            facts[Series("llm_target_info", tuple(sorted(info.items())))] = 1.0
        return facts

    def _gap(self, gap: FamilyGap) -> Series:
        labels = {**self._base, "engine": self._adapter.kind, **dict(gap.labels)}
        return family_gap(gap.family, gap.kind, gap.reason, **labels)


def usable(entry: Entry, raw: float) -> float | None:
    """The canonical value of what a source says; None where it cannot be one.

    A limit of ``+Inf`` is a value: nothing bounds what it limits.
    """
    row = entry.row
    value = raw * scale_of(row, entry.series.name) + row.offset if raw < row.ceiling else raw
    if boundless(entry.series, value):
        return value
    family = BY_NAME.get(row.family)
    ratio = family is not None and family.unit == "ratio" and not row.special  # ``derive`` makes one of it
    top = 1.0 if ratio else math.inf
    return value if raw < row.ceiling and 0.0 <= value <= top and not math.isinf(value) else None


def boundless(series: Series, value: float) -> bool:
    """Whether a source says of a limit that there is none."""
    return value == math.inf and series.name.endswith("_limit")


Bad = tuple[str, Mapping[str, str]]
"""A canonical family with a number on the page that cannot be, and whose number it is (labels; none: anybody's)."""


def _bring_in(parts: Parts, read: Read) -> list[Bad]:
    """Bring values that are not plain into the samples: units, sums, ranges, then what only stands in.

    A sum that lacks one of its parts would look like a counter that was reset: it is withheld, and a gap says why. A number
    that stands for "blank" is none, and nothing is wrong with the page.
    Returns what could not be.
    """
    samples, odd = parts.samples, list(read.odd)
    kept: list[tuple[Entry, float]] = []
    stand_in: dict[Series, tuple[int, float]] = {}
    summed: dict[Series, float] = {}
    short: set[Series] = set()
    blank: set[Series] = set()
    bad: list[Bad] = []
    for entry, raw in read.specials.items():
        row, series = entry.row, entry.series
        if row.blank(raw) and not (row.special or row.add):
            blank.add(series)
            continue
        if row.special:
            kept.append((entry, raw))
            continue
        if raw == row.nothing:
            parts.gaps.append(FamilyGap(row.family, GapKind.NO_TRAFFIC, "the engine has measured nothing yet"))
            continue
        value = usable(entry, raw)
        if value is None:
            odd.append((series, raw))
            if row.add:
                short.add(series)
        elif boundless(series, value):
            odd.append((series, value))
        elif entry.stand_in:
            if entry.stand_in <= stand_in.get(series, (entry.stand_in, value))[0]:
                stand_in[series] = entry.stand_in, value
        elif row.add:
            summed[series] = summed.get(series, 0.0) + value
        else:
            samples[series] = value
    lost = {family: lost.why for lost in read.lost for family in lost.families}
    for series, value in summed.items():
        if series not in short and _family(series) not in lost and math.isfinite(value):
            samples[series] = value + samples.get(series, 0.0)
    for series, (_, value) in stand_in.items():
        samples.setdefault(series, value)
    parts.specials = kept
    for series, value in odd:
        family = _family(series)
        if family and series not in samples:
            kind, why = (GapKind.UNSUPPORTED, _BOUNDLESS) if boundless(series, value) else (GapKind.MISSING, UNUSABLE)
            parts.gaps.append(FamilyGap(family, kind, why, _whose(dict(series.labels))))
            bad.append((family, dict(series.labels)))
    parts.gaps.extend(
        FamilyGap(_family(series), GapKind.UNSUPPORTED, BLANKED, _whose(dict(series.labels)))
        for series in blank
        if series not in samples
    )
    parts.gaps.extend(FamilyGap(family, GapKind.MISSING, why.value) for family, why in lost.items())
    bad.extend((family, {}) for family in lost)
    return bad


def _withhold(samples: dict[Series, float], shown: set[Series], bad: list[Bad]) -> None:
    """Take out what was worked out for a family whose own number cannot be: from what is left it would come out too small.

    What rows gave stays, and so does what is of another rank, model, upstream.
    """
    for series in [series for series in samples if series not in shown]:
        family = _family(series)
        own = [labels for name, labels in bad if name == family]
        if any(
            all(labels.get(name, value) == value for name, value in series.labels if name != "le") for labels in own
        ):
            del samples[series]


def _uneven(samples: Mapping[Series, float]) -> bool:
    """Whether some histogram may lack a part. Each page is asked, so whole ones are told by counting alone."""
    tops = sums = counts = 0
    spread: set[str] = set()
    topped: set[str] = set()
    for series in samples:
        name = series.name
        if name.endswith("_bucket"):
            spread.add(name)
            if _TOP in series.labels:
                topped.add(name)
                tops += 1
        elif name.endswith("_sum"):
            sums += 1
        elif name.endswith("_count"):
            counts += 1
    return bool(spread) and (spread != topped or not sums == counts == tops)


def _mend_halves(parts: Parts, told: set[str]) -> None:
    """Histograms of which a page holds a part: it was cut, or its program stops halfway.

    Without the highest bucket nothing can be said of one: it is left out, and a gap says so (``told``: families that have one
    already). Without its count, that bucket is the count: every observation is in it.
    """
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Series]] = {}
    for series in parts.samples:
        if series.name.endswith(("_bucket", "_sum", "_count")) and (family := _family(series)):
            labels = tuple(pair for pair in series.labels if pair[0] != "le")
            groups.setdefault((family, labels), []).append(series)
    for (family, labels), members in groups.items():
        names = {series.name.removeprefix(family) for series in members}
        top = next((parts.samples[series] for series in members if _TOP in series.labels), None)
        if "_bucket" not in names:
            continue  # sources that tell no buckets at all are mapped so, and say so
        if top is not None:
            parts.samples.setdefault(Series(f"{family}_count", labels), top)
            continue
        for series in members:
            del parts.samples[series]
        if family not in told:
            parts.gaps.append(FamilyGap(family, GapKind.MISSING, _HALF, _whose(dict(labels))))


def _fed_by(row: Row, adapter: Adapter) -> tuple[str, ...]:
    """The families that are said to come from a row's source, beside its own; sources may be named without a prefix."""
    source = plain_name(row.source)
    return tuple(
        told.family
        for told in adapter.derived
        if told.family != row.family
        and any(len(word) >= _WORD and source.endswith(plain_name(word)) for word in re.findall(r"[\w:]+", told.source))
    )


def _unsaid(parts: Parts, shaky: list[tuple[Entry, float]], fed: Mapping[str, tuple[str, ...]]) -> list[Bad]:
    """What was left to ``derive``, cannot be a number, and of which ``derive`` did not say so itself."""
    told = {gap.family for gap in parts.gaps if gap.kind is GapKind.MISSING}
    bad: list[Bad] = []
    for entry, raw in shaky:
        own = entry.row.family
        if boundless(entry.series, raw) or raw == entry.row.nothing:
            continue
        families = (*((own,) if own else ()), *fed[entry.row.source])
        bad.extend((family, dict(entry.series.labels)) for family in families if family not in told)
    silent = {family for family, _ in bad}
    parts.gaps[:] = [gap for gap in parts.gaps if gap.family not in silent]
    parts.gaps.extend(FamilyGap(family, GapKind.MISSING, UNUSABLE, _whose(labels)) for family, labels in bad)
    return bad


def _family(series: Series) -> str:
    family = family_of(series.name)
    return family.name if family is not None else ""


def _whose(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((k, v) for k, v in labels.items() if k in {"model", "rank", "gpu"})
