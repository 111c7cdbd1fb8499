"""What a request may look like: every shape that can be read in two ways, or costs too much, is refused with its own status."""

from __future__ import annotations

from contextlib import suppress

import h11
import pytest

from llmvitals.exporters import request_head
from llmvitals.exporters.request_head import CHUNKS, HEADER_BYTES, HEADERS, TARGET_BYTES, StrictConnection

HOST = b"Host: x\r\n"

REFUSED = {
    "two lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na", 400),
    "two equal lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\ncontent-length : 1\r\n\r\na", 400),
    "a list of lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 2\r\n\r\na", 400),
    "a signed length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na", 400),
    "length and encoding": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "another encoding": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    "a hidden encoding": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks in HTTP/1.0": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "bare LF": (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    "bare LF at the end": (b"GET / HTTP/1.1\r\nHost: x\r\n\n", 400),
    "bare LF in a header": (b"GET / HTTP/1.1\r\nHost: x\r\na: b\nContent-Length: 5\r\n\r\n", 400),
    "bare CR in a header": (b"GET / HTTP/1.1\r\nHost: x\r\na: b\rc: d\r\n\r\n", 400),
    "a folded header": (b"GET / HTTP/1.1\r\nHost: x\r\na: b\r\n c\r\n\r\n", 400),
    "NUL in a header": (b"GET / HTTP/1.1\r\nHost: x\r\na: \0\r\n\r\n", 400),
    "NUL in the path": (b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "bytes beyond ASCII in the path": ("GET /ä HTTP/1.1\r\nHost: x\r\n\r\n".encode(), 400),
    "bytes beyond ASCII in a name": ("GET / HTTP/1.1\r\nHost: x\r\nä: b\r\n\r\n".encode(), 400),
    "a space before the colon": (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
    "an absolute URI": (b"GET http://169.254.169.254/latest HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "an authority": (b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "HTTP/2 without asking": (b"PRI * HTTP/2.0\r\nHost: x\r\n\r\nSM\r\n\r\n", 505),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 600, 400),
    "a long path": (b"GET /" + b"a" * TARGET_BYTES + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    "a path without end": (b"GET /" + b"a" * 2 * TARGET_BYTES, 414),
    "a long header": (b"GET / HTTP/1.1\r\n" + HOST + b"accept: " + b"a," * HEADER_BYTES + b"\r\n\r\n", 431),
    "a header without end": (b"GET / HTTP/1.1\r\n" + HOST + b"accept: " + b"a" * 2 * HEADER_BYTES, 431),
    "many headers": (b"GET / HTTP/1.1\r\n" + HOST + b"a: b\r\n" * HEADERS + b"\r\n", 431),
    "a body to read with": (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", 413),
    "a chunked body": (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
    "a body to write with": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", 405),
}

TAKEN = {
    "plain": b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/1.0": b"GET / HTTP/1.0\r\n\r\n",
    "an empty body": b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "a broken escape": b"GET /%zz%ff?signal=%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "options": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header beyond ASCII": "GET / HTTP/1.1\r\nHost: x\r\na: ä\r\n\r\n".encode(),
    "the most": b"GET /" + b"a" * (TARGET_BYTES - 14) + b" HTTP/1.1\r\n" + HOST + b"a: b\r\n" * (HEADERS - 3) + b"\r\n",
}


def fault(data: bytes, *, bodies: bool = False) -> int:
    """The status with which a request is refused; 0 where it is taken."""
    connection = StrictConnection(bodies=bodies)
    connection.receive_data(data)
    try:
        while connection.next_event() not in (h11.NEED_DATA, h11.PAUSED):
            pass
    except h11.RemoteProtocolError:
        assert connection.fault is not None
        return connection.fault.status
    return 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_be_read_in_two_ways_or_costs_too_much_is_refused(name):
    data, status = REFUSED[name]
    assert fault(data) == status


@pytest.mark.parametrize("name", [name for name, (_, status) in REFUSED.items() if status == 400])
def test_a_receiver_of_bodies_takes_no_ambiguous_one_either(name):
    assert fault(REFUSED[name][0], bodies=True) == 400


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_plain_is_taken(name):
    assert fault(TAKEN[name]) == 0


@pytest.mark.parametrize("name", ["two lengths", "bare LF in a header", "many headers", "a folded header"])
def test_it_is_refused_however_it_is_cut(name):
    data, status = REFUSED[name]
    connection = StrictConnection(bodies=False)
    for byte in data:
        connection.receive_data(bytes([byte]))
        with suppress(h11.RemoteProtocolError):
            connection.next_event()
        if connection.fault is not None:
            break
    assert connection.fault is not None
    assert connection.fault.status == status


def test_a_body_in_crumbs_is_refused_and_one_in_chunks_is_not():
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert fault(head + b"1\r\na\r\n" * (CHUNKS + 1), bodies=True) == request_head.CRUMBS.status
    assert fault(head + (b"80\r\n" + b"a" * 128 + b"\r\n") * (CHUNKS + 1), bodies=True) == 0


def test_nothing_of_a_request_is_in_what_is_said_of_it():
    assert all(
        "x" not in value.why.split() for value in vars(request_head).values() if isinstance(value, request_head.Fault)
    )
