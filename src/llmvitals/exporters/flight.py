"""One call at a time to one place, with an absolute deadline that holds even when the call itself does not keep it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from llmvitals.telemetry.ingest import RawPage


class Fetch(Protocol):
    """What brings a page: :meth:`llmvitals.telemetry.ingest.Fetcher.fetch`, or a stand-in inside the process."""

    def __call__(self, url: str, *, timeout_s: float) -> RawPage:
        """The page at ``url``, or a page that says in ``error`` why there is none, within ``timeout_s`` seconds."""


class Flight:
    """Single flight: while one call is under way no second one starts, and a late answer is dropped, never mixed up."""

    def __init__(self) -> None:
        self._pending: Future[RawPage] | None = None
        self._current: Future[RawPage] | None = None

    def start(self, call: Callable[[], RawPage], name: str) -> None:
        """Begin ``call`` in a thread of its own, unless the one before is still under way."""
        self._current = None
        if self._pending is not None and not self._pending.done():
            return
        future: Future[RawPage] = Future()
        # A daemon: a target that does not answer must not keep the process from ending.
        threading.Thread(target=_run, args=(future, call), name=f"fetch {name}", daemon=True).start()
        self._pending = self._current = future

    def land(self, until: float, *, clock: Callable[[], float], began: float) -> RawPage:
        """The page, waiting at most until ``until`` (monotonic seconds); else a failed page that says why.

        ``clock`` gives the unix time of a failure and ``began`` (monotonic) is when the attempt started. Never raises.
        """
        if self._current is None:
            return self._failed(clock, began, "is still busy with the scrape before")
        try:
            return self._current.result(max(until - time.monotonic(), 0.0))
        except TimeoutError:
            return self._failed(clock, began, "gave no whole answer within the time limit")
        except Exception as error:
            return self._failed(clock, began, f"{type(error).__name__}: {error}")

    @staticmethod
    def _failed(clock: Callable[[], float], began: float, why: str) -> RawPage:
        return RawPage(clock(), time.monotonic() - began, None, None, why)


def _run(future: Future[RawPage], call: Callable[[], RawPage]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # the waiting side reports it; a thread has nobody above it
        future.set_exception(error)
