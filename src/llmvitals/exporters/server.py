"""The HTTP side: it reads the board and never fetches anything, so no request can make the exporter reach a target."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from prometheus_client.exposition import gzip_accepted
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from llmvitals.exporters.answer import OPENMETRICS, SCRAPE_TIMEOUT, TEXT, Pages, deadline, wants_openmetrics
from llmvitals.exporters.board import Board
from llmvitals.exporters.capture import TooLargeError, known, packed
from llmvitals.exporters.cycle import Cycle
from llmvitals.exporters.judge import Scoped
from llmvitals.exporters.landing import HEADERS, landing
from llmvitals.exporters.limits import Limits
from llmvitals.exporters.protect import Protect
from llmvitals.exporters.replicas import document as document_of_replicas
from llmvitals.exporters.selfmetrics import SelfMetrics
from llmvitals.exporters.shared import BusyError, Shared
from llmvitals.exporters.trail import EVERY
from llmvitals.exporters.web_config import Web
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.triage.report import document

NAMED = frozenset({EVERY, *(signal.id for signal in SIGNALS)})
"""What ``signal`` may name; anything else is passed over."""

BUSY = "too many ask for this at once; ask again"
AGAIN = {"retry-after": "1"}


class Site:
    """The routes over one board. ``settings`` may be replaced on a reload; ``web`` gives the web configuration in use."""

    def __init__(self, board: Board, settings: Settings, web: Callable[[], Web] = Web) -> None:
        self.board = board
        self.settings = settings
        self.own = SelfMetrics(board)
        self._web = web
        self._pages = Pages(self.own)
        self._shared = Shared()

    def app(self) -> Starlette:
        """The ASGI application."""
        pages = {
            "/": self.landing,
            "/metrics": self.metrics,
            "/triage": self.triage,
            "/history": self.history,
            "/replicas": self.replicas,
            "/capture": self.capture,
            "/healthz": self.healthz,
            "/readyz": self.readyz,
        }
        limits = Middleware(Limits, paths=frozenset(pages), requests=self.own.requests)
        protect = Middleware(Protect, web=self._web)
        return Starlette(routes=[Route(path, page) for path, page in pages.items()], middleware=[limits, protect])

    async def metrics(self, request: Request) -> Response:
        """The page of the newest cycle; only before the first one does a scrape wait, within its deadline."""
        limit = deadline(request.headers.get(SCRAPE_TIMEOUT), self.settings.exporter.timeout_seconds)
        until = asyncio.get_running_loop().time() + limit
        while self.board.newest is None and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.02)
        form = wants_openmetrics(request.headers.get("accept", ""))
        gzipped = gzip_accepted(request.headers.get("accept-encoding", ""))
        self._shared.of(self.board.newest)
        parts = self._pages.parts(self.board.newest, openmetrics_form=form, packed=gzipped)
        headers = {"vary": "accept, accept-encoding", "content-type": OPENMETRICS if form else TEXT}
        return _Parts(parts, headers=headers | ({"content-encoding": "gzip"} if gzipped else {}))

    async def triage(self, request: Request) -> Response:
        """What ``llmvitals triage --json`` prints, for all scopes or for those named by ``instance`` and ``model``."""
        cycle = self.board.newest
        if cycle is None:
            return _problem(503, "the first cycle is not finished")
        verdicts = [scoped.verdict for scoped in _chosen(cycle, request) if scoped.verdict is not None]
        if not verdicts:
            return _problem(404, "no such scope; instance and model must be as on the page")
        key = tuple((str(v.scope.get("instance")), str(v.scope.get("model"))) for v in verdicts)
        return await self._json("triage", cycle, key, lambda: document(verdicts))

    async def history(self, request: Request) -> Response:
        """How the vital signs and the signals named by ``signal`` moved in one scope (the first, if none is named)."""
        cycle = self.board.newest
        chosen = _chosen(cycle, request) if cycle is not None else ()
        if cycle is None or not chosen:
            return _problem(404, "no such scope; instance and model must be as on the page")
        scope = (chosen[0].instance, chosen[0].model)
        asked = tuple(sorted(set(request.query_params.getlist("signal")) & NAMED))
        make = self.board.trail.document
        return await self._json("history", cycle, (scope, asked), lambda: make(scope, asked, self.settings))

    async def replicas(self, request: Request) -> Response:
        """Every engine with its KV usage beside the activity of its GPUs, or why one of the two is not known."""
        cycle = self.board.newest
        if cycle is None:
            return _problem(503, "the first cycle is not finished")
        return await self._json("replicas", cycle, (), lambda: document_of_replicas(cycle, self.settings))

    async def capture(self, request: Request) -> Response:
        """The window that the newest verdicts were given on, as a recording: of the targets named by ``instance``, or of the
        worst ones. One is packed at a time, in a thread of its own, so that scrapes are answered meanwhile; who asks for the same
        gets the same.
        """
        cycle = self.board.newest
        if cycle is None:
            return _problem(503, "the first cycle is not finished")
        wanted = tuple(sorted(set(request.query_params.getlist("instance"))))
        if not known(cycle, wanted):
            return _problem(404, "no such target; instance must be as on the page")
        try:
            body = await self._shared.answer("capture", cycle, wanted, lambda: packed(cycle, self.settings, wanted))
        except TooLargeError as error:
            return _problem(413, str(error))
        except BusyError:
            return _problem(503, BUSY, AGAIN)
        name = f"llmvitals-{datetime.fromtimestamp(cycle.ended, UTC):%Y%m%dT%H%M%SZ}.zip"
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return Response(body, media_type="application/zip", headers=headers)

    async def healthz(self, request: Request) -> Response:
        """200 while cycles finish, 503 when the newest is so old that the cycle must be stuck."""
        config = self.settings.exporter
        age = self.board.age()
        stuck = self.board.stuck(config.interval_seconds, config.timeout_seconds)
        return PlainTextResponse(f"{'stuck' if stuck else 'ok'}: newest cycle {age:.1f} s old\n", 503 if stuck else 200)

    async def readyz(self, request: Request) -> Response:
        """503 until the first cycle is finished."""
        ready = self.board.newest is not None
        return PlainTextResponse("ready\n" if ready else "the first cycle is not finished\n", 200 if ready else 503)

    async def landing(self, request: Request) -> Response:
        """A page for people: the verdict of every scope in a sentence, and where everything else is."""
        return HTMLResponse(landing(self.board.newest, self.board.age()), headers=HEADERS)

    async def _json(self, kind: str, cycle: Cycle, key: object, make: Callable[[], object]) -> Response:
        """A document as JSON, encoded once for all who ask the same in one cycle."""
        try:
            body = await self._shared.answer(kind, cycle, key, lambda: _encoded(make()))
        except BusyError:
            return _problem(503, BUSY, AGAIN)
        return Response(body, media_type="application/json")


class _Parts(Response):
    """An answer in parts, of which each is what others are sent as well: nobody has a copy of its own."""

    def __init__(self, parts: Sequence[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(headers={**headers, "content-length": str(sum(map(len, parts)))})
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _chosen(cycle: Cycle, request: Request) -> list[Scoped]:
    wanted = {key: request.query_params[key] for key in ("instance", "model") if request.query_params.get(key)}
    return [s for s in cycle.scopes if all(getattr(s, key) == value for key, value in wanted.items())]


def _encoded(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _problem(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": why}, status_code=status, headers=headers)
