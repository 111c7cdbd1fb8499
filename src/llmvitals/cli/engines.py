"""``llmvitals engines``: the support matrix."""

from __future__ import annotations

import json

import click
from rich.table import Table

from llmvitals.cli import matrix
from llmvitals.cli.screen import show
from llmvitals.telemetry.registry import engines


@click.command(name="engines")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="How to print it; markdown and json list every family.",
)
def command(*, form: str) -> None:
    """Show which engines and exporters are understood, and what each can give."""
    known = engines()
    if form == "json":
        click.echo(json.dumps(matrix.document(known), indent=2))
    elif form == "markdown":
        click.echo(matrix.full(known), nl=False)
    else:
        table = Table(box=None, pad_edge=False)
        for title in matrix.head():
            table.add_column(title)
        for row in matrix.rows(known):
            table.add_row(*row)
        show(table)
        show("Families given, of those the schema has. All of them: llmvitals engines --format markdown")
