"""The families of the gateway contract as a Markdown table, from the schema itself."""

from __future__ import annotations

from llmvitals.cli.matrix import markdown
from llmvitals.schema import Family
from llmvitals.telemetry.gateways.contract import CONTRACT, NEEDS

_HEAD = ("Family", "Type", "Unit", "Labels", "What it says", "Shown by a gateway with")


def full() -> str:
    """One row for each ``llm_gateway_*`` family."""
    return markdown(_HEAD, [_row(family) for family in CONTRACT])


def _row(family: Family) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in family.labels if label != "gateway")
    return (
        f"`{family.name}`",
        family.kind.value,
        family.unit,
        labels,
        family.help,
        NEEDS.get(family.name, "(every one)"),
    )
