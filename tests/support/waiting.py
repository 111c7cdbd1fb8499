"""Ports that are free, and waits for what other threads and processes do."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

START_SECONDS = 60.0
POLL_SECONDS = 0.02
T = TypeVar("T")


def free_port() -> int:
    """A TCP port that was free on loopback a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(probe: Callable[[], T], what: str = "what the test waits for", seconds: float = START_SECONDS) -> T:
    """The first true value of ``probe``; fails naming ``what`` where there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not happen within {seconds:g} s")
        time.sleep(POLL_SECONDS)
