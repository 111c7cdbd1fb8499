"""Telemetry that lies or is missing: what happens between a healthy server and whoever reads its page."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

Page = tuple[float, int, bytes]
"""Seconds that the answer took, HTTP status (0: none came), body."""


Change = Callable[[Page, float, random.Random], Page]


@dataclass(frozen=True, slots=True)
class Spoil:
    """From ``start`` on (seconds of simulated time) each page goes through ``change``."""

    start: float
    change: Change


def failing(share: float) -> Change:
    """So many scrapes time out, spread evenly."""
    due = [0.0]

    def change(page: Page, t: float, rng: random.Random) -> Page:
        due[0] += share
        if due[0] < 1.0:
            return page
        due[0] -= 1.0
        return (5.0, 0, b"")

    return change


def without(*names: bytes) -> Change:
    """The page lacks these families, as behind a filter that somebody set up."""
    pattern = re.compile(rb"(?m)^(?:# (?:HELP|TYPE) )?(?:" + b"|".join(map(re.escape, names)) + rb")[^\n]*\n")

    def change(page: Page, t: float, rng: random.Random) -> Page:
        took, status, body = page
        return took, status, pattern.sub(b"", body)

    return change


def two_processes(shift: float) -> Change:
    """Two servers answer behind one address: the other one started ``shift`` seconds later and has done a third as much."""
    sample = re.compile(
        rb"(?m)^((?:vllm:|http_|process_cpu)[^ \n]*(?:_total|_count|_sum|_bucket)(?:\{[^\n]*?\})?) ([0-9.e+]+)$"
    )
    start = re.compile(rb"(?m)^(process_start_time_seconds) ([0-9.e+]+)$")

    def change(page: Page, t: float, rng: random.Random) -> Page:
        took, status, body = page
        if rng.random() < 0.5:
            return page
        body = sample.sub(lambda m: m[1] + b" " + repr(float(float(m[2]) // 3)).encode(), body)
        return took, status, start.sub(lambda m: m[1] + b" " + repr(float(m[2]) + shift).encode(), body)

    return change
