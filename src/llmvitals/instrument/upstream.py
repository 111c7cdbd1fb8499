"""What one upstream gave: told by the client wrapper, or by a gateway that has a client of its own."""

from __future__ import annotations

from collections.abc import Callable

from llmvitals.instrument.call import Call
from llmvitals.instrument.counts import status_label
from llmvitals.instrument.store import Store


class Upstream:
    """One engine, or a pool of them, behind the gateway. ``up``: None until its health is told, or what tells it when asked."""

    def __init__(
        self, name: str, store: Store, current: Callable[[], Call | None], sent: Callable[[Call], None]
    ) -> None:
        self.up: bool | Callable[[], bool] | None = None
        self._store = store
        self._current = current
        self._sent = sent
        label = ("upstream", name)
        self._label = (label,)
        store.claim("llm_gateway_connect_errors_total")
        store.claim("llm_gateway_upstream_requests_total", (("status", "200"), label))
        store.claim("llm_gateway_upstream_seconds", self._label)

    def sending(self) -> None:
        """The current call is sent on now."""
        call = self._current()
        if call is not None:
            self._sent(call)

    def answering(self, status: int) -> None:
        """The head of its answer came, tried again or not."""
        self._store.add("llm_gateway_upstream_requests_total", 1, (("status", status_label(status)), *self._label))

    def ended(self, seconds: float) -> None:
        """The last byte of an answer came; ``seconds``: since it was sent."""
        self._took(seconds)
        self._store.observe("llm_gateway_upstream_seconds", seconds, self._label)
        self._store.tell()

    def answered(self, status: int, seconds: float) -> None:
        """It answered whole, for a gateway whose client tells both at once; ``seconds``: from sending to the last byte."""
        self.answering(status)
        self.ended(seconds)

    def given_up(self, seconds: float) -> None:
        """A request ended without a whole answer: its client left, or nothing came; ``seconds``: that it took."""
        self._took(seconds)

    def connect_error(self, seconds: float = 0.0) -> None:
        """A connection to it could not be made; ``seconds``: that the attempt took."""
        self._store.add("llm_gateway_connect_errors_total")
        self._took(seconds)

    def cut(self, reason: str, seconds: float = 0.0) -> None:
        """The current call's answer broke off: ``timeout`` by the gateway's clock, ``upstream`` when it closed or reset it."""
        call = self._current()
        if call is not None:
            call.cut = call.cut or reason
        self._took(seconds)

    @property
    def is_up(self) -> bool | None:
        """Whether calls would be sent there now; None where nobody says."""
        return self.up() if callable(self.up) else self.up

    def _took(self, seconds: float) -> None:
        call = self._current()
        if call is not None:
            call.upstream_seconds = (call.upstream_seconds or 0.0) + seconds
