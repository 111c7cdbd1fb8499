"""What is remembered of one target from cycle to cycle: its parser, its flight, its bounded history."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from llmvitals.exporters.logs import log
from llmvitals.exporters.spans.exemplars import Newest
from llmvitals.series import Packed, Snapshot, series
from llmvitals.settings import Settings, Target
from llmvitals.sources.access import exposed
from llmvitals.sources.beside import beside
from llmvitals.sources.node import Seen
from llmvitals.sources.place import base_url, name_of
from llmvitals.sources.roles import with_role
from llmvitals.sources.views import is_gateway
from llmvitals.telemetry.access import beside as beside_of
from llmvitals.telemetry.access import headers as headers_of
from llmvitals.telemetry.access import without_headers
from llmvitals.telemetry.flight import Flight
from llmvitals.telemetry.headers import read_headers
from llmvitals.telemetry.identity.model import Found
from llmvitals.telemetry.ingest import Ingest, Limits, RawPage
from llmvitals.telemetry.probe import Prober
from llmvitals.telemetry.probe.ask import ask
from llmvitals.telemetry.spans.model import Request, Shown

UP = "llm_target_up"

MAX_SNAPSHOTS = 1000
"""The most snapshots kept of one target, whatever window and interval say: it bounds the memory."""


@dataclass(frozen=True, slots=True)
class Collected:
    """How one collector of one target did in a cycle. ``seconds``: the time it took."""

    instance: str
    collector: str
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Cards:
    """A GPU exporter's page as it was read, and the seconds that this took."""

    page: Snapshot
    took: float = 0.0


NOBODY = Seen(0.0, "")
"""What is seen of a machine that nobody reads."""


@dataclass(frozen=True, slots=True)
class Around:
    """What one turn showed around an engine. ``others``: where other engines are that the same GPUs may serve."""

    seen: Seen = NOBODY
    gpus: Cards | None = None
    others: tuple[Found, ...] = ()


def limits_of(settings: Settings) -> Limits:
    """What one page may cost, from the settings."""
    own = settings.exporter
    return Limits(own.max_page_bytes, own.max_samples, own.max_labels, own.max_label_length)


def _prober(target: Target) -> Prober | None:
    if target.probe_seconds <= 0:
        return None
    file, access = target.probe_headers_file, beside_of(target.url, target.access, target.probe_url or target.url)
    if file:
        read_headers(file)  # what is amiss with it is told now, not by each probe
    return Prober(
        target.url,
        seconds=target.probe_seconds,
        kind=target.kind,
        api=target.probe_url,
        model=target.probe_model,
        headers=partial(read_headers, file) if file else partial(headers_of, access),
        ask=partial(ask, access=without_headers(access)),
    )


def _history() -> deque[Snapshot]:
    return deque(maxlen=MAX_SNAPSHOTS)


