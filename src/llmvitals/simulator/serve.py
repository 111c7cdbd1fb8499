"""A simulated server on a real port: ``/metrics`` (or its own path) as the engine answers it, ``/gpu/metrics`` as
dcgm-exporter does.

``/host/metrics`` and ``/gateway/metrics`` hold canonical families, as no one exporter is theirs. Under ``/v1`` stands OpenAI's API.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from llmvitals.errors import SettingsError
from llmvitals.simulator import canonical, exposition
from llmvitals.simulator.api import Api
from llmvitals.simulator.live import Live

TEXT = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json; charset=utf-8"
START_SECONDS = 10.0
LONGEST_SECONDS = 60.0
"""How long a page is held at most; who asks has gone long before."""


class Served:
    """Serves ``live`` from a thread while the context is open.

    ``port`` 0 takes a free one; ``clock`` gives unix seconds, ``sleep`` lets so many of them pass: a page comes as late as
    the simulated API process makes it. While no process answers, ``/metrics`` and ``/health`` give 503.
    Raises :class:`SettingsError` when the address cannot be taken.
    """

    def __init__(
        self,
        live: Live,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._socket = _listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"
        path = exposition.PATHS.get(live.world.setup.engine.dialect, "/metrics")
        self.page_url = f"{self.url}{path}"
        self.gpu_url = f"{self.url}/gpu/metrics"
        # Plain functions: Starlette runs them in threads, so that catching up with the clock holds nobody else.
        who = {"instance": "simulated", "model": live.world.setup.engine.model}
        routes = [
            Route(path, lambda _: _answer(live, clock(), sleep)),
            Route("/gpu/metrics", lambda _: _page(live.gpu_page_at(clock()))),
            Route("/host/metrics", lambda _: _page(canonical.text(live.host_at(clock(), who)))),
            Route("/gateway/metrics", lambda _: _page(canonical.text(live.gateway_at(clock(), who)))),
            Route("/health", lambda _: PlainTextResponse("", 200 if live.world.up else 503)),
            *(() if live.coarse else Api(live, clock).routes()),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="simulated server", daemon=True
        )

    def __enter__(self) -> Served:
        self._thread.start()
        until = time.monotonic() + START_SECONDS
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=START_SECONDS)
        self._socket.close()

    def wait(self) -> None:
        """Block until the server ends (or Ctrl-C)."""
        while self._thread.is_alive():
            self._thread.join(timeout=1.0)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # The protocol is named for asyncio, which turns Nagle's delay off on what it knows to be TCP.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such port"
        raise SettingsError(
            f"cannot be listened on ({reason})", place=f"{host}:{port}", remedy="Choose another port."
        ) from None
    return listener


def _answer(live: Live, t: float, sleep: Callable[[float], None]) -> Response:
    answer = live.answer_at(t, timeout=LONGEST_SECONDS)
    sleep(answer.took)
    if not answer.status:
        return PlainTextResponse("", 503)
    return _page(answer.body, JSON if answer.body.startswith(b"{") else TEXT)


def _page(body: bytes, kind: str = TEXT) -> Response:
    return Response(body, headers={"content-type": kind})
