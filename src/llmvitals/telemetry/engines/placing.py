"""Where a page stands among an engine's releases, and why a family is not on it: the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from llmvitals.gaps import GapKind
from llmvitals.telemetry.engines.versions import Fingerprint, Span, Version, candidates, version
from llmvitals.telemetry.mapping import FamilyGap, Row, plain_name


@dataclass(frozen=True, slots=True)
class Sighting:
    """A row with the releases that can show it and those that cannot but show it."""

    row: Row
    can: Span
    must: Span | None


def sightings(
    rows: Iterable[Row], releases: tuple[Version, ...], span: Callable[[Row], str], *, optional: Callable[[Row], bool]
) -> tuple[Sighting, ...]:
    """The rows that have a ``span``; an ``optional`` one must not show in any release, a hidden one only before."""
    found = []
    for row in rows:
        text = span(row)
        if text:
            must = None if optional(row) else Span(text)
            if must is not None and row.hidden:
                before = [r for r in releases if must.first <= r < version(row.hidden)]
                must = Span(f"{_dots(before[0])}..{_dots(before[-1])}") if before else None
            found.append(Sighting(row, Span(text), must))
    return tuple(found)


def _dots(release: Version) -> str:
    return ".".join(str(part) for part in release)


def place(table: Iterable[Sighting], releases: tuple[Version, ...], marks: frozenset[str]) -> tuple[Version, ...]:
    """The releases that can have written a page with these marks."""
    prints = [Fingerprint(plain_name(s.row.source), s.can, s.must) for s in table]
    return candidates(releases, prints, marks)


def absence(
    family: str,
    rows: Iterable[Row],
    table: Iterable[Sighting],
    found: tuple[Version, ...],
    who: str,
    when: Callable[[Row], str],
    unborn: str = "",
) -> FamilyGap:
    """Why a family that the page does not show is not there.

    ``who``: the engine with its releases. ``when``: in words, which releases show a row. ``unborn``: why it may not be
    there yet, where that is so.
    """
    possible = [s for s in table if s.row.family == family and any(s.can.holds(r) for r in found)]
    if not possible:
        spans = ", ".join(dict.fromkeys(when(row) for row in rows if row.family == family))
        return FamilyGap(family, GapKind.UNSUPPORTED, f"{who} does not show it ({spans})")
    if unborn:
        return FamilyGap(family, GapKind.NO_TRAFFIC, unborn)
    needs = next((s.row.needs for s in possible if s.must is None and s.row.needs), "")
    if needs:
        return FamilyGap(family, GapKind.UNSUPPORTED, f"it shows only with {needs}")
    if all(s.must is None or not all(s.must.holds(r) for r in found) for s in possible):
        reason = f"not every release of {who} shows it, and this one does not"
        return FamilyGap(family, GapKind.UNSUPPORTED, reason)
    return FamilyGap(family, GapKind.MISSING, "it should be on the page and is not")
