"""What one run of a load test says, whichever tool wrote it: requests one by one, or their percentiles.

Times are seconds. A time that a file does not settle is a :data:`Span`, its lowest and highest possible value; one that is known
exactly has both ends equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmvitals.errors import LlmvitalsError

Span = tuple[float, float]
UNKNOWN: Span = (0.0, math.inf)


class LoadTestError(LlmvitalsError):
    """A file holds no result of a load test that can be read."""


def exactly(seconds: float | None) -> Span:
    """The span of a time that is known; of one that is not, everything."""
    return UNKNOWN if seconds is None else (seconds, seconds)


@dataclass(frozen=True, slots=True)
class Note:
    """A remark in words that a page can translate: ``text`` with ``{names}`` for ``values``."""

    text: str
    values: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text.format(**self.values)


@dataclass(frozen=True, slots=True)
class Request:
    """One request that ended. ``tpot``: per output token after the first, (0, 0) where there was no second token."""

    ttft: Span
    tpot: Span
    failed: bool = False
    latency: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Percentiles:
    """What a file keeps of a measure over the successful requests: (share at or below, seconds), rising in both.

    ``low`` and ``high``: the extremes, where they are known.
    """

    points: tuple[tuple[float, float], ...] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One load at one level.

    ``place``: the file. ``concurrency``: requests that the tool kept in flight, ``rate``: requests per second that it sent; None
    where it set no limit. ``in_flight``: requests in flight on average (Little's law on what was measured). ``requests``:
    everyone that ended, or None where the file keeps percentiles only. ``server``: settings of the server that the file names.
    ``mean_tpot``, ``prompt_tokens``, ``output_tokens``: mean over the successful requests, seconds and tokens per request.
    ``latency_cv``: spread of whole answers' times over their mean.
    """

    tool: str
    place: str
    duration: float
    succeeded: int
    failed: int
    concurrency: float | None = None
    rate: float | None = None
    in_flight: float | None = None
    requests: tuple[Request, ...] | None = None
    ttft: Percentiles = Percentiles()
    tpot: Percentiles = Percentiles()
    mean_tpot: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    latency_cv: float | None = None
    model: str = ""
    version: str = ""
    server: tuple[tuple[str, float], ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def ended(self) -> int:
        """Requests that ended, well or not."""
        return self.succeeded + self.failed

    @property
    def level(self) -> float | None:
        """How many requests were in flight: what the tool kept up, else what was measured on average."""
        if self.rate is None and self.concurrency is not None:
            return self.concurrency
        return self.in_flight
