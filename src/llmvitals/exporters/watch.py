"""What is remembered of one target from cycle to cycle: its parser, its flight, its bounded history."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from llmvitals.exporters.logs import log
from llmvitals.series import Snapshot, series
from llmvitals.settings import Settings, Target
from llmvitals.sources.place import name_of
from llmvitals.sources.roles import with_role
from llmvitals.telemetry.flight import Flight
from llmvitals.telemetry.gpu.join import join_gpus
from llmvitals.telemetry.identity.match import match_page
from llmvitals.telemetry.ingest import Ingest, Limits, RawPage
from llmvitals.telemetry.probe import Prober

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


def limits_of(settings: Settings) -> Limits:
    """What one page may cost, from the settings."""
    own = settings.exporter
    return Limits(own.max_page_bytes, own.max_samples, own.max_labels, own.max_label_length)


def _prober(target: Target) -> Prober | None:
    if target.probe_seconds <= 0:
        return None
    return Prober(
        target.url,
        seconds=target.probe_seconds,
        kind=target.kind,
        api=target.probe_url,
        model=target.probe_model,
    )


def _history() -> deque[Snapshot]:
    return deque(maxlen=MAX_SNAPSHOTS)


@dataclass(slots=True)
class Watch:
    """One target under watch. Only the cycle's thread touches it."""

    target: Target
    name: str
    ingest: Ingest
    gpus: Ingest
    flight: Flight[RawPage] = field(default_factory=Flight)
    history: deque[Snapshot] = field(default_factory=_history)
    up: bool | None = None
    prober: Prober | None = None

    @classmethod
    def over(cls, target: Target, settings: Settings) -> Watch:
        """A fresh watch over one target, with the limits of the settings."""
        name = name_of(target)
        limits = limits_of(settings)
        return cls(
            target,
            name,
            Ingest(instance=name, kind=target.kind, labels=target.labels, limits=limits),
            Ingest(instance=name, labels=target.labels, limits=limits),
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

    def record(self, page: RawPage, gpu: RawPage | None) -> Iterator[Collected]:
        """Add one page, and the GPU page read beside it, to the history."""
        start = time.perf_counter()
        snapshot = self._read(page)
        yield Collected(self.name, "engine", self._noted(snapshot), (page.took or 0.0) + time.perf_counter() - start)
        if gpu is not None:
            start = time.perf_counter()
            snapshot, ok = self._joined(snapshot, gpu)
            yield Collected(self.name, "gpu", ok, (gpu.took or 0.0) + time.perf_counter() - start)
        snapshot = with_role(snapshot, self.target.role)
        if self.prober is not None and (last := self.prober.last) is not None:
            snapshot = self.prober.joined(snapshot, {**self.target.labels, "instance": self.name})
            yield Collected(self.name, "probe", last.outcome == "ok", last.e2e or 0.0)
        while self.history and self.history[-1].t > snapshot.t:
            self.history.pop()  # the clock was set back: what came before this page does not lie behind it
        self.history.append(snapshot)

    def forget(self, before: float) -> None:
        """Drop what is older than ``before`` (unix seconds); the newest snapshot always stays."""
        while len(self.history) > 1 and self.history[0].t < before:
            self.history.popleft()

    def _read(self, page: RawPage) -> Snapshot:
        try:
            return self.ingest.snapshot(page)
        except Exception as error:  # a page that breaks the parser is that target's trouble alone
            log("ingest-failed", level=logging.ERROR, instance=self.name, error=repr(error))
            return Snapshot(page.t, {series(UP, instance=self.name): 0.0}, detail=f"cannot be read: {error!r}")

    def _noted(self, snapshot: Snapshot) -> bool:
        up = any(value == 1.0 for key, value in snapshot.samples.items() if key.name == UP)
        if up is not self.up:
            level = logging.INFO if up else logging.WARNING
            log("target-up" if up else "target-down", level=level, instance=self.name, detail=snapshot.detail)
            self.up = up
        return up

    def _joined(self, snapshot: Snapshot, gpu: RawPage) -> tuple[Snapshot, bool]:
        try:
            seen = self.gpus.snapshot(gpu)
            return join_gpus(
                snapshot, seen, match_page(seen, self.target.gpus), instance=self.name, model=""
            ), not seen.detail
        except Exception as error:  # one collector never takes the page down
            log("gpu-join-failed", level=logging.WARNING, instance=self.name, error=repr(error))
            return snapshot, False
