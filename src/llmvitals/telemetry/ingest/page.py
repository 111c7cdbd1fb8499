"""A page as it came over the wire, and the check that it is one that can be read."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from llmvitals.errors import PageError, UnreachableError

_MIB = 1024 * 1024

Document = Callable[[bytes], bytes | None]
"""Turns a body that is no exposition page into one; None when it does not know it."""


@dataclass(frozen=True, slots=True)
class RawPage:
    """One answer of a target.

    ``t``: unix seconds at which the page had arrived; ``took``: seconds it took to answer, None when unknown; ``status``:
    HTTP status, None when there was no answer or it was not recorded; ``error``: a sentence when the fetch failed.
    """

    t: float
    took: float | None
    status: int | None
    body: bytes | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one page may cost: bytes after decompression, canonical samples, labels of a series, length of a label."""

    max_page_bytes: int = 16 * _MIB
    max_samples: int = 50_000
    max_labels: int = 64
    max_label_length: int = 4096


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why an HTTP status is not a page, and what to do."""

    thing: str
    remedy: str


_STATUS: dict[int, _Refusal] = {
    401: _Refusal(
        "answered 401: it asks for credentials", "Put user:password@ into the URL, or use the engine's own port."
    ),
    403: _Refusal("answered 403: it refuses this client", "Allow this host, or use the engine's own port."),
    404: _Refusal("answered 404: there is no metrics page at this path", "Check the path; engines serve /metrics."),
    429: _Refusal("answered 429: it limits how often it may be asked", "Scrape the engine's own port, not a gateway."),
}
_SERVER_ERROR = _Refusal(
    "answered {status}: the server failed", "Look into the server's log; it may be starting or dead."
)
_REDIRECT = _Refusal("answered {status}: a redirect that leads elsewhere", "Give the final URL.")
_OTHER = _Refusal("answered {status} instead of a page", "Check the URL; engines serve /metrics on the API port.")

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_HTML = re.compile(rb"<(?:!doctype|html|head|body|\?xml)", re.IGNORECASE)
_JSON = re.compile(rb'\s*(?:\[|\{\s*(?:\}|"[^"]*"\s*:))')


class TooLargeError(Exception):
    """The body is larger than the limit once it is decompressed."""


def inflate(body: bytes, limit: int) -> bytes:
    """The plain bytes of a gzip body, never more than ``limit``; other bodies come back as they are.

    The magic bytes decide, since proxies drop the content-encoding header and recordings end in ``.gz``. Raises
    :class:`TooLargeError` over the limit and ``zlib.error`` when the stream is damaged or cut short.
    """
    if not body.startswith(_GZIP):
        if len(body) > limit:
            raise TooLargeError
        return body
    plain = b""
    rest = body
    while rest:
        stream = zlib.decompressobj(wbits=31)
        plain += stream.decompress(rest, limit + 1 - len(plain))
        if len(plain) > limit or stream.unconsumed_tail:
            raise TooLargeError
        if not stream.eof:
            raise zlib.error("the gzip stream ends early")
        rest = stream.unused_data
    return plain


def readable(page: RawPage, *, place: str, limits: Limits, documents: Iterable[Document] = ()) -> bytes:
    """The text of a page that can be parsed; a document that one of ``documents`` knows becomes an exposition page.

    Raises :class:`UnreachableError` when there was no answer or its status is not 200, :class:`PageError` when what
    answered is not a metrics page: too large, damaged gzip, HTML, JSON, nothing.
    """
    if page.status is not None and page.status != 200:
        refusal = _STATUS.get(page.status) or _by_class(page.status)
        raise UnreachableError(refusal.thing.format(status=page.status), place=place, remedy=refusal.remedy)
    if page.error or page.body is None:
        thing = page.error or "gave no answer"
        raise UnreachableError(
            thing, place=place, remedy="Check that the server runs and that host and port are right."
        )
    try:
        body = inflate(page.body, limits.max_page_bytes)
    except TooLargeError:
        raise PageError(
            f"the page is larger than {limits.max_page_bytes / _MIB:.4g} MiB",
            place=place,
            remedy="Raise exporter.max_page_bytes, or find the series that swells it.",
        ) from None
    except zlib.error:
        raise PageError(
            "the compressed page is damaged or cut short", place=place, remedy="Ask again; check the proxy in between."
        ) from None
    body = body.removeprefix(_BOM)
    start = body[:2048].lstrip()
    if not start:
        raise PageError("the page is empty", place=place, remedy="Check that the port is the engine's API port.")
    for document in documents:
        text = document(body)
        if text is not None:
            return text
    if _HTML.match(start):
        raise PageError(
            "answered with HTML, not metrics", place=place, remedy="Check the path; engines serve /metrics."
        )
    if _JSON.match(start):
        raise PageError(
            "answered with JSON, not metrics", place=place, remedy="Check the path; engines serve /metrics."
        )
    return body


def _by_class(status: int) -> _Refusal:
    return {3: _REDIRECT, 5: _SERVER_ERROR}.get(status // 100, _OTHER)
