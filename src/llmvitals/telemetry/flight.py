"""One call at a time to one place, with an absolute deadline that holds even when the call itself does not keep it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from llmvitals.telemetry.ingest import RawPage

T = TypeVar("T")


class Late(Exception):  # noqa: N818  # not an error of ours: the answer simply is not here
    """There is no answer of this call: the one before is still busy, or the time is over."""


class Flight(Generic[T]):
    """Single flight: while one call is under way no second one starts, and a late answer is dropped, never mixed up."""

    def __init__(self) -> None:
        self._pending: Future[T] | None = None
        self._current: Future[T] | None = None

    def start(self, call: Callable[[], T], name: str) -> None:
        """Begin ``call`` in a thread of its own, unless the one before is still under way."""
        self._current = None
        if self._pending is not None and not self._pending.done():
            return
        future: Future[T] = Future()
        # A daemon: a call that does not come back must not keep the process from ending.
        threading.Thread(target=_run, args=(future, call), name=name, daemon=True).start()
        self._pending = self._current = future

    def result(self, until: float) -> T:
        """The answer, waiting at most until ``until`` (monotonic seconds).

        Raises :class:`Late` with the reason, or what the call raised.
        """
        if self._current is None:
            raise Late("is still busy with the scrape before")
        current = self._current
        try:
            answer = current.result(max(until - time.monotonic(), 0.0))
        except TimeoutError:
            if current.done():
                raise  # the call's own
            raise Late("gave no whole answer within the time limit") from None
        self._pending = self._current = None  # nobody keeps a page until the next one
        return answer


def land(flight: Flight[RawPage], *, until: float, clock: Callable[[], float], began: float) -> RawPage:
    """The page of a flight, waiting at most until ``until`` (monotonic seconds); else a failed page that says why.

    ``clock`` gives the unix time of a failure and ``began`` (monotonic) is when the attempt started. Never raises.
    """
    try:
        return flight.result(until)
    except Late as late:
        why = str(late)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    return RawPage(clock(), time.monotonic() - began, None, None, why)


def _run(future: Future[T], call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # the waiting side reports it; a thread has nobody above it
        future.set_exception(error)
