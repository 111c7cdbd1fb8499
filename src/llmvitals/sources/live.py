"""Live scrapes: N targets at an exact cadence, side by side, at most one request to a target at a time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from llmvitals.errors import LlmvitalsError
from llmvitals.settings import Target
from llmvitals.sources import Observed
from llmvitals.sources.place import metrics_url, name_of
from llmvitals.telemetry.ingest import Fetcher, RawPage


class Clock(Protocol):
    """What the loop needs of time; tests bring one that does not wait."""

    def monotonic(self) -> float:
        """Seconds on a clock that never steps."""

    def take(self, arrived: queue.SimpleQueue[Arrived], seconds: float) -> Arrived:
        """The next page that arrives within ``seconds``. Raises ``queue.Empty``."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A finished scrape of one target."""

    target: int
    page: RawPage


class SystemClock:
    """Real time."""

    def monotonic(self) -> float:
        """Seconds on the system's monotonic clock."""
        return time.monotonic()

    def take(self, arrived: queue.SimpleQueue[Arrived], seconds: float) -> Arrived:
        """Wait in real time."""
        return arrived.get(timeout=max(seconds, 0.0))


Fetch = Callable[[str, float], RawPage]
"""From URL and time limit in seconds to a page; it never raises, and it keeps its limit."""

OnPage = Callable[[Target, RawPage], None]


def _fetch(url: str, timeout_s: float) -> RawPage:
    return Fetcher().fetch(url, timeout_s=timeout_s)


def pages(
    targets: Sequence[Target],
    *,
    seconds: float,
    interval: float,
    timeout_s: float,
    on_page: OnPage,
    fetch: Fetch = _fetch,
    clock: Clock | None = None,
) -> None:
    """Scrape every target at 0, interval, 2 x interval, ... up to ``seconds``, and hand each page to ``on_page``.

    ``on_page`` runs in the caller's thread. A target that is still answering at its next turn is left out there, so that
    a slow target is neither asked twice at once nor asked in a burst later. Returns when the last page is in.
    """
    moment = clock or SystemClock()
    arrived: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
    urls = [metrics_url(target.url) for target in targets]
    busy: set[int] = set()

    def work(number: int) -> None:
        arrived.put(Arrived(number, fetch(urls[number], timeout_s)))

    def collect(until: float) -> None:
        while True:
            try:
                got = moment.take(arrived, until - moment.monotonic())
            except queue.Empty:
                return
            busy.discard(got.target)
            on_page(targets[got.target], got.page)

    start = moment.monotonic()
    for turn in range(int(seconds / interval + 1e-9) + 1):
        collect(start + turn * interval)
        for number in range(len(targets)):
            if number not in busy:
                busy.add(number)
                # A daemon: Ctrl-C must not wait for a target that does not answer.
                threading.Thread(target=work, args=(number,), daemon=True).start()
    end = moment.monotonic() + timeout_s + 1.0
    while busy and moment.monotonic() < end:
        try:
            got = moment.take(arrived, end - moment.monotonic())
        except queue.Empty:
            return
        busy.discard(got.target)
        on_page(targets[got.target], got.page)
