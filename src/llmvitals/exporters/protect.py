"""Basic authentication and extra headers in front of every path, as the web configuration wants them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping

import bcrypt
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmvitals.exporters.network import network
from llmvitals.exporters.web_config import Web

REMEMBERED = 128
"""Right passwords that need no second hashing; a hash costs some 60 ms, and a scraper comes every few seconds."""

BCRYPT_BYTES = 72
"""bcrypt reads no further; every tool that makes such hashes cuts there too."""

GUESSES = 4
"""Passwords of one address that wait for their hashing; with more of them it would keep others out, who come from elsewhere."""

ALL_GUESSES = 64
"""Of all addresses together: whoever waits holds a connection that is not cut. A scraper that was let in once waits for nothing."""

_CHALLENGE = {"www-authenticate": 'Basic realm="llmvitals", charset="UTF-8"'}


class GuessingError(Exception):
    """An address tries too many passwords at once."""


class Verifier:
    """Whether a password is the user's. Hashing runs beside the event loop, and one at a time: guessing costs one core.

    What is remembered is a keyed digest over user, hash and password, so a changed hash is never admitted from memory and
    the memory tells nobody a password.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._turn = asyncio.Lock()
        self._guessing: Counter[str] = Counter()

    async def admits(self, users: Mapping[str, bytes], user: str, password: bytes, peer: str = "") -> bool:
        """Whether ``user`` is in ``users`` with that password. An unknown name costs as much time as a known one.

        Raises :class:`GuessingError` where ``peer`` waits for :data:`GUESSES` answers already, or all for :data:`ALL_GUESSES`.
        """
        hashed = users.get(user)
        digest = self._digest(user, hashed or b"", password)
        if digest in self._right:
            self._right.move_to_end(digest)
            return True
        against = hashed or next(iter(users.values()))
        if self._guessing[peer] >= GUESSES or self._guessing.total() >= ALL_GUESSES:
            raise GuessingError
        self._guessing[peer] += 1
        try:
            async with self._turn:
                right = await asyncio.to_thread(_right, password[:BCRYPT_BYTES], against)
        finally:
            self._guessing[peer] -= 1
            if not self._guessing[peer]:
                del self._guessing[peer]
        if hashed is None or not right:
            return False
        self._right[digest] = None
        if len(self._right) > REMEMBERED:
            self._right.popitem(last=False)
        return True

    def _digest(self, user: str, hashed: bytes, password: bytes) -> bytes:
        parts = (user.encode(), hashed, password)
        return hmac.digest(self._key, b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256")


class Protect:
    """ASGI middleware. ``web`` gives the configuration in use, so that a reload counts from the next request on."""

    def __init__(self, app: ASGIApp, *, web: Callable[[], Web]) -> None:
        self._app = app
        self._web = web
        self._verifier = Verifier()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 here, and hand on what may pass; every answer gets the configured headers."""
        web = self._web()

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(web.headers)
            await send(message)

        user, password = credentials(Headers(scope=scope).get("authorization", ""))
        client = scope.get("client")
        peer = network(client[0]) if client else ""
        refusal = PlainTextResponse("Unauthorized\n", 401, headers=_CHALLENGE)
        try:
            admitted = not web.users or await self._verifier.admits(web.users, user, password, peer)
        except GuessingError:
            admitted = False
            refusal = PlainTextResponse("Too many at once\n", 429, headers={"retry-after": "1"})
        await (self._app if admitted else refusal)(scope, receive, dressed)


def _right(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password, hashed)
    except ValueError:  # some versions take no NUL
        return False


def credentials(header: str) -> tuple[str, bytes]:
    """User and password of an ``Authorization`` header (RFC 7617); both empty where it holds none."""
    scheme, _, token = header.partition(" ")
    try:
        user, _, password = base64.b64decode(token.strip(), validate=True).partition(b":")
        return (user.decode(), password) if scheme.lower() == "basic" else ("", b"")
    except (binascii.Error, UnicodeDecodeError):
        return "", b""
