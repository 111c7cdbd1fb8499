"""The support matrix as tables: what each source gives of the canonical schema. Made from the adapters' own mapping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmvitals.schema import BY_NAME, Layer
from llmvitals.telemetry.mapping import EngineMap, How, Support

LAYERS: tuple[tuple[Layer, str], ...] = (
    (Layer.USER, "User experience"),
    (Layer.QUEUE, "Queue and admission"),
    (Layer.ENGINE, "Engine and GPU"),
)
_HOW = {How.MAPPED: "mapped", How.DERIVED: "derived", How.UNSUPPORTED: "not available"}


def head() -> tuple[str, ...]:
    """The columns of :func:`rows`."""
    return ("Source", "Versions", *(title for _, title in LAYERS))


def rows(engines: Sequence[EngineMap]) -> tuple[tuple[str, ...], ...]:
    """One row per source: of how many families of each layer it can give how many."""
    return tuple((e.title, e.versions, *(_count(e, layer) for layer, _ in LAYERS)) for e in engines)


def _count(engine: EngineMap, layer: Layer) -> str:
    told = [s for s in engine.support if BY_NAME[s.family].layer is layer]
    given = sum(s.how is not How.UNSUPPORTED for s in told)
    return f"{given} of {len(told)}" if told else "-"


def cell(support: Support) -> tuple[str, str, str, str]:
    """One family as shown: name, how it comes about, from what, in which versions or why not."""
    why = ", ".join(part for part in (support.versions, support.note) if part)
    return (support.family, _HOW[support.how], support.source, why)


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(str(text).replace("|", "\\|") for text in line) + " |" for line in lines) + "\n"


def summary(engines: Sequence[EngineMap]) -> str:
    """The short matrix in Markdown, as the README shows it."""
    return markdown(head(), rows(engines))


def full(engines: Sequence[EngineMap]) -> str:
    """The whole matrix in Markdown: a table of every family for each source."""
    parts = [summary(engines)]
    for engine in engines:
        columns = ("Family", "How", "Source series", "Versions, or why not")
        body = [
            (f"`{name}`", how, f"`{source}`" if source else "", why)
            for name, how, source, why in map(cell, engine.support)
        ]
        parts.append(f"## {engine.title} ({engine.versions})\n\n{markdown(columns, body)}")
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
