"""A page as it came over the wire, and the check that it is one that can be read."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from llmvitals.errors import PageError, UnreachableError
from llmvitals.telemetry.ingest.remedies import remedy_of
from llmvitals.telemetry.registry import elsewhere

_MIB = 1024 * 1024

Document = Callable[[bytes], bytes | None]
"""Turns a body that is no exposition page into one; None when it does not know it."""


@dataclass(frozen=True, slots=True)
class RawPage:
    """One answer of a target.

    ``t``: unix seconds at which the page had arrived; ``took``: seconds it took to answer, None when unknown; ``status``:
    HTTP status, None when there was no answer or it was not recorded; ``error``: a sentence when the fetch failed.
    ``detail``: of a page of canonical families, what whoever wrote it had to say of the scrape behind it.
    """

    t: float
    took: float | None
    status: int | None
    body: bytes | None
    error: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one page may cost: bytes after decompression, canonical samples, labels of a series, length of a label."""

    max_page_bytes: int = 16 * _MIB
    max_samples: int = 50_000
    max_labels: int = 64
    max_label_length: int = 4096

    @property
    def max_line_bytes(self) -> int:
        """The longest line that is read: all labels there may be, as long as they may be."""
        return self.max_label_length * self.max_labels

    @property
    def max_body_bytes(self) -> int:
        """Where an answer is given up for good: a page that is too large may still shrink by its over-long lines."""
        return 4 * self.max_page_bytes


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why an HTTP status is not a page, and what to do."""

    thing: str
    remedy: str


_PATHS = f"Give the whole address: most pages are at /metrics, others at {elsewhere()}."
_OF_A_FILE = "Check that this file is a saved metrics page."

_STATUS: dict[int, _Refusal] = {
    400: _Refusal(
        "answered 400: something is missing in what was asked",
        "A llama.cpp server in router mode needs the model behind the path: /metrics?model=NAME.",
    ),
    401: _Refusal(
        "answered 401: it asks for credentials that it accepts",
        "Name in the target's access what it asks for (bearer_token_file, or username and password_file), and check that it is "
        "valid now; on a command line write http://user:password@host.",
    ),
    403: _Refusal(
        "answered 403: it refuses this client",
        "Allow this host or what its access sends, or use the engine's own port.",
    ),
    404: _Refusal("answered 404: there is no metrics page at this path", _PATHS),
    501: _Refusal(
        "answered 501: this server shows no metrics", "Start it with metrics; a llama.cpp server with --metrics."
    ),
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


_PIECE = _MIB


class TooLargeError(Exception):
    """The body is larger than the limit once it is decompressed."""


def unpacked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The plain bytes of a body that comes in pieces, in pieces of 1 MiB at most where it is gzip.

    The magic bytes decide, since proxies drop the content-encoding header and recordings end in ``.gz``. Raises
    ``zlib.error`` when the stream is damaged or cut short.
    """
    source = iter(pieces)
    start = b""
    for piece in source:
        start += piece
        if len(start) >= len(_GZIP):
            break
    if not start.startswith(_GZIP):
        yield from chain((start,), source)
        return
    stream = zlib.decompressobj(wbits=31)
    for piece in chain((start,), source):
        rest = piece
        while True:
            plain = stream.decompress(rest, _PIECE)
            yield plain
            rest = stream.unused_data if stream.eof else stream.unconsumed_tail
            if stream.eof and rest:  # one gzip file after another
                stream = zlib.decompressobj(wbits=31)
            elif not rest and len(plain) < _PIECE:
                break
    if not stream.eof:
        raise zlib.error("the gzip stream ends early")


def bounded(pieces: Iterable[bytes], limits: Limits) -> bytes:
    """The pieces as one page within the limit. Where they are more, over-long lines are cut to just above what is read.

    A label that holds a whole configuration makes such pages, and the series beside it are worth reading. Raises
    :class:`TooLargeError` when that does not help, or when the whole is past ``max_body_bytes``.
    """
    kept = bytearray()
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > limits.max_body_bytes:
            raise TooLargeError
        kept += piece
        if len(kept) > limits.max_page_bytes:
            # in place of a list of all lines, which would take several times the page
            kept = bytearray(_over_long(limits.max_line_bytes + 1).sub(rb"\1", kept))
            if len(kept) > limits.max_page_bytes // 2:  # so that this happens a few times at most
                raise TooLargeError
    return bytes(kept)


