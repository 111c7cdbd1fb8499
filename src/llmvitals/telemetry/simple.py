"""A kind of page in one call: rows, whose numbers they are, and why the rest cannot be given.

Enough for every source whose releases need not be told apart. What a page lacks becomes a gap by what its rows say:
``needs`` (UNSUPPORTED: only with a setting), ``late`` (NO_TRAFFIC: not before it happened), else MISSING.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from llmvitals.gaps import GapKind
from llmvitals.schema import FAMILIES, Origin, family_of, origin_of
from llmvitals.series import Series
from llmvitals.telemetry.mapping import Adapter, Derived, Entry, FamilyGap, Parts, Row, Unused, Whose, plain_name

SHORT = "one of its numbers is none (NaN, infinite, negative or blank): what is left would be short of it"


@dataclass(frozen=True, slots=True)
class Copy:
    """A canonical sample that another one equals: ``_sum`` of a histogram of lengths is the count of tokens."""

    source: str  # exposed name, as llm_request_prompt_tokens_sum
    family: str
    how: str


def source(
    kind: str,
    title: str,
    rows: tuple[Row, ...],
    *,
    claims: tuple[bytes, ...],
    versions: str,
    none_found: str,
    origin: Origin = Origin.ENGINE,
    prefixes: tuple[tuple[str, str], ...] = (),
    identity: Callable[[Mapping[str, str]], Whose | None] | None = None,
    derive: Callable[[Parts], None] | None = None,
    derived: tuple[Derived, ...] = (),
    copies: tuple[Copy, ...] = (),
    cannot: Mapping[str, str] | None = None,
    unused: tuple[Unused, ...] = (),
    rank: int = 50,
    document: Callable[[bytes], bytes | None] | None = None,
    hint: Callable[[str, str, str], str] | None = None,
    shared: tuple[str, ...] = (),
    path: str = "/metrics",
) -> Adapter:
    """An adapter. ``identity``: whose numbers a series is, from its labels; without it, the only engine's on the page.

    ``derive`` runs before ``copies``; families that either gives belong in ``derived`` as well.
    """
    told = (*derived, *(Derived(copy.family, copy.source, "", copy.how) for copy in copies))
    why = cannot or {}

    def settle(parts: Parts) -> None:
        if derive is not None:
            derive(parts)
            _withhold(parts)
        _copy(parts, copies)
        names = {series.name for series in parts.samples}
        parts.gaps.extend(_partly(names, rows))
        shown = {family.name for name in names if (family := family_of(name)) is not None}
        shown |= {gap.family for gap in parts.gaps}
        parts.gaps.extend(
            _gap(f.name, rows, told, title, why.get(f.name, ""), parts.marks)
            for f in FAMILIES
            if origin_of(f.name) is origin and f.name not in shown
        )

    return Adapter(
        kind=kind,
        title=title,
        claims=claims,
        rows=rows,
        prefixes=prefixes,
        identity=identity or only(kind),
        derive=settle,
        static=lambda marks: (versions, ()),
        hint=hint or (lambda keyword, name, text: ""),
        none_found=none_found,
        shared=shared,
        origin=origin,
        versions=versions,
        derived=told,
        cannot=why,
        unused=unused,
        rank=rank,
        document=document,
        path=path,
    )


def only(kind: str, model: str = "") -> Callable[[Mapping[str, str]], Whose | None]:
    """Identity of a page about one engine; ``model`` names the source label that holds the model, if there is one."""

    def identity(labels: Mapping[str, str]) -> Whose:
        named = {"model": labels[model]} if model and labels.get(model) else {}
        return Whose({"engine": kind, "rank": "0", **named})

    return identity


def gateway(kind: str, model: str = "") -> Callable[[Mapping[str, str]], Whose | None]:
    """Identity of what a gateway saw; ``model``: the source label with the model that was asked for."""

    def identity(labels: Mapping[str, str]) -> Whose:
        named = {"model": labels[model]} if model and labels.get(model) else {}
        return Whose({"gateway": kind, **named})

    return identity


def added(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Rows of which several source series (per key, route, worker) make one canonical series: added, never overwritten."""
    return tuple(replace(row, add=not (row.special or row.fallback)) for row in rows)


def sound(parts: Parts) -> list[tuple[Entry, float]]:
    """What is left to ``derive``, without families that hold a number which cannot be.

    What ``derive`` adds to such a family from elsewhere is withheld: a counter that lacks a part looks like a reset one.
    """
    bad = {entry.row.family for entry, value in parts.specials if not 0.0 <= value < math.inf}
    parts.gaps.extend(FamilyGap(family, GapKind.MISSING, SHORT) for family in sorted(bad) if family)
    return [(entry, value) for entry, value in parts.specials if entry.row.family not in bad]


def _withhold(parts: Parts) -> None:
    short = {gap.family for gap in parts.gaps if gap.reason == SHORT}
    for series in [s for s in parts.samples if short and (f := family_of(s.name)) is not None and f.name in short]:
        del parts.samples[series]


def _copy(parts: Parts, copies: tuple[Copy, ...]) -> None:
    for copy in copies:
        for series in [s for s in parts.samples if s.name == copy.source]:
            parts.samples.setdefault(Series(copy.family, series.labels), parts.samples[series])


_PARTS = ("_bucket", "_sum", "_count")


def _partly(names: set[str], rows: tuple[Row, ...]) -> Iterator[FamilyGap]:
    """The parts that a histogram lacks by its nature: none of its rows is a histogram of the source."""
    shown = {found.name for name in names if name.endswith(_PARTS) and (found := family_of(name)) is not None}
    for family in sorted(shown):
        kinds = {row.part for row in rows if row.family == family}
        lacks = [part for part in _PARTS if f"{family}{part}" not in names]
        if kinds and kinds <= {"_sum", "_count"} and "_bucket" in lacks:
            why = "only its number or its sum is told, not how the values spread"
            yield from (FamilyGap(f"{family}{part}", GapKind.UNSUPPORTED, why) for part in lacks)


def _gap(
    family: str, rows: tuple[Row, ...], told: tuple[Derived, ...], title: str, why: str, marks: frozenset[str]
) -> FamilyGap:
    """Why a page does not show a family."""
    mine = [row for row in rows if row.family == family]
    if any(plain_name(row.source) in marks for row in mine):
        return FamilyGap(family, GapKind.NO_TRAFFIC, "it is declared on the page and has no value yet")
    if not mine and family in {d.family for d in told}:
        return FamilyGap(family, GapKind.NO_TRAFFIC, "what it follows from is not on the page yet")
    if not mine:
        return FamilyGap(family, GapKind.UNSUPPORTED, why or f"{title} shows nothing that says it")
    needs = next((row.needs for row in mine if row.needs), "")
    if needs and all(row.needs for row in mine):
        return FamilyGap(family, GapKind.UNSUPPORTED, f"it shows only with {needs}")
    if any(row.late for row in mine):
        return FamilyGap(family, GapKind.NO_TRAFFIC, "it is not shown before something of its kind has happened")
    return FamilyGap(family, GapKind.MISSING, f"{mine[0].source} should be on the page and is not")
