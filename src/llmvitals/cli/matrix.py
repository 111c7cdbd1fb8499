"""The support matrix as text, Markdown and JSON: what each source gives of the canonical schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmvitals.app.matrix import GROUPS, HOW, Overview, heads, overviews
from llmvitals.schema import Layer
from llmvitals.telemetry.mapping import EngineMap, Support

LAYERS: tuple[tuple[Layer, str], ...] = (
    (Layer.USER, "User experience"),
    (Layer.QUEUE, "Queue and admission"),
    (Layer.ENGINE, "Engine and GPU"),
)

KIND = "Kind"


def head() -> tuple[str, ...]:
    """The heads of the terminal's table: those of the first group, and the word for ``kind`` and ``--kind``."""
    return _with(heads(GROUPS[0]), KIND)


def rows(engines: Sequence[EngineMap]) -> tuple[tuple[str, ...], ...]:
    """The terminal's table below :func:`head`, in rich's markup.

    One row per source: of how many families of each part it can give how many. Each further group starts with an empty
    row and heads of its own, for a gateway is not asked what an engine is asked.
    """
    lines: list[tuple[str, ...]] = []
    for table in overviews(engines):
        if table.group is not GROUPS[0]:
            lines += [(), tuple(f"[bold]{title}[/bold]" for title in _with(table.head, KIND))]
        lines += [_with(cells, kind) for kind, cells in table.rows]
    return tuple(lines)


def _with(cells: tuple[str, ...], kind: str) -> tuple[str, ...]:
    return (cells[0], kind, *cells[1:])


def cell(support: Support) -> tuple[str, str, str, str]:
    """One family as shown: name, how it comes about, from what, in which versions or why not."""
    why = ", ".join(part for part in (support.versions, support.note) if part)
    return (support.family, HOW[support.how].word, support.source, why)


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(str(text).replace("|", "\\|") for text in line) + " |" for line in lines) + "\n"


def summary(engines: Sequence[EngineMap]) -> str:
    """The short matrix in Markdown, as the README shows it: a table for each group of sources."""
    return "\n".join(_short(table) for table in overviews(engines))


def _short(table: Overview) -> str:
    return markdown(table.head, [cells for _, cells in table.rows])


def full(engines: Sequence[EngineMap]) -> str:
    """The whole matrix in Markdown: a table of every family for each source, group by group."""
    columns = ("Family", "How", "Source series", "Versions, or why not")
    parts = [summary(engines)]
    for group in GROUPS:
        members = [engine for engine in engines if engine.origin is group.origin]
        parts += [f"## {group.title}\n"] if members else []
        for engine in members:
            body = [
                (f"`{name}`", how, f"`{source}`" if source else "", why)
                for name, how, source, why in map(cell, engine.support)
            ]
            parts.append(f"### {engine.title} ({engine.versions})\n\n{markdown(columns, body)}")
    return "\n".join(parts)


def document(engines: Sequence[EngineMap]) -> list[dict[str, Any]]:
    """The whole matrix for machines."""
    return [
        {
            "kind": e.kind,
            "title": e.title,
            "versions": e.versions,
            "families": [
                {"family": s.family, "how": s.how.value, "source": s.source, "versions": s.versions, "note": s.note}
                for s in e.support
            ],
        }
        for e in engines
    ]
