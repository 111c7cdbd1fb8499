"""Structured logging: one line of ``key=value`` pairs per event, on stderr, through the standard library's logging."""

from __future__ import annotations

import json
import logging
import sys
import time

LOGGER = logging.getLogger("llmvitals.exporter")

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@%+,[]")


def pair(key: str, value: object) -> str:
    """``key=value``, the value quoted as a JSON string where it holds anything but plain characters."""
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return f"{key}={text if text and _PLAIN.issuperset(text) else json.dumps(text)}"


def log(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log one event with its fields; empty fields are left out."""
    if LOGGER.isEnabledFor(level):
        pairs = [pair("event", event), *(pair(k, v) for k, v in fields.items() if v not in ("", None))]
        LOGGER.log(level, " ".join(pairs))


class LineFormatter(logging.Formatter):
    """``ts=... level=... event=...``; what other libraries log becomes ``msg="..."``, a traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the record holds."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        message = record.getMessage()
        parts = [f"ts={moment}.{int(record.msecs):03d}Z", pair("level", record.levelname.lower())]
        ours = record.name == LOGGER.name and message.startswith("event=")
        parts.append(message if ours else pair("msg", message))
        if record.exc_info:
            parts.append(pair("error", self.formatException(record.exc_info)))
        return " ".join(parts)


def to_stderr(level: int = logging.INFO) -> None:
    """Send our events and the warnings of all libraries to stderr, for a process that serves and does nothing else."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("llmvitals").setLevel(level)
    # It warns whenever more connections to one host were open than it keeps, which is no trouble.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    # What it says of each export that failed is told once, by exporters/otlp.
    logging.getLogger("opentelemetry.exporter.otlp").propagate = False
