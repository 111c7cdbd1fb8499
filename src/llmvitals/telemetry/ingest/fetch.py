"""Bring a page over HTTP within a time limit that holds, whatever the server does.

A socket timeout is per read, so a server that drips a byte now and then outlives it. Here the body's read loop checks an
absolute deadline, and a watchdog closes the connection of a server that drips its headers. No proxy of the environment stands in
between: targets are asked where they are.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import urllib3

from llmvitals.errors import SettingsError
from llmvitals.settings import Access, without_user
from llmvitals.telemetry.access import NOBODY, Ways, headers, masked, secrets_of
from llmvitals.telemetry.ingest.failures import RedirectedError, TimeUpError, words_of
from llmvitals.telemetry.ingest.page import Limits, RawPage, TooLargeError, bounded, unpacked
from llmvitals.telemetry.reach import reach_of
from llmvitals.telemetry.registry import path_of
from llmvitals.telemetry.watchdog import Watchdog, watchdog

ACCEPT = "text/plain;version=0.0.4"
"""The classic text format: asking for OpenMetrics makes newer client libraries respell names that hold a colon."""

_HOPS = 3
_CHUNK = 65_536
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OURS = frozenset({"gzip", "x-gzip", "identity", ""})
_OTHERS = frozenset({"br", "zstd", "deflate", "compress", "dcb", "dcz"})
"""Encodings by name (IANA's registry); what else a server calls one is not repeated, it may be what it was sent."""


def page_url(text: str, kind: str = "auto") -> str:
    """The page that ``host:port``, a base URL or a whole URL means for a target of this kind.

    Raises :class:`SettingsError` for what is no URL.
    """
    given = text.strip()
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        fine = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine:
        raise SettingsError(
            "is not a URL", place=without_user(text), remedy="Give it as http://host:port or host:port."
        )
    path = parts.path if parts.path not in {"", "/"} else path_of(kind)
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request. ``secrets``: what the page may not repeat; ``trusted``: whether the server is sent what lets us in."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    pools: urllib3.PoolManager
    secrets: tuple[str, ...] = field(repr=False)
    trusted: bool


class Fetcher:
    """Fetches pages and keeps connections. One instance may serve several threads."""

    def __init__(self, limits: Limits | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._limits = limits or Limits()
        self._clock = clock
        self._ways = Ways(num_pools=64, maxsize=4, retries=False)

    def fetch(
        self, url: str, *, timeout_s: float, access: Access = NOBODY, headers: Mapping[str, str] | None = None
    ) -> RawPage:
        """The page at ``url``, or one whose ``error`` says why there is none. Never takes longer than ``timeout_s``.

        The name lookup is the system's and is not cut short. ``t`` is taken when the last byte has arrived. ``access``: what lets
        us in; what it sends is not on the page, even where the server repeats it.
        """
        began = time.monotonic()
        status: int | None = None
        body: bytes | None = None
        error = ""
        secrets: tuple[str, ...] = ()
        dog: Watchdog | None = None
        try:
            asked = self._asked(page_url(url), access, headers or {})
            secrets = asked.secrets
            with watchdog(timeout_s, reach_of(access.allow_addresses)) as dog:
                status, body = self._follow(asked, began + timeout_s, dog)
            if dog.fired:  # what was cut off may look like a whole answer
                raise TimeUpError
            body = masked(body, secrets)
        except RedirectedError as redirect:
            status, error = redirect.status, str(redirect)
        except (urllib3.exceptions.HTTPError, TimeUpError, TooLargeError, zlib.error, OSError, ValueError) as failure:
            cause = TimeUpError() if dog is not None and dog.fired else failure
            error = words_of(cause, timeout_s=timeout_s, mib=self._limits.max_page_bytes / (1024 * 1024))
        except SettingsError as wrong:
            error = wrong.thing if wrong.place == without_user(url) else f"is not asked: {wrong.place} {wrong.thing}"
        if error:
            body, error = None, masked(error.encode(), secrets).decode()
        return RawPage(self._clock(), time.monotonic() - began, status, body, error)

    def _asked(self, url: str, access: Access, extra: Mapping[str, str]) -> _Asked:
        parts = urlsplit(url)
        sent = {"Accept": ACCEPT, "Accept-Encoding": "gzip", "User-Agent": "llmvitals", **extra}
        secrets: tuple[str, ...] = ()
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            sent.update(urllib3.make_headers(basic_auth=pair))
            secrets = secrets_of(NOBODY, {"Authorization": sent["authorization"]})
        if access != NOBODY:
            own = headers(access)
            secrets = secrets_of(access, own)
            given = {name.lower() for name in own}
            sent = {name: value for name, value in sent.items() if name.lower() not in given} | own
        bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))
        return _Asked(bare, sent, self._ways.pools(access), secrets, parts.username is not None or bool(secrets))

    def _follow(self, asked: _Asked, deadline: float, dog: Watchdog) -> tuple[int, bytes]:
        """Follow redirects on the same host, a few at most; with what lets us in, on the same server alone."""
        url = asked.url
        for _ in range(_HOPS):
            response = self._ask(url, asked, deadline, dog)
            try:
                location = response.headers.get("location", "")
                if response.status not in _REDIRECTS or not location:
                    return response.status, self._body(response, deadline)
                target = urljoin(url, location)
            finally:
                response.close() if response.status in _REDIRECTS else response.release_conn()
            before, there = urlsplit(url), urlsplit(target)
            where = there.netloc.rpartition("@")[2]
            if there.hostname != before.hostname or there.scheme not in {"http", "https"}:
                words = f"redirects to another host ({where[:120]}), which is not followed"
            elif before.scheme == "https" != there.scheme:
                words = "redirects from TLS to none, which is not followed"
            elif asked.trusted and before.scheme == there.scheme and before.netloc != where:
                words = f"redirects to another port ({where[:120]}), where what lets us in is not sent"
            else:
                url = urlunsplit((there.scheme, there.netloc.rpartition("@")[2], there.path, there.query, ""))
                continue
            raise RedirectedError(response.status, words)
        raise RedirectedError(response.status, f"redirects more than {_HOPS} times")

    def _ask(self, url: str, asked: _Asked, deadline: float, dog: Watchdog) -> urllib3.BaseHTTPResponse:
        """The head of the answer. A server gives a connection up that was idle for long enough (uvicorn, and so vLLM, after 5 s,
        the interval of a cycle), it may be as the next request is on its way: that one is sent again, on a new connection.
        """
        while True:
            try:
                return self._open(url, asked, deadline)
            except urllib3.exceptions.ProtocolError:  # takes the connection out of those that are kept
                if dog.fresh or dog.fired:
                    raise

    def _open(self, url: str, asked: _Asked, deadline: float) -> urllib3.BaseHTTPResponse:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeUpError
        return asked.pools.request(
            "GET",
            url,
            headers=asked.headers,
            preload_content=False,
            decode_content=False,
            redirect=False,
            retries=False,
            timeout=urllib3.Timeout(connect=left, read=left),
        )

    def _body(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        """The plain body. What is on the wire and what it unpacks to are both held to the limit."""
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in _OURS:
            told = f", {encoding}" if encoding in _OTHERS else ""
            raise ValueError(f"it answers in an encoding that was not asked for{told}")
        try:
            return bounded(unpacked(self._wire(response, deadline)), self._limits)
        except (TimeUpError, TooLargeError, zlib.error):
            response.close()
            raise

    def _wire(self, response: urllib3.BaseHTTPResponse, deadline: float) -> Iterator[bytes]:
        """The body as it comes."""
        size = 0
        while True:
            if time.monotonic() >= deadline:
                raise TimeUpError
            chunk = response.read1(_CHUNK, decode_content=False)
            if not chunk:
                return
            size += len(chunk)
            if size > self._limits.max_body_bytes:
                raise TooLargeError
            yield chunk
