"""What capacity needs of an engine that runs: its pool, its contexts and its traffic, from the signals of one scope."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SIGNALS: tuple[str, ...] = (
    "kv_capacity_tokens",
    "full_context_tokens",
    "mean_context_tokens",
    "completion_rate",
    "arrival_rate",
    "prompt_mean_tokens",
    "generation_mean_tokens",
    "prefix_hit_ratio",
    "running_max",
    "requests_waiting",
    "preemptions_per_minute",
    "ttft_p95_seconds",
)
"""By their ids in the catalogue of signals."""

CONTEXTS = ("full_context_tokens", "mean_context_tokens")
"""Seats are counted at full length, as the triage does; the mean stands in where that is not known."""

NEWEST_SECONDS = 60.0
"""Values older than this, by the newest of all, are no longer now."""


@dataclass(frozen=True, slots=True)
class Now:
    """One scope as it runs. Tokens, requests per second, shares (0-1), seconds; None where the page does not tell.

    ``context``: tokens that a request holds, at full length where ``at_full_length``.
    """

    instance: str = ""
    model: str = ""
    kv_capacity: float | None = None
    context: float | None = None
    at_full_length: bool = False
    service_rate: float | None = None
    arrival_rate: float | None = None
    prompt: float | None = None
    output: float | None = None
    cached: float | None = None
    running_max: float | None = None
    waiting: float | None = None
    preemptions: float | None = None
    ttft_p95: float | None = None

    @property
    def rate(self) -> float | None:
        """Requests per second that come in, or that get done where only that is known."""
        return self.arrival_rate if self.arrival_rate is not None else self.service_rate

    @property
    def plays(self) -> bool:
        """Whether its traffic is known well enough to be played."""
        return None not in (self.rate, self.prompt, self.output)


def now_of(values: Mapping[str, float | None], *, instance: str = "", model: str = "") -> Now:
    """From signals by id. What is no finite positive number where one is needed counts as not told."""
    known = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
    some = {name: value for name, value in known.items() if value > 0}
    context = next((some[name] for name in CONTEXTS if name in some), None)
    return Now(
        instance=instance,
        model=model,
        kv_capacity=some.get("kv_capacity_tokens"),
        context=context,
        at_full_length=CONTEXTS[0] in some,
        service_rate=some.get("completion_rate"),
        arrival_rate=some.get("arrival_rate"),
        prompt=some.get("prompt_mean_tokens"),
        output=some.get("generation_mean_tokens"),
        cached=known.get("prefix_hit_ratio"),
        running_max=known.get("running_max"),
        waiting=known.get("requests_waiting"),
        preemptions=known.get("preemptions_per_minute"),
        ttft_p95=known.get("ttft_p95_seconds"),
    )


def newest(lines: Mapping[str, Sequence[tuple[float, float | None]]]) -> dict[str, float | None]:
    """The last value of each line of (unix seconds, value), where it is not older than the newest point of all by a minute."""
    end = max((points[-1][0] for points in lines.values() if points), default=0.0)
    found: dict[str, float | None] = {}
    for name, points in lines.items():
        fresh = [value for t, value in points if value is not None and end - t <= NEWEST_SECONDS]
        found[name] = fresh[-1] if fresh else None
    return found
