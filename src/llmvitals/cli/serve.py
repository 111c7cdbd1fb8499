"""``llmvitals serve``: the exporter as a process."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import structs

from llmvitals import settings as settings_file
from llmvitals.cli.targets import live_targets
from llmvitals.exporters import lifecycle


@click.command(name="serve")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option(
    "--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file; SIGHUP reads it again."
)
@click.option("--listen", metavar="HOST:PORT", help="Address, instead of the settings' exporter.listen.")
def command(*, targets: tuple[str, ...], settings_path: Path | None, listen: str | None) -> None:
    """Scrape TARGETs and serve their metrics, signals and verdict.

    A TARGET is an engine's URL, or the name of a target in the settings; without one, all targets of the settings are
    scraped. Pages: /metrics, /triage, /healthz, /readyz. SIGTERM and Ctrl-C end it after the answers under way.
    """
    settings = settings_file.load(settings_path)
    wanted = live_targets(targets, settings)
    if not wanted:
        raise click.UsageError("Give a TARGET, or --settings with targets.")
    if settings_path is not None and not targets and listen is None:
        lifecycle.serve(settings_path)
        return
    exporter = settings.exporter if listen is None else structs.replace(settings.exporter, listen=listen)
    lifecycle.serve(structs.replace(settings, targets=wanted, exporter=exporter))
