"""Gauges of an engine that does not write them after each step. SGLang's scheduler reports now and then.

At each prefill, before its requests count as running; after every 40 steps (``--decode-log-interval``); and when
nothing runs or waits, 30 s after the last report. In between the page shows what was. TensorRT-LLM writes what a step was
made of when it has ended, and nothing after the last one.
"""

from __future__ import annotations

import math
from typing import Generic, TypeVar

T = TypeVar("T")

DECODE_STEPS = 40
IDLE_SECONDS = 30.0


class Reports(Generic[T]):
    """``at``: the moment of the last report; ``hits``: the prefix cache's hit ratio in it, 0 after a decode step."""

    __slots__ = ("_decodes", "_last", "at", "hits")

    def __init__(self, first: T) -> None:
        self.at = -math.inf
        self.hits = 0.0
        self._last = first
        self._decodes = 0

    def prefill(self, moment: float, gauges: T, hits: float) -> None:
        """A batch of prompts is about to be computed."""
        self.at, self._last, self.hits = moment, gauges, hits

    def decode(self, moment: float, gauges: T, steps: int) -> None:
        """A decode step has ended, the ``steps``-th of all."""
        if steps // DECODE_STEPS != self._decodes:
            self.at, self._last, self.hits = moment, gauges, 0.0
            self._decodes = steps // DECODE_STEPS

    def step(self, moment: float, gauges: T) -> None:
        """A step has ended that began with ``gauges``."""
        self.at, self._last = moment, gauges

    @property
    def last(self) -> T:
        """What was reported last."""
        return self._last

    def shown(self, moment: float, gauges: T, *, idle: bool) -> T:
        """What the page shows at a moment at which ``gauges`` are true."""
        return gauges if idle and moment - self.at >= IDLE_SECONDS else self._last
