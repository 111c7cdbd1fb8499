"""One background cycle: fetch every target side by side, keep a bounded history, judge every scope, publish one value.

A cycle never raises for a bad target, family or collector: what failed is a number on the page
(``llmvitals_collector_success``), and the rest of the page stands. Time and transport are given from outside, so that a
recording is replayed through the very code that serves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Protocol

import msgspec

from llmvitals.errors import SettingsError
from llmvitals.exporters import promises
from llmvitals.exporters.health import families as health
from llmvitals.exporters.judge import Scoped, families, judge
from llmvitals.exporters.labels import grouping, kept, shared
from llmvitals.exporters.logs import log
from llmvitals.exporters.neighbours import GpuPages
from llmvitals.exporters.page import Block, Group, canonical, plain, text
from llmvitals.exporters.pods import Pods
from llmvitals.exporters.readers import Troubles
from llmvitals.exporters.spans.places import place_of
from llmvitals.exporters.watch import NOBODY, Around, Cards, Collected, Watch, limits_of
from llmvitals.remembered import forget
from llmvitals.schema import Origin, origin_of
from llmvitals.series import Labels, Snapshot
from llmvitals.settings import Access, Service, Settings, Target
from llmvitals.sources import Observed
from llmvitals.sources.assemble import SERVICE_KIND, joined
from llmvitals.sources.beside import left_over
from llmvitals.sources.live import Fetch
from llmvitals.sources.node import Machine, Seen, wanted_of
from llmvitals.sources.place import name_of, without_secrets
from llmvitals.telemetry.access import NOBODY as NO_ACCESS
from llmvitals.telemetry.flight import land
from llmvitals.telemetry.gateways.join import of_calls
from llmvitals.telemetry.identity.model import Found
from llmvitals.telemetry.ingest import Fetcher, RawPage, page_url
from llmvitals.telemetry.spans.model import Place, Request, Shown

MARGIN_INTERVALS = 2
"""Intervals that the history reaches back beyond the window."""

GRACE_SECONDS = 0.5
"""How much longer than a call's own time limit a cycle waits for it; the call's limit is the normal way to end it."""


_REMEMBERED = 2000
"""Entries, beside two for each series of the page, beyond which what is remembered of series is forgotten."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """One finished cycle. ``began``, ``ended``: unix seconds; ``seconds``: how long it took on a steady clock.

    ``blocks`` are the families of the page; their text (format 0.0.4, ``page_bytes`` long) is made for whoever asks.
    ``snapshots``: the newest of each target, what stands beside or in front of it joined. Of a service the page has signals,
    verdict and promises alone: its engines' families are there already, and a sum over a page must not count them twice.
    ``counted``: the counters of promises. ``history``: how many of each target are kept. ``window``: the snapshots that were
    judged, target by target, before ``services`` and gateways (``fronts``: by engine) were joined. ``left``: pods that are not
    scraped although they ask for it, and why. ``serial``: no other cycle of this process has it; who keeps what was made of a cycle
    keeps this beside it, and lets go of the cycle and its whole window.
    """

    began: float
    ended: float
    seconds: float
    window_seconds: float
    snapshots: tuple[Snapshot, ...]
    scopes: tuple[Scoped, ...]
    collected: tuple[Collected, ...]
    history: Mapping[str, int]
    blocks: tuple[Block, ...]
    page_bytes: int
    counted: tuple[Group, ...] = ()
    window: tuple[Observed, ...] = ()
    services: tuple[Service, ...] = ()
    fronts: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)
    serial: int = field(default_factory=count().__next__)

    @property
    def page(self) -> bytes:
        """The page's text without the exporter's own metrics, made anew: hardly anybody asks for it uncompressed."""
        return text(self.blocks)


class Traces(Protocol):
    """What takes in spans, see :class:`llmvitals.exporters.spans.receiver.Receiver`."""

    def probed(self, requests: Sequence[Request]) -> None:
        """Take our own probes in, as the callers of what engines tell of them. Called before :meth:`shown`."""

    def shown(self, places: Sequence[Place]) -> Mapping[str, Shown]:
        """What belongs on each target's page now, by instance. Called once per cycle."""


NOTHING = Shown()
"""What spans tell of a target that sends none."""


