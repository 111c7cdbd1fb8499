"""The receivers of traces as one object: what listens where the settings say, beside the page and never in its way.

Each protocol has a thread and an event loop of its own, and one more thread decodes, so that whatever senders do, the cycle and
the page go on.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import uvicorn
from prometheus_client.core import Metric

from llmvitals.exporters import guard
from llmvitals.exporters.listen import DRAIN_SECONDS, bound, in_a_thread, server, shown, together
from llmvitals.exporters.logs import log
from llmvitals.exporters.spans import http
from llmvitals.exporters.spans.families import families
from llmvitals.exporters.spans.intake import Intake
from llmvitals.exporters.spans.result import Result
from llmvitals.exporters.web_config import Web
from llmvitals.settings import Settings
from llmvitals.telemetry.spans.ledger import Ledger
from llmvitals.telemetry.spans.model import Batch, Place, Request, Sent, Shown

CLOSE_SECONDS = 1.0


class _Server(Protocol):
    """One of the two that listen."""

    address: str

    def start(self) -> None:
        """Listen. Raises :class:`SettingsError` when the address cannot be used."""

    def stop(self) -> None:
        """Finish what is under way, for a moment, and end."""


class HttpServer:
    """OTLP over HTTP in a thread of its own."""

    def __init__(self, intake: Intake, listen: str, web: Callable[[], Web]) -> None:
        self._intake = intake
        self._listen = listen
        self._web = web
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.address = ""

    def start(self) -> None:
        """Listen. Raises :class:`SettingsError` when the address cannot be used."""
        self._socket = made = bound(self._listen, key="spans.http", example="127.0.0.1:4318")
        self.address = shown(made.getsockname())
        app = http.app(self._intake, self._web)
        self._server = server(app, self._web, bodies=True, cut=self._refused)
        self._thread = in_a_thread(self._server, made, name="spans-http")

    def stop(self) -> None:
        """Finish what is under way, for a moment, and end. May be called twice."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(DRAIN_SECONDS + CLOSE_SECONDS)
        if self._socket is not None:
            self._socket.close()

    def _refused(self) -> None:
        self._intake.count(http.PROTOCOL, Result.BUSY, f"more than {guard.CONNECTIONS} connections")


class Receiver:
    """Listens as the settings' ``spans`` say, from :meth:`start` to :meth:`stop`. ``web`` gives the web configuration in use.

    Raises :class:`SettingsError` for a web configuration that a protocol cannot keep.
    """

    def __init__(self, settings: Settings, web: Callable[[], Web] = Web, *, ledger: Ledger | None = None) -> None:
        self._config = settings.spans
        self._ledger = ledger or Ledger(settings)
        self.intake = Intake(self._ledger, settings.spans)
        self._servers: dict[str, _Server] = {}
        if settings.spans.http:
            self._servers["http"] = HttpServer(self.intake, settings.spans.http, web)
        if settings.spans.grpc:
            from llmvitals.exporters.spans.grpc import GrpcServer  # noqa: PLC0415  # who speaks HTTP alone loads no gRPC

            self._servers["grpc"] = GrpcServer(self.intake, settings.spans.grpc, web)

    def start(self) -> None:
        """Listen. Raises :class:`SettingsError` when an address cannot be used; nothing listens then."""
        try:
            for protocol, one in self._servers.items():
                one.start()
                log("spans-listening", protocol=protocol, address=one.address)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Take nothing more in, and work off what was. May be called twice."""
        together(*(one.stop for one in self._servers.values()))
        self.intake.close(CLOSE_SECONDS)

    def address(self, protocol: str) -> str:
        """Where ``http`` or ``grpc`` listens, as host:port that a client of this machine can use; '' where it does not."""
        return self._servers[protocol].address if protocol in self._servers else ""

    def reload(self, settings: Settings) -> None:
        """Use other limits, classes and attributes from the next export on. The addresses stay, and so does what was counted."""
        before, after = self._config, settings.spans
        if (before.http, before.grpc) != (after.http, after.grpc):
            log("reload-keeps-address", level=logging.WARNING, spans_http=before.http, spans_grpc=before.grpc)
        self._ledger = Ledger(settings, previous=self._ledger)
        self.intake.reload(after, self._ledger)

    def probed(self, requests: Sequence[Request]) -> None:
        """Take our own probes in, as the callers of what engines tell of them."""
        if requests:
            self._ledger.take(Batch((Sent((), tuple(requests)),), spans=len(requests)), "")

    def shown(self, places: Sequence[Place]) -> dict[str, Shown]:
        """What belongs on each target's page now, by instance. Called once per cycle."""
        return self.intake.shown(places)

    def families(self) -> Iterator[Metric]:
        """What the receivers say of themselves."""
        return families(self.intake, self._ledger.counts(), tuple(self._servers))
