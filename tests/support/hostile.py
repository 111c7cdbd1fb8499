"""A loopback server whose paths misbehave in all the ways in which a metrics target can, and count who asked."""

from __future__ import annotations

import gzip
import os
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self, TypeAlias

from llmvitals.simulator.live import Live
from llmvitals.simulator.scenarios import scenario

MIB = 1024 * 1024


def vllm_page(*, model: str = "m", tokens: float = 1000.0, running: float | str = 2, waiting: float | str = 0) -> bytes:
    """A small page of a vLLM engine with two finished requests per ten generated tokens."""
    at = f'{{engine="0",model_name="{model}"}}'
    finished = int(tokens // 10)
    lines = [
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{at} {running}",
        "# TYPE vllm:num_requests_waiting gauge",
        f"vllm:num_requests_waiting{at} {waiting}",
        "# TYPE vllm:kv_cache_usage_perc gauge",
        f"vllm:kv_cache_usage_perc{at} 0.25",
        "# TYPE vllm:generation_tokens_total counter",
        f"vllm:generation_tokens_total{at} {tokens}",
        "# TYPE vllm:prompt_tokens_total counter",
        f"vllm:prompt_tokens_total{at} {3 * tokens}",
        "# TYPE vllm:request_success_total counter",
        f'vllm:request_success_total{{engine="0",finished_reason="stop",model_name="{model}"}} {finished}',
        "# TYPE vllm:time_to_first_token_seconds histogram",
        *(
            f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="{le}",model_name="{model}"}} {finished}'
            for le in ("0.1", "1.0", "+Inf")
        ),
        f"vllm:time_to_first_token_seconds_sum{at} {0.05 * finished}",
        f"vllm:time_to_first_token_seconds_count{at} {finished}",
    ]
    return ("\n".join(lines) + "\n").encode()


Behave: TypeAlias = "Callable[[Hostile, BaseHTTPRequestHandler], None]"
"""What a path does with a request."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # the library's 5 drops who comes with many others, for a second

    def handle_error(self, *_: object) -> None:
        """A client that goes away is what is expected here."""


class Hostile:
    """``url('/drip')`` is a target that drips; see ``_PATHS``. ``asked`` counts requests by path."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.over = threading.Event()
        self.gate = threading.Event()  # set: /gate answers
        self.lock = threading.Lock()
        self.live: dict[str, Live] = {}
        self.shown: dict[str, list[bytes]] = {}
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner.asked[self.path] += 1
                path = self.path.split("?")[0]
                try:
                    _PATHS.get(path, _ok)(owner, self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]

    def url(self, path: str) -> str:
        """The target's URL for one behaviour."""
        return f"http://127.0.0.1:{self.port}{path}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()


