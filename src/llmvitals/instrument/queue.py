"""A bounded queue in front of the engines: in order of arrival, with a time to live, left when the client leaves."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
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
            await self._wait(place)
        except BaseException:
            self._back_out(place)
            raise
        try:
            yield
        finally:
            self._let_go()

    async def wait(self, turn: Awaitable[T]) -> T:
        """Wait as a call in this queue for what the gateway itself waits for: ``await queue.wait(semaphore.acquire())``.

        Raises as :meth:`enter` does; ``turn`` is cancelled then.
        """
        task = asyncio.ensure_future(turn)
        try:
            await asyncio.sleep(0)  # what need not wait is done after one round of the loop
            return await self._wait(task)
        except BaseException:
            task.cancel()
            raise

    async def _wait(self, turn: asyncio.Future[T]) -> T:
        call, began, waits = self._current(), now(), False
        try:
            patience = self._patience(call)
            if patience is not None and patience <= 0:
                raise Expired("the time that this call may take is over")
            if not turn.done():
                self._take()
                waits = True
                if call is not None:
                    call.state = State.WAITING
                await _until(turn, call, patience)
            result = turn.result()
        except Full:
            self._counted.dropped(call, Full.reason)
            raise
        except (Refused, asyncio.CancelledError) as given_up:
            self._counted.waited(call, now() - began)
            self._counted.dropped(call, given_up.reason if isinstance(given_up, Refused) else Left.reason)
            raise
        finally:
            if waits:
                with self._lock:
                    self.waiting -= 1
        self._counted.waited(call, now() - began if waits else 0.0)
        if call is not None:
            call.state = State.CAME
        return result

    def _patience(self, call: Call | None) -> float | None:
        limits = (self.ttl, None if call is None else call.remaining())
        return min((seconds for seconds in limits if seconds is not None), default=None)

    def _take(self) -> None:
        with self._lock:
            if self.limit is not None and self.waiting >= self.limit:
                raise Full(f"{self.waiting} calls wait already", retry_after=self.ttl)
            self.waiting += 1

    def _place(self) -> asyncio.Future[None]:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._places.append(place)
        self._grant()
        return place

    def _grant(self) -> None:
        """Give free places to those that wait longest."""
        with self._lock:
            while self._places and (self.most is None or self.running < (self.most or 0)):
                place = self._places.popleft()
                self.running += 1
                loop = place.get_loop()
                if loop is _running():
                    place.set_result(None)
                else:
                    loop.call_soon_threadsafe(self._hand, place)

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


async def _until(turn: asyncio.Future[T], call: Call | None, patience: float | None) -> None:
    """Wait until ``turn`` has come. Raises :class:`Expired` after ``patience`` seconds, :class:`Left` when the client leaves."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[Refused] = loop.create_future()

    def give_up(why: Refused) -> None:
        if not stop.done():
            stop.set_result(why)

    timer = None
    if patience is not None:
        timer = loop.call_later(
            patience, give_up, Expired(f"no place came free in {patience:g} s", retry_after=patience)
        )
    forget = call.on_leaving(lambda: give_up(Left("the client went away"))) if call is not None else None
    try:
        await asyncio.wait({turn, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not turn.done():
            raise stop.result()
    finally:
        if timer is not None:
            timer.cancel()
        if forget is not None:
            forget()
