"""The support matrix as people see it: sources by group, the families of one source, one group's sources side by side.

Made from the adapters' own mapping. The terminal, the documents and the app's page all show what is worked out here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmvitals.schema import BY_NAME, Layer, Origin
from llmvitals.telemetry.mapping import EngineMap, How, Support
from llmvitals.triage.view import Badge, Tone


@dataclass(frozen=True, slots=True)
class Group:
    """Sources that are asked for the same families. ``each``: one of them; ``parts``: what their families are about."""

    title: str
    each: str
    origin: Origin
    parts: tuple[tuple[str, frozenset[Layer]], ...]


_USER = ("User experience", frozenset({Layer.USER}))
GROUPS: tuple[Group, ...] = (
    Group(
        "Engines",
        "Engine",
        Origin.ENGINE,
        (_USER, ("Queue and admission", frozenset({Layer.QUEUE})), ("Inside the engine", frozenset({Layer.ENGINE}))),
    ),
    Group(
        "Gateways",
        "Gateway",
        Origin.GATEWAY,
        # The only family of the engine's layer that a gateway has is the time its upstreams took.
        (_USER, ("Queue and upstreams", frozenset({Layer.QUEUE, Layer.ENGINE}))),
    ),
    Group("GPUs", "GPU page", Origin.GPU, (("GPU", frozenset({Layer.ENGINE})),)),
)

HOW: Mapping[How, Badge] = {
    How.MAPPED: Badge("mapped", "check", Tone.GOOD),
    How.DERIVED: Badge("derived", "layers", Tone.UNSURE),
    How.UNSUPPORTED: Badge("not available", "dash", Tone.QUIET),
}
NO = Badge("no", "dash", Tone.QUIET)
"""``not available`` where there is little room."""
NO_MATCH = Badge("No match", "question", Tone.UNSURE)

OVERVIEW, ONE = "overview", "source"
VIEWS: Mapping[str, str] = {
    OVERVIEW: "All sources",
    ONE: "One source",
    **{group.origin.value: f"{group.title} side by side" for group in GROUPS},
}
"""The views of the page, by the word that a link names them with."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The short table of one group: its heads, and for each kind of source the cells below them."""

    group: Group
    head: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A family of one source: how it comes about, from which series, in which versions; a note, or why not."""

    family: str
    help: str
    how: Badge
    source: str
    versions: str
    note: str


@dataclass(frozen=True, slots=True)
class Part:
    """What families of one part of a source's matrix pass the filter. ``title`` says how many are given."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A family of one source in the wide table. ``said``: its series, or why there is none."""

    how: Badge
    said: str


@dataclass(frozen=True, slots=True)
class Side:
    """The wide table of one group: the sources' names, then by part each family with a cell for each source."""

    group: Group
    sources: tuple[tuple[str, str], ...]
    parts: tuple[tuple[str, tuple[tuple[str, str, tuple[Cell, ...]], ...]], ...]


def heads(group: Group) -> tuple[str, ...]:
    """The heads of a group's short table."""
    return (group.each, "Versions", *(title for title, _ in group.parts))


def overviews(engines: Sequence[EngineMap]) -> Iterator[Overview]:
    """The short table of every group that has sources."""
    for group in GROUPS:
        members = [engine for engine in engines if engine.origin is group.origin]
        if members:
            yield Overview(group, heads(group), tuple((engine.kind, _counted(engine, group)) for engine in members))


def _counted(engine: EngineMap, group: Group) -> tuple[str, ...]:
    return (engine.title, engine.versions, *(_count(engine, layers) for _, layers in group.parts))


def _count(engine: EngineMap, layers: frozenset[Layer]) -> str:
    told = _of(engine, layers)
    return f"{sum(s.how is not How.UNSUPPORTED for s in told)} of {len(told)}"


def _of(engine: EngineMap, layers: frozenset[Layer]) -> list[Support]:
    return [support for support in engine.support if BY_NAME[support.family].layer in layers]


def view(named: str, kind: str) -> str:
    """The view that a link opens: the one it names, else the one source that it names, else all of them."""
    if named in VIEWS:
        return named
    return ONE if kind else OVERVIEW


def group_of(engine: EngineMap) -> Group:
    """The group that a source belongs to."""
    return next(group for group in GROUPS if group.origin is engine.origin)


def one(engine: EngineMap, words: str = "") -> tuple[Part, ...]:
    """Every family of one source that holds each of the ``words`` in its own name or in that of its series."""
    return tuple(
        Part(f"{title}: {_count(engine, layers)}", lines)
        for title, layers in group_of(engine).parts
        if (lines := tuple(_line(s) for s in _of(engine, layers) if _holds(words, s.family, s.source)))
    )


def _line(support: Support) -> Line:
    named = BY_NAME[support.family]
    return Line(named.name, named.help, HOW[support.how], support.source, support.versions, support.note)


def _holds(words: str, *names: str) -> bool:
    held = " ".join(names).lower()
    return all(word in held for word in words.lower().split())


def side(engines: Sequence[EngineMap], group: Group, words: str = "") -> Side:
    """The sources of a group side by side; the ``words`` filter as in :func:`one`, over the series of all of them."""
    members = [engine for engine in engines if engine.origin is group.origin]
    columns = [{support.family: support for support in engine.support} for engine in members]
    parts = []
    for title, layers in group.parts:
        families = [s.family for s in _of(members[0], layers)] if members else []
        rows = [(family, [column[family] for column in columns]) for family in families]
        shown = tuple(
            (family, BY_NAME[family].help, tuple(map(_cell, row)))
            for family, row in rows
            if _holds(words, family, *(support.source for support in row))
        )
        if shown:
            parts.append((title, shown))
    # What stands in brackets after a name explains it; a narrow column has no room for that.
    sources = tuple((engine.kind, engine.title.partition(" (")[0]) for engine in members)
    return Side(group, sources, tuple(parts))


def _cell(support: Support) -> Cell:
    if support.how is How.UNSUPPORTED:
        return Cell(NO, support.note)
    return Cell(HOW[support.how], support.source)