def _send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"content-type": "text/plain", "content-length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def _healthy(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    """A simulated server with room, chatting on since 90 s; what it showed last is in ``owner.shown``."""
    with owner.lock:
        live = owner.live.setdefault(handler.path, scenario("healthy").live(origin=time.time(), lead_in=90.0))
        body = live.page_at(time.time())
        owner.shown.setdefault(handler.path, []).append(body)
    _send(handler, body)


def _ok(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, vllm_page(tokens=1000.0 + 10 * owner.asked[handler.path]))


def _hang(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    owner.over.wait(60)
    handler.close_connection = True


def _gate(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    owner.gate.wait(60)
    _ok(owner, handler)


def _drip(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("content-length", str(MIB))
    handler.end_headers()
    while not owner.over.wait(0.02):
        handler.wfile.write(b"#")
        handler.wfile.flush()
    handler.close_connection = True


def _reset(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(handler.connection.detach())  # no lingering: the peer gets a reset, not an orderly end
    handler.close_connection = True


def _huge(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("connection", "close")
    handler.end_headers()
    chunk = b"# padding that goes on and on\n" * (MIB // 30)
    for _ in range(100):
        handler.wfile.write(chunk)
    handler.close_connection = True


_BOMB = gzip.compress(b"\0" * (100 * MIB), 9)


def _bomb(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, _BOMB, content_encoding="gzip")


def _html(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, b"<!doctype html><html><body>It works</body></html>", content_type="text/html")


def _error(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, b"out of order", 500)


def _nan(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, vllm_page(running="NaN", waiting="NaN"))


def _redirect(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, b"", 302, location=f"http://localhost:{owner.port}/stolen")


def _renamed(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    asked = owner.asked[handler.path]
    _send(handler, vllm_page(model="m" if asked <= 3 else "other", tokens=1000.0 + 10 * asked))


def _restarted(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    asked = owner.asked[handler.path]
    _send(handler, vllm_page(tokens=1000.0 + 10 * asked if asked <= 3 else 10.0 * asked))


def _raw(handler: BaseHTTPRequestHandler, *pieces: bytes) -> None:
    """Bytes as they are, head and all, then the end of the connection."""
    for piece in pieces:
        handler.wfile.write(piece)
    handler.wfile.flush()
    handler.close_connection = True


def _head(body: bytes, *lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def _page(owner: Hostile, handler: BaseHTTPRequestHandler) -> bytes:
    """A healthy page that counts on."""
    return vllm_page(tokens=1000.0 + 10 * owner.asked[handler.path])


def _drip_headers(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
    while not owner.over.wait(0.02):
        handler.wfile.write(b"a")
    handler.close_connection = True


def _continue(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    while not owner.over.wait(0.02):
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    handler.close_connection = True


def _endless(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(_head(b"", "connection: close"))
    while not owner.over.is_set():
        handler.wfile.write(b"# padding that goes on and on\n" * 2000)
    handler.close_connection = True


def _one_line(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(_head(b'vllm:num_requests_running{x="', "connection: close"))
    while not owner.over.is_set():
        handler.wfile.write(b"y" * 65536)
    handler.close_connection = True


def _gzip(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, gzip.compress(_page(owner, handler))[:-20], content_encoding="gzip")


def _encoding(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, _page(owner, handler), content_encoding="br")


def _wrong_type(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, _page(owner, handler), content_type="image/png")


def _picture(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 100, content_type="image/png")


def _json(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, b'{"status": "ok"}', content_type="application/json")


def _status(status: int, body: bytes = b"", **headers: str) -> Behave:
    return lambda owner, handler: _send(handler, body, status, **headers)


def _loop(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, b"", 302, location="/loop")


def _value(**numbers: str) -> Behave:
    return lambda owner, handler: _send(handler, vllm_page(tokens=1000.0 + 10 * owner.asked[handler.path], **numbers))


def _reset_midway(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    body = _page(owner, handler)
    handler.wfile.write(_head(body[: len(body) // 2], f"content-length: {len(body)}"))
    handler.wfile.flush()
    _reset(owner, handler)


def _twice(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, _page(owner, handler) * 2)


def _half(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    """The histogram of the time to the first token lacks its highest bucket, sum and count."""
    lines = _page(owner, handler).splitlines(keepends=True)
    _send(handler, b"".join(x for x in lines if b"_sum" not in x and b"_count" not in x and b'"+Inf"' not in x))


def _cut(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    """The page ends within a number."""
    _send(handler, _page(owner, handler)[:-2])


def _labels(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    many = ",".join(f'l{n}="v"' for n in range(100_000))
    _send(handler, _page(owner, handler) + f"vllm:num_requests_swapped{{{many}}} 1\n".encode())


def _series(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _send(handler, _MANY)


_MANY = vllm_page() + b"".join(
    b'vllm:num_requests_running{engine="%d",model_name="m"} 1\n' % number for number in range(100_000)
)


def _models(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    """Another model's name with every page."""
    asked = owner.asked[handler.path]
    _send(handler, vllm_page(model=f"m-{asked}", tokens=1000.0 + 10 * asked))