@lru_cache(maxsize=8)
def _over_long(longest: int) -> re.Pattern[bytes]:
    """A line of more than so many bytes, with those that are kept of it as its group."""
    return re.compile(rb"([^\n]{%d})[^\n]+" % longest)


def inflate(body: bytes, limit: int) -> bytes:
    """The plain bytes of a gzip body; other bodies come back as they are.

    Raises :class:`TooLargeError` over the limit and ``zlib.error`` when the stream is damaged or cut short.
    """
    return bounded(unpacked((body,)), Limits(max_page_bytes=limit))


def readable(
    page: RawPage,
    *,
    place: str,
    limits: Limits,
    documents: Iterable[Document] = (),
    known: Callable[[bytes], bool] | None = None,
) -> bytes:
    """The text of a page that can be parsed; a document that one of ``documents`` knows becomes an exposition page.

    What is ``known`` to be a page is no document: the sources need not be asked about each page of a target.
    Raises :class:`UnreachableError` when there was no answer or its status is not 200, :class:`PageError` when what
    answered is not a metrics page: too large, damaged gzip, HTML, JSON, nothing.
    """
    body = plain(page, place=place, limits=limits)
    if known is not None and known(body):
        return body
    start = body[:2048].lstrip()
    text = _as_page(body, documents, place)
    if text is not None:
        return text
    if _HTML.match(start):
        raise PageError(_told(page, "HTML, not metrics"), place=place, remedy=look_at(page))
    if _JSON.match(start):
        raise PageError(_told(page, "JSON, not metrics"), place=place, remedy=look_at(page))
    return body


def look_at(page: RawPage) -> str:
    """Where to look when what came is no metrics page: at the path, or at the file that it was read from."""
    return _PATHS if _asked(page) else _OF_A_FILE


def _told(page: RawPage, what: str) -> str:
    return f"answered with {what}" if _asked(page) else f"this is {what}"


def _asked(page: RawPage) -> bool:
    """Whether a server gave it. A file has neither a status nor a time that the answer took."""
    return page.status is not None or page.took is not None


def plain(page: RawPage, *, place: str, limits: Limits) -> bytes:
    """What a page holds, decompressed, whatever it is. Raises as :func:`readable` where there is nothing to look at."""
    if page.error:  # it says more than the status of a redirect that was not followed
        raise UnreachableError(page.error, place=place, remedy=remedy_of(page.error))
    if page.status is not None and page.status != 200:
        refusal = _STATUS.get(page.status) or _by_class(page.status)
        raise UnreachableError(refusal.thing.format(status=page.status), place=place, remedy=refusal.remedy)
    if page.body is None:
        raise UnreachableError("gave no answer", place=place, remedy=remedy_of(""))
    try:
        small = len(page.body) <= limits.max_page_bytes and not page.body.startswith(_GZIP)
        body = page.body if small else bounded(unpacked((page.body,)), limits)
    except TooLargeError:
        thing = f"the page is larger than {limits.max_page_bytes / _MIB:.4g} MiB"
        raise PageError(thing, place=place, remedy=remedy_of(thing)) from None
    except zlib.error:
        thing = "the compressed page is damaged or cut short"
        raise PageError(thing, place=place, remedy=remedy_of(thing)) from None
    body = body.removeprefix(_BOM)
    if not body[:2048].strip():
        remedy = "Check that the port is the engine's API port." if _asked(page) else _OF_A_FILE
        raise PageError("the page is empty", place=place, remedy=remedy)
    return body


def _as_page(body: bytes, documents: Iterable[Document], place: str) -> bytes | None:
    """The exposition page that a document stands for; None where no source knows it.

    What a source trips over (JSON nested without end, a list where it writes an object) is not its document.
    """
    for document in documents:
        text = None
        try:
            with contextlib.suppress(
                ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError
            ):
                text = document(body)
        except PageError as error:  # a source that explains its own document does not know which target's it is
            raise PageError(error.thing, place=error.place or place, remedy=error.remedy) from None
        if text is not None:
            return text if text.endswith(b"\n") else text + b"\n"
    return None


def _by_class(status: int) -> _Refusal:
    return {3: _REDIRECT, 5: _SERVER_ERROR}.get(status // 100, _OTHER)
