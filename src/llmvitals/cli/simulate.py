"""``llmvitals simulate``: a simulated engine, written as a recording or served live."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import click

from llmvitals.cli.duration import duration
from llmvitals.simulator import exposition
from llmvitals.simulator.live import Live
from llmvitals.simulator.push import Push
from llmvitals.simulator.scenarios import SCENARIOS, Scenario, scenario
from llmvitals.simulator.serve import Served
from llmvitals.simulator.spans import BATCH_SECONDS, Sending
from llmvitals.sources.capture import Recorded
from llmvitals.sources.record import Recorder
from llmvitals.telemetry.ingest import RawPage

ORIGIN = 1_767_225_600.0
"""Where simulated recordings start (2026-01-01 00:00 UTC): the same command writes the same bytes."""

TOOK_SECONDS = 0.005
"""How long a simulated page is said to have taken."""

GPU = "gpu-0"
DIALECTS = {name: {"vllm-v0": "vllm", "ray": "vllm"}.get(name, name) for name in exposition.DIALECTS}
"""Which page the simulated engine shows, and what kind of target that is."""
BEHIND = {"dynamo": "vllm"}
"""What is recorded beside the page of a front end: the engine behind it, in the same run."""
SEVERITIES = ("mild", "clear", "severe")


@click.command(name="simulate")
@click.argument("name", metavar="[SCENARIO]", required=False)
@click.option("--for", "seconds", type=duration, default="60s", show_default=True, help="Simulated time to record.")
@click.option("--interval", type=duration, default="3s", show_default=True, help="Simulated time between two pages.")
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path), help="Folder.  [default: simulated-SCENARIO]"
)
@click.option("--seed", type=int, help="Draw other arrivals and lengths.")
@click.option(
    "--dialect", type=click.Choice(tuple(DIALECTS)), help="Which engine's page a SCENARIO shows.  [default: vllm]"
)
@click.option("--lab", metavar="NAME", help="Record an incident of the lab with its truth, for triage and score.")
@click.option("--severity", type=click.Choice(SEVERITIES), help="How bad that is.  [default: clear]")
@click.option("--serve", "address", metavar="HOST:PORT", help="Serve the pages live instead, until Ctrl-C.")
@click.option("--spans", "receiver", metavar="URL", help="With --serve: send its traces there (OTLP over HTTP).")
@click.option("--list", "listing", is_flag=True, help="List the scenarios.")
def command(
    *,
    name: str | None,
    seconds: float,
    interval: float,
    folder: Path | None,
    seed: int | None,
    dialect: str | None,
    lab: str | None,
    severity: str | None,
    address: str | None,
    receiver: str | None,
    listing: bool,
) -> None:
    """Record or serve the metrics pages of a simulated engine; served, it answers OpenAI's API as well.

    \b
    llmvitals simulate preemption --for 60s -o demo && llmvitals triage demo
    llmvitals simulate queue --serve 127.0.0.1:8000 --spans http://127.0.0.1:4318
    llmvitals simulate --lab noisy-tenant --severity severe -o demo && llmvitals score demo
    """
    if listing:
        _list()
        return
    if lab is not None:
        if name or address or dialect:
            raise click.UsageError(
                "--lab draws its engine and its length itself: leave out SCENARIO, --serve and --dialect."
            )
        _incident(lab, folder or Path(f"simulated-{lab}"), seed or 0, severity or "clear")
        return
    if receiver is not None and address is None:
        raise click.UsageError("--spans belongs to --serve.")
    if severity:
        raise click.UsageError("--severity belongs to --lab.")
    if name is None:
        raise click.UsageError("Name a scenario; --list shows them all.")
    chosen = scenario(name)
    if dialect is not None:
        chosen = replace(chosen, config=replace(chosen.config, dialect=dialect))
    if address is None:
        _record(chosen, seconds, interval, folder or Path(f"simulated-{name}"), seed)
    else:
        _serve(chosen, address, seed, receiver)


def _list() -> None:
    from llmvitals.lab.scenarios import SCENARIOS as INCIDENTS  # noqa: PLC0415 - most simulations play none

    for row in SCENARIOS:
        click.echo(f"{row.name:<12} {row.title}")
    for incident in INCIDENTS:
        what = " + ".join(incident.causes) or (f"looks like {incident.mimics}" if incident.mimics else "healthy")
        click.echo(f"--lab {incident.name:<27} {what}")


def _incident(name: str, folder: Path, seed: int, severity: str) -> None:
    from llmvitals.lab.take import take  # noqa: PLC0415 - most simulations play none

    taken = take(folder, name, seed=seed, severity=severity)
    if taken.why:
        click.echo(f"this draw does not count in a score: {taken.why}; try another --seed", err=True)
    shown = f"{taken.run.dialect}, a page every {taken.run.base.times.interval:g} s"
    click.echo(
        f"{taken.pages} pages of {taken.run.base.times.window:g} simulated seconds ({name}, {shown}) in {folder}"
    )
    click.echo(f"next: llmvitals triage {folder}, llmvitals score {folder}")


def pages(live: Live, seconds: float, interval: float) -> Iterator[tuple[RawPage, RawPage]]:
    """The engine's and the GPU's page at 0, interval, 2 x interval, ... of simulated time up to ``seconds``."""
    for turn in range(int(seconds / interval + 1e-9) + 1):
        moment = live.origin + turn * interval
        yield (
            RawPage(moment, TOOK_SECONDS, 200, live.page_at(moment), ""),
            RawPage(moment, TOOK_SECONDS, 200, live.gpu_page_at(moment), ""),
        )


def _record(chosen: Scenario, seconds: float, interval: float, folder: Path, seed: int | None) -> None:
    dialect = chosen.config.dialect
    spoken = BEHIND.get(dialect, dialect)
    live = replace(chosen, config=replace(chosen.config, dialect=spoken)).live(origin=ORIGIN, seed=seed)
    engine, front = f"{DIALECTS[spoken]}-0", f"{dialect}-0"
    before = chosen.live(origin=ORIGIN, seed=seed) if spoken != dialect else None
    targets = [
        Recorded(name=engine, kind=DIALECTS[spoken], scrapes=()),
        Recorded(name=GPU, kind="dcgm", scrapes=(), engine=engine),
    ]
    if before is not None:
        targets.append(Recorded(name=front, kind=DIALECTS[dialect], scrapes=()))
    with Recorder(folder, targets) as recorder:
        for engine_page, gpu_page in pages(live, seconds, interval):
            recorder.add(engine, engine_page)
            recorder.add(GPU, gpu_page)
            if before is not None:  # the same requests, seen from in front
                page = before.page_at(engine_page.t)
                recorder.add(front, RawPage(engine_page.t, TOOK_SECONDS, 200, page, ""))
        count = recorder.pages
    click.echo(f"{count} pages of {seconds:g} simulated seconds ({chosen.title}) in {folder}")
    click.echo(f"next: llmvitals triage {folder}")


def _serve(chosen: Scenario, address: str, seed: int | None, receiver: str | None) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise click.BadParameter(f"'{address}' is not HOST:PORT.", param_hint="--serve")
    sending = None if receiver is None else Sending(BATCH_SECONDS, os.getpid())
    live = chosen.live(origin=time.time(), seed=seed, spans=sending)
    push = None if receiver is None else Push(live, receiver, clock=time.time)
    with Served(live, host=host.strip("[]"), port=int(port)) as served, push or nullcontext():
        click.echo(
            f"simulated {chosen.config.dialect} ({chosen.title}): {served.page_url} and {served.gpu_url}, "
            f"OpenAI's API at {served.url}/v1; Ctrl-C ends it"
        )
        try:
            served.wait()
        except KeyboardInterrupt:
            click.echo("ended")
    if push is not None and push.failed:
        click.echo(f"{push.failed} of {push.sent + push.failed} exports of spans failed: {push.problem}", err=True)
