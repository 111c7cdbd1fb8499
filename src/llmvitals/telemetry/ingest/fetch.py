"""Bring a page over HTTP within a time limit that holds, whatever the server does.

A socket timeout is per read, so a server that drips a byte now and then outlives it. Here the body's read loop checks an
absolute deadline, and a watchdog closes the connection of a server that drips its headers.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import urllib3

from llmvitals.errors import SettingsError
from llmvitals.telemetry.ingest.page import Limits, RawPage, TooLargeError, bounded, unpacked
from llmvitals.telemetry.registry import path_of
from llmvitals.telemetry.watchdog import Watchdog, watchdog, watched_pools

ACCEPT = "text/plain;version=0.0.4"
"""The classic text format: asking for OpenMetrics makes newer client libraries respell names that hold a colon."""

_HOPS = 3
_CHUNK = 65_536
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OURS = frozenset({"gzip", "x-gzip", "identity", ""})


class _TimeUpError(Exception):
    """The deadline is over."""


# What a failed call is, in words; the first kind that fits. Most specific first.
_FAILURES: tuple[tuple[type[BaseException], str], ...] = (
    (_TimeUpError, "did not finish its answer within {timeout:g} s"),
    (TooLargeError, "the page is larger than {mib:.4g} MiB"),
    (zlib.error, "the compressed page is damaged or cut short"),
    (urllib3.exceptions.NameResolutionError, "its host name is not known"),
    (urllib3.exceptions.NewConnectionError, "refused the connection"),
    (urllib3.exceptions.ConnectTimeoutError, "gave no connection within {timeout:g} s"),
    (urllib3.exceptions.TimeoutError, "did not finish its answer within {timeout:g} s"),
    (urllib3.exceptions.SSLError, "its TLS certificate or protocol is not accepted ({error})"),
    (urllib3.exceptions.ProtocolError, "closed the connection without a whole answer"),
    (urllib3.exceptions.LocationParseError, "is not a URL"),
    (urllib3.exceptions.HTTPError, "could not be asked ({error})"),
    (OSError, "could not be reached ({error})"),
)


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
        raise SettingsError("is not a URL", place=text, remedy="Give it as http://host:port or host:port.")
    path = parts.path if parts.path not in {"", "/"} else path_of(kind)
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


class Fetcher:
    """Fetches pages and keeps connections. One instance may serve several threads."""

    def __init__(self, limits: Limits | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._limits = limits or Limits()
        self._clock = clock
        self._pools = watched_pools(num_pools=64, maxsize=4, retries=False)

    def fetch(self, url: str, *, timeout_s: float, headers: Mapping[str, str] | None = None) -> RawPage:
        """The page at ``url``, or one whose ``error`` says why there is none. Never takes longer than ``timeout_s``.

        The name lookup is the system's and is not cut short. ``t`` is taken when the last byte has arrived.
        """
        began = time.monotonic()
        status: int | None = None
        body: bytes | None = None
        error = ""
        dog: Watchdog | None = None
        try:
            with watchdog(timeout_s) as dog:
                status, body = self._follow(page_url(url), headers or {}, began + timeout_s, dog)
        except _ForeignRedirect as redirect:
            status, error = redirect.status, f"redirects to another host ({redirect.host}), which is not followed"
        except (urllib3.exceptions.HTTPError, _TimeUpError, TooLargeError, zlib.error, OSError, ValueError) as failure:
            error = self._words(_TimeUpError() if dog is not None and dog.fired else failure, timeout_s)
        except SettingsError as wrong:
            error = wrong.thing
        return RawPage(self._clock(), time.monotonic() - began, status, None if error else body, error)

    def _words(self, failure: BaseException, timeout_s: float) -> str:
        reason = getattr(failure, "reason", None)
        cause = reason if isinstance(reason, BaseException) else failure
        text = next((words for kind, words in _FAILURES if isinstance(cause, kind)), "could not be asked ({error})")
        mib = self._limits.max_page_bytes / (1024 * 1024)
        return text.format(timeout=timeout_s, mib=mib, error=str(cause).split("\n", 1)[0][:120])

    def _follow(self, url: str, headers: Mapping[str, str], deadline: float, dog: Watchdog) -> tuple[int, bytes]:
        """Follow redirects on the same host, a few at most."""
        host = urlsplit(url).hostname
        for _ in range(_HOPS):
            response = self._ask(url, headers, deadline, dog)
            try:
                location = response.headers.get("location", "")
                if response.status not in _REDIRECTS or not location:
                    return response.status, self._body(response, deadline)
                target = urljoin(url, location)
            finally:
                response.close() if response.status in _REDIRECTS else response.release_conn()
            there = urlsplit(target)
            downgrade = url.startswith("https:") and there.scheme != "https"
            if there.hostname != host or downgrade:
                raise _ForeignRedirect(response.status, there.netloc.rpartition("@")[2])
            kept = urlsplit(url).netloc.rpartition("@")[0]
            netloc = f"{kept}@{there.netloc}" if kept and "@" not in there.netloc else there.netloc
            url = urlunsplit((there.scheme, netloc, there.path, there.query, ""))
        raise ValueError(f"it redirects more than {_HOPS} times")

    def _ask(self, url: str, headers: Mapping[str, str], deadline: float, dog: Watchdog) -> urllib3.BaseHTTPResponse:
        """The head of the answer. A server gives a connection up that was idle for long enough (uvicorn, and so vLLM, after 5 s,
        the interval of a cycle), it may be as the next request is on its way: that one is sent again, on a new connection.
        """
        while True:
            try:
                return self._open(url, headers, deadline)
            except urllib3.exceptions.ProtocolError:  # takes the connection out of those that are kept
                if dog.fresh or dog.fired:
                    raise

    def _open(self, url: str, headers: Mapping[str, str], deadline: float) -> urllib3.BaseHTTPResponse:
        left = deadline - time.monotonic()
        if left <= 0:
            raise _TimeUpError
        parts = urlsplit(url)
        sent = {"Accept": ACCEPT, "Accept-Encoding": "gzip", "User-Agent": "llmvitals", **headers}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            sent.update(urllib3.make_headers(basic_auth=pair))
        bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))
        return self._pools.request(
            "GET",
            bare,
            headers=sent,
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
            raise ValueError(f"it answers in an encoding that was not asked for, {encoding}")
        try:
            return bounded(unpacked(self._wire(response, deadline)), self._limits)
        except (_TimeUpError, TooLargeError, zlib.error):
            response.close()
            raise

    def _wire(self, response: urllib3.BaseHTTPResponse, deadline: float) -> Iterator[bytes]:
        """The body as it comes."""
        size = 0
        while True:
            if time.monotonic() >= deadline:
                raise _TimeUpError
            chunk = response.read1(_CHUNK, decode_content=False)
            if not chunk:
                return
            size += len(chunk)
            if size > self._limits.max_body_bytes:
                raise TooLargeError
            yield chunk


class _ForeignRedirect(Exception):  # noqa: N818  # not an error: an answer of another kind
    """A redirect that leaves the host or its TLS."""

    def __init__(self, status: int, host: str) -> None:
        super().__init__(host)
        self.status = status
        self.host = host
