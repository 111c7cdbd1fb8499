"""Clients that mean no good by an exporter, and a scraper beside them that behaves well and counts what it gets."""

from __future__ import annotations

import contextlib
import errno
import itertools
import selectors
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import psutil
import requests
import yaml

from support.command import argv
from support.waiting import wait_for

DEADLINE = 10.0
"""A scrape's time limit, as Prometheus has it by default."""

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def settings(folder: Path, urls: Sequence[str], **exporter: object) -> tuple[str, Path]:
    """Words of the command for these targets, named ``t0`` and on; ``exporter``: keys of that section."""
    path = folder / "llmvitals.yaml"
    targets = [{"name": f"t{n}", "url": url} for n, url in enumerate(urls)]
    path.write_text(yaml.safe_dump({"targets": targets, "exporter": exporter}))
    return "--settings", path


class Serving:
    """``llmvitals serve`` as a process, with a file limit where one is given; ``ca`` is what it is trusted by."""

    def __init__(self, folder: Path, *words: object, files: int = 0, ca: Path | None = None) -> None:
        self._log = folder / "log"
        command = argv("serve", *words, "--listen", "127.0.0.1:0")
        if files:
            command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
        with self._log.open("wb") as sink:
            self.process = subprocess.Popen(command, stdout=sink, stderr=sink)
        self.ca = str(ca) if ca else None
        wait_for(lambda: self.lines("listening") or self.process.poll() is not None, "the listening line")
        assert self.process.poll() is None, self.log()
        line = self.lines("listening")[0]
        self.url = next(w for w in line.split() if w.startswith("url=")).removeprefix("url=")
        self.address = (str(urlsplit(self.url).hostname), int(urlsplit(self.url).port or 0))

    def __enter__(self) -> Self:
        wait_for(lambda: self.ask("/readyz") == 200, "readiness")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(30)

    def log(self) -> str:
        """What it wrote so far."""
        return self._log.read_text()

    def lines(self, event: str) -> list[str]:
        """The lines of its log that tell of an event."""
        return [line for line in self.log().splitlines() if f"event={event}" in line]

    def ask(self, path: str) -> int:
        """The status of one well-behaved request on a connection of its own."""
        return requests.get(self.url + path, timeout=DEADLINE, verify=self.ca or True).status_code

    def own(self, series: str) -> float:
        """One of its own numbers."""
        page = requests.get(self.url + "/metrics", timeout=DEADLINE, verify=self.ca or True).text
        return next(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(series + " "))

    def held(self) -> tuple[int, int, int]:
        """Files, threads and resident bytes."""
        told = psutil.Process(self.process.pid)
        return told.num_fds(), told.num_threads(), told.memory_info().rss

    def terminated(self) -> float:
        """Seconds from SIGTERM to its end; it must be a good one."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        return time.monotonic() - began


class Scraper:
    """Asks for ``/metrics`` and ``/healthz`` in turn, each on a connection of its own, as long as it is open."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.good, self.bad = 0, []  # type: int, list[str]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(2 * DEADLINE)

    def more(self, count: int = 10) -> None:
        """Wait for that many more answers, good or bad."""
        until = self.good + len(self.bad) + count
        wait_for(lambda: self.good + len(self.bad) >= until, f"{count} answers")

    def _run(self) -> None:
        for path in itertools.cycle(("/metrics", "/healthz")):
            if self._over.is_set():
                return
            try:
                status = self._serving.ask(path)
            except requests.RequestException as error:
                self.bad.append(f"{path}: {error!r}")
            else:
                if status == 200:
                    self.good += 1
                else:
                    self.bad.append(f"{path}: {status}")
            self._over.wait(0.02)


def connected(address: tuple[str, int], count: int, *, sources: Sequence[str] = ("127.0.0.1",)) -> list[socket.socket]:
    """That many connections, or attempts at them, from the source addresses in turn. None of them blocks."""
    made = []
    for _, source in zip(range(count), itertools.cycle(sources), strict=False):
        one = socket.socket()
        one.setblocking(False)
        one.bind((source, 0))
        if one.connect_ex(address) not in (0, errno.EINPROGRESS):
            raise AssertionError("no connection is even tried")
        made.append(one)
    return made


def sent(connections: Sequence[socket.socket], data: bytes) -> int:
    """Send the same over each as soon as it stands; how many took it."""
    took = 0
    with selectors.DefaultSelector() as waiting:
        for one in connections:
            if one.fileno() >= 0:
                waiting.register(one, selectors.EVENT_WRITE)
        until = time.monotonic() + DEADLINE
        while waiting.get_map() and time.monotonic() < until:
            for key, _ in waiting.select(0.5):
                waiting.unregister(key.fileobj)
                with contextlib.suppress(OSError):
                    key.fileobj.send(data)  # type: ignore[union-attr]
                    took += 1
    return took


def closed(connections: Sequence[socket.socket], *, reset: bool = False) -> None:
    """Close them; ``reset``: without any farewell."""
    for one in connections:
        if reset:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()


@contextlib.contextmanager
def repeated(act: Callable[[], object], *, every: float = 0.05) -> Iterator[None]:
    """Do something again and again in a thread, until the end."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every):
            with contextlib.suppress(OSError):
                act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


def answer(address: tuple[str, int], data: bytes, *, half: bool = False) -> bytes:
    """All that comes back on one connection after these bytes; ``half``: after saying that no more will come."""
    with socket.create_connection(address, timeout=DEADLINE) as one:
        with contextlib.suppress(ConnectionError):
            one.sendall(data)
            if half:
                one.shutdown(socket.SHUT_WR)
        found = b""
        with contextlib.suppress(ConnectionError):
            while more := one.recv(65536):
                found += more
    return found
