"""Whether a call repeats one that failed: the same idempotency key, a client that says so, or the same body after a failure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from llmvitals.instrument.sessions import Fresh, hashed

MOST = 10_000
"""Failures that are remembered at most; the oldest are forgotten first."""

SAYS_SO = b"x-stainless-retry-count"
"""The header in which OpenAI's clients tell how often they tried before."""

KEY = b"idempotency-key"


@dataclass(slots=True)
class Failures:
    """Bodies of calls that failed within ``seconds``. One failure explains one repeat. ``clock``: seconds."""

    clock: Callable[[], float]
    seconds: float
    _keys: Fresh = field(default_factory=Fresh)
    _failed: OrderedDict[int, tuple[float, int]] = field(default_factory=OrderedDict)

    def told(self, tenant: str, headers: Mapping[bytes, bytes]) -> bool:
        """Whether the headers say that the call is made again."""
        again = headers.get(SAYS_SO, b"").strip().isdigit() and int(headers[SAYS_SO]) > 0
        key = headers.get(KEY)
        return (key is not None and not self._keys.first(hashed(tenant, key))) or again

    def failed(self, body: int) -> None:
        """A call with this body (hashed) failed."""
        _, n = self._failed.pop(body, (0.0, 0))
        self._failed[body] = (self.clock(), n + 1)
        while len(self._failed) > MOST:
            self._failed.popitem(last=False)

    def repeats(self, body: int) -> bool:
        """Whether a call with this body failed lately and was not repeated since."""
        found = self._failed.pop(body, None)
        if found is None or found[0] < self.clock() - self.seconds:
            return False
        if found[1] > 1:
            self._failed[body] = (found[0], found[1] - 1)
        return True