@dataclass(slots=True)
class Watch:
    """One target under watch. Only the cycle's thread touches it."""

    target: Target
    name: str
    ingest: Ingest
    flight: Flight[RawPage] = field(default_factory=Flight)
    history: deque[Snapshot] = field(default_factory=_history)
    up: bool | None = None
    gateway: bool = False  # whether its newest readable page is a gateway's
    readable: Snapshot | None = None  # its newest page that could be read
    gpus: frozenset[str] = frozenset()  # labels `gpu` of those that it got last
    traces: Newest = field(default_factory=Newest)
    prober: Prober | None = None

    @classmethod
    def over(cls, target: Target, settings: Settings) -> Watch:
        """A fresh watch over one target, with the limits of the settings.

        Raises :class:`SettingsError` for an address that is none, and when the headers of its probes cannot be read.
        """
        name = name_of(target)
        for url in filter(None, (target.gpu_url, target.probe_url)):
            base_url(url)
        limits = limits_of(settings)
        for url, access in ((target.url, target.access), (target.gpu_url, target.gpu_access)):
            if told := exposed(url, access):
                log("secret-in-the-clear", level=logging.WARNING, instance=name, detail=told)
        return cls(
            target,
            name,
            Ingest(instance=name, kind=target.kind, labels=target.labels, limits=limits),
            gateway=is_gateway(target.kind, ()),
            prober=_prober(target),
        )

    def probe(self) -> None:
        """Begin a probe where the settings ask for one and one is due. Never waits, never raises."""
        if self.prober is None or not self.history:
            return
        try:
            self.prober.tick(self.history[-1])
        except Exception as error:  # a probe never takes the page down
            log("probe-failed", level=logging.WARNING, instance=self.name, error=repr(error))

    def probed(self) -> tuple[Request, ...]:
        """The probes that ended well since this was asked last, as callers of their engine's spans."""
        return self.prober.taken() if self.prober is not None else ()

    def record(self, page: RawPage, around: Around) -> Iterator[Collected]:
        """Add one page, and what was seen beside the engine at the same time, to the history."""
        start = time.perf_counter()
        snapshot = self._read(page)
        up = self._noted(snapshot)
        if up:  # one that does not answer is what it was
            self.gateway = is_gateway(self.target.kind, (snapshot,))
            self.readable = snapshot
        yield Collected(self.name, "engine", up, (page.took or 0.0) + time.perf_counter() - start)
        start = time.perf_counter()
        snapshot, joined = self._joined(snapshot, around)
        if around.gpus is not None:
            ok = joined and not around.gpus.page.detail
            yield Collected(self.name, "gpu", ok, around.gpus.took + time.perf_counter() - start)
        snapshot = with_role(snapshot, self.target.role)
        if self.prober is not None and (last := self.prober.last) is not None:
            snapshot = self.prober.joined(snapshot, self._labels())
            yield Collected(self.name, "probe", last.outcome == "ok", last.e2e or 0.0)
        while self.history and self.history[-1].t > snapshot.t:
            self.history.pop()  # the clock was set back: what came before this page does not lie behind it
        self.history.append(snapshot)

    def tell(self, shown: Shown) -> None:
        """Add to the newest snapshot what spans tell of this target."""
        if self.history and (shown.samples or self.traces.known):
            newest = self.history[-1]
            samples = {**newest.samples, **shown.samples}
            self.history[-1] = replace(
                newest, samples=samples, exemplars={**self.traces.of(samples, shown.exemplars), **shown.exemplars}
            )

    def forget(self, before: float) -> None:
        """Drop what is older than ``before`` (unix seconds); the newest snapshot always stays, packed as all are that stay."""
        while len(self.history) > 1 and self.history[0].t < before:
            self.history.popleft()
        if self.history and not isinstance(self.history[-1].samples, Packed):
            newest = self.history.pop()
            last = self.history[-1].samples if self.history else {}
            self.history.append(replace(newest, samples=Packed.of(newest.samples, last)))

    def _read(self, page: RawPage) -> Snapshot:
        try:
            return self.ingest.snapshot(page)
        except Exception as error:  # a page that breaks the parser is that target's trouble alone
            log("ingest-failed", level=logging.ERROR, instance=self.name, error=repr(error))
            return Snapshot(
                page.t,
                {series(UP, **self._labels()): 0.0},
                detail=f"cannot be read: {error!r}",
            )

    def _labels(self) -> dict[str, str]:
        """What every sample of this target carries."""
        return {**self.target.labels, "instance": self.name}

    def _noted(self, snapshot: Snapshot) -> bool:
        up = any(value == 1.0 for key, value in snapshot.samples.items() if key.name == UP)
        if up is not self.up:
            level = logging.INFO if up else logging.WARNING
            log("target-up" if up else "target-down", level=level, instance=self.name, detail=snapshot.detail)
            self.up = up
        return up

    def _joined(self, snapshot: Snapshot, around: Around) -> tuple[Snapshot, bool]:
        page = around.gpus.page if around.gpus is not None else None
        seen = NOBODY if self.gateway else around.seen
        try:
            got = beside(snapshot, self.target, seen, page, others=around.others)
        except Exception as error:  # one collector never takes the page down
            log("join-failed", level=logging.WARNING, instance=self.name, error=repr(error))
            self.gpus = frozenset()
            return snapshot, False
        self.gpus = frozenset(got.gpus)
        return got.snapshot, True
