"""A real Prometheus over samples that were made: for the pictures, and for what boards cost."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_READY_SECONDS = 120.0


def filled(folder: Path, text: Path) -> None:
    """Make blocks of OpenMetrics text, for a Prometheus in that folder; those that are there stay."""
    made = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    done = subprocess.run(made, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"promtool makes no blocks of {text}: {done.stderr.strip()}")


def free_port() -> int:
    """A port of the loopback that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def prometheus(folder: Path, config: str = "{}\n", port: int = 0, flags: Sequence[str] = ()) -> Iterator[str]:
    """A Prometheus over a folder; its address. It is ended by its own handle."""
    (folder / "prometheus.yml").write_text(config, encoding="utf-8")
    address = f"127.0.0.1:{port or free_port()}"
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={address}",
        "--log.level=error",
        *flags,
    ]
    url = f"http://{address}"
    with process(command, f"{url}/-/ready"):
        yield url


@contextmanager
def process(command: list[str], ready: str) -> Iterator[None]:
    """A child process, once that URL answers; it is ended by its own handle."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            _answers(ready, server)
            yield
        finally:
            server.terminate()


def _answers(url: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        if server.poll() is not None:
            raise SystemExit(f"{url}: {server.args!r} ended at once")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{url} did not get ready")
