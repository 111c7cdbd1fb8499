"""``llmvitals loadtest``: what load tests say of the settings, and load tests like the live traffic."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from llmvitals import settings as settings_file
from llmvitals.cli.duration import duration
from llmvitals.cli.loadtest_spec import spec
from llmvitals.cli.screen import show
from llmvitals.loadtest.document import document, kept_text, rate_text
from llmvitals.loadtest.goodput import Promises
from llmvitals.loadtest.model import Note
from llmvitals.loadtest.read import read_paths
from llmvitals.loadtest.suggest import Suggestion, suggest
from llmvitals.loadtest.sweep import Sweep, compared, remarks, sweeps, told


@click.group(name="loadtest")
def command() -> None:
    """Read results of load tests, or write a load test like the live traffic."""


@command.command(name="read")
@click.argument("files", nargs=-1, metavar="FILE...", type=click.Path(path_type=Path), required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON only, on stdout.")
@click.option("--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file with the promises.")
@click.option("--slo-ttft", type=duration, metavar="DURATION", help="Promised time to first token, like 2s.")
@click.option("--slo-tpot", type=duration, metavar="DURATION", help="Promised time per output token, like 50ms.")
@click.option(
    "--engines", type=click.IntRange(min=1), default=1, show_default=True, help="Engines that shared the load."
)
@click.option("--max-num-seqs", type=click.IntRange(min=1), help="What each of them ran with, where files do not say.")
def read(
    *,
    files: tuple[Path, ...],
    as_json: bool,
    settings_path: Path | None,
    slo_ttft: float | None,
    slo_tpot: float | None,
    engines: int,
    max_num_seqs: int | None,
) -> None:
    """Show goodput at each level of load, its peak, and the settings that it suggests.

    A FILE is a result of vllm bench serve or sweep, GuideLLM, AIPerf or GenAI-Perf, or a folder of such.
    """
    slo = settings_file.load(settings_path).slo
    promises = Promises(slo_ttft or slo.ttft_seconds, slo_tpot or slo.tpot_seconds)
    results = read_paths(files)
    found = [(one, suggest(one, engines=engines, seats=max_num_seqs)) for one in sweeps(results.runs, promises)]
    more = (*compared([one for one, _ in found]), *results.notes)
    if as_json:
        click.echo(json.dumps(document(found, more, promises), indent=2, allow_nan=False))
        return
    kept = f"the first token within {promises.ttft:g} s and {promises.tpot * 1000:g} ms per token"
    show(Text(f"Goodput: requests per second with {kept}"))
    for one, suggested in found:
        _sweep(one, suggested)
    _notes(more)


def _sweep(sweep: Sweep, suggested: Suggestion) -> None:
    title = " · ".join(part for part in (sweep.model, told(sweep.server)) if part)
    show(Text(f"\n{title}" if title else ""))
    table = Table(box=None, pad_edge=False)
    for head in ("In flight", "Goodput/s", "95 %", "Kept both", "Requests", "Failed", "By"):
        table.add_column(head, justify="left" if head == "By" else "right")
    for point in sweep.points:
        table.add_row(
            f"{'~' if point.measured else ''}{point.level:.4g}",
            rate_text(point.bound_low, point.bound_high),
            f"{point.low:.3g} to {point.high:.3g}",
            kept_text(point.kept),
            f"{point.kept.ended}",
            f"{point.failed}",
            ", ".join(dict.fromkeys(run.tool for run in point.runs)),
        )
    if sweep.points:
        show(table)
    for note, levels in remarks(sweep):
        show(Text(f"  at {', '.join(f'{level:.4g}' for level in levels)}: {note}", style="dim"))
    _notes((*sweep.notes, *suggested.notes))


def _notes(notes: Iterable[Note]) -> None:
    for note in notes:
        show(Text(str(note)))


command.add_command(spec)
