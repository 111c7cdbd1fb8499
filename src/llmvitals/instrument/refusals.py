"""Why a gateway gives a call up: errors that carry the answer for its client."""

from __future__ import annotations

import json
import math

Headers = list[tuple[bytes, bytes]]


class Refused(Exception):  # noqa: N818 - gateways speak of refusals, not of errors
    """A call that is not sent on. ``status``: for the client; ``reason``: one word; ``retry_after``: seconds, None: not said."""

    status = 503
    reason = "refused"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        self.message = message
        self.retry_after = retry_after
        super().__init__(message)

    def answer(self) -> tuple[int, Headers, bytes]:
        """Status, headers and body, in the form in which OpenAI's API tells errors."""
        told = {"message": self.message, "type": "refused", "param": None, "code": self.reason}
        body = json.dumps({"error": told}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if self.retry_after is not None:
            headers.append((b"retry-after", str(max(1, math.ceil(self.retry_after))).encode()))
        return self.status, headers, body


class Full(Refused):
    """No room: the queue holds as many as may wait, or the call's tokens do not fit into what is left (reason ``tokens``)."""

    reason = "full"

    def __init__(self, message: str, *, reason: str = "full", retry_after: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.reason = reason


class Expired(Refused):
    """The call waited for as long as it may: the queue's time to live, or its own deadline."""

    status = 504
    reason = "ttl"


class Open(Refused):
    """A circuit breaker refuses calls."""

    reason = "breaker"


class Left(Refused):
    """The client went away while its call waited: there is nobody to answer."""

    status = 499  # nginx's number; HTTP has none
    reason = "left"

    def __init__(self, message: str = "the client went away") -> None:
        super().__init__(message)
