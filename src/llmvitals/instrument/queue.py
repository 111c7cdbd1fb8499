"""A bounded queue in front of the engines: in order of arrival, with a time to live, left when the client leaves."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol, TypeVar

from llmvitals.instrument.call import Call, State, now
from llmvitals.instrument.refusals import Expired, Full, Left, Refused

T = TypeVar("T")
Concurrency = int | Callable[[], float] | None


class Counted(Protocol):
    """Who counts what a queue does."""

    def waited(self, call: Call | None, seconds: float) -> None:
        """A call left the queue after so many seconds, sent on or given up."""

    def dropped(self, call: Call | None, reason: str) -> None:
        """The queue gave a call up: full, ttl or left."""


class Queue:
    """At most ``concurrency`` calls run (a number, or what it is now where it moves; None: the gateway bounds them itself, see
    :meth:`wait`), at most ``limit`` wait (None: any number), each for ``ttl`` seconds or until its own deadline.
    """

    def __init__(
        self,
        counted: Counted,
        current: Callable[[], Call | None],
        *,
        limit: int | None = None,
        ttl: float | None = None,
        concurrency: Concurrency = None,
    ) -> None:
        self.limit = limit
        self.ttl = ttl
        self.concurrency = concurrency
        self.waiting = 0
        self.running = 0
        self._counted = counted
        self._current = current
        self._lock = threading.Lock()
        self._places: deque[asyncio.Future[None]] = deque()

    @property
    def most(self) -> float | None:
        """Calls that may run at once now; None where that is not this queue's to say."""
        return self.concurrency() if callable(self.concurrency) else self.concurrency

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Wait for a place and hold it. Raises :class:`Full`, :class:`Expired` or :class:`Left`."""
        place = self._place()
        try:
            await self.wait(lambda: place, free=place.done())
        except BaseException:
            self._back_out(place)
            raise
        try:
            yield
        finally:
            self._let_go()

    async def wait(self, turn: Callable[[], Awaitable[T]], *, free: bool) -> T:
        """Wait as a call in this queue for what the gateway itself waits for; ``free``: whether that need not wait.

        ``await queue.wait(semaphore.acquire, free=not semaphore.locked())``. Raises as :meth:`enter` does.
        """
        call, began = self._current(), now()
        try:
            _still_wanted(call)
            if free:
                result = await turn()
            else:
                with self._in_line(call):
                    result = await _within(self._patience(call), call, turn)
        except Full:
            self._counted.dropped(call, Full.reason)
            raise
        except BaseException as given_up:
            self._counted.waited(call, now() - began)
            if isinstance(given_up, Refused | asyncio.CancelledError):
                self._counted.dropped(call, given_up.reason if isinstance(given_up, Refused) else Left.reason)
            raise
        self._counted.waited(call, 0.0 if free else now() - began)
        return result

    @contextmanager
    def _in_line(self, call: Call | None) -> Iterator[None]:
        with self._lock:
            if self.limit is not None and self.waiting >= self.limit:
                raise Full(f"{self.waiting} calls wait already", retry_after=self.ttl)
            self.waiting += 1
        if call is not None:
            call.state = State.WAITING
        try:
            yield
        finally:
            with self._lock:
                self.waiting -= 1
            if call is not None:
                call.state = State.CAME

    def _patience(self, call: Call | None) -> float | None:
        limits = (self.ttl, None if call is None else call.remaining())
        return min((seconds for seconds in limits if seconds is not None), default=None)

    def _place(self) -> asyncio.Future[None]:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._places.append(place)
        self._grant()
        return place

    def _grant(self) -> None:
        """Give free places to those that wait longest."""
        with self._lock:
            while self._places and self._has_room():
                place = self._places.popleft()
                if place.done():
                    continue  # given up, and not yet taken out
                self.running += 1
                loop = place.get_loop()
                if loop is _running():
                    place.set_result(None)
                else:
                    loop.call_soon_threadsafe(self._hand, place)

    def _has_room(self) -> bool:
        most = self.most
        return most is None or self.running < most

    def _hand(self, place: asyncio.Future[None]) -> None:
        if place.done():  # it was given up meanwhile, on its own loop
            self._let_go()
        else:
            place.set_result(None)

    def _back_out(self, place: asyncio.Future[None]) -> None:
        with self._lock:
            if place in self._places:
                self._places.remove(place)
                return
        if place.done() and not place.cancelled():
            self._let_go()
        else:
            place.cancel()

    def _let_go(self) -> None:
        with self._lock:
            self.running -= 1
        self._grant()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _still_wanted(call: Call | None) -> None:
    if call is not None and call.left:
        raise Left
    if call is not None and call.remaining() == 0:
        raise Expired("the time that this call may take is over")


async def _within(patience: float | None, call: Call | None, turn: Callable[[], Awaitable[T]]) -> T:
    """Wait for ``turn``. Raises :class:`Expired` after ``patience`` seconds, :class:`Left` when the client leaves."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(patience) as clock:
            forget = call.on_leaving(lambda: clock.reschedule(loop.time())) if call is not None else None
            try:
                return await turn()
            finally:
                if forget is not None:
                    forget()
    except TimeoutError:
        if not clock.expired():
            raise
        if call is not None and call.left:
            raise Left from None
        raise Expired(f"no place came free in {patience:g} s", retry_after=patience) from None
