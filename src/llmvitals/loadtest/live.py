"""The windows of a source of the app, by scope, to make a load from: what an exporter judged, or what a Prometheus stored."""

from __future__ import annotations

import time
from collections.abc import Sequence

from llmvitals.loadtest.model import LoadTestError
from llmvitals.series import Window
from llmvitals.settings import Settings, Source
from llmvitals.signals.window import Scope, scopes
from llmvitals.sources import Observed
from llmvitals.sources.assemble import is_gpu_only, joined
from llmvitals.sources.exporter import fetch_bytes
from llmvitals.sources.place import fronts, name_of, without_secrets
from llmvitals.sources.recording import of_zip, seen_of
from llmvitals.sources.stored import read_stored

CAPTURE_SECONDS = 20.0
"""How long an exporter may take to pack its window."""


def windows_of(observed: Sequence[Observed]) -> dict[Scope, Window]:
    """Every scope of an engine with its window."""
    found: dict[Scope, Window] = {}
    for one in observed:
        if not is_gpu_only(one):
            found |= scopes(one.snapshots)
    return found


def windows(source: Source, at: float | None, seconds: float, settings: Settings) -> dict[Scope, Window]:
    """The windows of a source up to ``at`` (unix seconds; None is now); ``seconds``: how far a PromQL endpoint is read back.

    Raises the errors of its kind of source.
    """
    if source.kind == "prometheus":
        end = time.time() if at is None else at
        names = tuple(map(name_of, settings.targets))
        stored = read_stored(source.url, at=end, seconds=seconds, instances=names, access=source.access)
        return windows_of(joined(stored.observed, settings.services, fronts(settings.targets)))
    if source.kind == "exporter":
        packed = fetch_bytes(source, "/capture", {}, timeout_s=CAPTURE_SECONDS)
        return windows_of(seen_of(of_zip(packed, place=without_secrets(source.url)), services=settings.services))
    raise LoadTestError(
        f"has the unknown kind '{source.kind}'",
        place=f"source '{source.name}'",
        remedy="Write kind: exporter or prometheus.",
    )
