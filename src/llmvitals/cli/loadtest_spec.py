"""``llmvitals loadtest spec``: the lengths, rate and shared prefix of live traffic, as commands for a load-test tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from msgspec import structs

from llmvitals import settings as settings_file
from llmvitals.cli.duration import duration
from llmvitals.cli.named_source import ENDPOINT, endpoint, not_whole
from llmvitals.cli.options import moment
from llmvitals.cli.screen import progress, show
from llmvitals.cli.targets import LIVE_SECONDS, STORED_SECONDS, reachable
from llmvitals.cli.wanted import live_targets, watched
from llmvitals.exporters.watch import limits_of
from llmvitals.loadtest.goodput import Promises
from llmvitals.loadtest.live import windows_of
from llmvitals.loadtest.model import LoadTestError
from llmvitals.loadtest.spec import LoadSpec, load_spec
from llmvitals.loadtest.tools import TOOLS, Where, files
from llmvitals.settings import Settings, Target
from llmvitals.sources import Observed
from llmvitals.sources.access import NOBODY
from llmvitals.sources.assemble import CANONICAL_KIND, joined
from llmvitals.sources.capture import INDEX, read_capture
from llmvitals.sources.live import observe
from llmvitals.sources.place import base_url, fronts, is_url, name_of, without_secrets
from llmvitals.sources.probe import probe
from llmvitals.sources.stored import read_stored
from llmvitals.telemetry.ingest import RawPage

INTERVAL_SECONDS = 5.0
NO_URL = "http://127.0.0.1:8000"


@click.command(name="spec")
@click.argument("target", required=False)
@click.option(
    "--tool", type=click.Choice(sorted(TOOLS)), default="vllm", show_default=True, help="Who will make the load."
)
@click.option(
    "--for",
    "seconds",
    type=duration,
    metavar="DURATION",
    show_default="60s live; 90s from Prometheus",
    help="How long to watch, or how much to read.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="load", show_default=True, help="Folder to write."
)
@click.option("--url", help="Server to test; the TARGET by default. Not the one that users are on.")
@click.option("--instance", default="", help="Which one, where there are several.")
@click.option("--model", default="", help="Which model, where there are several.")
@click.option("--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file.")
@click.option("--prometheus", metavar=ENDPOINT, help="Read from a PromQL endpoint, or a source of the settings.")
@click.option("--selector", default="", metavar="'{...}'", help="Which series there, like '{namespace=\"chat\"}'.")
@click.option("--at", type=moment, metavar="TIME", help="The moment to look at there; now by default.")
def spec(
    *,
    target: str | None,
    tool: str,
    seconds: float | None,
    output: Path,
    url: str | None,
    instance: str,
    model: str,
    settings_path: Path | None,
    prometheus: str | None,
    selector: str,
    at: float | None,
) -> None:
    """Write a load test like the live traffic: its lengths, its rate, and how much prompts share.

    TARGET is the URL of an engine or of an llmvitals exporter, the name of a target in the settings, or a capture folder. No
    prompt of a user is read: prompts are made of common words.
    """
    if (target is None) == (prometheus is None):
        raise click.UsageError("Give either a TARGET or --prometheus.")
    if prometheus is None and (selector or at is not None):
        raise click.UsageError("--selector and --at need --prometheus.")
    settings = settings_file.load(settings_path)
    if target is not None:
        observed = _stored(Path(target), settings) if Path(target).exists() else _live(target, seconds, settings)
    else:
        observed = _prometheus(prometheus or "", selector, at, seconds, settings)
    found = _chosen(observed, instance, model, settings)
    address = url or (base_url(target) if target is not None and is_url(target) else NO_URL)
    promises = Promises(settings.slo.ttft_seconds, settings.slo.tpot_seconds)
    written = files(tool, found, Where(without_secrets(address), found.model), promises)
    _write(output, written)
    for note in found.notes:
        show(str(note))
    show(f"Wrote {', '.join(written)} to {output}. Look at run.sh, then: cd {output} && sh run.sh")


def _stored(path: Path, settings: Settings) -> tuple[Observed, ...]:
    if path.is_dir() or path.name == INDEX:
        return read_capture(path, limits=limits_of(settings), services=settings.services)
    raise LoadTestError(
        "is a file: one moment holds no lengths",
        place=str(path),
        remedy="Give a URL, or a folder of llmvitals capture.",
    )


def _live(word: str, seconds: float | None, settings: Settings) -> tuple[Observed, ...]:
    timeout, limits = settings.exporter.timeout_seconds, limits_of(settings)
    probed = probe(live_targets((word,), settings), timeout_s=timeout, limits=limits)
    reachable(probed)
    targets = [structs.replace(one.target, kind=CANONICAL_KIND) if one.exporter else one.target for one in probed]
    span = seconds or LIVE_SECONDS
    with progress(f"watching for {span:g} s", (int(span / INTERVAL_SECONDS) + 1) * len(targets)) as advance:

        def shown(target: Target, page: RawPage) -> None:
            advance(f"{name_of(target)}: {page.error or page.status}")

        return observe(
            targets,
            seconds=span,
            interval=min(INTERVAL_SECONDS, span / 2),
            timeout_s=timeout,
            on_page=shown,
            limits=limits,
            services=watched(targets, settings),
        )


def _prometheus(
    word: str, selector: str, at: float | None, seconds: float | None, settings: Settings
) -> tuple[Observed, ...]:
    address, source = endpoint(word, settings)
    stored = read_stored(
        address,
        selector=selector,
        at=at,
        seconds=seconds or STORED_SECONDS,
        limits=limits_of(settings),
        instances=tuple(map(name_of, settings.targets)),
        access=source.access if source else NOBODY,
    )
    not_whole(without_secrets(base_url(address)), stored.told)
    return joined(stored.observed, settings.services, fronts(settings.targets))


def _chosen(observed: Sequence[Observed], instance: str, model: str, settings: Settings) -> LoadSpec:
    found = windows_of(observed)
    fitting = {k: w for k, w in found.items() if instance in ("", k[0]) and model in ("", k[1])}
    if len(fitting) != 1:
        names = ", ".join(" · ".join(filter(None, key)) for key in (fitting or found))
        raise LoadTestError(
            "there are several" if fitting else "there is none of that name",
            place=names or "the source",
            remedy="Choose one with --instance and --model.",
        )
    ((key, window),) = fitting.items()
    return load_spec(*key, window, settings)


def _write(folder: Path, written: Mapping[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in written.items():
            (folder / name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise LoadTestError(
            f"cannot be written: {error.strerror}", place=str(folder), remedy="Choose another folder with -o."
        ) from None
