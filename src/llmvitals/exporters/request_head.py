"""What a request may look like, judged before anything is done with it.

The parser under the server is lenient where the standard lets it be (RFC 9112 sections 2.2, 5.2, 6.1 to 6.3). In front of a proxy
that reads the same bytes otherwise, leniency is how a second request is smuggled in; so what can be read in two ways is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import h11

HEADER_BYTES = 16 * 1024
"""The request line and all headers together."""

HEADERS = 100
"""Headers of one request; Prometheus sends seven."""

TARGET_BYTES = 4096
"""The request line: a path and its query."""

CHUNKS = 1000
"""Chunks of one body after which their mean size is looked at ..."""

CHUNK_BYTES = 64
"""... since each costs some 20 us of parsing, whatever it holds."""

METHODS = ("GET", "HEAD")

_END = re.compile(rb"\r?\n\r?\n")
_LENGTHS = re.compile(rb"(?im)^content-length[ \t]*:")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a request is refused, as a status code and a sentence that repeats nothing of it."""

    status: int
    why: str


LONG_TARGET = Fault(414, "The request line is too long.")
LONG_HEAD = Fault(431, "The headers are too long.")
MANY_HEADERS = Fault(431, "There are too many headers.")
BARE_LF = Fault(400, "A line does not end with CR LF.")
FOLDED = Fault(400, "A header goes on over more than one line.")
TWO_LENGTHS = Fault(400, "There is more than one Content-Length.")
TWO_FRAMINGS = Fault(400, "There are Content-Length and Transfer-Encoding.")
OLD_CHUNKS = Fault(400, "HTTP/1.0 has no Transfer-Encoding.")
NO_PROXY = Fault(400, "The request must name a path; this is no proxy.")
NO_VERSION = Fault(505, "HTTP/1.1 is spoken here.")
NO_METHOD = Fault(405, "Only GET and HEAD.")
NO_BODY = Fault(413, "A request has no body here.")
CRUMBS = Fault(400, "The body comes in pieces that are too small.")
UNREADABLE = Fault(400, "This is no HTTP request.")


def of_head(received: bytes) -> Fault | None:
    """What is wrong with the bytes of a request's head, whole or as far as they came."""
    end = _END.search(received)
    head = received[: end.start()] if end else received
    if head.find(b"\r\n", 0, TARGET_BYTES + 2) < 0 and len(head) > TARGET_BYTES:
        return LONG_TARGET
    if len(head) > HEADER_BYTES:
        return LONG_HEAD
    lines = head.count(b"\n")
    if lines != head.count(b"\r\n") or (end is not None and end.group() != b"\r\n\r\n"):
        return BARE_LF
    if lines > HEADERS:
        return MANY_HEADERS
    if b"\r\n " in head or b"\r\n\t" in head:
        return FOLDED
    return TWO_LENGTHS if end and len(_LENGTHS.findall(head)) > 1 else None


def of_request(request: h11.Request, *, bodies: bool) -> Fault | None:
    """What is wrong with a request whose head could be read. ``bodies``: whether a request may have one here."""
    if request.http_version not in (b"1.0", b"1.1"):
        return NO_VERSION
    named = {name for name, _ in request.headers}
    if b"transfer-encoding" in named:
        if b"content-length" in named:
            return TWO_FRAMINGS
        if request.http_version < b"1.1":
            return OLD_CHUNKS
    if not request.target.startswith(b"/") and request.target != b"*":
        return NO_PROXY
    if bodies or not has_body(request.headers):
        return None
    return NO_BODY if request.method.decode() in METHODS else NO_METHOD


def has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether these headers announce a body."""
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in headers)


class StrictConnection(h11.Connection):
    """A server's side of one connection that raises ``RemoteProtocolError`` for every :class:`Fault`, kept in ``fault``."""

    def __init__(self, *, bodies: bool) -> None:
        super().__init__(h11.SERVER, HEADER_BYTES)
        self.fault: Fault | None = None
        self._bodies = bodies
        self._chunks = self._bytes = 0

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """The next event of the parser, once it is sure that it means one thing only."""
        if self.their_state is h11.IDLE:
            self._refuse(of_head(self.trailing_data[0]))
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            self.fault = LONG_HEAD if error.error_status_hint == LONG_HEAD.status else UNREADABLE
            raise
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
            self._refuse(of_request(event, bodies=self._bodies))
        elif isinstance(event, h11.Data):
            self._chunks, self._bytes = self._chunks + event.chunk_start, self._bytes + len(event.data)
            self._refuse(CRUMBS if self._chunks > CHUNKS and self._bytes < CHUNKS * CHUNK_BYTES else None)
        return event

    def _refuse(self, fault: Fault | None) -> None:
        if fault is not None:
            self.fault = fault
            raise h11.RemoteProtocolError(fault.why, error_status_hint=fault.status)
