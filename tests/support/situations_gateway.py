"""Windows for the causes that only a gateway shows, for what it proves of others, and their look-alikes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from llmvitals.series import Window, series
from support.made import TTFT_EDGES, Server, healthy, run, without
from support.situation import PAGES, Situation
from support.situations_hardware import Beside

TENANTS = ("a", "b", "c")
CALLS = 60  # in an interval of 5 s
Load = Callable[[Server, int], None]


# -- what the engine does meanwhile -----------------------------------------------------------------------------------
def full(server: Server, i: int) -> None:
    """The KV cache holds no more, five wait, first tokens take 6 s."""
    server.serve(10, ttft=6.0, prompt=3000, output=200, queue=5.6, prefill=0.4, max_tokens=500)
    server.gauges(running=5 - i % 2, waiting=5, kv=0.97)


def mixed(server: Server, i: int, *, small: float = 18, large: float = 2) -> None:
    """Small and large prompts in one pool that has room; a first token takes 6 s."""
    server.first(small + large, ttft=6.0)
    server.gaps((small + large) * 20, 0.4)
    server.finish(small, prompt=80, output=21, queue=5.0, prefill=0.5, tpot=0.4)
    server.finish(large, prompt=4000, output=21, queue=4.0, prefill=2.0, tpot=0.4)
    server.gauges(running=4 + i % 5, waiting=9, kv=0.01)


def prompts(server: Server, i: int, *, uneven: float = 600, waiting: float = 9, hits: float = 0.0) -> None:
    """Long prompts, none of which the cache hits; a first token takes 3 s."""
    length = 1200 + (uneven if i % 2 else -uneven)
    server.serve(10, ttft=3.0, prompt=length, output=60, prefill=2.9, hits=hits * length)
    server.gauges(running=6 + i % 3, waiting=waiting, kv=0.01)


def stopped(left: float) -> Load:
    """The engine stops what its clients leave."""

    def load(server: Server, _: int) -> None:
        server.serve(CALLS - left)
        server.first(left)
        server.answer(left)
        server.gauges(running=20, kv=0.2)

    return load


# -- the gateway ------------------------------------------------------------------------------------------------------
class Gate(Beside):
    """A gateway in front of a made server. Every family is there from the start, at 0."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        for name in ("user_requests", "disconnects", "exact_repeats", "cache_hits", "prompt_tokens", "connect_errors"):
            self.add(f"{name}_total", 0)
        self.add("shared_prefix_tokens_total", 0)
        for reason in ("full", "ttl", "left"):
            self.add("queue_dropped_total", 0, reason=reason)
        for reason in ("timeout", "upstream"):
            self.add("streams_cut_total", 0, reason=reason)
        self.put("connections", 100)
        self.put("connection_limit", 1024)
        for tenant in TENANTS:
            self.call(0, tenant)
            self.add("retries_total", 0, tenant=tenant)
            self.add("tokens_total", 0, tenant=tenant)
            self.observe("queue_seconds", 0.0, 0, tenant=tenant)
        for size in ("small", "large"):
            self.observe("ttft_seconds", 0.0, 0, size=size)
        self.state()

    def add(self, name: str, amount: float, **labels: str) -> None:
        """A counter of the gateway goes up."""
        self.count(f"llm_gateway_{name}", amount, model="m", gateway="g", **labels)

    def put(self, name: str, value: float, **labels: str) -> None:
        """A gauge of the gateway."""
        self.set(f"llm_gateway_{name}", value, model="m", gateway="g", **labels)

    def call(self, n: float, tenant: str = "a", status: str = "200") -> None:
        """Calls of a tenant come in and are answered."""
        self.add("calls_total", n)
        self.add("requests_total", n, tenant=tenant, status=status)

    def observe(self, name: str, value: float, times: float, **labels: str) -> None:
        """A histogram of the gateway sees a value so many times."""
        for edge in (*TTFT_EDGES, math.inf):
            le = "+Inf" if math.isinf(edge) else f"{edge:g}"
            self.add(f"{name}_bucket", times if value <= edge else 0, le=le, **labels)
        self.add(f"{name}_sum", value * times, **labels)
        self.add(f"{name}_count", times, **labels)

    def state(
        self,
        *,
        waiting: float = 0,
        open: float = 0,
        plan: float = 1,
        peak: float = 4,
        median: float = 2,
        repeats: float = 1,
    ) -> None:
        """What stands now: the queue, the breaker, the plan, and sessions over the last minute."""
        for name, value in (
            ("queue_waiting", waiting),
            ("breaker_open", open),
            ("planned_calls", plan),
            ("session_calls_peak", peak),
            ("session_calls_median", median),
            ("session_repeats_peak", repeats),
        ):
            self.put(name, value)

    def pass_on(
        self,
        *,
        ok: float = CALLS,
        refused: float = 0,
        left: float = 0,
        users: float = CALLS,
        retries: float = 0,
        repeats: float = 0,
        hits: float = 0,
        shared: float = 0.2,
        wait: float = 0.0,
        small: tuple[float, float] = (CALLS, 0.1),
        large: tuple[float, float] = (0, 0.1),
        tokens: Mapping[str, float] | None = None,
        refused_of: str = "abc",
    ) -> None:
        """One interval of calls, spread evenly over the tenants unless said. ``small`` and ``large``: how many first tokens,
        and after how many seconds. ``shared``: share of the prompt tokens inside text known before.
        """
        for tenant in TENANTS:
            self.call(ok / 3, tenant)
            self.call(left / 3, tenant, "499")
            self.add("tokens_total", (tokens or {}).get(tenant, 6000) if tokens is not None else 6000, tenant=tenant)
            self.observe("queue_seconds", wait, ok / 3, tenant=tenant)
        for tenant in refused_of:
            self.call(refused / len(refused_of), tenant, "429")
        self.add("retries_total", retries, tenant="a")
        for name, by in (
            ("user_requests", users),
            ("disconnects", left),
            ("exact_repeats", repeats),
            ("cache_hits", hits),
            ("prompt_tokens", 20_000),
            ("shared_prefix_tokens", 20_000 * shared),
        ):
            self.add(f"{name}_total", by)
        for size, (n, seconds) in (("small", small), ("large", large)):
            self.observe("ttft_seconds", seconds, n, size=size)


