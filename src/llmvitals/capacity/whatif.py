"""What if a setting were another: the same traffic through the simulator's coarse engine, before and after. All results
are simulated.

One replica is played; the traffic is shared out evenly. Lengths are log-normal around the means, arrivals are Poisson.
Both sides get the same requests, as long as their number of replicas is the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from llmvitals.capacity.bounds import Given, hold
from llmvitals.errors import SettingsError
from llmvitals.simulator.clients import Answer
from llmvitals.simulator.coarse import CoarseWorld
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.roofline import Machine
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Call, Lengths, Stream, Workload

SIMULATED_SECONDS = 600.0
"""How long each side is played at most."""
CPU_SECONDS = 2.0
"""How long that may take on this machine; what was not played until then is left out, and said."""
WARM_UP = 0.25
"""Share of the played time that fills the engine and is not judged."""
STEP = 1.0
"""Seconds of simulated time between two looks at the pool and at the clock on the wall."""
ARRIVALS = 500
"""Requests that may come between two looks, so that a flood does not keep the clock on the wall from being looked at."""
BLOCK = 16
SEED = 20_260
HIGH_QUANTILE = 0.95
FEWEST = 20
"""Requests under which a 95th percentile is no number, and which a queue must gain before it is said to grow."""
GROWTH = 0.05
"""Share of the requests that came, from which a queue that gained so many is said to grow."""


@dataclass(frozen=True, slots=True)
class Load:
    """Traffic of all replicas together: calls per second and token lengths (means and coefficients of variation).

    ``cached``: share of a prompt that the prefix cache gives back.
    """

    rate: float
    prompt: float
    output: float
    prompt_spread: float = 0.5
    output_spread: float = 0.5
    cached: float = 0.0


@dataclass(frozen=True, slots=True)
class Side:
    """One deployment: ``replicas`` of ``machine`` with a pool of ``pool_tokens`` and the scheduler's limits."""

    machine: Machine
    pool_tokens: int
    replicas: int = 1
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048


@dataclass(frozen=True, slots=True)
class Promise:
    """Seconds to the first token and per output token after it."""

    ttft: float = 2.0
    tpot: float = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one side, judged over ``seconds`` of simulated time.

    ``ttft_p95``: seconds (None: fewer than 20 requests), a lower bound where ``ttft_bound``: the request in question
    still waits. ``goodput_low``, ``goodput_high``: requests per second of all replicas that kept both promises; those
    still running may yet keep or break them. ``kv_peak``: share of the pool; ``preemptions``: per minute and replica;
    ``waiting``: at the end, in one replica; ``growing``: more than a twentieth of what came was added to the queue, so
    that no steady state holds and the wait depends on how long one looks. ``cut``: played for less than was meant, for
    the time it took.
    """

    seconds: float
    requests: int
    ttft_p95: float | None
    ttft_bound: bool
    goodput_low: float
    goodput_high: float
    kv_peak: float
    preemptions: float
    running: float
    waiting: int
    growing: bool
    cut: bool


DEFAULT_PROMISE = Promise()


def play(side: Side, load: Load, promise: Promise = DEFAULT_PROMISE, *, cpu_seconds: float = CPU_SECONDS) -> Outcome:
    """Play one side. Raises :class:`SettingsError` for numbers that no engine starts with."""
    _check(side, load)
    world = CoarseWorld(Setup(engine=_engine(side, load), workload=_workload(side, load)))
    started, warm = time.perf_counter(), SIMULATED_SECONDS * WARM_UP
    peak, running, looks, preempted, before, at_warm = 0.0, 0.0, 0, 0, 0, 0.0
    now, turn = 0.0, min(STEP, ARRIVALS * side.replicas / load.rate)
    while now < SIMULATED_SECONDS:
        now += turn
        world.advance(now)
        spent = time.perf_counter() - started
        if now <= warm and spent > cpu_seconds * WARM_UP:
            warm = now  # a slow machine warms up for less, so that something is left to judge
        if now <= warm:
            preempted, before, at_warm = world.engine.counters.preemptions, _queued(world), now
        else:
            gauges = world.engine.gauges
            peak, running, looks = max(peak, gauges.usage), running + gauges.running, looks + 1
        if spent > cpu_seconds and now > warm:
            break
    seconds = now - at_warm
    log = [one for one in world.clients.log if one.sent >= at_warm]
    still = [call for call in world.clients.open.values() if call.sent >= at_warm]
    ttft, bound = _first_tokens(log, still, now)
    kept = sum(_kept(one, promise) for one in log)
    may = sum(_may(call, now, promise) for call in still)
    return Outcome(
        seconds=seconds,
        requests=len(log) + len(still),
        ttft_p95=ttft,
        ttft_bound=bound,
        goodput_low=kept * side.replicas / seconds,
        goodput_high=(kept + may) * side.replicas / seconds,
        kv_peak=peak,
        preemptions=(world.engine.counters.preemptions - preempted) * 60.0 / seconds,
        running=running / looks if looks else 0.0,
        waiting=_queued(world),
        growing=_queued(world) - before > max(FEWEST, GROWTH * (len(log) + len(still))),
        cut=now < SIMULATED_SECONDS,
    )


def _queued(world: CoarseWorld) -> int:
    """Calls that are out and do not run: before the API process, in it, or in the engine's queue."""
    return max(0, len(world.clients.open) - world.engine.gauges.running)


