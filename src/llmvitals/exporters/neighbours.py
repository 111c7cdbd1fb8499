"""GPU exporters' pages that stand beside the targets: each asked and read once in a cycle, whoever shares it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from llmvitals.exporters.logs import log
from llmvitals.exporters.watch import Cards
from llmvitals.series import Snapshot
from llmvitals.settings import Access
from llmvitals.sources.place import without_secrets
from llmvitals.telemetry.access import NOBODY
from llmvitals.telemetry.flight import Flight
from llmvitals.telemetry.ingest import Ingest, Limits, RawPage, page_url


class GpuPages:
    """The pages by their URL. What is remembered of one (XID codes seen) lives as long as a target names it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[str, tuple[Flight[RawPage], Ingest]] = {}
        self._access: dict[str, Access] = {}
        self._up: dict[str, bool] = {}

    def keep(self, pages: Iterable[tuple[str, Access]]) -> None:
        """Know these URLs, each with what lets us in there, and no others. Of one that several name, the first access that lets
        in counts. Raises :class:`SettingsError` for what is no URL.
        """
        wanted: dict[str, Access] = {}
        for url, access in pages:
            if url and wanted.get(url, NOBODY) == NOBODY:
                wanted[url] = access
        self._access = wanted
        for url in wanted:
            page_url(url)  # at the start, not in each cycle
        self._known = {url: self._known.get(url) or (Flight(), self._ingest()) for url in wanted}
        self._up = {url: up for url, up in self._up.items() if url in wanted}

    def flights(self) -> Mapping[str, tuple[Flight[RawPage], Access]]:
        """A flight for each URL, and what lets us in there."""
        return {url: (flight, self._access[url]) for url, (flight, _) in self._known.items()}

    def read(self, pages: Mapping[str, RawPage]) -> Mapping[str, Cards]:
        """The GPUs of each page. A page that breaks the parser shows none and says so."""
        return {url: self._cards(url, page) for url, page in pages.items()}

    def _cards(self, url: str, page: RawPage) -> Cards:
        start = time.perf_counter()
        ingest = self._known[url][1] if url in self._known else self._ingest()
        try:
            snapshot = ingest.snapshot(page)
        except Exception as error:
            log("ingest-failed", level=logging.ERROR, instance=without_secrets(page_url(url)), error=repr(error))
            snapshot = Snapshot(page.t, {}, detail=f": cannot be read: {error!r}")
        detail = snapshot.detail
        if not detail and not any(key.label("gpu") for key in snapshot.samples):
            detail = ": shows no GPU. Give the page of dcgm-exporter or nvidia_gpu_exporter."
        if detail:  # its own labels name no target, as the page belongs to none: so does its detail until here
            detail = f"{without_secrets(page_url(url))}{detail}"
        self._note(url, detail)
        return Cards(replace(snapshot, detail=detail), (page.took or 0.0) + time.perf_counter() - start)

    def _note(self, url: str, detail: str) -> None:
        """Log once that a page shows no GPU, and why, and once that it shows some again."""
        up = not detail
        if up is not self._up.get(url, True):
            level = logging.INFO if up else logging.WARNING
            log(
                "gpu-page-up" if up else "gpu-page-down",
                level=level,
                page=without_secrets(page_url(url)),
                detail=detail,
            )
        self._up[url] = up

    def _ingest(self) -> Ingest:
        return Ingest(instance="", limits=self._limits)