def fronted(load: Load, each: Callable[[Gate, int], None], *, blocks: float = 1000) -> Window:
    """A window of a server under ``load`` behind a gateway that ``each`` moves."""
    server = Server()
    server.facts(blocks=blocks)
    gate = Gate(server)

    def step(s: Server, i: int) -> None:
        load(s, i)
        each(gate, i)

    return run(PAGES, step, server)


def usual(load: Load = healthy, *, blocks: float = 1000, **traffic: object) -> Window:
    """The same traffic in every interval."""
    return fronted(load, lambda gate, _: gate.pass_on(**traffic), blocks=blocks)  # type: ignore[arg-type]


# -- demand -----------------------------------------------------------------------------------------------------------
def storm(
    *, retries: float = 45, refused: float = 60, left: float = 0, broken: float = 0, load: Load = healthy
) -> Window:
    """``refused`` calls beside 60 that are served in an interval; so many of all repeat a failed one."""

    def each(gate: Gate, _: int) -> None:
        gate.pass_on(refused=refused, left=left, retries=retries)
        gate.state(open=broken)

    return fronted(load, each)


def storm_after_a_restart() -> Window:
    """The engine was away; its clients call again and again, and that passes."""
    server = Server()
    gate = Gate(server)
    for i in range(PAGES):
        healthy(server, i)
        gate.pass_on(refused=120 if 5 <= i <= 8 else 0, retries=100 if 5 <= i <= 8 else 0)
        if i == 5:
            server.fail()
            server.restart()
        server.page()
    return server.window()


