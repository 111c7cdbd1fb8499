"""One target's probes: when one is due, whom it asks, and what became of it. Whoever ticks never waits.

A probe runs in a thread of its own, one at a time. One that outlives its deadline counts as a timeout at once, its late answer is
dropped, and no other begins before its thread has ended: a server that hangs is never asked in a pile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from llmvitals.series import Snapshot
from llmvitals.telemetry.ingest import page_url
from llmvitals.telemetry.probe.ask import Asked, ask
from llmvitals.telemetry.probe.dialects import CHAT, DIALECTS, Dialect
from llmvitals.telemetry.probe.tally import Tally
from llmvitals.telemetry.registry import ADAPTERS

TIMEOUT_SECONDS = 60.0
"""A probe without an end after so long has failed, whatever comes later."""

_GRACE_SECONDS = 1.0
_NO_MODEL = "no-model"
_PATHS = tuple({adapter.path for adapter in ADAPTERS})


class Ask(Protocol):
    """What sends a probe: :func:`llmvitals.telemetry.probe.ask.ask`, or a stand-in."""

    def __call__(self, base: str, dialect: Dialect, model: str, *, timeout_s: float) -> Asked:
        """The probe's end; it never raises for what a server does."""


Start = Callable[[Callable[[], None]], Callable[[], bool]]
"""Starts what it is given beside everything else, and returns what says whether it still runs."""


def in_a_thread(run: Callable[[], None]) -> Callable[[], bool]:
    """In a thread that does not keep the process from ending when a server does not answer."""
    thread = threading.Thread(target=run, name="probe", daemon=True)
    thread.start()
    return thread.is_alive


@dataclass(slots=True)
class _Attempt:
    """One probe under way. ``until``: when it has failed, on the prober's clock."""

    model: str
    until: float
    asked: Asked | None = None
    counted: bool = False
    alive: Callable[[], bool] = lambda: False


class Prober:
    """The probes of one target. ``url``: its page, or with ``api`` where its API is; ``model`` '' asks the page."""

    def __init__(
        self,
        url: str,
        *,
        seconds: float,
        kind: str = "auto",
        api: str = "",
        model: str = "",
        ask: Ask = ask,
        clock: Callable[[], float] = time.monotonic,
        start: Start = in_a_thread,
    ) -> None:
        self._base = base_of(api or url, kind)
        self._kind = "" if kind == "auto" else kind
        self._seconds = seconds
        self._model = model
        self._ask = ask
        self._clock = clock
        self._start = start
        self._due = clock()
        self._attempt: _Attempt | None = None
        self._tallies: dict[str, Tally] = {}
        self.last: Asked | None = None

    def tick(self, newest: Snapshot) -> None:
        """Count what has ended, and begin a probe if one is due. ``newest``: the target's newest page."""
        self._settle()
        now = self._clock()
        if now < self._due or self._attempt is not None:
            return
        models = sorted({s.label("model") for s in newest.samples if not s.name.startswith("llm_probe_")} - {""})
        told = (s.label("engine") for s in newest.samples if s.name == "llm_target_info")
        kind = next(told, self._kind if self._model else "")
        if not kind and not self._model:
            return  # its page has not been read: whom to ask is not known
        self._due = now + self._seconds
        dialect = DIALECTS.get(kind, CHAT)
        label = models[0] if len(models) == 1 else self._model
        wanted = self._model or label
        if not wanted and (models or kind in DIALECTS):
            self._count(label, Asked(_NO_MODEL))
            return
        self._begin(_Attempt(label, now + TIMEOUT_SECONDS + _GRACE_SECONDS), dialect, wanted)

    def joined(self, snapshot: Snapshot, labels: Mapping[str, str]) -> Snapshot:
        """The snapshot with the probes' samples; ``labels``: the target's own, ``instance`` among them."""
        if not self._tallies:
            return snapshot
        samples = dict(snapshot.samples)
        for model, tally in self._tallies.items():
            samples.update(tally.samples({**labels, **({"model": model} if model else {})}))
        return Snapshot(snapshot.t, samples, snapshot.detail)

    def _begin(self, attempt: _Attempt, dialect: Dialect, model: str) -> None:
        def run() -> None:
            attempt.asked = self._ask(self._base, dialect, model, timeout_s=TIMEOUT_SECONDS)

        self._attempt = attempt
        attempt.alive = self._start(run)

    def _settle(self) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        alive = attempt.alive()
        if not alive or self._clock() >= attempt.until:
            if not attempt.counted:
                self._count(attempt.model, Asked("timeout") if alive else attempt.asked or Asked("error"))
            attempt.counted = True
        if not alive:
            self._attempt = None

    def _count(self, model: str, asked: Asked) -> None:
        self.last = asked
        self._tallies.setdefault(model, Tally()).add(asked)


def base_of(url: str, kind: str = "auto") -> str:
    """Where a target's API begins: its URL without the page's path. Raises ``SettingsError`` for what is no URL."""
    parts = urlsplit(page_url(url, kind))
    path = parts.path
    for known in _PATHS:
        path = path.removesuffix(known)
    return urlunsplit((parts.scheme, parts.netloc, path.rstrip("/"), "", ""))