class Engine:
    """The cycle's state. One thread drives it; everybody else reads the :class:`Cycle` values that it returns.

    ``fetch`` replaces the transport, ``clock`` (unix seconds) the time; ``machine`` reads the machine under the targets, and its
    pods that ask for it become targets; ``traces`` tells what spans say of each target. ``previous`` hands over what is known of
    unchanged targets on a reload. Raises :class:`SettingsError` when two targets have one name or ask one page.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.time,
        previous: Engine | None = None,
        machine: Machine | None = None,
        traces: Traces | None = None,
    ) -> None:
        self.settings = settings
        self._traces = traces
        self._fetch: Fetch = fetch or Fetcher(limits_of(settings), clock=clock).fetch
        self._clock = clock
        self._seen = NOBODY
        self._machine = machine
        self._known = previous._watches if previous and previous.settings.exporter == settings.exporter else {}
        self._troubles: Troubles = previous._troubles if previous else Troubles()
        self._gpus = GpuPages(limits_of(settings))
        self._services = settings.services
        self._watches: dict[str, Watch] = {}
        pages: dict[str, str] = {}
        for target in settings.targets:
            watch = self._over(target)
            if watch.name in self._watches:
                raise SettingsError(
                    f"two targets are named '{watch.name}'", place="targets", remedy="Give each its own name."
                )
            if (twice := pages.setdefault(page_url(target.url, target.kind), watch.name)) != watch.name:
                raise SettingsError(
                    f"'{twice}' and '{watch.name}' ask one page",
                    place=f"targets: {without_secrets(target.url)}",
                    remedy="Leave one out: whatever is summed would count it twice.",
                )
            self._watches[watch.name] = watch
        self._pods = Pods(settings)
        self._follow()

    def _over(self, target: Target) -> Watch:
        """A watch over a target: the one that there is, or was before a reload, else a fresh one."""
        name = name_of(target)
        old = self._watches.get(name) or self._known.get(name)
        return old if old is not None and old.target == target else Watch.over(target, self.settings)

    def _follow(self) -> None:
        """Take in pods that came and drop those that went, and know the GPU pages of all."""
        if self._machine is not None and self._pods.changed(self._machine.pods, self._machine.name):
            watches = [self._watches[name_of(target)] for target in self.settings.targets]
            watches += [self._over(target) for target in self._pods.targets]
            self._watches = {watch.name: watch for watch in watches}
            self._services = (*self.settings.services, *self._pods.services)
        node, targets = self.settings.node, (watch.target for watch in self._watches.values())
        self._gpus.keep([(node.gpu_url, node.gpu_access), *((one.gpu_url, one.gpu_access) for one in targets)])

    @property
    def instances(self) -> tuple[str, ...]:
        """The targets' instance names, in the order of the settings."""
        return tuple(self._watches)

    def step(self, now: float | None = None) -> Cycle:
        """One whole cycle. ``now`` (unix seconds) ends the window; by default the clock's time once all arrived."""
        began, start = self._clock(), time.perf_counter()
        self._follow()
        if self._machine is None or self._seen is not NOBODY:
            self._known = {}  # who was wanted is known; what is remembered of those that went is let go
        until = time.monotonic() + self.settings.exporter.timeout_seconds + GRACE_SECONDS
        if self._machine is not None:
            self._machine.begin([wanted_of(watch.target) for watch in self._engines()], began)
        pages, gpu_pages = self._gather(until)
        self._seen = self._machine.end(until) if self._machine is not None else NOBODY
        self._troubles.note(self._seen)
        collected = self.record(pages, gpu_pages, self._seen)
        del pages, gpu_pages  # judging takes the most memory, and they are not needed any more
        return self._publish(self._clock() if now is None else now, began, start, collected)

    def record(
        self, pages: Mapping[str, RawPage], gpu_pages: Mapping[str, RawPage] | None = None, seen: Seen = NOBODY
    ) -> list[Collected]:
        """Turn one page per target (by instance) into its newest snapshot; GPU pages are given by their URL."""
        cards = self._gpus.read(gpu_pages or {})
        watches = [self._watches[name] for name in pages]
        collected = [
            one
            for watch in watches
            for one in watch.record(pages[watch.name], self._around(watch, watches, cards, seen))
        ]
        if self._traces is not None:
            collected += self._told(self._traces, watches, seen)
        return [*collected, *(Collected(seen.name, one.name, one.ok, one.seconds) for one in seen.outcomes)]

    def _told(self, traces: Traces, watches: Sequence[Watch], seen: Seen) -> Iterator[Collected]:
        """Add what spans tell to the newest snapshots. A failure there costs that alone."""
        start = time.perf_counter()
        try:
            traces.probed([request for watch in watches for request in watch.probed()])
            shown = traces.shown(
                [place_of(w.name, w.target, w.readable, gateway=w.gateway, seen=seen) for w in watches]
            )
            for watch in watches:
                watch.tell(shown.get(watch.name, NOTHING))
            told, ok = {name for name, one in shown.items() if one.samples}, True
        except Exception as error:  # the page stands without
            log("spans-failed", level=logging.ERROR, error=repr(error))
            told, ok = {watch.name for watch in watches}, False
        took = time.perf_counter() - start
        yield from (Collected(watch.name, "spans", ok, took) for watch in watches if watch.name in told)

    def _around(self, watch: Watch, watches: Sequence[Watch], cards: Mapping[str, Cards], seen: Seen) -> Around:
        """What there is around one target: its GPU page, else the node's if it is here, and the engines it shares GPUs with."""
        own = watch.target.gpu_url
        here = not seen.found.get(watch.name, Found()).elsewhere
        page = cards.get(own) if own else cards.get(self.settings.node.gpu_url) if here else None
        others = (other for other in watches if other is not watch and (other.target.gpu_url == own if own else True))
        places = (seen.found.get(other.name, Found()) for other in others)
        return Around(seen, page, tuple(place for place in places if own or not place.elsewhere))

    def _engines(self) -> Iterator[Watch]:
        """The targets that are looked for among the processes: a gateway's are not an engine's."""
        return (watch for watch in self._watches.values() if not watch.gateway)

    def publish(self, now: float, collected: Iterable[Collected] = ()) -> Cycle:
        """Judge what the window up to ``now`` (unix seconds) holds and make the page, without fetching anything."""
        return self._publish(now, now, time.perf_counter(), collected)

    def _publish(self, now: float, began: float, start: float, collected: Iterable[Collected]) -> Cycle:
        config = self.settings.exporter
        oldest = now - config.window_seconds
        watches = self._watches.values()
        for watch in watches:
            watch.forget(oldest - MARGIN_INTERVALS * config.interval_seconds)
        seen, fronts = self._window(oldest), self._fronts()
        views = self._together(seen, fronts)
        engines = {one.name: one.engines for one in views if one.engines}
        places = self._places(engines)
        judged, judging = judge([s for one in views for s in one.snapshots], self.settings, engines, places)
        apart = {watch.name for watch in watches} - {one.name for one in views if one.kind != SERVICE_KIND}
        left = left_over(self._seen, frozenset().union(*(watch.gpus for watch in watches)))
        newest = (*self._newest(views, apart), *((left,) if left is not None else ()))
        got = (replace(one, collector="gateway") if one.instance in apart else one for one in collected)
        done = (*got, *judging)
        history = {watch.name: len(watch.history) for watch in watches}
        counted = tuple(promises.groups(self._promised(newest, views, places), self.settings))
        blocks = (
            *canonical(newest),
            *plain(counted),
            *families(judged, config.window_seconds),
            *health(done, history, self._pods.left),
        )
        page_bytes = sum(len(text((block,))) for block in blocks)
        forget(_REMEMBERED + 2 * sum(len(one.samples) for one in newest))
        return Cycle(
            began=began,
            ended=max(now, began),
            seconds=time.perf_counter() - start,
            window_seconds=config.window_seconds,
            snapshots=newest,
            scopes=judged,
            collected=done,
            history=history,
            blocks=blocks,
            page_bytes=page_bytes,
            counted=counted,
            window=seen,
            services=self._services,
            fronts=fronts,
            left=self._pods.left,
        )

    def _window(self, oldest: float) -> tuple[Observed, ...]:
        """Every target's pages of the window."""
        return tuple(
            Observed(watch.name, watch.target.kind, tuple(s for s in watch.history if s.t >= oldest))
            for watch in self._watches.values()
        )

    def _fronts(self) -> dict[str, str]:
        """The gateway in front of each engine that names one."""
        return {watch.name: watch.target.gateway for watch in self._watches.values() if watch.target.gateway}

    def _together(self, seen: tuple[Observed, ...], fronts: Mapping[str, str]) -> tuple[Observed, ...]:
        """What is judged: the targets, gateways joined to what stands behind them, and services."""
        if not (self._services or fronts or len(seen) == 2):
            return seen  # nothing can belong together, and looking for it costs time
        return joined(seen, self._services, fronts)

    def _newest(self, views: Sequence[Observed], apart: Collection[str]) -> Iterator[Snapshot]:
        """What the page shows of each target; of a gateway that a service has joined (``apart``), what it alone saw."""
        pages = {one.name: one.snapshots for one in views if one.kind != SERVICE_KIND}
        in_services = any(one.kind == SERVICE_KIND for one in views)
        for watch in self._watches.values():
            if watch.name not in apart:
                yield from pages[watch.name][-1:] or list(watch.history)[-1:]
            elif in_services and watch.history:
                page = watch.history[-1]
                own = {
                    k: v
                    for k, v in page.samples.items()
                    if of_calls(k) or origin_of(k.label("family")) is Origin.GATEWAY
                }
                yield replace(page, samples=own)

    def _places(self, engines: Mapping[str, Sequence[str]]) -> dict[str, Labels]:
        """The labels by which each target and service (``engines``: what it is made of) is grouped."""
        names = grouping(self.settings)
        own = {watch.name: kept(watch.target.labels, names) for watch in self._watches.values()}
        return own | {name: shared([own.get(engine, ()) for engine in members]) for name, members in engines.items()}

    def _promised(
        self, newest: Iterable[Snapshot], views: Iterable[Observed], places: Mapping[str, Labels]
    ) -> Iterator[promises.Newest]:
        """The pages whose promises are counted: those on the page, and each service's newest."""
        yield from map(promises.Newest, newest)
        names = grouping(self.settings)
        for one in views:
            if one.kind == SERVICE_KIND and one.snapshots:
                yield promises.Newest(one.snapshots[-1], places[one.name], names)

    def _gather(self, until: float) -> tuple[dict[str, RawPage], dict[str, RawPage]]:
        limit = self.settings.exporter.timeout_seconds
        began = time.monotonic()
        for watch in self._watches.values():
            watch.probe()
        engines = {
            name: (watch.flight, page_url(watch.target.url, watch.target.kind), watch.target.access)
            for name, watch in self._watches.items()
        }
        gpus = {url: (flight, page_url(url), access) for url, (flight, access) in self._gpus.flights().items()}
        for flight, url, access in (*engines.values(), *gpus.values()):
            flight.start(partial(self._fetch, url, timeout_s=limit, access=access), f"fetch {without_secrets(url)}")
        landed = partial(land, until=until, clock=self._clock, began=began)
        return {k: landed(f) for k, (f, *_) in engines.items()}, {k: landed(f) for k, (f, *_) in gpus.items()}


