"""Our own exporter's page: canonical families pass through with the identity they carry."""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.schema import FAMILIES
from llmvitals.telemetry.mapping import Adapter, FamilyGap, Parts, Row, Whose


def _identity(source: Mapping[str, str]) -> Whose:
    return Whose({name: value for name, value in source.items() if name != "le"})


def _derive(parts: Parts) -> None:
    """Nothing is left to derive: whoever wrote the page did it."""


def _static(marks: frozenset[str]) -> tuple[str, tuple[FamilyGap, ...]]:
    return "", ()


def _hint(keyword: str, name: str, text: str) -> str:
    return ""


ADAPTER = Adapter(
    kind="llmvitals",
    title="the llmvitals exporter",
    claims=(b"llm_target_up",),
    rows=tuple(Row(family.name.removesuffix("_total"), family.name) for family in FAMILIES),
    prefixes=(),
    identity=_identity,
    derive=_derive,
    static=_static,
    hint=_hint,
    none_found="Point at the exporter's /metrics.",
    rank=0,
)
