"""The app as a child process: started, watched, and ended with its parent."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import yaml
from msgspec import structs

from llmvitals import data
from llmvitals.cli import leash
from llmvitals.cli.streamlit_flags import streamlit_flags
from llmvitals.errors import SettingsError
from llmvitals.settings import Settings, Source

LOOPBACK = "127.0.0.1"
END_SECONDS = 5.0
"""How long the app may take to end before it is killed."""


class AppChild:
    """A running Streamlit: where it listens, whether it lives, and what it said last."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self._process = process
        self._log = log
        self.url = f"http://{LOOPBACK}:{port}"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def failure(self) -> str:
        """The last line it wrote, once it has ended; '' while it runs."""
        if self._process.poll() is None:
            return ""
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return said or f"exit code {self._process.returncode}"

    def end(self) -> None:
        """Ask it to end; kill it when it does not."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def installed() -> bool:
    """Whether Streamlit is there."""
    return find_spec("streamlit") is not None


@contextmanager
def app_child(settings: Settings, exporter_url: str, *, name: str, port: int) -> Iterator[AppChild]:
    """The app on loopback, with the exporter as its first source, called ``name``; gone when the context closes.

    It gets a session of its own, so that Ctrl-C in the terminal reaches only the parent, which ends it in order. A parent that is
    killed takes it along (:mod:`llmvitals.cli.leash`); call it from the main thread, whose end counts as the parent's.
    """
    script = data.folder("app") / "streamlit_app.py"
    sources = (Source(name=name, url=exporter_url, kind="exporter"), *settings.sources)
    with TemporaryDirectory(prefix="llmvitals-") as folder:
        file = Path(folder) / "settings.yaml"
        file.write_text(yaml.safe_dump(msgspec.to_builtins(structs.replace(settings, sources=sources))), "utf-8")
        log = Path(folder) / "app.log"
        flags = (*streamlit_flags(port, LOOPBACK, os.environ), "--server.fileWatcherType=none")
        leashed = (sys.executable, leash.__file__, str(os.getpid()))
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [*leashed, "-m", "streamlit", "run", str(script), *flags, "--", "--settings", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )
        child = AppChild(process, port, log)
        try:
            yield child
        finally:
            child.end()


def port_for(wanted: int | None, usual: int, option: str) -> int:
    """The port asked for, which must be free; else the usual one, or any free one where that is taken."""
    if wanted is not None and not _free(wanted):
        raise SettingsError(
            "is in use", place=f"{option} {wanted}", remedy="Choose another port, or end what listens there."
        )
    if wanted is not None:
        return wanted
    if _free(usual):
        return usual
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
