"""``llmvitals engines``: the support matrix, of everything that is understood or of one page."""

from __future__ import annotations

import difflib
import json

import click
from rich.table import Table

from llmvitals.cli import check, matrix
from llmvitals.cli.screen import show
from llmvitals.telemetry.ingest import KINDS
from llmvitals.telemetry.registry import engines


class KindChoice(click.Choice[str]):
    """The word for a kind of page; a mistyped one is answered with the nearest."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word as it is. Raises ``BadParameter`` for what is no kind."""
        if value not in self.choices:
            near = difflib.get_close_matches(value, self.choices, n=1, cutoff=0.0)
            self.fail(f"there is no kind '{value}'. Did you mean '{near[0]}'? All: llmvitals engines.", param, ctx)
        return super().convert(value, param, ctx)


@click.command(name="engines")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="How to print it; markdown and json list every family.",
)
@click.option("--check", "target", metavar="URL|FILE", help="Hold one live or saved page against its source instead.")
@click.option(
    "--kind",
    type=KindChoice(KINDS),
    metavar="KIND",
    default="auto",
    show_default=True,
    help="Whose page it is, where it does not say so itself.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON only, on stdout.")
def command(*, form: str, target: str | None, kind: str, as_json: bool) -> int:
    """Show which engines and exporters are understood, and what each can give.

    With --check: what one page gives, what it holds that is not used, and what nobody knows. Exit code 0 when all of it
    was understood, 2 when something was not, 3 when the page was refused.
    """
    if target is not None:
        return check.run(target, kind=kind, as_json=as_json or form == "json")
    if kind != "auto":
        raise click.UsageError("--kind goes with --check.")
    known = engines()
    if as_json or form == "json":
        click.echo(json.dumps(matrix.document(known), indent=2))
    elif form == "markdown":
        click.echo(matrix.full(known), nl=False)
    else:
        table = Table(box=None, pad_edge=False)
        for title in matrix.head():
            table.add_column(title, no_wrap=title == matrix.KIND)
        for row in matrix.rows(known):
            table.add_row(*row)
        show(table, whole=True)
        show("Families given, of those the schema has. All of them: llmvitals engines --format markdown")
    return 0
