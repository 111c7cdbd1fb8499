"""The kit: what a Python gateway puts around its calls so that its page speaks docs/gateway-contract.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from llmvitals.instrument import metrics
from llmvitals.instrument.body import Asked
from llmvitals.instrument.breaker import Breaker
from llmvitals.instrument.budget import Budget
from llmvitals.instrument.call import Call, State
from llmvitals.instrument.counts import FAILED, Counts
from llmvitals.instrument.queue import Concurrency, Queue
from llmvitals.instrument.refusals import Full
from llmvitals.instrument.repeats import Repeats
from llmvitals.instrument.retries import Failures
from llmvitals.instrument.sessions import Fresh, Sessions, hashed
from llmvitals.instrument.spans import Spans
from llmvitals.instrument.store import NONE, Labels, Store
from llmvitals.instrument.tenants import OTHER, TopTenants
from llmvitals.instrument.upstream import Upstream
from llmvitals.settings import Slo
from llmvitals.slo import promises

if TYPE_CHECKING:
    import httpx
    from opentelemetry.sdk.metrics.view import View

    from llmvitals.instrument.page import Page

_current: ContextVar[Call | None] = ContextVar("llmvitals_call", default=None)
Point = tuple[Labels, float]


def entered(call: Call) -> Token[Call | None]:
    """This task serves a call from now on."""
    return _current.set(call)


def left(token: Token[Call | None]) -> None:
    """This task does not serve it any more."""
    _current.reset(token)


class Gateway:
    """One gateway process.

    ``name``: the label ``gateway``. ``token_limit``: tokens that may be set aside at once, and ``open_tokens`` what a call without
    ``max_tokens`` is taken to generate. ``tenants``: how many have a series of their own; ``weights``: their shares, where they
    differ. ``slo``: promises whose thresholds become edges of histograms. ``planned_calls``: model calls that a user's request is
    meant to make. ``connections``: asked for those open at the server, ``connection_limit``: how many may be.
    ``watch_prompts``: count repeats and shared prefixes (hashes only). ``retry_seconds``: how long a failure is remembered.
    ``upstreams``: how many have series of their own. ``meter_provider``: have everything measured there as well (its views:
    :meth:`views`); ``tracer_provider``: where spans go, by default the global one.
    """

    def __init__(
        self,
        name: str,
        *,
        token_limit: int | None = None,
        open_tokens: int = 4096,
        tenants: int = 100,
        weights: Mapping[str, float] | None = None,
        slo: Slo | None = None,
        planned_calls: float | None = None,
        connections: Callable[[], int] | None = None,
        connection_limit: int | None = None,
        watch_prompts: bool = True,
        retry_seconds: float = 300.0,
        upstreams: int = 100,
        meter_provider: MeterProvider | None = None,
        tracer_provider: TracerProvider | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.edges = metrics.edges(
            [threshold for promise in promises(slo or Slo()) for threshold in promise.thresholds]
        )
        self.store = Store(self.edges)
        self.tenants = TopTenants(tenants, clock)
        self.counts = Counts(self.store, self.tenants, prompts=watch_prompts)
        self.budget = Budget(token_limit, open_tokens)
        self.failures = Failures(clock, retry_seconds)
        self.sessions = Sessions(clock)
        self.repeats = Repeats() if watch_prompts else None
        self.user_requests = Fresh()
        self.spans = Spans(tracer_provider)
        self.live: set[Call] = set()
        self.planned_calls = planned_calls
        self.tenanted = self.sessioned = False
        self._most_upstreams = upstreams
        self._queues: dict[str, Queue] = {}
        self._breakers: dict[str, Breaker] = {}
        self._upstreams: dict[str, Upstream] = {}
        self._page: Page | None = None
        self._show_amounts(weights or {}, connections, connection_limit)
        if meter_provider is not None:
            meter = meter_provider.get_meter(metrics.SCOPE)
            metrics.observe(self.store, meter, name, metrics.SHOWN)
            metrics.record(self.store, meter, name)

    # -- what a gateway puts around its calls --------------------------------------------------------------------------
    def current(self) -> Call | None:
        """The call that this task serves; None outside of one."""
        return _current.get()

    def queue(
        self,
        name: str = "",
        *,
        limit: int | None = None,
        ttl: float | None = None,
        concurrency: Concurrency = None,
    ) -> Queue:
        """The gateway's queue; of one name there is one, made as it is first asked for. See :class:`Queue`."""
        with self.store.lock:
            found = self._queues.get(name)
            if found is None:
                found = Queue(self.counts, self.current, limit=limit, ttl=ttl, concurrency=concurrency)
                self._queues[name] = found
                self.counts.begin(tenanted=self.tenanted, queued=True)
        return found

    def breaker(self, upstream: str = "", *, state: Callable[[], bool] | None = None) -> Breaker:
        """The circuit breaker of an upstream, or the only one; ``state`` asks one that the gateway has, true while it refuses."""
        with self.store.lock:
            return self._breakers.setdefault(upstream, Breaker(upstream, state=state))

    def upstream(self, name: str) -> Upstream:
        """What counts for one upstream; beyond those that may have series of their own, for all others together."""
        with self.store.lock:
            if name not in self._upstreams and len(self._upstreams) >= self._most_upstreams:
                name = OTHER
            if name not in self._upstreams:
                self._upstreams[name] = Upstream(name, self.store, self.current, self.sent)
                self.store.claim("llm_gateway_overhead_seconds")
            return self._upstreams[name]

    def transport(self, upstream: str, inner: httpx.AsyncBaseTransport) -> httpx.AsyncBaseTransport:
        """An httpx transport that counts for ``upstream`` what passes through ``inner``."""
        from llmvitals.instrument.client import Transport  # noqa: PLC0415 - httpx is needed by this alone

        return Transport(self, upstream, inner)

    def sent(self, call: Call | None = None) -> None:
        """A call (the current one) is sent on now; its tokens are set aside if that was not asked for before."""
        call = call or self.current()
        if call is None:
            return
        with self.store.lock:
            call.sent()
            if self.budget.limit is not None and not call.reserved:
                self.budget.book(call, self.counts.prompt_tokens(call))

    def reserve(self, call: Call | None = None) -> None:
        """Set the tokens of a call (the current one) aside until it ends. Raises :class:`Full` when they do not fit."""
        call = call or self.current()
        if call is not None:
            with self.store.lock:
                try:
                    self.budget.reserve(call, self.counts.prompt_tokens(call))
                except Full as full:
                    call.refused = full.reason
                    raise

    @property
    def tokens_left(self) -> int | None:
        """Tokens that may still be set aside; None without a limit."""
        limit = self.budget.limit
        return None if limit is None else max(0, limit - self.budget.reserved)

    def retried(self, *, by_gateway: bool = True) -> None:
        """The current call is tried again: by the gateway itself, or by its client where the gateway can tell."""
        self.counts.retried(self.current(), by_gateway=by_gateway)

    def cached(self) -> None:
        """The current call is answered from the response cache."""
        call = self.current()
        if call is not None:
            call.cached = True
        self.store.add("llm_gateway_cache_hits_total")

    # -- what the middleware tells -------------------------------------------------------------------------------------
    def begin(self, *, tenanted: bool, sessioned: bool, users: bool) -> None:
        """What is known of calls from now on: whose they are, which sessions and requests of users they belong to."""
        with self.store.lock:
            self.tenanted, self.sessioned = self.tenanted or tenanted, self.sessioned or sessioned
            self.counts.begin(tenanted=self.tenanted, queued=bool(self._queues))
            if users:
                self.store.claim("llm_gateway_user_requests_total")

    def came(self, call: Call, headers: Mapping[bytes, bytes], user_request: str) -> bool:
        """A call came in; gives whether its headers say that it is made again."""
        with self.store.lock:
            self.live.add(call)
            self.counts.came(call)
            if call.session:
                self.sessions.called(call.tenant, call.session)
            if user_request and self.user_requests.first(hashed(user_request)):
                self.store.add("llm_gateway_user_requests_total")
            again = self.failures.told(call.tenant, headers)
            if again:
                self.counts.retried(call, by_gateway=False)
        return again

    def asked(self, call: Call, asked: Asked | None, *, again: bool) -> None:
        """A call's body has been read; ``asked`` None where it could not be understood."""
        with self.store.lock:
            if self.failures.repeats(call.body) and not again:
                self.counts.retried(call, by_gateway=False)
            if asked is None:
                self.counts.unread += 1
                return
            call.model, call.stream, call.max_tokens = asked.model, asked.stream, asked.max_tokens
            call.choices, call.sequences, call.prompt_chars = asked.choices, asked.sequences, asked.chars
            if call.session:
                for call_id, spelled in asked.tool_calls:
                    self.sessions.used_tool(call.tenant, call.session, call_id, spelled)
            if self.repeats is not None:
                repeated, call.shared = self.repeats.asked(asked.model, asked.texts)
                if repeated:
                    self.store.add("llm_gateway_exact_repeats_total")

    def ended(self, call: Call, seconds: float) -> None:
        """A call has ended, so many seconds after it came."""
        with self.store.lock:
            self.live.discard(call)
            call.state = State.ENDED
            self.budget.release(call)
            status = call.status or 500
            if call.body and (status in FAILED or status >= 500 or call.cut):
                self.failures.failed(call.body)
            self.counts.ended(call, seconds)

    # -- what comes out of it ------------------------------------------------------------------------------------------
    @property
    def page(self) -> Page:
        """The metrics page (an ASGI application); needs the extra ``gateway``."""
        with self.store.lock:
            if self._page is None:
                from llmvitals.instrument.page import Page  # noqa: PLC0415 - a gateway that only pushes needs no page

                self._page = Page(self.store, self.name)
        return self._page

    def metrics_app(self) -> Page:
        """An ASGI application that answers every request with the metrics page: mount it at ``/metrics``."""
        return self.page

    def views(self) -> tuple[View, ...]:
        """Views with the kit's edges, for the MeterProvider that is given as ``meter_provider``."""
        return metrics.views(self.edges)

    # -- amounts, asked for as a page is read --------------------------------------------------------------------------
    def _show_amounts(
        self, weights: Mapping[str, float], connections: Callable[[], int] | None, connection_limit: int | None
    ) -> None:
        shown: dict[str, Callable[[], Iterator[Point]]] = {
            "llm_gateway_calls_running": self._running,
            "llm_gateway_queue_waiting": self._waiting,
            "llm_gateway_queue_limit": self._limit,
            "llm_gateway_concurrency_limit": self._concurrency,
            "llm_gateway_breaker_open": self._open,
            "llm_gateway_upstream_up": self._up,
            "llm_gateway_tenant_sequences": self._sequences,
            "llm_gateway_reserved_tokens": self._reserved,
            "llm_gateway_session_calls_peak": lambda: self._session(lambda: float(self.sessions.calls.peak())),
            "llm_gateway_session_calls_median": lambda: self._session(self.sessions.calls.median),
            "llm_gateway_session_repeats_peak": lambda: self._session(lambda: float(self.sessions.repeats())),
            "llm_gateway_planned_calls": lambda: _one(self.planned_calls),
            "llm_gateway_token_limit": lambda: _one(self.budget.limit),
            "llm_gateway_connections": lambda: _one(None if connections is None else connections()),
            "llm_gateway_connection_limit": lambda: _one(connection_limit),
            "llm_gateway_tenant_weight": lambda: self._weights(weights),
            "llm_family_gap": self.counts.gaps,
        }
        for family, points in shown.items():
            self.store.gauge(family, points)

    def _calls(self) -> list[Call]:
        with self.store.lock:
            return list(self.live)

    def _running(self) -> Iterator[Point]:
        on_its_way = (State.SENT,) if self._upstreams else (State.SENT, State.CAME)
        yield NONE, float(sum(call.state in on_its_way for call in self._calls()))

    def _waiting(self) -> Iterator[Point]:
        if self._queues:
            yield NONE, float(sum(queue.waiting for queue in self._queues.values()))

    def _limit(self) -> Iterator[Point]:
        limits = [queue.limit for queue in self._queues.values() if queue.limit is not None]
        if limits and len(limits) == len(self._queues):
            yield NONE, float(sum(limits))

    def _concurrency(self) -> Iterator[Point]:
        limits = [most for queue in self._queues.values() if (most := queue.most) is not None]
        if limits and len(limits) == len(self._queues):
            yield NONE, float(sum(limits))

    def _open(self) -> Iterator[Point]:
        for upstream, breaker in list(self._breakers.items()):
            yield ((("upstream", upstream),) if upstream else NONE), float(breaker.is_open)

    def _up(self) -> Iterator[Point]:
        for name, upstream in list(self._upstreams.items()):
            if (up := upstream.is_up) is not None:
                yield (("upstream", name),), float(up)

    def _sequences(self) -> Iterator[Point]:
        if self.tenanted:
            yield from self._by_tenant(lambda call: call.sequences).items()

    def _reserved(self) -> Iterator[Point]:
        if self.budget.limit is not None:
            yield from self._by_tenant(lambda call: call.reserved).items()

    def _by_tenant(self, amount: Callable[[Call], int]) -> dict[Labels, float]:
        """Amounts of calls in hand by tenant; 0 for those that have series and no call."""
        with self.store.lock:
            names = self.tenants.shown() if self.tenanted else ()
            found: dict[Labels, float] = {(("tenant", name),): 0.0 for name in names} or {NONE: 0.0}
            for call in self.live:
                whose = self.counts.whose(call)
                found[whose] = found.get(whose, 0.0) + amount(call)
        return found

    def _weights(self, weights: Mapping[str, float]) -> Iterator[Point]:
        for tenant in sorted(self.tenants.shown() & weights.keys()):
            yield (("tenant", tenant),), float(weights[tenant])

    def _session(self, number: Callable[[], float]) -> Iterator[Point]:
        if self.sessioned:
            with self.store.lock:
                value = number()
            yield NONE, value


def _one(value: float | None) -> Iterator[Point]:
    if value is not None:
        yield NONE, float(value)
