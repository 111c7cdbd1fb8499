"""Requests of random pieces: no bytes break the server's side, and how they are cut changes nothing of what is taken."""

from __future__ import annotations

from collections.abc import Sequence

import h11
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llmvitals.exporters.request_head import StrictConnection

PIECES = (
    b"GET / HTTP/1.1\r\n",
    b"POST /v1/traces HTTP/1.1\r\n",
    b"GET / HTTP/1.0\r\n",
    b"Host: x\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: 0\r\n",
    b"content-length : 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked, chunked\r\n",
    b"Connection: close\r\n",
    b" folded\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"abc",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"\0",
    b"\xff",
    b"GET http://x/ HTTP/1.1\r\n",
)

requests = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)), max_size=12).map(b"".join)


def seen(parts: Sequence[bytes], *, bodies: bool) -> tuple[list[bytes], bool]:
    """The targets of the requests that were taken, and whether something was refused in the end."""
    connection, found = StrictConnection(bodies=bodies), []
    try:
        for part in parts:
            if part:
                connection.receive_data(part)
            while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Request):
                    found.append(bytes(event.method))
                if isinstance(event, h11.EndOfMessage):
                    connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                    connection.send(h11.EndOfMessage())
                    if connection.our_state is h11.MUST_CLOSE:
                        return found, False
                    connection.start_next_cycle()
    except h11.RemoteProtocolError:
        assert connection.fault is not None
        return found, True
    return found, False


@settings(max_examples=400, deadline=None)
@given(requests, st.booleans(), st.integers(1, 7))
@example(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\nHost: x\r\n\r\n", False, 1)
@example(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: x\r\n\r\n", True, 2)
def test_how_bytes_are_cut_changes_nothing(data, bodies, step):
    whole = seen([data], bodies=bodies)
    cut = seen([data[at : at + step] for at in range(0, len(data), step)], bodies=bodies)
    assert cut == whole


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_taken_or_refused(data, bodies):
    seen([data], bodies=bodies)
