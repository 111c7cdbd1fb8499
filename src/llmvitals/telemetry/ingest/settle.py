"""From the numbers of a page to its samples: units, sums, ranges, stand-ins, and what is known of the page itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from llmvitals.gaps import GapKind
from llmvitals.schema import BY_NAME, family_of
from llmvitals.series import Series
from llmvitals.telemetry.ingest.reader import Read
from llmvitals.telemetry.mapping import Adapter, Entry, FamilyGap, Parts, scale_of

_UNUSABLE = "the page holds no usable number: NaN, infinite, negative, blank or outside its range"
_MOST_MARKS = 64  # kinds of page that one target is remembered to have shown


class Settle:
    """Settles the pages of one target; remembers what follows from a page's marks alone."""

    def __init__(self, adapter: Adapter, base: Mapping[str, str]) -> None:
        self._adapter = adapter
        self._base = base
        self._facts: dict[frozenset[str], dict[Series, float]] = {}

    def samples(self, read: Read) -> dict[Series, float]:
        """The canonical samples of a page, the target's own excepted."""
        parts = Parts(read.samples, [], read.marks, read.models, self._base)
        _bring_in(parts, read.specials, read.odd)
        self._adapter.derive(parts)
        known = self._facts.get(parts.marks)
        if known is None:
            if len(self._facts) >= _MOST_MARKS:
                self._facts.clear()
            known = self._facts[parts.marks] = self._page_facts(parts.marks)
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
        labels |= {"family": gap.family, "gap": gap.kind.value, "reason": gap.reason}
        return Series("llm_family_gap", tuple(sorted(labels.items())))


def _bring_in(parts: Parts, specials: Mapping[Entry, float], odd: list[Series]) -> None:
    """Bring values that are not plain into the samples: units, sums, ranges, then what only stands in."""
    samples, stand_in, kept = parts.samples, {}, []
    added: set[tuple[Series, str, frozenset[tuple[str, str]]]] = set()
    for entry, raw in specials.items():
        row, series = entry.row, entry.series
        if row.special:
            kept.append((entry, raw))
            continue
        if raw == row.nothing:
            parts.gaps.append(FamilyGap(row.family, GapKind.NO_TRAFFIC, "the engine has measured nothing yet"))
            continue
        value = raw * scale_of(row, series.name) + row.offset if raw < row.ceiling else math.nan
        top = 1.0 if BY_NAME[row.family].unit == "ratio" else math.inf
        if not 0.0 <= value <= top or math.isinf(value):
            odd.append(series)
        elif entry.stand_in:
            stand_in[series] = value
        elif row.add:
            own = series, row.source, frozenset(entry.source.items())
            if own not in added:  # Ray shows a counter under two names, with and without _total
                added.add(own)
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