def _check(side: Side, load: Load) -> None:
    needed = load.prompt + load.output
    hold(
        (
            Given("calls per second", load.rate, 1e6),
            Given("prompt tokens", load.prompt, 1e7),
            Given("output tokens", load.output, 1e7),
            Given("cached share", load.cached, 1.0, zero=True),
            Given("replicas", side.replicas, 1e5),
            Given("max_num_seqs", side.max_num_seqs, 1e5),
            Given("max_num_batched_tokens", side.max_num_batched_tokens, 1e7),
        ),
        place="what-if",
    )
    if side.pool_tokens < 2 * needed:
        raise SettingsError(
            f"a pool of {side.pool_tokens:,} tokens does not hold two requests of {needed:,.0f}",
            place="what-if",
            remedy="Take more GPUs, a shorter data type, or shorter requests.",
        )


def _engine(side: Side, load: Load) -> EngineConfig:
    blocks = side.pool_tokens // BLOCK
    return EngineConfig(
        model="what-if",
        block_tokens=BLOCK,
        blocks=blocks,
        max_num_seqs=side.max_num_seqs,
        max_num_batched_tokens=max(side.max_num_batched_tokens, side.max_num_seqs),
        max_model_len=min(blocks * BLOCK, _longest(load)),
        machine=side.machine,
    )


def _longest(load: Load) -> int:
    """The longest request that is drawn: eight times the means, beyond which a log-normal law of this spread has under
    0.1 %.
    """
    return 8 * math.ceil(load.prompt + load.output)


def _workload(side: Side, load: Load) -> Workload:
    longest = min(side.pool_tokens // BLOCK * BLOCK, _longest(load))
    for_prompts = int(longest * load.prompt / (load.prompt + load.output))
    stream = Stream(
        name="traffic",
        rate=load.rate / side.replicas,
        prompt=Lengths(load.prompt, load.prompt_spread, low=1, high=max(1, for_prompts)),
        output=Lengths(load.output, load.output_spread, low=1, high=max(1, longest - for_prompts)),
        prefix_tokens=round(load.cached * load.prompt),
    )
    return Workload((stream,), seed=SEED)


def _first_tokens(log: Sequence[Answer], still: Sequence[Call], now: float) -> tuple[float | None, bool]:
    """The 95th percentile of the time to first token; who still waits has waited at least so long."""
    known = sorted(
        [one.first - one.sent for one in log if one.first is not None]
        + [call.first - call.sent for call in still if call.first is not None]
    )
    most = known[_place(len(known))] if known else 0.0
    # Who has only begun to wait says nothing yet; who has waited longer than nearly everybody belongs above them.
    late = sorted(now - call.sent for call in still if call.first is None and now - call.sent > most)
    if len(known) + len(late) < FEWEST:
        return None, False
    place = _place(len(known) + len(late))
    return (known[place], False) if place < len(known) else (late[place - len(known)], True)


def _place(count: int) -> int:
    return min(count - 1, math.ceil(HIGH_QUANTILE * count) - 1)


def _kept(one: Answer, promise: Promise) -> bool:
    if one.outcome != "ok" or one.first is None:
        return False
    return one.first - one.sent <= promise.ttft and (one.tpot is None or one.tpot <= promise.tpot)


def _may(call: Call, now: float, promise: Promise) -> bool:
    """Whether a request that has not ended may still keep its promise: its first token came in time, or may yet."""
    return (now if call.first is None else call.first) - call.sent <= promise.ttft
