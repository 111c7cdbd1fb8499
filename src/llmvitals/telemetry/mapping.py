"""What an adapter is made of: mapping rows, what they make of a source series, and what the support matrix shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

from llmvitals import schema
from llmvitals.gaps import GapKind
from llmvitals.schema import Origin
from llmvitals.series import Series


@dataclass(frozen=True, slots=True)
class Row:
    """One source series and the canonical family it becomes.

    ``source`` is the family's name without ``_total``; ``family`` is empty for a row that only tells versions apart.
    ``v0`` and ``v1`` are the versions ("first..last", the last left out while it lasts) in which an engine generation
    shows it, ``span`` those of an engine of one generation. The value becomes ``value * scale + offset`` (of a histogram:
    its edges and its sum); at or above ``ceiling`` the source means "blank".
    """

    source: str
    family: str = ""
    v0: str = ""
    v1: str = ""
    hidden: str = ""  # from this version on it shows only with a flag
    needs: str = ""  # what must be configured before it shows
    labels: tuple[tuple[str, str], ...] = ()  # canonical label, source label
    fixed: tuple[tuple[str, str], ...] = ()  # canonical labels the source does not carry
    only: tuple[tuple[str, frozenset[str]], ...] = ()  # source labels and the values that are taken
    add: bool = False  # several source series make one: their values are added
    fallback: bool = False  # used only where no other row gives the series
    special: str = ""  # left to the adapter's ``derive``
    scale: float = 1.0
    offset: float = 0.0
    ceiling: float = math.inf
    nothing: float = math.nan  # the value that stands for "nothing to measure yet"
    late: bool = False  # it is not shown before something happened (vLLM: with several API servers)
    python_only: bool = False  # the Rust front end lacks it
    note: str = ""
    span: str = ""
    part: str = ""  # a plain number that is this part of a histogram without buckets: "_sum" or "_count"
    typed: str = ""  # what its TYPE line says where that is known to differ from the family's kind

    def blank(self, raw: float) -> bool:
        """Whether this is the number with which the source says that it has none."""
        return self.ceiling <= raw < math.inf

    @property
    def plain(self) -> bool:
        """Whether the value can be taken as it stands."""
        unit = schema.BY_NAME[self.family].unit if self.family else ""
        special = self.add or self.fallback or self.special or unit == "ratio"
        return not special and self.scale == 1.0 and self.offset == 0.0 and self.ceiling == math.inf


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A source series that needs more than its value; hashed by identity, one per source text.

    ``stand_in``: 0 for a series that gives its sample itself, else how far behind it stands: 1 is another row's fallback, 2
    the sample of another owner, 3 both. The nearest that the page holds is taken, of equals the last.
    """

    row: Row
    series: Series
    source: Mapping[str, str]
    stand_in: int = 0


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose number a source series is: identity labels. ``stand_in``: taken only where no other series gives it."""

    labels: Mapping[str, str]
    stand_in: bool = False


@dataclass(frozen=True, slots=True)
class FamilyGap:
    """A canonical family that this page cannot give, and why. ``labels`` narrow it to a rank."""

    family: str
    kind: GapKind
    reason: str
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Parts:
    """One parsed page on its way to a snapshot. ``samples`` is filled further by the adapter."""

    samples: dict[Series, float]
    specials: Sequence[tuple[Entry, float]]
    marks: frozenset[str]
    models: tuple[str, ...]
    identity: Mapping[str, str]  # instance and static labels
    gaps: list[FamilyGap] = field(default_factory=list)
    entries: tuple[Entry, ...] = ()  # every series of the page that is not plain, with the labels of its source

    def put(self, family: str, value: float, labels: Mapping[str, str]) -> None:
        """Add one canonical sample with the page's identity."""
        merged = {**self.identity, **labels}
        self.samples[Series(family, tuple(sorted(merged.items())))] = value


def nearest_last(specials: Sequence[tuple[Entry, float]]) -> list[tuple[Entry, float]]:
    """What is left to ``derive``, in an order in which the one to be taken of equals comes last."""
    return sorted(specials, key=lambda pair: -pair[0].stand_in)


UNUSABLE = "the page holds no usable number: NaN, infinite, negative, blank or outside its range"
"""The reason of a family whose number on the page cannot be."""

BLANKED = "its number on the page stands for 'blank': the source cannot give it"
"""The reason of a family whose number on the page says that there is none."""


def usable(parts: Parts, entry: Entry, raw: float) -> bool:
    """Whether what is left to ``derive`` is a number; where it is none, a gap of its GPU says so."""
    if 0.0 <= raw < entry.row.ceiling and raw != math.inf:
        return True
    kind, why = (GapKind.UNSUPPORTED, BLANKED) if entry.row.blank(raw) else (GapKind.MISSING, UNUSABLE)
    parts.gaps.append(FamilyGap(entry.row.family, kind, why, (("gpu", entry.series.label("gpu")),)))
    return False


