"""A first look at live targets, so that a wrong URL is told at once and not after the whole observation."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from llmvitals.errors import LlmvitalsError
from llmvitals.schema import Origin
from llmvitals.settings import Target
from llmvitals.sources.exporter import is_exporter
from llmvitals.sources.live import Fetch
from llmvitals.sources.place import without_secrets
from llmvitals.telemetry.ingest import Fetcher, Ingest, Limits, page_url


@dataclass(frozen=True, slots=True)
class Probed:
    """What one target answered: an error that says what is wrong with it, or whether it is an llmvitals exporter.

    ``origin``: whether an engine, a gateway or a GPU shows the page; None where it could not be read.
    """

    target: Target
    error: LlmvitalsError | None
    exporter: bool
    origin: Origin | None = None


def probe(
    targets: Sequence[Target], *, timeout_s: float = 4.0, limits: Limits | None = None, fetch: Fetch | None = None
) -> tuple[Probed, ...]:
    """Ask every target once, side by side. Raises ``SettingsError`` for a URL that is none."""
    get = fetch or Fetcher(limits).fetch
    urls = [page_url(target.url, target.kind) for target in targets]

    def look(number: int) -> Probed:
        target, url = targets[number], urls[number]
        page = get(url, timeout_s=timeout_s, access=target.access)
        if page.body is not None and is_exporter(page.body):
            return Probed(target, None, exporter=True)
        ingest = Ingest(instance=without_secrets(url), kind=target.kind, limits=limits)
        try:
            ingest.read(page)
        except LlmvitalsError as error:
            return Probed(target, error, exporter=False)
        return Probed(target, None, exporter=False, origin=ingest.adapter.origin if ingest.adapter else None)

    with ThreadPoolExecutor(max_workers=max(1, min(len(targets), 32))) as pool:
        return tuple(pool.map(look, range(len(targets))))
