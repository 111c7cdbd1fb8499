"""The web configuration in use, and its renewal: what is mounted into a pod is replaced without any signal to its processes.

Prometheus' own exporters read the file anew with each request. Here the files are looked at when somebody connects or asks, at
most once a second, and read where one of them changed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from llmvitals.errors import SettingsError
from llmvitals.exporters import web_config
from llmvitals.exporters.logs import log
from llmvitals.exporters.web_config import Web

LOOK_SECONDS = 1.0
"""Between two looks at the files: a handful of ``stat`` calls."""

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Of each file: its inode, size and time of change; None where there is none."""


class Renewed:
    """Called by any thread, it gives the configuration in use. ``path``: '' for none. Never raises once it is made.

    A file that cannot be used leaves the one before in use; ``ok`` is False from then until a good one comes.
    """

    def __init__(self, path: Path | str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._looked = monotonic()
        self.ok = True
        self._use(path, *_read(path))

    def __call__(self) -> Web:
        """The configuration in use, after a look at the files where it is time for one."""
        if self._path and self._monotonic() - self._looked >= LOOK_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        return self._web

    def reload(self, path: Path | str) -> Callable[[], None]:
        """Read the configuration at ``path``; calling what comes back puts it in use.

        Raises :class:`SettingsError` and changes nothing when it cannot be used.
        """
        web, stamp = _read(path)

        def use() -> None:
            with self._lock:
                self._use(path, self._kept(web), stamp)

        return use

    def _use(self, path: Path | str, web: Web, stamp: Stamp) -> None:
        self._path, self._web, self._stamp, self._said = path, web, stamp, ""
        self.ok = True

    def _look(self) -> None:
        self._looked = self._monotonic()
        # Where a new file was refused, what it names is not known to have changed since: it is read again each time.
        if self.ok and _stamp(self._web.sources) == self._stamp:
            return
        try:
            web, stamp = _read(self._path)
        except (SettingsError, OSError) as error:  # OSError: a file that went away while it was read
            self.ok = False
            if str(error) != self._said:
                self._said = str(error)
                log("web-config-refused", level=logging.ERROR, error=str(error))
            return
        self._use(self._path, self._kept(web), stamp)
        log("web-config-renewed")

    def _kept(self, web: Web) -> Web:
        """What a server under way can take of a new configuration: of TLS all or nothing."""
        if web.policy == self._web.policy:
            return web
        log("reload-keeps-tls", level=logging.WARNING, detail="restart to change it")
        old = self._web
        return replace(web, policy=old.policy, context=old.context, files=old.files, sans=old.sans)


def _read(path: Path | str) -> tuple[Web, Stamp]:
    """The configuration, and how its files stood before they were read: what changes meanwhile is seen at the next look."""
    while True:
        before = web_config.load(path)
        stamp = _stamp(before.sources)
        web = web_config.load(path)
        if web.sources == before.sources:
            return web, stamp


def _stamp(paths: tuple[Path, ...]) -> Stamp:
    return tuple(_one(path) for path in paths)


def _one(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