class How(StrEnum):
    """How a canonical family comes about."""

    MAPPED = "mapped"
    DERIVED = "derived"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Support:
    """What an engine gives for one canonical family: the source and versions, or why it cannot."""

    family: str
    how: How
    source: str = ""
    versions: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Derived:
    """A canonical family that an adapter works out: from what, since when, how."""

    family: str
    source: str
    versions: str
    how: str


@dataclass(frozen=True, slots=True)
class Unused:
    """A series of this kind of page that is known and not taken. ``name``: without ``_total``; a ``*`` stands for anything."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class EngineMap:
    """One engine in the support matrix: every canonical family that an engine of this kind could give."""

    kind: str
    title: str
    versions: str
    support: tuple[Support, ...]
    origin: Origin = Origin.ENGINE


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """Everything that reading one kind of page takes.

    ``claims``: how a name on a page of this kind starts. ``identity``: source labels to
    identity labels, None when the series is not this engine's own. ``hint``: what a HELP or EOF line (keyword, name,
    text) says about the version. ``telling``: source labels whose presence does; each becomes a mark ``label:NAME``.
    ``shared``: canonical families that any page may give, so they alone make no page of this kind.
    ``derive``: fills in what rows cannot say. ``static``: version and gaps that follow from the marks alone.
    ``origin``: the families that such a page is asked for. ``versions``: releases whose pages were read; ``derived`` and
    ``cannot``: what ``derive`` works out, and why a family cannot be given. ``unused``: series that are known and not
    taken. ``rank``: kinds are held against a page from the lowest on, so that who repeats others' names comes first.
    ``document``: turns what is no exposition page, but this kind's own (JSON, plain text), into one; None when it is not
    its own; :class:`~llmvitals.errors.PageError` when it is and says nothing that can be read. ``path``: where the page
    is, for a target that names only host and port. ``counting``: makes what counts over the pages of one target, where a
    page shows a state and its changes are wanted; it runs after ``derive``.
    """

    kind: str
    title: str
    claims: tuple[bytes, ...]
    rows: tuple[Row, ...]
    prefixes: tuple[tuple[str, str], ...]
    identity: Callable[[Mapping[str, str]], Whose | None]
    derive: Callable[[Parts], None]
    static: Callable[[frozenset[str]], tuple[str, tuple[FamilyGap, ...]]]
    hint: Callable[[str, str, str], str]
    none_found: str
    telling: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    origin: Origin = Origin.ENGINE
    versions: str = ""
    derived: tuple[Derived, ...] = ()
    cannot: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[Unused, ...] = ()
    rank: int = 50
    document: Callable[[bytes], bytes | None] | None = None
    path: str = "/metrics"
    counting: Callable[[], Callable[[Parts], None]] | None = None


def exposed(rows: tuple[Row, ...]) -> dict[str, tuple[tuple[Row, str], ...]]:
    """Every sample name that rows answer to, with the rows and the exposed canonical name.

    Counters are taken with and without ``_total``; a histogram's parts keep their suffix.
    """
    found: dict[str, list[tuple[Row, str]]] = {}
    for row in rows:
        kind = schema.BY_NAME[row.family].kind if row.family else schema.Kind.GAUGE
        if row.part:
            for name in (f"{row.source}_total", row.source):
                found.setdefault(name, []).append((row, row.family + row.part))
            continue
        suffixes = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total", "")}.get(kind, ("",))
        for suffix in suffixes:
            name = row.family + suffix if kind == schema.Kind.HISTOGRAM else row.family
            found.setdefault(row.source + suffix, []).append((row, name))
    return {name: tuple(rows_) for name, rows_ in found.items()}


@cache
def spelled(adapter: Adapter) -> dict[str, tuple[tuple[Row, str], ...]]:
    """:func:`exposed` of an adapter's rows, under every prefix with which its names stand on a page; made once for all targets."""
    return {
        prefix + name.removeprefix(own): rows
        for name, rows in exposed(adapter.rows).items()
        for own, prefix in [pair for pair in adapter.prefixes if name.startswith(pair[0])] or [("", "")]
    }


def scale_of(row: Row, name: str) -> float:
    """What the value of a sample of this name is multiplied by: a histogram's counts have no unit."""
    histogram = row.family and schema.BY_NAME[row.family].kind == schema.Kind.HISTOGRAM
    return 1.0 if histogram and not name.endswith("_sum") else row.scale


def plain_name(name: str) -> str:
    """A sample's or TYPE line's name as its family is compared: no histogram suffix, no ``_total``."""
    for suffix in ("_bucket", "_sum", "_count"):
        name = name.removesuffix(suffix)
    return name.removesuffix("_total")
