"""Two causes at once: naming either is right, the other should be among the contributing ones."""

from __future__ import annotations

import math
from dataclasses import replace

from llmvitals.lab import faults, hazards
from llmvitals.lab.base import Base
from llmvitals.lab.draw import Draw
from llmvitals.lab.result import Kind
from llmvitals.lab.scenario import Pair, Scenario
from llmvitals.simulator.setup import Slow
from llmvitals.simulator.workload import Lengths


def _both(pair: Pair, more: Base) -> Pair:
    return replace(pair, bad=more)


def seats_and_outputs(draw: Draw) -> Pair:
    """Too few seats, and answers without a limit hold them."""
    pair = faults.batch_too_small(draw)
    wild = pair.good.stream("no limit", 0.2, max_tokens=None, output=Lengths(pair.good.output * 2, 1.8, high=4000))
    return _both(pair, pair.bad.more(wild))


def thrash_and_ghosts(draw: Draw) -> Pair:
    """A pool that thrashes, and clients that do not wait for it."""
    pair = faults.preemption_thrash(draw)
    return _both(pair, pair.bad.surge(leaves=0.5))


def heat_and_seats(draw: Draw) -> Pair:
    """A hot card, and too few seats."""
    pair = faults.batch_too_small(draw)
    hot = Slow(pair.good.times.onset, math.inf, draw.between(0.15, 0.3), "thermal")
    return _both(pair, pair.bad.part("faults", slow=(hot,)))


def tenant_and_pool(draw: Draw) -> Pair:
    """One loud tenant, on a server whose pool is too small anyway."""
    pair = faults.kv_saturation(draw)
    loud = pair.good.stream(
        "loud", draw.between(1.0, 2.0), prompt=Lengths(pair.good.prompt, 0.1, high=4000), tenant="z"
    )
    calm = tuple(
        pair.good.stream(n, 0.1, prompt=Lengths(pair.good.prompt, 0.1, high=4000), tenant=n) for n in ("c", "d")
    )
    return Pair(pair.bad.more(loud, *calm), pair.good.more(*calm))


def prefill_and_caching_off(draw: Draw) -> Pair:
    """A cache that is off, and half as much again of the prompts: without it, they alone fill the machine."""
    pair = faults.prefix_caching_off(draw)
    return _both(pair, pair.bad.surge(rate=pair.bad.setup.workload.streams[1].rate * draw.between(3.0, 4.0)))


def queue_and_retries(draw: Draw) -> Pair:
    """Too much arrives, clients give up and try again."""
    pair = faults.unbounded_queue(draw)
    return _both(
        pair, pair.bad.streams(timeout=draw.between(5, 10), retries=4, backoff=0.5).gateway(cancel_seconds=10.0)
    )


_GATEWAY = frozenset({"engine", "gateway"})


ROWS: tuple[Scenario, ...] = (
    Scenario(
        "seats+outputs",
        Kind.COMPOUND,
        seats_and_outputs,
        ("batch-too-small", "unbounded-output"),
        dialects=("vllm", "vllm-v0"),
    ),
    Scenario(
        "thrash+ghosts",
        Kind.COMPOUND,
        thrash_and_ghosts,
        ("preemption-thrash", "ghost-compute"),
        hazard=hazards.thrash,
    ),
    Scenario(
        "heat+seats",
        Kind.COMPOUND,
        heat_and_seats,
        ("hardware-event", "batch-too-small"),
        shown_by=frozenset({"engine", "gpu"}),
    ),
    Scenario("tenant+pool", Kind.COMPOUND, tenant_and_pool, ("noisy-tenant", "kv-cache-saturation")),
    Scenario(
        "caching-off+prefill",
        Kind.COMPOUND,
        prefill_and_caching_off,
        ("prefix-caching-off", "prefill-bound"),
        dialects=("vllm",),
    ),
    Scenario("queue+retries", Kind.COMPOUND, queue_and_retries, ("unbounded-queue", "retry-storm"), shown_by=_GATEWAY),
)
