"""What a span must hold to be counted: every reason for which one is refused is one of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REFUSALS: Mapping[str, str] = {
    "ids": "without a trace id of 16 bytes or a span id of 8, or with a parent's id of another length",
    "clock": "began before 2020 or after 2099, or lasted for more than a week",
    "order": "ended before it began",
    "times": "a time that is negative or no number, or longer than the whole request",
    "tokens": "a negative number of tokens, or more than ten million",
    "attributes": "an attribute of another type than it is known by, or a name longer than 256 characters",
}
"""Reasons, and what each says of a span."""

EARLIEST, LATEST = 1_577_836_800 * 10**9, 4_102_444_800 * 10**9
"""2020-01-01 and 2100-01-01 in nanoseconds since 1970: a clock that was never set stands in 1970."""

LONGEST_SECONDS = 7 * 86_400.0
MOST_TOKENS = 10_000_000

SLACK_SECONDS, SLACK_SHARE = 0.05, 0.02
"""How much longer a part may be than the whole: the two are read from different clocks (steady and wall), which are slewed."""

_BELOW_ZERO = -0.001
"""A difference of two wall-clock readings may be as little below 0 as they are slewed in between; that is 0."""

_PARTS = ("ttft", "queue", "prefill", "decode")
_TOKENS = ("prompt_tokens", "output_tokens")


def refusal_of_span(trace: bytes, own: bytes, parent: bytes, start: int, end: int) -> str | None:
    """Why a span cannot be counted, by its ids and its times (nanoseconds); None where it can."""
    if len(trace) != 16 or len(own) != 8 or len(parent) not in (0, 8) or not any(trace) or not any(own):
        return "ids"
    if end < start:
        return "order"
    if not EARLIEST <= start < LATEST or end - start > LONGEST_SECONDS * 1e9:
        return "clock"
    return None


def refusal_of_values(told: Mapping[str, Any], whole: float) -> str | None:
    """Why what a span tells cannot be counted; ``whole``: how long the request took, in seconds."""
    if not _BELOW_ZERO <= whole <= LONGEST_SECONDS:  # so is no number
        return "times"
    most = whole * (1 + SLACK_SHARE) + SLACK_SECONDS
    for name in _PARTS:
        if name in told and not _BELOW_ZERO <= told[name] <= most:
            return "times"
    for name in _TOKENS:
        if not 0 <= told.get(name, 0) <= MOST_TOKENS:
            return "tokens"
    return None


def settled(value: float | None) -> float | None:
    """A time that passed, without what clocks may be below 0."""
    return value if value is None or value > 0 else 0.0
