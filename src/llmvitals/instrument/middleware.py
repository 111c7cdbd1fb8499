"""The ASGI middleware: it watches calls pass, in both directions, and holds nothing back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

from llmvitals.instrument.deadlines import seconds_left
from llmvitals.instrument.kit import Gateway
from llmvitals.instrument.passage import Passage
from llmvitals.instrument.refusals import Left, Refused

_log = logging.getLogger(__name__)
PATHS = ("/v1/chat/completions", "/v1/completions")
T = TypeVar("T")
Told = Callable[[Scope], str | None]
"""What tells something of a call by its ASGI scope (path, headers); '' or None where it cannot."""


class Middleware:
    """Around the application, outside of what else is around it.

    ``paths``: which requests are model calls. ``tenant``, ``session``, ``user_request``: tell whose a call is. A tenant is a team,
    a key's name, a plan, never a person or the key itself; of sessions and users' requests only hashes are kept. ``deadline``:
    tells in how many seconds the client stops waiting, see :mod:`llmvitals.instrument.deadlines`. ``body_limit``: bytes of a body
    that are read at most; the application gets all of it anyway. ``cancel``: cancel the application when the client has left.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        kit: Gateway,
        paths: Iterable[str] = PATHS,
        tenant: Told | None = None,
        session: Told | None = None,
        user_request: Told | None = None,
        deadline: Callable[[Scope], float | None] = seconds_left,
        body_limit: int = 1 << 20,
        cancel: bool = False,
    ) -> None:
        self.app = app
        self.kit = kit
        self.paths = frozenset(paths)
        self.tenant = tenant
        self.session = session
        self.user_request = user_request
        self.deadline = deadline
        self.body_limit = body_limit
        self.cancel = cancel
        kit.calls.begin(tenanted=tenant is not None, sessioned=session is not None, users=user_request is not None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it when it is a model call."""
        if scope["type"] != "http" or scope["path"] not in self.paths or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        passage = Passage(self.kit, scope, receive, send, body_limit=self.body_limit)
        passage.begin(
            tenant=_told(self.tenant, scope) or "",
            session=_told(self.session, scope) or "",
            user_request=_told(self.user_request, scope) or "",
            seconds=_told(self.deadline, scope),
        )
        try:
            await self._serve(passage, scope)
        finally:
            passage.end()

    async def _serve(self, passage: Passage, scope: Scope) -> None:
        task = asyncio.current_task()
        forget = passage.call.on_leaving(task.cancel) if self.cancel and task is not None else None
        try:
            await self.app(scope, passage.receive, passage.send)
        except Refused as refused:
            passage.refused(refused)
            if passage.started or passage.call.left:
                return
            await _answer(refused, passage.send)
        except asyncio.CancelledError as cancelled:
            if forget is None or not passage.call.left or task is None:
                passage.failed(cancelled)
                raise
            task.uncancel()
        except BaseException as error:
            passage.failed(error)
            if not isinstance(error.__cause__, Left):  # Starlette wraps a refusal that comes after the answer has begun
                raise
        finally:
            if forget is not None:
                forget()


def _told(teller: Callable[[Scope], T | None] | None, scope: Scope) -> T | None:
    """What a gateway's function says of a call; one that fails says nothing, so that no call fails by being counted."""
    try:
        return teller(scope) if teller is not None else None
    except Exception:
        _log.exception(
            "%s failed; the call counts without it", getattr(teller, "__name__", "a function of the gateway")
        )
        return None


async def _answer(refused: Refused, send: Send) -> None:
    status, headers, body = refused.answer()
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