def sessions(
    load: Load = full, *, peak: float = 200, median: float = 2, repeats: float = 40, **traffic: object
) -> Window:
    """One session makes ``peak`` of the 720 calls a minute, ``repeats`` of them the same tool call."""

    def each(gate: Gate, _: int) -> None:
        gate.pass_on(**traffic)  # type: ignore[arg-type]
        gate.state(peak=peak, median=median, repeats=repeats)

    return fronted(load, each)


def tenants(
    load: Load = full,
    *,
    tokens: Mapping[str, float],
    weights: Mapping[str, float] | None = None,
    slow: float = 0.1,
    **traffic: object,
) -> Window:
    """Tokens of each tenant in an interval; ``slow``: first tokens at the gateway (seconds)."""

    def each(gate: Gate, _: int) -> None:
        gate.pass_on(tokens=tokens, small=(CALLS, slow), **traffic)  # type: ignore[arg-type]
        for tenant, weight in (weights or {}).items():
            gate.put("tenant_weight", weight, tenant=tenant)

    return fronted(load, each)


ONE_TAKES_IT = {"a": 40_000.0, "b": 5_000.0, "c": 5_000.0}
ALL_GREW = {"a": 18_000.0, "b": 16_000.0, "c": 16_000.0}


def alone() -> Window:
    """The only tenant hurts itself."""
    server = Server()
    gate = Gate(server)
    gate.server.values = {k: v for k, v in server.values.items() if k.label("tenant") in {"", "a"}}
    gate.values = {k: v for k, v in gate.values.items() if k.label("tenant") in {"", "a"}}

    def each(s: Server, i: int) -> None:
        full(s, i)
        gate.call(CALLS)
        gate.add("tokens_total", 40_000, tenant="a")
        gate.add("user_requests_total", CALLS)
        gate.observe("ttft_seconds", 6.0, CALLS, size="small")

    return run(PAGES, each, server)


def calls_for_one(load: Load = full, *, users: float = 12, plan: float = 1, retries: float = 0) -> Window:
    """60 calls in an interval for so many requests of users."""

    def each(gate: Gate, _: int) -> None:
        gate.pass_on(users=users, retries=retries)
        gate.state(plan=plan)

    return fronted(load, each)


def unplanned(*, users: float) -> Window:
    """Nobody has said how many calls a request is meant to make."""
    family = "llm_gateway_planned_calls"
    told = series("llm_family_gap", instance="made", family=family, gap="unsupported", reason="no plan is configured")
    window = without(calls_for_one(users=users), family)
    return Window.of(replace(s, samples={**s.samples, told: 1.0}) for s in window.snapshots)


def gateway_queue(*, growth: float = 30, bounded: bool = False, slow: float = 0.0) -> Window:
    """A queue in front of an engine that is well."""

    def each(gate: Gate, i: int) -> None:
        waiting = 25.0 + i % 3 if bounded else growth * i
        gate.pass_on(wait=waiting / 12, small=(CALLS, slow or 0.1 + waiting / 12), refused=12 if bounded else 0)
        gate.state(waiting=waiting)

    return fronted(healthy, each)


def refusing(
    load: Load = healthy, *, refused: float = 15, growth: float = 0, slow: float = 0.4, status: str = "429"
) -> Window:
    """Calls are turned away; the gateway's queue stays at about 10 unless it grows."""

    def each(gate: Gate, i: int) -> None:
        gate.pass_on(small=(CALLS, slow))
        for tenant in TENANTS:
            gate.call(refused / 3, tenant, status)
        gate.state(waiting=10 + i % 3 + growth * i)

    return fronted(load, each)


def given_up() -> Window:
    """The gateway gives calls up when their time to live is over, and answers them 504."""

    def each(gate: Gate, i: int) -> None:
        gate.pass_on(small=(CALLS, 0.4))
        gate.add("queue_dropped_total", 15, reason="ttl")
        gate.call(15, "b", "504")
        gate.state(waiting=10 + i % 3)

    return fronted(healthy, each)


