"""What a scraper asked for, and the bytes that answer it."""

from __future__ import annotations

import math
import zlib
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from llmvitals.exporters.cycle import Cycle
from llmvitals.exporters.page import openmetrics
from llmvitals.exporters.selfmetrics import SelfMetrics

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

SCRAPE_TIMEOUT = "x-prometheus-scrape-timeout-seconds"
OFFSET_SECONDS = 0.5
"""Taken off the scraper's own time limit, for the way back."""

_GZIP_LEVEL = 1  # the page shrinks about tenfold already; higher levels cost more CPU than they save in bytes


def deadline(header: str | None, own: float) -> float:
    """Seconds in which a scrape must be answered: the scraper's limit less an offset, at most our own."""
    try:
        asked = float(header) if header else math.inf
    except ValueError:
        return own
    return own if math.isnan(asked) else max(min(asked - OFFSET_SECONDS, own), 0.0)


def wants_openmetrics(accept: str) -> bool:
    """Whether the scraper names OpenMetrics before plain text (Prometheus 2 does, by preference)."""
    for part in accept.split(","):
        kind = part.split(";")[0].strip().lower()
        if kind in {"application/openmetrics-text", "text/plain"}:
            return kind.startswith("application")
    return False


class Pages:
    """The bytes of the newest cycle in each form, made once per cycle and form; used by the server's thread only."""

    def __init__(self, own: SelfMetrics) -> None:
        self._own = own
        self._serial: int | None = None
        self._bodies: dict[bool, bytes] = {}
        self._packed: dict[bool, Any] = {}

    def parts(self, cycle: Cycle | None, *, openmetrics_form: bool, packed: bool) -> tuple[bytes, bytes]:
        """A whole page: the cycle's families (none before the first), which all share, and what the exporter says of itself."""
        serial = cycle.serial if cycle is not None else None
        if serial != self._serial:
            self._serial, self._bodies, self._packed = serial, {}, {}
        own = (generate_openmetrics if openmetrics_form else generate_latest)(self._own.registry)
        if not packed:
            if openmetrics_form not in self._bodies:
                self._bodies[openmetrics_form] = _body(cycle, openmetrics_form)
            return self._bodies[openmetrics_form], own
        if openmetrics_form not in self._packed:
            # The cycle's part is compressed once; each answer continues a copy of that stream with its own part. The text that
            # it was made of is not kept: who asks for one form asks for it again.
            packer = zlib.compressobj(_GZIP_LEVEL, wbits=31)
            body = self._bodies.get(openmetrics_form) or _body(cycle, openmetrics_form)
            self._packed[openmetrics_form] = (packer.compress(body) + packer.flush(zlib.Z_SYNC_FLUSH), packer)
        head, packer = self._packed[openmetrics_form]
        tail = packer.copy()
        return head, tail.compress(own) + tail.flush()


def _body(cycle: Cycle | None, openmetrics_form: bool) -> bytes:
    return b"" if cycle is None else openmetrics(cycle.blocks) if openmetrics_form else cycle.page
