"""The ledger of requests that spans told: each counted once, for its class, at the target that served it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from llmvitals.settings import Settings
from llmvitals.telemetry.spans.counting import Counting, Counts
from llmvitals.telemetry.spans.model import Attributes, Batch, Place, Request, Sent, Shown
from llmvitals.telemetry.spans.senders import placed

__all__ = ["Counts", "Ledger"]

AT_ONCE = 512
"""Requests that are taken in under one hold of the lock: a few milliseconds."""


class Ledger:
    """Counts requests. Every method may be called from any thread; what is held is bounded (:mod:`counting`, :mod:`joining`).

    ``clock``: unix seconds. ``previous``: the ledger before a reload. What that one holds and has counted is taken over with the
    first use of this one, and from then on it passes on what still comes to it; a ledger that is never used changes nothing.
    """

    def __init__(
        self, settings: Settings, *, clock: Callable[[], float] = time.time, previous: Ledger | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._previous = previous
        self._heir: Ledger | None = None
        self._lock = threading.Lock()
        self._counting = Counting(settings)
        self._places: tuple[Place, ...] = ()
        self._looked = 0

    def take(self, batch: Batch, peer: str) -> None:
        """Take an export in that came from ``peer`` (an IP address)."""
        with self._lock:
            heir = self._ready()
            if heir is None:
                self._counting.begin(self._clock())
                self._counting.note(batch.other, batch.refused)
        if heir is not None:
            heir.take(batch, peer)
            return
        for resource, requests in _parts(batch):
            with self._lock:
                heir = self._ready()
                if heir is None:
                    self._counting.take(resource, requests, peer)
            if heir is not None:
                heir.take(Batch((Sent(resource, requests),)), peer)
        with self._lock:
            crowded = self._counting.crowded
        if crowded:  # what a new process sends would be lost before the next page
            self._place(self._places)

    def settle(self) -> None:
        """Settle what has waited long enough. :meth:`take` and :meth:`shown` do so too."""
        with self._lock:
            heir = self._ready()
            if heir is None:
                self._counting.begin(self._clock())
        if heir is not None:
            heir.settle()

    def shown(self, places: Sequence[Place]) -> dict[str, Shown]:
        """What each target's page gets, by instance; only targets whose spans came are in it. ``places``: all targets there are."""
        with self._lock:
            heir = self._ready()
            if heir is None:
                self._counting.begin(self._clock())
        if heir is not None:
            return heir.shown(places)
        self._place(tuple(places))
        found = {}
        for place in places:
            with self._lock:  # one target at a time: those who send wait for no whole page
                shown = self._counting.shown(place)
            if shown is not None:
                found[place.instance] = shown
        return found

    def counts(self) -> Counts:
        """What became of all spans so far."""
        with self._lock:
            heir = self._ready()
            if heir is None:
                return self._counting.counts()
        return heir.counts()

    def _place(self, places: tuple[Place, ...]) -> None:
        """Hold senders against the targets: those that are new, and all of them where a target has changed."""
        with self._lock:
            if places != self._places:
                self._places, self._looked = places, self._looked + 1
            todo = [one for one in self._counting.senders() if one.looked != self._looked]
            looked = self._looked
        answers = [(one, placed(one.resource, one.peer, one.vantage, places)) for one in todo]
        if not answers:
            return
        by_name = {place.instance: place for place in places}
        with self._lock:
            for sender, answer in answers:
                self._counting.assign(sender, answer, by_name)
                sender.looked = looked
            self._counting.replay()

    def _ready(self) -> Ledger | None:
        """Take over from the ledger before; who took over from this one, if anybody did. With the lock held."""
        previous, self._previous = self._previous, None
        while previous is not None:
            with previous._lock:
                heir = previous._ready()
                if heir is None:
                    self._counting = previous._counting
                    self._counting.tuned(self._settings)
                    self._places, self._looked = previous._places, previous._looked
                    previous._heir = self
            previous = heir
        return self._heir


def _parts(batch: Batch) -> Iterator[tuple[Attributes, tuple[Request, ...]]]:
    for sent in batch.sent:
        for start in range(0, len(sent.requests), AT_ONCE):
            yield sent.resource, sent.requests[start : start + AT_ONCE]
