"""The signals as tables for the documentation. Made from the catalogue, so that no page can name one that is not."""

from __future__ import annotations

from collections.abc import Sequence

from llmvitals.cli.matrix import LAYERS, markdown
from llmvitals.schema import Layer
from llmvitals.signals.catalogue import Signal

PARTS: tuple[tuple[Layer, str], ...] = (*LAYERS, (Layer.META, "The target itself"))
COMPILES, COMPUTED = "compiles to PromQL", "computed over the window"
_HEAD = ("Signal", "What it is", "Unit", "Kind", "Standing at best")


def kind(signal: Signal) -> str:
    """Whether a signal is an expression that both compilers know, or a function over the window."""
    return COMPILES if signal.expr is not None else COMPUTED


def full(signals: Sequence[Signal]) -> str:
    """Every signal, in one Markdown table for each layer."""
    parts = [f"{_counts(signals)}\n"]
    for layer, title in PARTS:
        body = [
            (f"`{s.id}`", f"{s.title}. {s.help}" if s.help != s.title else s.title, s.unit, kind(s), s.standing.value)
            for s in signals
            if s.layer is layer
        ]
        parts.append(f"## {title}\n\n{markdown(_HEAD, body)}")
    return "\n".join(parts)


def computed(signals: Sequence[Signal]) -> str:
    """The ids of those that are computed over the window, by layer, as a Markdown list."""
    lines = [f"{_counts(signals)}\n"]
    for layer, title in PARTS:
        ids = [f"`{s.id}`" for s in signals if s.layer is layer and kind(s) == COMPUTED]
        lines.append(f"- {title}: {', '.join(ids)}")
    return "\n".join(lines) + "\n"


def _counts(signals: Sequence[Signal]) -> str:
    compiles = sum(kind(s) == COMPILES for s in signals)
    return f'{len(signals)} signals: {compiles} of the kind "{COMPILES}", {len(signals) - compiles} "{COMPUTED}".'
