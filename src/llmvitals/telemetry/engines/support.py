"""The support matrix of one engine, read out of its rows."""

from __future__ import annotations

from collections.abc import Iterable

from llmvitals.schema import Family
from llmvitals.telemetry.engines.versions import version
from llmvitals.telemetry.mapping import Adapter, EngineMap, How, Row, Support


def engine_map(
    adapter: Adapter,
    *,
    families: Iterable[Family],
) -> EngineMap:
    """How pages of this kind give each of the ``families``."""
    by_family = {d.family: d for d in adapter.derived}
    support = []
    for family in families:
        rows = [row for row in adapter.rows if row.family == family.name]
        if rows:
            support.append(_mapped(family.name, rows))
        elif family.name in by_family:
            found = by_family[family.name]
            support.append(Support(family.name, How.DERIVED, found.source, found.versions, found.how))
        else:
            why = adapter.cannot.get(family.name, f"{adapter.title} shows nothing that says it")
            support.append(Support(family.name, How.UNSUPPORTED, note=why))
    return EngineMap(adapter.kind, adapter.title, adapter.versions, tuple(support), adapter.origin)


def _mapped(family: str, rows: list[Row]) -> Support:
    sources = ", ".join(dict.fromkeys(row.source for row in rows))
    by_generation = (
        ("V0 ", [r.v0 for r in rows if r.v0]),
        ("V1 ", [r.v1 for r in rows if r.v1]),
        ("", [r.span for r in rows if r.span]),
    )
    spans = [f"{generation}{_widest(texts)}" for generation, texts in by_generation if texts]
    notes = [row.note for row in rows if row.note] + [f"needs {rows[0].needs}"] * bool(rows[0].needs)
    return Support(family, How.MAPPED, sources, ", ".join(spans), "; ".join(dict.fromkeys(notes)))


def _widest(texts: list[str]) -> str:
    """From the first release of any of the spans to the last of any; no last while one of them lasts."""
    ends = [text.partition("..") for text in texts]
    first = min((first for first, _, _ in ends), key=version)
    lasts = [last for _, _, last in ends]
    return f"{first}-{max(lasts, key=version)}" if all(lasts) else f"{first}+"
