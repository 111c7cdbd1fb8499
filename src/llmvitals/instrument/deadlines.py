"""When a call's client stops waiting, as its headers tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from starlette.types import Scope

_GRPC_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


def _grpc(value: bytes) -> float:
    return int(value[:-1]) * _GRPC_UNITS[value[-1:]]


HEADERS: Mapping[bytes, Callable[[bytes], float]] = {
    b"x-request-deadline": lambda value: float(value) - time.time(),
    b"x-request-timeout-ms": lambda value: float(value) / 1000,
    b"x-envoy-expected-rq-timeout-ms": lambda value: float(value) / 1000,
    b"grpc-timeout": _grpc,
}
"""Headers and how they are read: an absolute one (unix seconds), time limits in milliseconds (ours, and the one that Envoy
sends on), and gRPC's form (``2S``, ``500m``). The first that can be read counts."""

LONGEST = 86_400.0
"""Seconds; a time limit beyond that is none."""


def seconds_left(scope: Scope) -> float | None:
    """Seconds until the client stops waiting; None where it does not say. Values that cannot be read are as none."""
    given = dict(scope["headers"])
    for name, read in HEADERS.items():
        if name in given:
            try:
                seconds = read(given[name].strip())
            except (ValueError, KeyError):
                continue
            if seconds < LONGEST:  # no NaN either
                return seconds
    return None
