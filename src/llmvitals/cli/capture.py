"""``llmvitals capture``: record raw pages; a triage of the recording gives the verdict that a live one would have given."""

from __future__ import annotations

import threading
from pathlib import Path

import click

from llmvitals import settings as settings_file
from llmvitals.cli.duration import duration
from llmvitals.cli.screen import err, progress
from llmvitals.cli.targets import reachable
from llmvitals.cli.wanted import live_targets, watched
from llmvitals.errors import CaptureError
from llmvitals.exporters.watch import limits_of
from llmvitals.settings import Target
from llmvitals.sources.assemble import CANONICAL_KIND, companions
from llmvitals.sources.capture import Recorded
from llmvitals.sources.live import names_of, pages
from llmvitals.sources.node import Machine
from llmvitals.sources.place import name_of
from llmvitals.sources.probe import probe
from llmvitals.sources.record import Recorder
from llmvitals.sources.sightings import beside_name, sighted, sightings
from llmvitals.telemetry.ingest import Fetcher, RawPage


@click.command(name="capture")
@click.argument("targets", nargs=-1, metavar="TARGET...")
@click.option("--for", "seconds", type=duration, default="5m", show_default=True, metavar="DURATION", help="How long.")
@click.option(
    "--interval", type=duration, default="3s", show_default=True, metavar="DURATION", help="Time between two pages."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder to write, a new one.")
@click.option("--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file with targets.")
def command(
    *, targets: tuple[str, ...], seconds: float, interval: float, output: Path, settings_path: Path | None
) -> None:
    """Record the metrics pages of TARGETs as they come, for a later triage.

    A TARGET is an engine's URL, or the name of a target in the settings; without one, all targets of the settings are
    recorded. Ctrl-C ends the recording early and keeps what there is.
    """
    settings = settings_file.load(settings_path)
    wanted = live_targets(targets, settings)
    if not wanted:
        raise click.UsageError("Give a TARGET, or --settings with targets.")
    timeout = settings.exporter.timeout_seconds
    both = companions(wanted)
    names_of([target for target, _ in both])
    recorded = [
        Recorded(name_of(target), (), target.kind, engine, target.gpus, target.role, target.gateway)
        for target, engine in both
    ]
    machine = Machine(settings.node)
    here = sighted(machine, wanted, timeout)
    recorded += [Recorded(beside_name(target), (), CANONICAL_KIND, name_of(target)) for target in here]
    recorder = Recorder(output, recorded, watched(wanted, settings))
    limits = limits_of(settings)
    reachable(probe(wanted, timeout_s=timeout, limits=limits))
    total = (int(seconds / interval + 1e-9) + 1) * len(both)
    lock = threading.Lock()  # the machine is looked at from a thread of its own
    failed: list[CaptureError] = []  # there; it ends the recording here
    with recorder:
        try:
            with progress(f"recording to {output}", total) as advance:

                def note(name: str, page: RawPage) -> None:
                    with lock:
                        recorder.add(name, page)

                def aside(target: Target, page: RawPage) -> None:
                    try:
                        note(beside_name(target), page)
                    except CaptureError as error:
                        failed.append(error)

                def keep(target: Target, page: RawPage) -> None:
                    if failed:
                        raise failed[0]
                    note(name_of(target), page)
                    advance(f"{name_of(target)}: {page.error or page.status}")

                with sightings(
                    machine,
                    here,
                    interval=interval,
                    timeout_s=timeout,
                    on_sight=aside,
                ):
                    pages(
                        [target for target, _ in both],
                        seconds=seconds,
                        interval=interval,
                        timeout_s=timeout,
                        on_page=keep,
                        fetch=Fetcher(limits).fetch,
                    )
        except KeyboardInterrupt:
            if not recorder.pages:
                raise
            err().print("Stopped early; what was recorded is kept.")
    click.echo(f"{recorder.pages} pages in {output}. Read them with: llmvitals triage {output}")