def _utf8(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    broken = b'vllm:num_requests_swapped{engine="0",model_name="\xff\xfe\xc3"} 1\n\xff\xfe\x00\n'
    _send(handler, broken + _page(owner, handler))


def _stamped(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    """Samples that say they are of 1970 and of 2100, by turns."""
    when = b" 4102444800000" if owner.asked[handler.path] % 2 else b" 1"
    lines = _page(owner, handler).splitlines()
    _send(handler, b"".join(x + (b"" if x.startswith(b"#") else when) + b"\n" for x in lines))


def _clock(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    """A machine whose clock jumps between 1970 and 2100: by its Date and by when its process began."""
    late = owner.asked[handler.path] % 2
    began = f"process_start_time_seconds {4102444800 if late else 1}\n".encode()
    date = "Fri, 01 Jan 2100 00:00:00 GMT" if late else "Thu, 01 Jan 1970 00:00:00 GMT"
    body = _page(owner, handler) + b"# TYPE process_start_time_seconds gauge\n" + began
    _raw(handler, _head(body, f"date: {date}", f"content-length: {len(body)}", "connection: close"))


def _vanishing(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    """Every other page is missing: the connection is reset."""
    (_ok if owner.asked[handler.path] % 2 else _reset)(owner, handler)


def _header(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _raw(handler, _head(_page(owner, handler), "x-huge: " + "a" * MIB, "connection: close"))


def _headers(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _raw(handler, _head(_page(owner, handler), *(f"x-{n}: a" for n in range(1000)), "connection: close"))


def _long(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    body = _page(owner, handler)
    _raw(handler, _head(body, f"content-length: {len(body) + 1000}"))


def _short(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    """Says less than it sends: what is over would be read as the next answer. The cut lies within a number."""
    body = _page(owner, handler)
    _raw(handler, _head(body, f"content-length: {len(body) - 2}"))


def _negative_length(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _raw(handler, _head(_page(owner, handler), "content-length: -5"))


def _chunks(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _raw(handler, _head(b"zz\r\n" + _page(owner, handler), "transfer-encoding: chunked"))


def _chunk_over(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _raw(handler, _head(b"ffffffffff\r\n" + _page(owner, handler), "transfer-encoding: chunked"))


def _http09(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _raw(handler, _page(owner, handler))


def _tls(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    _raw(handler, b"\x15\x03\x01\x00\x02\x02\x0a" * 20)


GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "pages"
RELEASES = ("0.6.4", "0.8.5", "0.10.2")


def _upgrade(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    """A vLLM that is another release with every third page, up and down again: a new process each time."""
    turn = owner.asked[handler.path] // 3
    page = (GOLDEN / f"{RELEASES[turn % len(RELEASES)]}.prom").read_bytes()
    lines = [x for x in page.splitlines(keepends=True) if not x.startswith(b"process_start_time_seconds ")]
    _send(handler, b"".join(lines) + b"process_start_time_seconds %d\n" % (1.7e9 + 60 * turn))


def _kinds(owner: Hostile, handler: BaseHTTPRequestHandler) -> None:
    """By turns a vLLM and an SGLang."""
    page = vllm_page() if owner.asked[handler.path] // 2 % 2 else SGLANG
    _send(handler, page)


SGLANG = b"""# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m"} 1.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="m"} 0.0
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="m"} 0.1
"""


_PATHS: dict[str, Behave] = {
    "/healthy": _healthy,
    "/hang": _hang,
    "/gate": _gate,
    "/drip": _drip,
    "/reset": _reset,
    "/huge": _huge,
    "/bomb": _bomb,
    "/html": _html,
    "/500": _error,
    "/nan": _nan,
    "/redirect": _redirect,
    "/renamed": _renamed,
    "/restarted": _restarted,
    "/drip-headers": _drip_headers,
    "/continue": _continue,
    "/endless": _endless,
    "/one-line": _one_line,
    "/truncated-gzip": _gzip,
    "/encoding": _encoding,
    "/wrong-type": _wrong_type,
    "/picture": _picture,
    "/json": _json,
    "/503": _status(503, b"later", retry_after="3600"),
    "/401": _status(401, www_authenticate="Basic"),
    "/204": _status(204),
    "/empty": _status(200),
    "/loop": _loop,
    "/to-metadata": _status(302, location="http://169.254.169.254/latest/meta-data/"),
    "/to-a-file": _status(302, location="file:///etc/passwd"),
    "/infinite": _value(running="+Inf", waiting="-Inf"),
    "/negative": _value(running="-5", waiting="-1"),
    "/no-number": _value(running="0x10", waiting="many"),
    "/reset-midway": _reset_midway,
    "/twice": _twice,
    "/half-histogram": _half,
    "/cut": _cut,
    "/labels": _labels,
    "/series": _series,
    "/models": _models,
    "/utf-8": _utf8,
    "/stamped": _stamped,
    "/clock": _clock,
    "/vanishing": _vanishing,
    "/header": _header,
    "/headers": _headers,
    "/long": _long,
    "/short": _short,
    "/negative-length": _negative_length,
    "/chunks": _chunks,
    "/chunk-over": _chunk_over,
    "/http-0.9": _http09,
    "/tls": _tls,
    "/upgrade": _upgrade,
    "/kinds": _kinds,
}
