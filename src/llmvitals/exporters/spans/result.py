"""What can become of an export, and what its sender is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from llmvitals.telemetry.spans.sound import REFUSALS

RETRY_SECONDS = 1
"""After so long a sender that was refused for want of room may come again. Senders of OpenTelemetry give up an export after
10 s as a rule; what fills the room is worked off in about as long at 8,000 spans per second, so most of it has gone by then."""


STRANGER = "user or password is wrong, or none was sent"
"""What is said of a sender that the web configuration does not admit."""


GUESSING = "too many passwords of this address, or of all, are being checked"
"""What is said of one whose password is not looked at yet."""


class Result(StrEnum):
    """What became of an export; the value is the label ``result``."""

    OK = "ok"
    PARTIAL = "partial"  # taken in but for spans that could not be used
    MALFORMED = "malformed"
    TOO_LARGE = "too-large"
    UNSUPPORTED = "unsupported"  # another content type, encoding, path or method
    UNAUTHORIZED = "unauthorized"
    BUSY = "busy"  # no room: the sender is told to come again
    INCOMPLETE = "incomplete"  # it never arrived whole: the sender went away or was too slow
    FAILED = "failed"  # our own fault


TAKEN = frozenset({Result.OK, Result.PARTIAL})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sender is told. ``rejected``: spans of it that could not be used."""

    result: Result
    message: str = ""
    rejected: int = 0


def refusals(refused: Iterable[tuple[str, int]]) -> str:
    """Why spans could not be used, for their sender."""
    return ", ".join(f"{count} {REFUSALS.get(reason, reason)}" for reason, count in refused if count)
