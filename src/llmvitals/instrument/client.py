"""What goes to an engine and comes back, counted by upstream: an httpx transport around the one that a gateway has.

Nothing is kept or held back: each piece of an answer is passed on as it comes. When the call's client goes away the request
is given up at once, which closes the connection and lets the engine stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import httpx
from opentelemetry import trace

from llmvitals.instrument.call import Call, now
from llmvitals.instrument.refusals import Left
from llmvitals.instrument.spans import W3C
from llmvitals.instrument.upstream import Upstream

T = TypeVar("T")

_NO_CONNECTION = (httpx.ConnectError, httpx.ConnectTimeout)


class Transport(httpx.AsyncBaseTransport):
    """Requests to one upstream, sent by ``inner``. Attempts that ``inner`` repeats by itself are not seen: have it repeat none.

    ``current``: the call that a task serves.
    """

    def __init__(self, current: Callable[[], Call | None], upstream: Upstream, inner: httpx.AsyncBaseTransport) -> None:
        self._current = current
        self._upstream = upstream
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it. Raises what ``inner`` raises, and :class:`Left` when the call's client went away meanwhile."""
        call, began = self._current(), now()
        wanted = _Wanted(call)
        self._upstream.sending()
        if call is not None:
            _traced(request.headers, call)
        try:
            answer = await wanted.wait(partial(self._inner.handle_async_request, request))
        except _NO_CONNECTION:
            self._upstream.connect_error(now() - began)
            raise
        except BaseException:
            self._upstream.given_up(now() - began)
            raise
        finally:
            wanted.forget()
        self._upstream.answering(answer.status_code)
        if answer.is_closed:  # a cache, or a stand-in for tests, gave all of it at once
            self._upstream.ended(now() - began)
            return answer
        if not isinstance(answer.stream, httpx.AsyncByteStream):
            raise TypeError(f"{type(self._inner).__name__} gives answers that cannot be awaited")
        answer.stream = _Answer(answer.stream, self, call, began)
        return answer

    def over(self, began: float, error: BaseException | None) -> None:
        """An answer that had begun came to its end, whole or not."""
        seconds = now() - began
        if error is None:
            self._upstream.ended(seconds)
        elif isinstance(error, httpx.TransportError):  # the gateway's own clock, or the upstream closed or reset it
            self._upstream.cut("timeout" if isinstance(error, httpx.TimeoutException) else "upstream", seconds)
        else:
            self._upstream.given_up(seconds)

    async def aclose(self) -> None:
        """Close what sends the requests."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._inner.__aexit__(exc_type, exc_value, traceback)


class _Answer(httpx.AsyncByteStream):
    """An answer's bytes, each piece passed on as it comes."""

    def __init__(self, inner: httpx.AsyncByteStream, transport: Transport, call: Call | None, began: float) -> None:
        self._inner = inner
        self._transport = transport
        self._call = call
        self._began = began
        self._over = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        following, wanted = aiter(self._inner).__anext__, _Wanted(self._call)
        try:
            while True:
                yield await wanted.wait(following)
        except StopAsyncIteration:
            self._end(None)
        except BaseException as error:
            self._end(error)
            raise
        finally:
            wanted.forget()

    async def aclose(self) -> None:
        """Let the answer go, read to its end or not."""
        self._end(asyncio.CancelledError())
        await self._inner.aclose()

    def _end(self, error: BaseException | None) -> None:
        if not self._over:
            self._over = True
            self._transport.over(self._began, error)


def _traced(headers: httpx.Headers, call: Call) -> None:
    """The call's span becomes the parent of what the engine tells; a ``traceparent`` of the client is replaced by it."""
    if call.span is not None and call.span.get_span_context().is_valid:
        told: dict[str, str] = {}
        W3C.inject(told, trace.set_span_in_context(call.span))
        headers.pop("tracestate", None)
        headers.update(told)


class _Wanted:
    """Awaits, and lets go of it when the call's client goes away: then :class:`Left` is raised.

    Done as :func:`asyncio.timeout` does it, for all pieces of an answer at the price of one.
    """

    def __init__(self, call: Call | None) -> None:
        self._task: asyncio.Task[object] | None = None
        self._left = False
        self.forget = call.on_leaving(self._leave) if call is not None else lambda: None

    def _leave(self) -> None:
        self._left = True
        if self._task is not None:
            self._task.cancel()

    async def wait(self, what: Callable[[], Awaitable[T]]) -> T:
        """What ``what`` gives."""
        if self._left:
            raise Left
        task = self._task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        try:
            found = await what()
        except BaseException as error:
            if self._let_go(task) <= before and self._left and isinstance(error, asyncio.CancelledError):
                raise Left from None
            raise
        self._let_go(task)
        if self._left:  # it was cancelled, and took no notice
            raise Left
        return found

    def _let_go(self, task: asyncio.Task[object] | None) -> int:
        """No more waiting; cancellations that are left when our own, if there was one, is taken back."""
        self._task = None
        return task.uncancel() if task is not None and self._left else 0
