"""The kit: what a Python gateway puts around its calls so that its page speaks docs/gateway-contract.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from llmvitals.errors import MissingExtraError, install
from llmvitals.instrument import call as calling
from llmvitals.instrument import metrics
from llmvitals.instrument.amounts import Amounts
from llmvitals.instrument.breaker import Breaker
from llmvitals.instrument.budget import Budget
from llmvitals.instrument.caches import SemanticCache, SmallModel
from llmvitals.instrument.call import Call
from llmvitals.instrument.calls import Calls
from llmvitals.instrument.counts import Counts
from llmvitals.instrument.queue import Concurrency, Queue
from llmvitals.instrument.retries import Failures
from llmvitals.instrument.spans import Spans
from llmvitals.instrument.store import Store
from llmvitals.instrument.tenants import OTHER, TopTenants
from llmvitals.instrument.upstream import Upstream
from llmvitals.settings import Slo
from llmvitals.slo import promises

if TYPE_CHECKING:
    import httpx
    from opentelemetry.sdk.metrics.view import View

    from llmvitals.instrument.page import Page


class Gateway:
    """One gateway process.

    ``name``: the label ``gateway``. ``token_limit``: tokens that may be set aside at once, and ``open_tokens`` what a call without
    ``max_tokens`` is taken to generate. ``tenants``: how many have a series of their own; ``weights``: their shares, where they
    differ. ``slo``: promises whose thresholds become edges of histograms. ``planned_calls``: model calls that a user's request is
    meant to make. ``connections``: asked for those open at the server, ``connection_limit``: how many may be.
    ``watch_prompts``: count repeats and shared prefixes (hashes only). ``retry_seconds``: how long a failure is remembered.
    ``upstreams``: how many have series of their own. ``meter_provider``: have everything measured there as well (its views:
    :meth:`views`); ``tracer_provider``: where spans go, by default the global one. ``clock``: seconds, for tenants and memories.
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
        self.edges = metrics.edges(pair for promise in promises(slo or Slo()) for pair in promise.thresholds)
        self.store = Store(self.edges)
        named = TopTenants(tenants, clock)
        self.calls = Calls(
            self.store,
            Counts(self.store, named, prompts=watch_prompts),
            Budget(token_limit, open_tokens),
            prompts=watch_prompts,
            failures=Failures(clock, retry_seconds),
            clock=clock,
        )
        self.spans = Spans(tracer_provider)
        self._has = Amounts(self.calls, named, weights or {}, connections, connection_limit, planned_calls)
        self._has.show()
        self._most_upstreams = upstreams
        self._page: Page | None = None
        if meter_provider is not None:
            meter = meter_provider.get_meter(metrics.SCOPE)
            metrics.observe(self.store, meter, name, metrics.SHOWN)
            metrics.record(self.store, meter, name)

    # -- what a gateway puts around its calls --------------------------------------------------------------------------
    def current(self) -> Call | None:
        """The call that this task serves; None outside of one."""
        return calling.current()

    def queue(
        self,
        name: str = "",
        *,
        limit: int | None = None,
        ttl: float | None = None,
        concurrency: Concurrency = None,
    ) -> Queue:
        """The gateway's queue; of one name there is one, as it is first asked for. See :class:`Queue`."""
        with self.store.lock:
            found = self._has.queues.get(name)
            if found is None:
                found = Queue(self.calls.counts, self.current, limit=limit, ttl=ttl, concurrency=concurrency)
                self._has.queues[name] = found
                self.calls.begin(queued=True)
        return found

    def breaker(self, upstream: str = "", *, state: Callable[[], bool] | None = None) -> Breaker:
        """The circuit breaker of an upstream, or the only one; ``state`` asks one that the gateway has, true while it refuses."""
        with self.store.lock:
            return self._has.breakers.setdefault(upstream, Breaker(upstream, state=state))

    def upstream(self, name: str) -> Upstream:
        """What counts for one upstream; beyond those that may have series of their own, for all others together."""
        with self.store.lock:
            known = self._has.upstreams
            if name not in known and len(known) >= self._most_upstreams:
                name = OTHER
            if name not in known:
                known[name] = Upstream(name, self.store, self.current, self.calls.sent)
                self.store.claim("llm_gateway_overhead_seconds")
            return known[name]

    def transport(self, upstream: str, inner: httpx.AsyncBaseTransport) -> httpx.AsyncBaseTransport:
        """An httpx transport that counts for ``upstream`` what passes through ``inner``."""
        with _extra("a transport"):
            from llmvitals.instrument.client import Transport  # noqa: PLC0415 - httpx is needed by this alone
        return Transport(self.current, self.upstream(upstream), inner)

    def sent(self) -> None:
        """The current call is sent on now; its tokens are set aside if that was not asked for before."""
        call = self.current()
        if call is not None:
            self.calls.sent(call)

    def reserve(self, call: Call | None = None) -> None:
        """Set the tokens of a call (the current one) aside until it ends. Raises :class:`Full` when they do not fit."""
        call = call or self.current()
        if call is not None:
            self.calls.reserve(call)

    @property
    def tokens_left(self) -> int | None:
        """Tokens that may still be set aside; None without a limit."""
        budget = self.calls.budget
        return None if budget.limit is None else max(0, budget.limit - budget.reserved)

    def retried(self, *, by_gateway: bool = True) -> None:
        """The current call is tried again: by the gateway itself, or by its client where the gateway can tell."""
        self.calls.counts.retried(self.current(), by_gateway=by_gateway)

    def planned(self, calls: float) -> None:
        """Model calls that a user's request is meant to make from now on."""
        self._has.planned_calls = calls

    def cached(self) -> None:
        """The current call is answered from the response cache."""
        call = self.current()
        if call is not None:
            call.cached = True
        self.store.add("llm_gateway_cache_hits_total")

    def semantic_cache(self, *, checked: bool = False) -> SemanticCache:
        """What counts for a semantic cache; ``checked``: some of its answers are held against the model's own."""
        return SemanticCache(self.store, checked=checked)

    def small_model(self) -> SmallModel:
        """What counts calls that are sent to the small one of two models."""
        return SmallModel(self.store)

    # -- what comes out of it ------------------------------------------------------------------------------------------
    @property
    def page(self) -> Page:
        """The metrics page, an ASGI application; needs the extra ``gateway``."""
        with self.store.lock:
            if self._page is None:
                with _extra("the metrics page"):
                    from llmvitals.instrument.page import Page  # noqa: PLC0415 - a gateway that only pushes needs none
                self._page = Page(self.store, self.name)
        return self._page

    def metrics_app(self) -> Page:
        """An ASGI application that answers every request with the metrics page: mount it at ``/metrics``."""
        return self.page

    def views(self) -> tuple[View, ...]:
        """Views with the kit's edges, for the MeterProvider that is given as ``meter_provider``."""
        return metrics.views(self.edges)


@contextmanager
def _extra(what: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        place = "llmvitals.instrument"
        raise MissingExtraError(f"{what} needs {missing.name}", place=place, remedy=install("gateway")) from None
