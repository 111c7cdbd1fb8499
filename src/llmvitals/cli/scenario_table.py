"""The lab's scenarios as Markdown tables, from the table itself."""

from __future__ import annotations

from collections.abc import Iterable

from llmvitals.cli.matrix import markdown
from llmvitals.lab.result import TELEMETRY, Kind
from llmvitals.lab.scenario import Scenario

_TITLES: tuple[tuple[Kind, str, str], ...] = (
    (Kind.FAULT, "One thing is wrong", "cause"),
    (Kind.COMPOUND, "Two things are wrong", "causes"),
    (Kind.LOOKALIKE, "Looks like a cause and is not", "must not be called"),
    (Kind.HEALTHY, "Nothing is wrong", ""),
)


def full(rows: Iterable[Scenario]) -> str:
    """A table for each kind of scenario: what happens, what it is called, what telemetry tells it, on which pages."""
    known = tuple(rows)
    return "\n".join(_part(known, kind, title, named) for kind, title, named in _TITLES)


def _part(rows: tuple[Scenario, ...], kind: Kind, title: str, named: str) -> str:
    head = ("scenario", *((named,) if named else ()), "what happens", "told by", "pages of")
    body = [
        (
            row.name,
            *((", ".join(row.causes) or row.mimics,) if named else ()),
            " ".join((row.draw.__doc__ or "").split()),
            ", ".join(source for source in TELEMETRY if source in row.shown_by),
            ", ".join(row.dialects),
        )
        for row in rows
        if row.kind is kind
    ]
    return f"\n### {title}\n\n{markdown(head, body)}"
