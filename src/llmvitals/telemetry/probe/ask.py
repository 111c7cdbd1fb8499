"""One probe over HTTP: sent, read as it streams, timed on a steady clock, ended at a deadline."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec
import urllib3

from llmvitals.settings import Access
from llmvitals.telemetry.access import NOBODY, context_of
from llmvitals.telemetry.probe.dialects import Dialect
from llmvitals.telemetry.reach import reach_of
from llmvitals.telemetry.watchdog import watchdog, watched_pools

TOKENS = 16
"""The most tokens that a probe asks for: enough for a time per token, little enough to be no load."""

_MOST_BYTES = 1 << 20
_OK, _TIMEOUT, _UNREACHABLE, _CUT, _EMPTY, _FAILED = "ok", "timeout", "unreachable", "cut", "empty", "error"


@dataclass(frozen=True, slots=True)
class Asked:
    """How a probe ended and how long it took, in seconds; None where that was not seen.

    ``outcome``: ok, timeout, unreachable, cut (no end of the stream), empty (no token), error (told inside the stream), or
    the HTTP status as text.
    """

    outcome: str
    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None


def ask(
    base: str,
    dialect: Dialect,
    model: str,
    *,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    access: Access = NOBODY,
    clock: Callable[[], float] = time.monotonic,
) -> Asked:
    """Send one probe to the API at ``base`` and read its answer. Never raises for what a server does.

    ``headers``: sent beside our own, and in place of credentials of the URL. ``access``: whom to trust, what certificate to show
    and where a probe may go; who asks is said by ``headers``. Raises :class:`SettingsError` for certificates that cannot be used.
    """
    trusted = {"ssl_context": context_of(access)} if access.ca_file or access.cert_file else {}
    with watchdog(timeout_s, reach_of(access.allow_addresses)) as dog:  # drips that no read notices end there
        asked = _asked(base, dialect, model, timeout_s, headers or {}, trusted, clock)
    return Asked(_TIMEOUT) if dog.fired else asked


def _asked(
    base: str,
    dialect: Dialect,
    model: str,
    timeout_s: float,
    headers: Mapping[str, str],
    trusted: Mapping[str, ssl.SSLContext],
    clock: Callable[[], float],
) -> Asked:
    began = clock()
    body = msgspec.json.encode(dialect.body(model, TOKENS))
    try:
        with watched_pools(retries=False, **trusted) as pool:
            response = _open(pool, base + dialect.path, body, timeout_s, headers)
            try:
                if response.status != 200:
                    return Asked(str(response.status))
                read = partial(response.read1, 65_536)
                return timed(read, dialect, began=began, until=began + timeout_s, clock=clock)
            finally:
                response.close()
    except urllib3.exceptions.NewConnectionError:  # a kind of timeout to the client library
        return Asked(_UNREACHABLE)
    except urllib3.exceptions.TimeoutError:
        return Asked(_TIMEOUT)
    except urllib3.exceptions.ProtocolError:
        return Asked(_CUT)
    except (urllib3.exceptions.HTTPError, OSError, ValueError):
        return Asked(_UNREACHABLE)


def _open(
    pool: urllib3.PoolManager, url: str, body: bytes, timeout_s: float, given: Mapping[str, str]
) -> urllib3.BaseHTTPResponse:
    parts = urlsplit(url)
    headers = urllib3.HTTPHeaderDict({"Content-Type": "application/json", "User-Agent": "llmvitals"})
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers.update(urllib3.make_headers(basic_auth=pair))
    for name, value in given.items():  # whatever its case, each header once
        headers[name] = value
    bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return pool.request(
        "POST",
        bare,
        body=body,
        headers=headers,
        preload_content=False,
        redirect=False,
        retries=False,
        timeout=urllib3.Timeout(connect=timeout_s, read=timeout_s),
    )


def timed(
    read: Callable[[], bytes], dialect: Dialect, *, began: float, until: float, clock: Callable[[], float]
) -> Asked:
    """Read a stream line by line, piece by piece as it comes. The first text is the first token; the last line ends it.

    ``read`` gives what has come, and nothing at the end; ``began``, ``until``: when the probe was sent and when it has
    failed, on ``clock``.
    """
    first = last = per_token = None
    tokens, size, rest = 0, 0, b""
    while True:
        chunk = read()
        now = clock()
        if now >= until:
            return Asked(_TIMEOUT)
        if not chunk:
            return Asked(_CUT)
        size += len(chunk)
        if size > _MOST_BYTES:
            return Asked(_FAILED)
        *lines, rest = (rest + chunk).split(b"\n")
        for piece in (dialect.read(line.strip()) for line in lines):
            if piece is None:
                continue
            if piece.failed:
                return Asked(_FAILED)
            if piece.text:
                first, last = (now if first is None else first), now
            tokens, per_token = piece.tokens or tokens, piece.per_token or per_token
            if piece.last:
                return _settled(began, first, last, now, tokens, per_token)


def _settled(
    began: float, first: float | None, last: float | None, end: float, tokens: int, per_token: float | None
) -> Asked:
    """Seconds to the first token, per token after it (the server's own time where it tells one), and to the end."""
    if first is None or last is None:
        return Asked(_EMPTY)
    between = (last - first) / (tokens - 1) if tokens > 1 and last > first else None
    return Asked(_OK, first - began, per_token if per_token is not None else between, end - began)
