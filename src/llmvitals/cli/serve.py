"""``llmvitals serve``: the exporter as a process."""

from __future__ import annotations

import os
from pathlib import Path

import click
from msgspec import structs

from llmvitals import settings as settings_file
from llmvitals.cli.wanted import live_targets, watched
from llmvitals.exporters import lifecycle
from llmvitals.settings import Settings
from llmvitals.sources.node import discovers
from llmvitals.sources.sidecar import in_this_pod


@click.command(name="serve")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option(
    "--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file; SIGHUP reads it again."
)
@click.option("--listen", metavar="HOST:PORT", help="Address, instead of the settings' exporter.listen.")
@click.option(
    "--web-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TLS and users, in the format of Prometheus' exporters; instead of the settings' exporter.web_config.",
)
def command(
    *, targets: tuple[str, ...], settings_path: Path | None, listen: str | None, web_config: Path | None
) -> None:
    """Scrape TARGETs and serve their metrics, signals and verdict.

    A TARGET is an engine's URL, or the name of a target in the settings; without one, all targets of the settings are
    scraped. Pages: /metrics, /triage, /replicas, /history, /healthz, /readyz. SIGHUP reads settings and web configuration
    again; SIGTERM and Ctrl-C end it after the answers under way.
    """
    given = {"listen": listen, "web_config": str(web_config) if web_config else None}

    def read() -> Settings:
        settings = settings_file.load(settings_path)
        exporter = structs.replace(settings.exporter, **{key: value for key, value in given.items() if value})
        wanted = in_this_pod(live_targets(targets, settings), os.environ)
        return structs.replace(settings, targets=wanted, services=watched(wanted, settings), exporter=exporter)

    first = read()
    if not first.targets and not discovers(first.node):
        raise click.UsageError(
            "Give a TARGET, or --settings with targets; in a cluster pods that ask for it are found."
        )
    lifecycle.serve(read)