def leaving(load: Load = healthy, *, left: float = 20, queued: float = 0) -> Window:
    """So many of 60 clients leave in an interval, ``queued`` of them while their calls waited in the gateway."""

    def each(gate: Gate, _: int) -> None:
        gate.pass_on(ok=CALLS - left, left=left)
        gate.add("queue_dropped_total", queued, reason="left")

    return fronted(load, each)


def by_size(
    load: Load = mixed, *, small: tuple[float, float] = (18, 6.0), large: tuple[float, float] = (2, 6.5)
) -> Window:
    """First tokens by size of prompt: how many in an interval, and after how many seconds."""
    return usual(load, blocks=10_000, small=small, large=large)


def all_small(server: Server, i: int) -> None:
    """Small prompts alone are more than the server can do."""
    mixed(server, i, small=60, large=0)


def all_large(server: Server, i: int) -> None:
    """Large prompts alone are more than the server can do."""
    mixed(server, i, small=2, large=8)


def mixed_and_full(server: Server, i: int) -> None:
    """The same mix while the pool is full."""
    mixed(server, i)
    server.gauges(running=5 - i % 2, waiting=9, kv=0.99)


def mixed_in_few_seats(server: Server, i: int) -> None:
    """The same mix in eight seats, always taken."""
    mixed(server, i)
    server.gauges(running=8, waiting=9, kv=0.01)


def same_length(server: Server, i: int) -> None:
    """Long prompts of one length, nobody waits: what looks like shared text from the engine's page alone."""
    prompts(server, i, uneven=0, waiting=0)


def hitting(server: Server, i: int) -> None:
    """The cache hits what is shared."""
    prompts(server, i, hits=0.6)


def switched_off(*, shared: float = 0.8) -> Window:
    """Prefix caching is off; the gateway knows what prompts share."""
    server = Server()
    server.facts(blocks=10_000, caching=0)
    gate = Gate(server)

    def each(s: Server, i: int) -> None:
        same_length(s, i)
        for name in ("query", "hit"):
            s.values[s.key(f"llm_prefix_cache_{name}_tokens_total")] = 0.0
        gate.pass_on(shared=shared)

    return run(PAGES, each, server)


