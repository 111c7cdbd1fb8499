"""Live scrapes: N targets at an exact cadence, side by side, at most one request to a target at a time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from llmvitals.errors import SettingsError
from llmvitals.settings import Access, Service, Target
from llmvitals.sources import Observed
from llmvitals.sources.assemble import CANONICAL_KIND, Feed, companions, observed
from llmvitals.sources.node import Machine
from llmvitals.sources.place import name_of
from llmvitals.sources.sightings import beside_name, sighted, sightings
from llmvitals.telemetry.access import NOBODY
from llmvitals.telemetry.ingest import Fetcher, Limits, RawPage, page_url


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


class Fetch(Protocol):
    """What brings a page; it never raises, and it keeps its time limit."""

    def __call__(self, url: str, *, timeout_s: float, access: Access = NOBODY) -> RawPage:
        """The page at ``url`` within ``timeout_s`` seconds, or one that says in ``error`` why there is none.

        ``access``: what lets us in there.
        """


GRACE_SECONDS = 1.0
"""How much longer than a call's own time limit the end waits for it."""

OnPage = Callable[[Target, RawPage], None]


def watch(
    targets: Sequence[Target],
    *,
    seconds: float,
    interval: float,
    timeout_s: float = 4.0,
    on_page: OnPage | None = None,
    limits: Limits | None = None,
    fetch: Fetch | None = None,
    clock: Clock | None = None,
    machine: Machine | None = None,
) -> tuple[Feed, ...]:
    """Scrape ``targets`` (and the pages of their GPUs) for ``seconds`` and return the pages of each.

    The cadence is that of :func:`pages`. ``machine`` shows what is beside the engines that run on it.

    Raises :class:`SettingsError` for a URL that is none and for two targets of one name; a target that does not answer is a
    failed scrape in its snapshots.
    """
    wanted = companions(targets)
    seen: dict[str, list[RawPage]] = {name: [] for name in names_of([target for target, _ in wanted])}

    def keep(target: Target, page: RawPage) -> None:
        seen[name_of(target)].append(page)
        if on_page is not None:
            on_page(target, page)

    here = sighted(machine, targets, timeout_s) if machine is not None else ()
    beside: dict[str, list[RawPage]] = {name_of(target): [] for target in here}
    with ExitStack() as stack:
        if machine is not None:
            look = sightings(
                machine,
                here,
                interval=interval,
                timeout_s=timeout_s,
                on_sight=lambda target, page: beside[name_of(target)].append(page),
            )
            stack.enter_context(look)
        pages(
            [target for target, _ in wanted],
            seconds=seconds,
            interval=interval,
            timeout_s=timeout_s,
            on_page=keep,
            fetch=fetch or Fetcher(limits).fetch,
            clock=clock,
        )
    machines = [Feed(beside_name(one), CANONICAL_KIND, beside[name_of(one)], name_of(one)) for one in here]
    own = (
        Feed(
            name_of(target),
            target.kind,
            seen[name_of(target)],
            engine,
            target.gpus,
            target.labels,
            target.role,
            target.gateway,
        )
        for target, engine in wanted
    )
    return (*machines, *own)


def observe(
    targets: Sequence[Target],
    *,
    seconds: float,
    interval: float,
    timeout_s: float = 4.0,
    on_page: OnPage | None = None,
    limits: Limits | None = None,
    fetch: Fetch | None = None,
    clock: Clock | None = None,
    services: Sequence[Service] = (),
    machine: Machine | None = None,
) -> tuple[Observed, ...]:
    """What :func:`watch` brings, as snapshots of each target and of ``services``. Raises as that."""
    feeds = watch(
        targets,
        seconds=seconds,
        interval=interval,
        timeout_s=timeout_s,
        on_page=on_page,
        limits=limits,
        fetch=fetch,
        clock=clock,
        machine=machine,
    )
    return observed(feeds, limits, services)


def names_of(targets: Sequence[Target]) -> tuple[str, ...]:
    """The targets' instance names. Raises :class:`SettingsError` when two are the same."""
    names = tuple(name_of(target) for target in targets)
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"two targets are named '{name}'", place="targets", remedy="Give each its own name.")
    return names


def pages(
    targets: Sequence[Target],
    *,
    seconds: float,
    interval: float,
    timeout_s: float,
    on_page: OnPage,
    fetch: Fetch,
    clock: Clock | None = None,
) -> None:
    """Scrape every target at 0, interval, 2 x interval, ... and at ``seconds``, and hand each page to ``on_page``.

    ``on_page`` runs in the caller's thread. A target that is still answering at its next turn is left out there, so that
    a slow target is neither asked twice at once nor asked in a burst later. Returns when the last page is in.
    """
    moment = clock or SystemClock()
    arrived: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
    urls = [page_url(target.url, target.kind) for target in targets]
    busy: set[int] = set()

    def work(number: int) -> None:
        arrived.put(Arrived(number, fetch(urls[number], timeout_s=timeout_s, access=targets[number].access)))

    def collect(until: float, *, all_in: bool = False) -> None:
        while not (all_in and not busy):
            try:
                got = moment.take(arrived, until - moment.monotonic())
            except queue.Empty:
                return
            busy.discard(got.target)
            on_page(targets[got.target], got.page)

    start = moment.monotonic()
    last = int(seconds / interval + 1e-9)
    short = seconds - last * interval > interval / 2  # what was asked for is watched to its end
    for turn in range(last + 1 + short):
        collect(start + min(turn * interval, seconds))
        if moment.monotonic() > start + seconds + GRACE_SECONDS:
            break  # an interval shorter than a turn takes
        for number in range(len(targets)):
            if number not in busy:
                busy.add(number)
                # A daemon: Ctrl-C must not wait for a target that does not answer.
                threading.Thread(target=work, args=(number,), daemon=True).start()
    collect(moment.monotonic() + timeout_s + GRACE_SECONDS, all_in=True)
