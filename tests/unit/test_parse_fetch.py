"""The fetcher against real sockets: time limits that hold, size limits, redirects, encodings, words for failures."""

from __future__ import annotations

import base64
import errno
import gzip
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from llmvitals.errors import SettingsError
from llmvitals.telemetry.ingest import Fetcher, Limits, page_url
from llmvitals.telemetry.ingest.remedies import remedy_of

BODY = b'vllm:num_requests_running{engine="0",model_name="m"} 3\n'
Answer = Callable[[socket.socket, bytes], None]


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """A loopback server that hands each connection and its request to ``answer``; yields ``host:port``."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

    def handle(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            request = b""
            while b"\r\n\r\n" not in request:
                chunk = connection.recv(4096)
                if not chunk:
                    return
                request += chunk
            answer(connection, request)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(2)


def reply(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> Answer:
    def answer(connection: socket.socket, _request: bytes) -> None:
        size = len(body) if length is None else length
        head = [f"HTTP/1.1 {status}", f"Content-Length: {size}", "Connection: close", *headers, "", ""]
        connection.sendall("\r\n".join(head).encode() + body)

    return answer


def test_a_page_comes_with_its_time_status_and_body() -> None:
    asked: list[bytes] = []

    def answer(connection: socket.socket, request: bytes) -> None:
        asked.append(request)
        reply(BODY)(connection, request)

    with server(answer) as place:
        page = Fetcher(clock=lambda: 1234.5).fetch(place, timeout_s=5, headers={"X-Why": "test"})
    assert (page.t, page.status, page.body, page.error) == (1234.5, 200, BODY, "")
    assert page.took is not None
    assert 0 < page.took < 5
    assert asked[0].startswith(b"GET /metrics HTTP/1.1\r\n")
    assert b"Accept: text/plain;version=0.0.4\r\n" in asked[0]
    assert b"Accept-Encoding: gzip\r\n" in asked[0]
    assert b"X-Why: test\r\n" in asked[0]


@pytest.mark.parametrize("headers", [("Content-Encoding: gzip",), ()])
def test_gzip_is_read_with_and_without_its_header(headers: tuple[str, ...]) -> None:
    with server(reply(gzip.compress(BODY), *headers)) as place:
        assert Fetcher().fetch(place, timeout_s=5).body == BODY


def drip(connection: socket.socket, text: bytes) -> None:
    for byte in text:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def test_a_server_that_drips_its_body_is_cut_off_at_the_limit() -> None:
    def answer(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        drip(connection, b"x" * 200)

    with server(answer) as place:
        page = Fetcher().fetch(place, timeout_s=0.4)
    assert page.body is None
    assert page.error == "did not finish its answer within 0.4 s"
    assert page.took is not None
    assert 0.35 < page.took < 1.0


def test_a_server_that_drips_its_headers_is_cut_off_at_the_limit() -> None:
    def answer(connection: socket.socket, _request: bytes) -> None:
        drip(connection, b"HTTP/1.1 200 OK\r\n" + b"X-Slow: a\r\n" * 30)

    with server(answer) as place:
        page = Fetcher().fetch(place, timeout_s=0.4)
    assert page.error == "did not finish its answer within 0.4 s"
    assert page.took is not None
    assert page.took < 1.0


def test_a_server_that_says_nothing_is_cut_off_at_the_limit() -> None:
    with server(lambda connection, _request: time.sleep(1.0)) as place:
        page = Fetcher().fetch(place, timeout_s=0.3)
    assert page.error == "did not finish its answer within 0.3 s"
    assert page.took is not None
    assert page.took < 0.8


def test_the_next_fetch_after_a_cut_off_one_works() -> None:
    slow = threading.Event()

    def answer(connection: socket.socket, request: bytes) -> None:
        if not slow.is_set():
            slow.set()
            time.sleep(0.6)
        reply(BODY)(connection, request)

    fetcher = Fetcher()
    with server(answer) as place:
        assert fetcher.fetch(place, timeout_s=0.2).body is None
        assert fetcher.fetch(place, timeout_s=5).body == BODY


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"x 1\n" * 400_000, ()),
        (b"x" * 5_000_000, ()),
        (gzip.compress(b"x 1\n" * 400_000), ("Content-Encoding: gzip",)),
        (gzip.compress(b"x" * 50_000_000), ("Content-Encoding: gzip",)),
    ],
)
def test_size_is_held_on_the_wire_and_unpacked(body: bytes, headers: tuple[str, ...]) -> None:
    with server(reply(body, *headers)) as place:
        page = Fetcher(Limits(max_page_bytes=1024 * 1024)).fetch(place, timeout_s=5)
    assert page.body is None
    assert page.error == "the page is larger than 1 MiB"


@contextmanager
def keeping(*, served: int) -> Iterator[tuple[str, list[int]]]:
    """A server that answers so many requests of a connection and closes at the next; the list has the requests of each."""
    asked: list[int] = []
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                asked.append(0)
                with connection:
                    while connection.recv(65_536):
                        asked[-1] += 1
                        if asked[-1] > served:
                            break
                        connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/metrics", asked
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_a_kept_connection_that_the_server_gives_up_costs_no_page() -> None:
    with keeping(served=1) as (place, asked):
        fetcher = Fetcher()
        pages = [fetcher.fetch(place, timeout_s=5) for _ in range(2)]
    assert [page.body for page in pages] == [BODY, BODY]
    assert asked == [2, 1]


def test_a_new_connection_that_is_closed_is_not_asked_again() -> None:
    with keeping(served=0) as (place, asked):
        page = Fetcher().fetch(place, timeout_s=5)
    assert "closed the connection" in page.error
    assert asked == [1]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_what_giant_labels_swell_comes_with_its_long_lines_cut(pack: type) -> None:
    giant = b'vllm:model_config_info{hf_config="' + b"x" * 3_000_000 + b'"} 1\n'
    with server(reply(pack(giant + BODY))) as place:
        page = Fetcher(Limits(max_page_bytes=1024 * 1024)).fetch(place, timeout_s=5)
    assert page.error == ""
    assert page.body is not None
    assert page.body.endswith(b"\n" + BODY)
    assert len(page.body) < 1024 * 1024


@pytest.mark.parametrize(
    ("answer", "words", "helps"),
    [
        (reply(BODY, length=5000), "without a whole answer", "server runs"),
        (reply(gzip.compress(BODY)[:-6], "Content-Encoding: gzip"), "damaged or cut short", "proxy"),
        (reply(BODY, "Content-Encoding: br"), "not asked for", "pack with gzip"),
        (reply(BODY, *(f"X-{n}: 1" for n in range(200))), "its headers are longer", "adds them"),
        (lambda connection, _request: None, "closed the connection", "server runs"),
        (
            lambda connection, _request: connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"),
            "answers in something that is not HTTP/1",
            "wants https://",
        ),
    ],
)
def test_broken_answers_are_told_in_words_with_what_helps(answer: Answer, words: str, helps: str) -> None:
    with server(answer) as place:
        page = Fetcher().fetch(place, timeout_s=5)
    assert words in page.error
    assert page.body is None
    assert helps in remedy_of(page.error)


def test_a_closed_port_and_an_unknown_host_are_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert Fetcher().fetch(f"127.0.0.1:{port}", timeout_s=2).error == "refused the connection"
    assert Fetcher().fetch("http://nobody.invalid:1", timeout_s=2).error == "its host name is not known"


def test_a_server_that_resets_while_tls_is_agreed_on_is_asked_once() -> None:
    taken = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset() -> None:
            with suppress(OSError):  # the listener is closed
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        taken.append(connection.recv(1))
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        thread = threading.Thread(target=reset, daemon=True)
        thread.start()
        page = Fetcher().fetch(f"https://127.0.0.1:{listener.getsockname()[1]}", timeout_s=2)
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(2)
    assert page.error == "closed the connection without a whole answer"
    assert len(taken) == 1


def test_without_a_file_descriptor_left_the_failure_is_ours_and_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def exhausted(*_: object) -> socket.socket:
        tried.append(1)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("llmvitals.telemetry.watchdog.socket.socket", exhausted)
    page = Fetcher().fetch("127.0.0.1:1", timeout_s=2)
    assert page.error == "could not be reached (Too many open files)"
    assert len(tried) == 1
    assert "ulimit -n" in remedy_of(page.error)


@pytest.mark.parametrize("status", ["401 Unauthorized", "404 Not Found", "503 Service Unavailable"])
def test_statuses_are_handed_on(status: str) -> None:
    with server(reply(b"no", status=status)) as place:
        page = Fetcher().fetch(place, timeout_s=5)
    assert page.status == int(status[:3])
    assert page.error == ""


def test_redirects_on_the_same_host_are_followed_with_the_credentials() -> None:
    asked: list[bytes] = []

    def answer(connection: socket.socket, request: bytes) -> None:
        asked.append(request)
        if request.startswith(b"GET /metrics HTTP"):
            reply(b"", "Location: /metrics/", status="307 Temporary Redirect")(connection, request)
        else:
            reply(BODY)(connection, request)

    with server(answer) as place:
        page = Fetcher().fetch(f"http://me:p%40ss@{place}", timeout_s=5)
    assert page.body == BODY
    pair = base64.b64encode(b"me:p@ss")
    assert all(b"authorization: basic " + pair.lower() in request.lower() for request in asked)
    assert len(asked) == 2


def test_redirects_to_another_host_are_refused() -> None:
    with server(reply(b"", "Location: http://169.254.169.254/metrics", status="302 Found")) as place:
        page = Fetcher().fetch(place, timeout_s=5)
    assert page.status == 302
    assert page.body is None
    assert "169.254.169.254" in page.error


def test_endless_redirects_end() -> None:
    with server(reply(b"", "Location: /metrics", status="302 Found")) as place:
        page = Fetcher().fetch(place, timeout_s=5)
    assert page.body is None
    assert "redirects more than 3 times" in page.error


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("localhost:8000", "http://localhost:8000/metrics"),
        ("http://host:8000", "http://host:8000/metrics"),
        ("https://host/", "https://host/metrics"),
        (" http://host:8000/metrics ", "http://host:8000/metrics"),
        ("http://host/prometheus/metrics?x=1", "http://host/prometheus/metrics?x=1"),
        ("http://[::1]:8000", "http://[::1]:8000/metrics"),
    ],
)
def test_what_a_person_types_becomes_the_page(given: str, meant: str) -> None:
    assert page_url(given) == meant


@pytest.mark.parametrize("given", ["", "ftp://host", "http://", "http://host:99999999", "file:///etc/passwd"])
def test_what_is_no_url_is_refused(given: str) -> None:
    with pytest.raises(SettingsError, match="not a URL"):
        page_url(given)
    assert Fetcher().fetch(given, timeout_s=1).error == "is not a URL"