GATEWAY: tuple[Situation, ...] = (
    Situation(
        "retry-storm",
        {
            "failed calls multiply": storm,
            "timed out and called again": lambda: storm(refused=0, left=40, retries=30, load=full),
            "the breaker is open": lambda: storm(refused=10, retries=20, broken=1),
        },
        {
            "organic growth": lambda: storm(retries=0, load=full),
            "a budget is kept": lambda: storm(retries=6),
            "calls made twice that all succeed": lambda: storm(refused=0, retries=20),
            "the engine was away": storm_after_a_restart,
        },
    ),
    Situation(
        "runaway-agent",
        {
            "it takes the capacity": sessions,
            "it costs, and hurts nobody": lambda: sessions(healthy, peak=25, repeats=20),
        },
        {
            "a batch job": lambda: sessions(repeats=1),
            "all sessions alike": lambda: sessions(median=40),
            "a small loop while all are hurt": lambda: sessions(peak=25, repeats=20),
            "a few repeats": lambda: sessions(repeats=4),
        },
    ),
    Situation(
        "noisy-tenant",
        {
            "the others queue at the gateway": lambda: tenants(healthy, tokens=ONE_TAKES_IT, wait=6.0),
            "first tokens come late": lambda: tenants(tokens=ONE_TAKES_IT),
            "the others are turned away": lambda: tenants(healthy, tokens=ONE_TAKES_IT, refused=12, refused_of="bc"),
        },
        {
            "every tenant grew": lambda: tenants(tokens=ALL_GREW, wait=6.0, slow=6.0),
            "within its weight": lambda: tenants(tokens=ONE_TAKES_IT, weights={"a": 8, "b": 1, "c": 1}, wait=6.0),
            "nobody hurt": lambda: tenants(healthy, tokens=ONE_TAKES_IT),
            "half as much again as the others": lambda: tenants(tokens={"a": 9_000, "b": 6_000, "c": 6_000}, wait=6.0),
            "small against what all do": lambda: tenants(
                tokens={"a": 9_000, "b": 50_000, "c": 50_000}, weights={"a": 1, "b": 20, "c": 20}
            ),
            "only itself is turned away": lambda: tenants(healthy, tokens=ONE_TAKES_IT, refused=12, refused_of="a"),
            "the only tenant": alone,
        },
    ),
    Situation(
        "fan-out",
        {"five calls for one": calls_for_one, "without a plan": lambda: unplanned(users=2)},
        {
            "more users": lambda: calls_for_one(users=60),
            "planned so": lambda: calls_for_one(plan=5),
            "retries": lambda: calls_for_one(users=45, retries=15),
            "an agent without a plan": lambda: unplanned(users=6),
        },
    ),
    Situation(
        "uncached-repeats",
        {"no cache": lambda: usual(full, repeats=30)},
        {
            "cached": lambda: usual(full, repeats=30, hits=25),
            "few repeats": lambda: usual(full, repeats=9),
            "retries": lambda: usual(full, repeats=30, retries=25),
        },
    ),
    Situation(
        "head-of-line-blocking",
        {"small ones behind large ones": by_size},
        {
            "small ones are well": lambda: by_size(small=(18, 0.1)),
            "all are small": lambda: by_size(all_small, small=(60, 6.0), large=(0, 0.1)),
            "all are large": lambda: by_size(all_large, small=(2, 6.0), large=(8, 6.0)),
            "the pool is full": lambda: by_size(mixed_and_full),
            "the seats are the cap": lambda: by_size(mixed_in_few_seats),
        },
    ),
    Situation(
        "prefix-cache-miss",
        {"the gateway sees shared text": lambda: usual(prompts, blocks=10_000, shared=0.8)},
        {
            "nothing is shared": lambda: usual(same_length, blocks=10_000, shared=0.02),
            "little is shared": lambda: usual(prompts, blocks=10_000, shared=0.2),
            "the cache hits it": lambda: usual(hitting, blocks=10_000, shared=0.8),
        },
    ),
    Situation(
        "prefix-caching-off",
        {"and prompts share text": switched_off},
        {"nothing is shared": lambda: switched_off(shared=0.02)},
    ),
    Situation(
        "unbounded-queue",
        {"at the gateway": gateway_queue},
        {"bounded at the gateway": lambda: gateway_queue(bounded=True, slow=0.4)},
    ),
    Situation(
        "overloaded-and-shedding",
        {"at the gateway": refusing, "given up in its queue": given_up},
        {
            "what is let in suffers": lambda: refusing(full, slow=6.0),
            "and the queue grows": lambda: refusing(growth=20),
            "a few refused at the gateway": lambda: refusing(refused=1.5),
            "errors, not refusals": lambda: refusing(status="500"),
        },
    ),
    Situation(
        "ghost-compute",
        {"the engine is never told": leaving},
        {
            "the engine stops them": lambda: leaving(stopped(20)),
            "they left the queue": lambda: leaving(queued=20),
            "one in twenty leaves": lambda: leaving(left=3),
        },
    ),
)

WELL_GATEWAY: Mapping[str, Callable[[], Window]] = {
    "a gateway in front": usual,
    "a large tenant and nobody hurt": lambda: tenants(healthy, tokens=ONE_TAKES_IT),
    "a batch job": lambda: sessions(healthy, repeats=1),
    "retries within their budget": lambda: storm(refused=2, retries=5),
    "repeats that are cached": lambda: usual(repeats=30, hits=28),
    "an agent within its plan": lambda: calls_for_one(healthy, plan=5),
}
"""Windows with a gateway in which nobody is hurt."""
