"""Start, reload and drain: the exporter as an object to embed, and as a process that obeys signals."""

from __future__ import annotations

import gc
import logging
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from llmvitals.errors import LlmvitalsError
from llmvitals.exporters import heap
from llmvitals.exporters.board import Board
from llmvitals.exporters.cycle import Cycle, Engine
from llmvitals.exporters.listen import DRAIN_SECONDS, Server, bound, in_a_thread, server, shown, together
from llmvitals.exporters.logs import log, to_stderr
from llmvitals.exporters.renewal import Renewed
from llmvitals.exporters.server import Site
from llmvitals.exporters.spans import extra
from llmvitals.settings import Node, Settings
from llmvitals.sources.live import Fetch
from llmvitals.sources.node import Machine
from llmvitals.telemetry.ingest import RawPage

if TYPE_CHECKING:
    from llmvitals.exporters.otlp.push import Push
    from llmvitals.exporters.spans.receiver import Receiver

LINGER_SECONDS = 1.0
"""How long ``stop`` waits for a cycle under way; its thread is a daemon and posts nothing that anybody would read."""

_OBEYED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

MOST_FILES = 65_536
"""Of open files no more are asked for than any load of ours could need."""

GC_THRESHOLDS = (2_000, 10, 10)
"""Values made between two searches for reference cycles, and how many of these until older values are searched too.

Judging makes some hundred thousand values that live until its end, and hardly a reference cycle: Python's own thresholds have all
of them searched more often than that is worth. Ten times more than these left garbage between what lives, a MiB or two of
resident memory, and saved no CPU that could be measured (``python -m bench --only node`` and ``soak``).
"""


