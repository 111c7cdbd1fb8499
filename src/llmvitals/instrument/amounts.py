"""Amounts of the moment (gauges), asked for as a page is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from llmvitals.instrument.breaker import Breaker
from llmvitals.instrument.call import Call, State
from llmvitals.instrument.calls import Calls
from llmvitals.instrument.queue import Queue
from llmvitals.instrument.store import NONE, Labels, Point
from llmvitals.instrument.tenants import TopTenants
from llmvitals.instrument.upstream import Upstream


@dataclass(slots=True)
class Amounts:
    """What a gateway has: its calls, and queues, breakers and upstreams by their names. What it has none of is absent."""

    calls: Calls
    tenants: TopTenants
    weights: Mapping[str, float]
    connections: Callable[[], int] | None
    connection_limit: int | None
    planned_calls: float | None
    queues: dict[str, Queue] = field(default_factory=dict)
    breakers: dict[str, Breaker] = field(default_factory=dict)
    upstreams: dict[str, Upstream] = field(default_factory=dict)

    def show(self) -> None:
        """Have the page ask for them."""
        sessions = self.calls.sessions
        shown: Mapping[str, Callable[[], Iterator[Point]]] = {
            "llm_gateway_calls_running": self._running,
            "llm_gateway_queue_waiting": self._waiting,
            "llm_gateway_queue_limit": lambda: self._bound(lambda queue: queue.limit),
            "llm_gateway_concurrency_limit": lambda: self._bound(lambda queue: queue.most),
            "llm_gateway_breaker_open": self._open,
            "llm_gateway_upstream_up": self._up,
            "llm_gateway_tenant_sequences": self._sequences,
            "llm_gateway_tenant_weight": self._weights,
            "llm_gateway_reserved_tokens": self._reserved,
            "llm_gateway_token_limit": lambda: _one(self.calls.budget.limit),
            "llm_gateway_session_calls_peak": lambda: self._session(sessions.calls.peak),
            "llm_gateway_session_calls_median": lambda: self._session(sessions.calls.median),
            "llm_gateway_session_repeats_peak": lambda: self._session(sessions.repeats),
            "llm_gateway_planned_calls": lambda: _one(self.planned_calls),
            "llm_gateway_connections": lambda: _one(self.connections() if self.connections is not None else None),
            "llm_gateway_connection_limit": lambda: _one(self.connection_limit),
            "llm_family_gap": self.calls.counts.gaps,
        }
        for family, points in shown.items():
            self.calls.store.gauge(family, points)

    def _running(self) -> Iterator[Point]:
        """Where an upstream is told when calls are sent on, those; else all that do not wait."""
        running = (State.SENT,) if self.upstreams else (State.SENT, State.CAME)
        with self.calls.store.lock:
            yield NONE, sum(call.state in running for call in self.calls.live)

    def _waiting(self) -> Iterator[Point]:
        if self.queues:
            yield NONE, sum(queue.waiting for queue in list(self.queues.values()))

    def _bound(self, bound: Callable[[Queue], float | None]) -> Iterator[Point]:
        """The bounds of all queues together; one without any makes all of them unbounded."""
        bounds = [bound(queue) for queue in list(self.queues.values())]
        known = [number for number in bounds if number is not None]
        if known and len(known) == len(bounds):
            yield NONE, sum(known)

    def _open(self) -> Iterator[Point]:
        for upstream, breaker in list(self.breakers.items()):
            yield (("upstream", upstream),) if upstream else NONE, float(breaker.is_open)

    def _up(self) -> Iterator[Point]:
        for name, upstream in list(self.upstreams.items()):
            if (up := upstream.is_up) is not None:
                yield (("upstream", name),), float(up)

    def _sequences(self) -> Iterator[Point]:
        if self.calls.tenanted:
            yield from self._by_tenant(lambda call: call.sequences)

    def _reserved(self) -> Iterator[Point]:
        if self.calls.budget.limit is not None:
            yield from self._by_tenant(lambda call: call.reserved)

    def _by_tenant(self, amount: Callable[[Call], int]) -> list[Point]:
        """Amounts of calls in hand by tenant; 0 for those that have series and no call."""
        with self.calls.store.lock:
            names = sorted(self.tenants.shown()) if self.calls.tenanted else ()
            found: dict[Labels, float] = {(("tenant", name),): 0.0 for name in names} or {NONE: 0.0}
            for call in self.calls.live:
                whose = self.calls.counts.whose(call)
                found[whose] = found.get(whose, 0.0) + amount(call)
        return list(found.items())

    def _weights(self) -> Iterator[Point]:
        with self.calls.store.lock:
            shown = self.tenants.shown()
        for tenant in sorted(shown & self.weights.keys()):
            yield (("tenant", tenant),), self.weights[tenant]

    def _session(self, number: Callable[[], float]) -> Iterator[Point]:
        if self.calls.sessioned:
            with self.calls.store.lock:
                value = number()
            yield NONE, value


def _one(value: float | None) -> Iterator[Point]:
    if value is not None:
        yield NONE, value