def replay(pages: Iterable[RawPage], settings: Settings, *, target: Target) -> Iterator[Cycle]:
    """What the exporter would have published after each recorded page of ``target``, on the pages' own clock.

    ``settings.exporter.window_seconds`` is the window of each verdict: make it at least the recording's length for a
    verdict over the whole. Judging each page costs some 10 ms; for the last verdict alone use :func:`replay_last`.
    """
    engine = _on(settings, target)
    for page in pages:
        yield engine.publish(page.t, engine.record({engine.instances[0]: page}))


def replay_last(pages: Iterable[RawPage], settings: Settings, *, target: Target) -> Cycle:
    """The cycle after the last page of a recording, with all pages taken in on the way. Needs at least one page."""
    engine = _on(settings, target)
    collected: list[Collected] = []
    end = 0.0
    for page in pages:
        collected, end = engine.record({engine.instances[0]: page}), page.t
    return engine.publish(end, collected)


def _nothing(url: str, *, timeout_s: float, access: Access = NO_ACCESS) -> RawPage:
    raise RuntimeError(f"a replay fetches nothing, not even {url} within {timeout_s:g} s")


def _on(settings: Settings, target: Target) -> Engine:
    return Engine(msgspec.structs.replace(settings, targets=(target,)), fetch=_nothing, clock=lambda: 0.0)
