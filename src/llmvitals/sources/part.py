"""One reader of this machine, asked once per turn in a flight of its own: what it gave last, or why there is nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from llmvitals.errors import LlmvitalsError
from llmvitals.telemetry.flight import Flight, Late

T = TypeVar("T")

RETRY_SECONDS = 300.0
"""A reader that cannot be had here is tried again this often: drivers are loaded and sockets appear later."""


@dataclass(frozen=True, slots=True)
class Got(Generic[T]):
    """The outcome of one turn. ``value`` None: there is none, and ``why`` says it ('' while nobody asked for it).

    ``fresh``: it was read in this turn; ``seconds``: how long the last reading took.
    """

    value: T | None = None
    why: str = ""
    fresh: bool = False
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether something was asked for and did not come."""
        return bool(self.why)


class Part(Generic[T]):
    """A reader that is made when it is first asked, in its flight: a driver may hang as early as that.

    ``switch``: ``auto`` is silent where there is no such thing here, ``on`` says so, ``off`` never asks. ``every``: least
    seconds between two readings; in between the last value stands, and so it does for ``keep`` seconds once reading fails.
    ``retry``: seconds until one that never worked is tried again.
    """

    def __init__(
        self,
        name: str,
        switch: str,
        make: Callable[[], Callable[[], T]],
        *,
        every: float = 0.0,
        keep: float = 0.0,
        retry: float = RETRY_SECONDS,
    ) -> None:
        self.name = name
        self._switch, self._make, self._every, self._keep, self._retry = switch, make, every, keep, retry
        self._flight: Flight[tuple[T, float]] = Flight()
        self._read: Callable[[], T] | None = None
        self._worked = False
        self._due = self._at = float("-inf")
        self._asked = False
        self._last: Got[T] = Got()

    @property
    def last(self) -> Got[T]:
        """The outcome of the last turn."""
        return self._last

    def begin(self) -> None:
        """Ask, where it is due. Never waits, never raises."""
        now = time.monotonic()
        self._asked = self._switch != "off" and now >= self._due
        if self._asked:
            self._due = now + self._every
            self._flight.start(self._call, f"read {self.name}")

    def end(self, until: float) -> Got[T]:
        """What came until a moment (monotonic seconds). Never raises."""
        if not self._asked:
            self._last = replace(self._last, fresh=False)
            return self._last
        try:
            value, seconds = self._flight.result(until)
        except Late as late:
            self._last = self._without(str(late))
        except LlmvitalsError as error:
            self._last = self._without(f"{error.thing} at {error.place}; {error.remedy}", absent=not self._worked)
        except Exception as error:
            self._last = self._without(f"{type(error).__name__}: {error}")
        else:
            self._worked, self._at = True, time.monotonic()
            self._last = Got(value, fresh=True, seconds=seconds)
        return self._last

    def _without(self, why: str, *, absent: bool = False) -> Got[T]:
        if absent:
            self._due = time.monotonic() + self._retry
            if self._switch == "auto":
                return Got()  # there is no such thing here, and nobody said that there must be
        if self._last.value is not None and time.monotonic() - self._at <= self._keep:
            return Got(self._last.value, why)
        return Got(None, why)

    def _call(self) -> tuple[T, float]:
        start = time.perf_counter()
        if self._read is None:
            self._read = self._make()
        return self._read(), time.perf_counter() - start
