"""The state of a circuit breaker, told by the gateway or asked from the breaker that it has."""

from __future__ import annotations

from collections.abc import Callable

from llmvitals.instrument.refusals import Open


class Breaker:
    """What refuses calls to one upstream. Half-open counts as open: calls are refused all the same.

    ``state``: asked each time instead of being told (a gateway's own breaker), true while it refuses calls.
    """

    def __init__(self, upstream: str = "", *, state: Callable[[], bool] | None = None) -> None:
        self.upstream = upstream
        self._state = state
        self._open = False

    def opened(self) -> None:
        """It refuses calls from now on."""
        self._open = True

    def closed(self) -> None:
        """Calls pass again."""
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether calls are refused now."""
        return self._open if self._state is None else bool(self._state())

    def check(self, *, retry_after: float | None = None) -> None:
        """Raise :class:`Open` while calls are refused."""
        if self.is_open:
            whose = f" to {self.upstream}" if self.upstream else ""
            raise Open(f"calls{whose} are refused for now: too many failed", retry_after=retry_after)
