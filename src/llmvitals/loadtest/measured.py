"""From requests one by one to what a run says of all of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import TypedDict

from llmvitals.loadtest.model import Request


class Summary(TypedDict):
    """The fields of a run that follow from its requests."""

    succeeded: int
    failed: int
    in_flight: float | None
    mean_tpot: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    latency_cv: float | None
    requests: tuple[Request, ...]


def summary(requests: Sequence[Request], duration: float) -> Summary:
    """What is said of a run whose requests are known (``duration`` in seconds)."""
    good = [one for one in requests if not one.failed]
    latencies = [one.latency for one in good if one.latency is not None]
    tpots = [one.tpot[0] for one in good if one.tpot[0] == one.tpot[1] > 0]
    whole = len(latencies) == len(requests)
    return Summary(
        succeeded=len(good),
        failed=len(requests) - len(good),
        in_flight=sum(latencies) / duration if whole and duration > 0 else None,
        mean_tpot=_mean(tpots),
        prompt_tokens=_mean(one.prompt_tokens for one in good),
        output_tokens=_mean(one.output_tokens for one in good),
        latency_cv=spread(latencies),
        requests=tuple(requests),
    )


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation over the mean; None for fewer than two values."""
    mean = statistics.fmean(values) if len(values) > 1 else 0.0
    return statistics.stdev(values) / mean if mean > 0 else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def busiest(spans: Sequence[tuple[float, float]]) -> int:
    """The most requests that were in flight at once, by their (start, end)."""
    steps = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    now = most = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most
