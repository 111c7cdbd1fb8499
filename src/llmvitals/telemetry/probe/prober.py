"""One target's probes: when one is due, whom it asks, and what became of it. Whoever ticks never waits.

A probe runs in a thread of its own, one at a time. One that outlives its deadline counts as a timeout at once, its late answer is
dropped, and no other begins before its thread has ended: a server that hangs is never asked in a pile. Each interval is drawn a
little longer or shorter, and the first probe goes out some time within the first: targets are not all asked at once.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from llmvitals.errors import SettingsError
from llmvitals.series import Snapshot
from llmvitals.telemetry.ingest import page_url
from llmvitals.telemetry.models import models_of
from llmvitals.telemetry.probe.ask import Asked, ask
from llmvitals.telemetry.probe.dialects import CHAT, DIALECTS, Dialect
from llmvitals.telemetry.probe.tally import Tally
from llmvitals.telemetry.probe.trace import DIALECT, Trace
from llmvitals.telemetry.registry import ADAPTERS
from llmvitals.telemetry.spans.model import Request, Vantage

TIMEOUT_SECONDS = 60.0
"""A probe without an end after so long has failed, whatever comes later."""

JITTER = 0.1
"""How far an interval may be from the one that was asked for, as a share of it."""

KEPT = 64
"""The most probes that are kept for :meth:`Prober.taken`; the oldest go first."""

_GRACE_SECONDS = 1.0
_NO_MODEL, _NO_HEADERS = "no-model", "no-headers"
_PATHS = tuple({adapter.path for adapter in ADAPTERS})


class Ask(Protocol):
    """What sends a probe: :func:`llmvitals.telemetry.probe.ask.ask`, or a stand-in."""

    def __call__(
        self, base: str, dialect: Dialect, model: str, *, timeout_s: float, headers: Mapping[str, str]
    ) -> Asked:
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
    """One probe under way. ``until``: when it has failed, on the prober's clock; ``start``: unix seconds."""

    model: str
    until: float
    start: float
    trace: Trace
    asked: Asked | None = None
    counted: bool = False
    alive: Callable[[], bool] = lambda: False


class Prober:
    """The probes of one target. ``url``: its page, or with ``api`` where its API is; ``model`` '' asks the page.

    ``headers`` gives what is sent along, read anew for each probe, since keys are exchanged; ``draw`` numbers from 0 to 1.
    """

    def __init__(
        self,
        url: str,
        *,
        seconds: float,
        kind: str = "auto",
        api: str = "",
        model: str = "",
        headers: Callable[[], Mapping[str, str]] = dict,
        ask: Ask = ask,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        start: Start = in_a_thread,
        draw: Callable[[], float] = random.random,
        trace: Callable[[], Trace] = Trace.fresh,
    ) -> None:
        self._base = base_of(api or url, kind)
        self._kind = "" if kind == "auto" else kind
        self._seconds = seconds
        self._model = model
        self._headers = headers
        self._ask = ask
        self._clock = clock
        self._wall = wall
        self._start = start
        self._draw = draw
        self._trace = trace
        self._due = clock() + seconds * draw()
        self._attempt: _Attempt | None = None
        self._tallies: dict[str, Tally] = {}
        self._ended: deque[Request] = deque(maxlen=KEPT)
        self.last: Asked | None = None

    def tick(self, newest: Snapshot) -> None:
        """Count what has ended, and begin a probe if one is due. ``newest``: the target's newest page."""
        self._settle()
        now = self._clock()
        if now < self._due or self._attempt is not None:
            return
        models = models_of(newest)
        told = (s.label("engine") for s in newest.samples if s.name == "llm_target_info")
        kind = next(told, self._kind if self._model else "")
        if not kind and not self._model:
            return  # its page has not been read: whom to ask is not known
        self._due = now + self._seconds * (1 + JITTER * (2 * self._draw() - 1))
        dialect = DIALECTS.get(kind, CHAT)
        label = models[0] if len(models) == 1 else self._model
        wanted = self._model or label
        if not wanted and (models or kind in DIALECTS):
            self._count(label, Asked(_NO_MODEL))
            return
        until = now + TIMEOUT_SECONDS + _GRACE_SECONDS
        self._begin(_Attempt(label, until, self._wall(), self._trace()), dialect, wanted)

    def joined(self, snapshot: Snapshot, labels: Mapping[str, str]) -> Snapshot:
        """The snapshot with the probes' samples; ``labels``: the target's own, ``instance`` among them."""
        if not self._tallies:
            return snapshot
        samples = dict(snapshot.samples)
        for model, tally in self._tallies.items():
            samples.update(tally.samples({**labels, **({"model": model} if model else {})}))
        return Snapshot(snapshot.t, samples, snapshot.detail)

    def taken(self) -> tuple[Request, ...]:
        """The probes that ended well since this was asked last, as the callers of the spans that engines send of them."""
        ended = tuple(self._ended)
        self._ended.clear()
        return ended

    def _begin(self, attempt: _Attempt, dialect: Dialect, model: str) -> None:
        def run() -> None:
            try:
                headers = {**self._headers(), **attempt.trace.headers}
                attempt.asked = self._ask(self._base, dialect, model, timeout_s=TIMEOUT_SECONDS, headers=headers)
            except SettingsError:  # a file of what lets us in is not there, or cannot be used
                attempt.asked = Asked(_NO_HEADERS)

        self._attempt = attempt
        attempt.alive = self._start(run)

    def _settle(self) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        alive = attempt.alive()
        if not alive or self._clock() >= attempt.until:
            if not attempt.counted:
                asked = Asked("timeout") if alive else attempt.asked or Asked("error")
                self._count(attempt.model, asked)
                if asked.e2e is not None:
                    self._ended.append(_request(attempt, asked, asked.e2e))
            attempt.counted = True
        if not alive:
            self._attempt = None

    def _count(self, model: str, asked: Asked) -> None:
        self.last = asked
        self._tallies.setdefault(model, Tally()).add(asked)


def _request(attempt: _Attempt, asked: Asked, e2e: float) -> Request:
    return Request(
        dialect=DIALECT,
        vantage=Vantage.CLIENT,
        trace_id=attempt.trace.trace_id,
        span_id=attempt.trace.span_id,
        parent_id="",
        start=attempt.start,
        end=attempt.start + e2e,
        ttft=asked.ttft,
        e2e=e2e,
        model=attempt.model,
    )


def base_of(url: str, kind: str = "auto") -> str:
    """Where a target's API begins: its URL without the page's path. Raises ``SettingsError`` for what is no URL."""
    parts = urlsplit(page_url(url, kind))
    path = parts.path
    for known in _PATHS:
        path = path.removesuffix(known)
    return urlunsplit((parts.scheme, parts.netloc, path.rstrip("/"), "", ""))
