"""``llmvitals run``: exporter, app and verdict in one; without a server it watches a simulated one and says so."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click
from msgspec import structs

from llmvitals import settings as settings_file
from llmvitals.cli import embedded
from llmvitals.cli.app_child import AppChild, app_child, installed, port_for
from llmvitals.cli.follow import Signals, ended, endings, follow, verdicts
from llmvitals.cli.screen import out, progress, remark, show
from llmvitals.cli.targets import apart, reachable
from llmvitals.cli.triage import EXIT_CODES
from llmvitals.cli.wanted import live_targets, watched
from llmvitals.errors import SettingsError
from llmvitals.exporters.cycle import Cycle, Engine
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.exporters.watch import limits_of
from llmvitals.settings import Settings
from llmvitals.sources.node import Machine
from llmvitals.sources.probe import probe
from llmvitals.triage.printed import report
from llmvitals.triage.report import worst
from llmvitals.triage.verdict import Outcome, Verdict

APP_PORT = 8501
ONCE_INTERVAL_SECONDS = 3.0
NO_APP = "the app needs Streamlit, which is not installed (pip install 'llmvitals[app]'); going on without it"


@click.command(name="run")
@click.option("--engine", "engines", metavar="URL[,URL...]", help="Servers to watch.  [default: a simulated one]")
@click.option("--once", is_flag=True, help="Print the verdict as soon as there is enough to say, and end.")
@click.option("--no-app", is_flag=True, help="Leave the page in the browser out.")
@click.option("--port", type=click.IntRange(1, 65535), help="The exporter's port.  [default: the settings', 9464]")
@click.option("--app-port", type=click.IntRange(1, 65535), help=f"The app's port.  [default: {APP_PORT}]")
@click.option("--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file.")
def command(
    *,
    engines: str | None,
    once: bool,
    no_app: bool,
    port: int | None,
    app_port: int | None,
    settings_path: Path | None,
) -> int:
    """Watch servers: the verdict in the terminal, the page in the browser, metrics for Prometheus.

    Without --engine, and without targets in the settings, it watches a simulated vLLM inside this process, which runs
    into preemption within half a minute. Ctrl-C ends everything.
    """
    settings = settings_file.load(settings_path)
    words = [word.strip() for word in engines.split(",") if word.strip()] if engines is not None else []
    if engines is not None and not words:
        raise click.BadParameter("names no server; write --engine http://host:8000.", param_hint="--engine")
    wanted = live_targets(words, settings)
    with endings() as heard:
        if not wanted:
            return _once_embedded(settings) if once else _watch(settings, heard, True, no_app, port, app_port)
        probed = probe(wanted, timeout_s=settings.exporter.timeout_seconds, limits=limits_of(settings))
        reachable(probed)
        if told := apart(probed, settings):
            remark(told)
        real = structs.replace(settings, targets=wanted, services=watched(wanted, settings))
        return _once(real, heard) if once else _watch(real, heard, False, no_app, port, app_port)


def _once_embedded(settings: Settings) -> int:
    """The demo's verdict, reached in simulated time. Exit code 0: there is nothing wrong with anybody's server."""
    out().print(f"{embedded.NOTICE}; {embedded.ONCE_SECONDS:.0f} s of its traffic, in simulated time\n")
    _print(verdicts(embedded.in_simulated_time(embedded.paced(settings))))
    return 0


def _once(settings: Settings, heard: Signals) -> int:
    """Watch half a window (at least what the walk needs), print the verdicts, answer with the worst one's exit code."""
    limits = settings.thresholds
    seconds = max(settings.exporter.window_seconds / 2, limits.min_seconds, limits.min_pages * ONCE_INTERVAL_SECONDS)
    turns = int(-(-seconds // ONCE_INTERVAL_SECONDS)) + 1
    engine = Engine(settings, machine=Machine(settings.node))
    cycle: Cycle | None = None
    with progress("watching", turns) as advance:
        for turn in range(turns):
            cycle = engine.step()
            advance("")
            if turn + 1 < turns and ended(heard, max(0.0, ONCE_INTERVAL_SECONDS - cycle.seconds)):
                break
    found = verdicts(cycle)
    _print(found)
    return EXIT_CODES[worst(found)[0].outcome if found else Outcome.UNDETERMINED]


def _print(found: list[Verdict]) -> None:
    for verdict in found:
        show(report(verdict))


def _watch(
    settings: Settings, heard: Signals, simulated: bool, no_app: bool, port: int | None, app_port: int | None
) -> int:
    """Exporter, app and screen until a signal comes; whatever was started is ended in the reverse order."""
    if settings.exporter.web_config and not no_app:
        raise SettingsError(
            "protects the exporter, and the app of 'run' would not get in",
            place="exporter.web_config",
            remedy="Add --no-app, or use 'llmvitals serve' and 'llmvitals app'.",
        )
    listen = _listen(settings.exporter.listen, port)
    with_app = not no_app and installed()
    page = port_for(app_port, APP_PORT, "--app-port") if with_app else 0
    with ExitStack() as stack:
        demo = stack.enter_context(embedded.embedded(settings.spans.http)) if simulated else None
        if demo is not None:
            settings = structs.replace(embedded.paced(settings), targets=(demo.target,))
        settings = structs.replace(settings, exporter=structs.replace(settings.exporter, listen=listen))
        exporter = Exporter(settings, machine=None if simulated else Machine)
        if demo is not None:
            demo.recall_into(exporter)
        stack.enter_context(exporter)
        name = embedded.NOTICE if simulated else "this run"
        app = stack.enter_context(app_child(settings, exporter.url, name=name, port=page)) if with_app else None
        if not no_app and app is None:
            remark(NO_APP)
        follow(lambda: exporter.newest, heard, out(), lambda: _head(settings, exporter, app, simulated))
    out().print("ended")
    return 0


def _listen(usual: str, port: int | None) -> str:
    """The settings' address with the port asked for, or any free one where theirs is taken and none was asked for."""
    host, _, number = usual.rpartition(":")
    if not number.isdecimal():
        return usual  # the exporter says what is wrong with it
    return f"{host}:{port_for(port, int(number), '--port')}"


def _head(settings: Settings, exporter: Exporter, app: AppChild | None, simulated: bool) -> list[str]:
    watched = ", ".join(target.name or target.url for target in settings.targets)
    lines = [f"llmvitals watches {watched}" + (f"  ({embedded.NOTICE})" if simulated else "")]
    if app is not None:
        broken = app.failure
        lines.append(f"app       {app.url}" if not broken else f"app       ended: {broken}")
    lines.append(f"exporter  {exporter.url}/metrics")
    if simulated:
        lines.append(f"simulated {settings.targets[0].url}/metrics  (healthy for ten seconds, then it gets worse)")
        lines.append("your own  llmvitals run --engine http://host:8000")
    return lines