class Exporter:
    """Cycle and server in threads of their own. ``fetch`` replaces the transport, for targets inside this process.
    ``machine`` makes what reads this machine from the settings' ``node``; without it nothing does.

    ``start`` binds the address first, so :attr:`url` is known and an address in use is a :class:`SettingsError`. So is a
    web configuration that cannot be used, already here.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.time,
        machine: Callable[[Node], Machine] | None = None,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._machine = machine(settings.node) if machine is not None else None
        self._make = machine
        self.board = Board()
        self._web = Renewed(settings.exporter.web_config)
        self._site = Site(self.board, settings, self._web)
        self._site.own.web_ok = lambda: self._web.ok
        self.receiver = self._site.own.receiver = self._receiving(settings)
        self._engine = Engine(settings, fetch=fetch, clock=clock, machine=self._machine, traces=self.receiver)
        self._site.own.push = self._pushing(settings)
        self._ending = threading.Event()
        self._socket: socket.socket | None = None
        self._server: Server | None = None
        self._threads: list[threading.Thread] = []

    @property
    def settings(self) -> Settings:
        """The settings in use."""
        return self._site.settings

    @property
    def newest(self) -> Cycle | None:
        """The newest finished cycle, or None before the first."""
        return self.board.newest

    @property
    def url(self) -> str:
        """Where it listens, without a path. An empty host and port 0 of the settings are filled in."""
        if self._socket is None:
            raise RuntimeError("the exporter is not started")
        return f"{'https' if self._web().policy else 'http'}://{shown(self._socket.getsockname())}"

    def start(self) -> Exporter:
        """Bind, then run cycle and server. Raises :class:`SettingsError` when the address cannot be used."""
        self._socket = bound(self.settings.exporter.listen, key="exporter.listen", example="127.0.0.1:9464")
        if self.receiver is not None:
            try:
                self.receiver.start()
            except BaseException:
                self._socket.close()
                raise
        own = self._site.own
        self._server = server(self._site.app(), self._web, refused=own.refused, cut=own.cut)
        own.open = lambda: len(self._server.crowd or ()) if self._server else 0
        cycles = threading.Thread(target=self._cycles, name="cycle", daemon=True)
        cycles.start()
        if self._site.own.push is not None:
            self._site.own.push.start()
        self._threads = [cycles, in_a_thread(self._server, self._socket, name="server")]
        return self

    def recall(self, pages: Mapping[str, RawPage], gpu_pages: Mapping[str, RawPage] | None = None) -> None:
        """Before ``start``: take in what is known of the past, one page per instance; GPU pages by their URL."""
        self._engine.record(pages, gpu_pages)

    def stop(self) -> None:
        """Take no more requests, finish those under way, end the cycle. May be called twice."""
        self._ending.set()
        if self._server is not None:
            self._server.should_exit = True
        ends: list[Callable[[], object]] = [one.stop for one in (self._site.own.push, self.receiver) if one is not None]
        for thread, seconds in zip(self._threads, (LINGER_SECONDS, DRAIN_SECONDS + LINGER_SECONDS), strict=False):
            ends.append(partial(thread.join, seconds))
        together(*ends)
        if self._socket is not None:
            self._socket.close()

    def reload(self, settings: Settings) -> None:
        """Use other settings from the next cycle on; unchanged targets keep their history. The address stays.

        Files of headers are read again. Users, headers, certificates and client CAs count from the next request or
        connection on. When anything else of the TLS settings differs, all of TLS stays as it is. Raises
        :class:`SettingsError` and leaves everything as it was when the settings cannot be used.
        """
        if settings.exporter.listen != self.settings.exporter.listen:
            log("reload-keeps-address", level=logging.WARNING, listen=self.settings.exporter.listen)
        use_web = self._web.reload(settings.exporter.web_config)
        before_push, push = self._site.own.push, self._pushing(settings)
        if self.receiver is None and (settings.spans.http or settings.spans.grpc):
            log("reload-keeps-address", level=logging.WARNING, detail="restart to take in traces")
        if self._make is not None and settings.node != self.settings.node:
            self._machine = self._make(settings.node)
        self._engine = Engine(
            settings,
            fetch=self._fetch,
            clock=self._clock,
            previous=self._engine,
            machine=self._machine,
            traces=self.receiver,
        )
        if self.receiver is not None:
            self.receiver.reload(settings)
        self._site.settings = settings
        self._site.own.push = push
        if before_push is not None:
            before_push.stop()
        if push is not None and self._threads:
            push.start()
        use_web()

    def __enter__(self) -> Exporter:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _receiving(self, settings: Settings) -> Receiver | None:
        """What takes in traces where the settings say so; without them nothing of it is loaded."""
        if not (settings.spans.http or settings.spans.grpc):
            return None
        extra.check(settings.spans)
        from llmvitals.exporters.spans.receiver import Receiver  # noqa: PLC0415  # an extra

        return Receiver(settings, self._web)

    def _pushing(self, settings: Settings) -> Push | None:
        """What pushes the page as the settings say, going on with what is known of what did before."""
        if not settings.otlp.endpoint:
            return None
        from llmvitals.exporters.otlp.push import Push  # noqa: PLC0415  # who does not push loads no requests

        own = self._site.own
        return Push(settings, lambda: self.board.newest, own.registry.collect, previous=own.push)

    def _cycles(self) -> None:
        due = time.monotonic()
        while not self._ending.wait(max(due - time.monotonic(), 0.0)):
            engine = self._engine
            try:
                self.board.post(engine.step())
                if self.board.cycles % heap.GIVEN_BACK_EVERY == 0:
                    heap.given_back()
            except Exception as error:  # the page then keeps the cycle before, and its age says so
                log("cycle-failed", level=logging.ERROR, error=repr(error))
            due = max(due + engine.settings.exporter.interval_seconds, time.monotonic())


def serve(read: Callable[[], Settings], *, fetch: Fetch | None = None) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reads the settings again. Blocks; needs the main thread.

    Raises :class:`SettingsError` for settings that cannot be used at the start. Later bad settings are logged and the
    ones before stay in use (``llmvitals_config_last_reload_successful`` is 0).
    """
    to_stderr()
    _allow_files()
    heap.tended()
    exporter = Exporter(read(), fetch=fetch, machine=Machine)
    with _signals() as arrived, _seldom_searched():
        try:
            exporter.start()
            log("listening", url=exporter.url, targets=len(exporter.settings.targets))
            while arrived() == signal.SIGHUP:
                _reload(exporter, read)
            log("draining")
        finally:
            exporter.stop()
    log("stopped")


def _allow_files() -> None:
    """Have as many files open as the system lets us: shells and old service managers begin at 1024 for the sake of ``select``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # a sandbox may forbid it: then what there is must do
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@contextmanager
def _seldom_searched() -> Iterator[None]:
    """The process is the exporter's own while it serves, and so are the garbage collector's thresholds."""
    before = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _signals() -> Iterator[Callable[[], int]]:
    """Gives a function that waits for the next signal.

    The interpreter writes each signal's number into a socket at once. Waiting on a lock or queue instead could sleep
    through a signal that arrives just before the wait begins.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    with reader, writer:
        before = {number: signal.signal(number, lambda *_: None) for number in _OBEYED}
        woken = signal.set_wakeup_fd(writer.fileno())
        try:
            yield lambda: reader.recv(1)[0]
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)


def _reload(exporter: Exporter, read: Callable[[], Settings]) -> None:
    try:
        exporter.reload(read())
    except Exception as error:  # whatever is wrong with them, what is in use goes on
        exporter.board.reload_ok = False
        log(
            "reload-refused",
            level=logging.ERROR,
            error=str(error) if isinstance(error, LlmvitalsError) else repr(error),
        )
    else:
        exporter.board.reload_ok = True
        log("reloaded", targets=len(exporter.settings.targets))
