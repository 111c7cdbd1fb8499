"""``llmvitals capacity --live``: what a running engine tells, from its own page or from an exporter that watches it."""

from __future__ import annotations

from pathlib import Path

import click

from llmvitals.cli.screen import progress
from llmvitals.cli.targets import reachable
from llmvitals.cli.wanted import live_targets
from llmvitals.errors import PageError, UnreachableError
from llmvitals.exporters.watch import limits_of
from llmvitals.series import Window
from llmvitals.settings import Settings, Source, Target
from llmvitals.signals.catalogue import compute
from llmvitals.signals.window import scopes
from llmvitals.sources.capture import read_capture
from llmvitals.sources.exporter import fetch_json, root_url
from llmvitals.sources.live import observe
from llmvitals.sources.now import SIGNALS, Now, newest, now_of
from llmvitals.sources.page_file import read_page_file
from llmvitals.sources.place import name_of
from llmvitals.sources.probe import probe
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage import history

INTERVAL_SECONDS = 2.0


def live(word: str, settings: Settings, *, seconds: float, instance: str = "") -> Now:
    """The scope ``instance`` (the only one where '') of an engine's URL, an exporter's URL, or a recording.

    Raises the errors of what cannot be reached or read, and :class:`PageError` for a scope that is not there.
    """
    path = Path(word)
    if path.exists():
        limits = limits_of(settings)
        seen = read_capture(path, limits=limits) if path.is_dir() else (read_page_file(path, limits=limits),)
        windows = scopes(page for one in seen for page in one.snapshots)
        return _chosen(windows, settings, instance, word)
    (found,) = probe(
        live_targets((word,), settings), timeout_s=settings.exporter.timeout_seconds, limits=limits_of(settings)
    )
    reachable((found,))
    if found.exporter:
        return _of_exporter(found.target.url, instance)
    return _watched(found.target, settings, seconds)


def _of_exporter(url: str, instance: str) -> Now:
    source = Source(name="live", url=root_url(url), kind="exporter")
    query: dict[str, str | tuple[str, ...]] = {"signal": SIGNALS}
    if instance:
        query["instance"] = instance
    place = f"{source.url}/history"
    try:
        found = fetch_json(source, "/history", query)
    except UnreachableError as error:
        if not instance:
            raise
        raise PageError(
            f"tells nothing of '{instance}' ({error.thing})",
            place=place,
            remedy="Write it as on the exporter's /replicas.",
        ) from None
    traces = history.decode(found, place=place)
    lines = {name: tuple(zip(one.times, one.values, strict=False)) for name, one in traces.items()}
    return now_of(newest(lines), instance=instance or source.url)


def _watched(target: Target, settings: Settings, seconds: float) -> Now:
    pages = int(seconds / INTERVAL_SECONDS + 1e-9) + 1
    with progress(f"watching for {seconds:g} s", pages) as advance:

        def shown(one: Target, page: RawPage) -> None:
            advance(f"{name_of(one)}: {page.error or page.status}")

        observed = observe(
            (target,),
            seconds=seconds,
            interval=INTERVAL_SECONDS,
            timeout_s=settings.exporter.timeout_seconds,
            on_page=shown,
            limits=limits_of(settings),
        )
    return _chosen(scopes(page for one in observed for page in one.snapshots), settings, "", target.url)


def _chosen(windows: dict[tuple[str, str], Window], settings: Settings, instance: str, place: str) -> Now:
    keys = [key for key in windows if instance in ("", key[0])]
    if not keys:
        known = ", ".join(sorted({key[0] for key in windows})) or "nothing"
        raise PageError(f"knows no '{instance}'", place=place, remedy=f"Choose --instance among: {known}.")
    if len({key[0] for key in keys}) > 1:
        names = ", ".join(sorted({key[0] for key in keys}))
        raise click.UsageError(f"{place} has several engines; choose one with --instance: {names}.")
    key = keys[0]
    readings = compute(windows[key], settings, only=SIGNALS)
    return now_of({name: reading.value for name, reading in readings.items()}, instance=key[0], model=key[1])
