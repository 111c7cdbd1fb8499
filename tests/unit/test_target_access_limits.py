"""What a hostile target may cost: each way of not ending ends at the one time limit, each way of not stopping at a bound."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from llmvitals.settings import Access
from llmvitals.telemetry.ingest import Fetcher, Limits, RawPage
from support import tls

LIMIT = 0.5
LATE = "did not finish its answer within 0.5 s"
Talk = Callable[[socket.socket], None]


@contextmanager
def talking(talk: Talk) -> Iterator[str]:
    """A server that hands each connection to ``talk`` until the test is over; yields ``host:port``."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            talk(connection)

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threads.append(threading.Thread(target=one, args=(connection,), daemon=True))
                threads[-1].start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for each in (thread, *threads):
            each.join(5)


def endless(start: bytes, more: bytes, pause: float) -> Talk:
    """Answers with ``start``, then with ``more`` again and again until the other side has had enough."""

    def talk(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(start)
        while True:
            connection.sendall(more)
            time.sleep(pause)

    return talk


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def fetched(talk: Talk, *, scheme: str = "http", access: Access = Access()) -> RawPage:  # noqa: B008  # frozen
    with talking(talk) as place:
        page = Fetcher(Limits(max_page_bytes=1 << 20)).fetch(f"{scheme}://{place}", timeout_s=LIMIT, access=access)
    assert page.body is None
    assert page.took is not None
    assert page.took < 4 * LIMIT
    return page


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"", b"H"),
        (HEAD, b"X-A: b\r\n"),
        (HEAD + b"X-A: ", b"b"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (CHUNKED, b"1\r\nx\r\n"),
        (CHUNKED, b"0"),
        (CHUNKED + b"5;", b"e"),
        (CHUNKED + b"0\r\n", b"X-T: a\r\n"),
        (HEAD + b"Content-Length: 99999\r\n\r\n", b"x"),
        (HEAD + b"\r\n", b"x"),
        (HEAD + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", b"\x00\x00\x00\xff\xff"),
    ],
    ids=[
        "status",
        "headers",
        "header",
        "continue",
        "chunks",
        "chunk-size",
        "extension",
        "trailer",
        "body",
        "no-length",
        "gzip",
    ],
)
def test_what_drips_is_cut_off_at_the_limit(start: bytes, more: bytes) -> None:
    assert fetched(endless(start, more, 0.02)).error == LATE


@pytest.mark.parametrize(
    ("start", "more", "says"),
    [
        (HEAD, b"X-A: b\r\n" * 200, "its headers are longer than what is read"),
        (HEAD + b"X-A: ", b"b" * 65_536, "its headers are longer than what is read"),
        (HEAD + b"\r\n", b"x 1\n" * 65_536, "the page is larger than 1 MiB"),
        (CHUNKED, b"%x\r\n%b\r\n" % (65_536, b"x" * 65_536), "the page is larger than 1 MiB"),
        (b"", b"x" * 65_536, "closed the connection without a whole answer"),
    ],
    ids=["many-headers", "long-header", "body", "chunked", "status"],
)
def test_what_does_not_stop_is_left_at_a_bound(start: bytes, more: bytes, says: str) -> None:
    page = fetched(endless(start, more, 0.0))
    assert page.error == says


def test_a_server_that_never_agrees_on_tls_has_the_same_limit() -> None:
    page = fetched(lambda connection: time.sleep(2 * LIMIT), scheme="https")
    assert page.error == LATE or "gave no connection within 0.5 s" in page.error


def test_a_server_that_drips_its_side_of_tls_has_it_too(tmp_path: Path) -> None:
    """Each byte comes within a read's own limit, the whole of them does not."""
    ca = tls.authority(tmp_path, "ca")
    server = tls.signed(tmp_path, "server", ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert, server.key)

    def talk(connection: socket.socket) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        agreed = context.wrap_bio(incoming, outgoing, server_side=True)
        incoming.write(connection.recv(65_536))
        with suppress(ssl.SSLWantReadError):
            agreed.do_handshake()
        for byte in outgoing.read():
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    page = fetched(talk, scheme="https", access=Access(ca_file=str(ca.cert)))
    assert page.error == LATE or "gave no connection within 0.5 s" in page.error


def test_a_name_with_many_silent_addresses_has_one_limit_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as full:  # its queue is full: no connection is taken, and none refused
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        for _ in range(4):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(full.getsockname())
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", full.getsockname())] * 20
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        page = Fetcher().fetch("http://many:1", timeout_s=LIMIT)
        for one in waiting:
            one.close()
    assert page.took is not None
    assert page.took < 4 * LIMIT
    assert page.error in {LATE, "gave no connection within 0.5 s"}
