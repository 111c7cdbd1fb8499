"""From users to GPUs: how many model calls and tokens they make, what that keeps resident, and which resource binds.

An estimate: the roofline says how long steps last. A replica is enough while three hold together: what is resident fits
into the pool, the prompts' share of the time leaves room, and tokens come at the promised pace. What fails with one
replica less is what binds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmvitals.capacity.bounds import Given, hold
from llmvitals.capacity.layouts import Layout
from llmvitals.capacity.model import Model
from llmvitals.capacity.speed import Stored, largest_batch, machine, prefill_seconds, step_seconds
from llmvitals.errors import SettingsError
from llmvitals.simulator.hardware import GPUS
from llmvitals.simulator.roofline import Machine, step_cost

MINUTE = 60.0
PROMPT, OUTPUT = 1000.0, 250.0
"""Tokens of a call where nothing that runs tells them."""
FILL = 0.90
"""How full pools may get on average: the lower of the two KV lines that boards draw."""
LOAD = 0.80
"""How much of the time prompts may take: at 80 % the mean wait of M/M/1 is four service times, at 90 % nine."""
MOST_REPLICAS = 4096
HALF = 0.5
MOST_RESIDENT = 1e6
"""Calls at once in one replica, beyond which it is taken to hold no steady state."""
ROUNDS, NEAR = 500, 1e-4


class Binds(StrEnum):
    """What one replica less would lack."""

    KV = "kv"
    COMPUTE = "compute"
    BANDWIDTH = "bandwidth"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Demand:
    """What users do. ``users`` active at once; each makes ``requests_per_minute``; each request makes ``calls`` model
    calls in ``turns`` rounds (an agent that calls a tool ``turns - 1`` times; ``calls`` of them side by side), so
    ``calls x turns`` in all.

    ``prompt``, ``output``: tokens of the first call, and of each answer; ``added``: tokens that a tool's result adds
    each round. ``cached``: share (0-1) of all prompt tokens that the prefix cache gives back. ``pace``: promised
    seconds per output token.
    """

    users: float
    requests_per_minute: float
    calls: float = 1.0
    turns: int = 1
    prompt: float = PROMPT
    output: float = OUTPUT
    added: float = 0.0
    cached: float = 0.0
    pace: float = 0.05


@dataclass(frozen=True, slots=True)
class Traffic:
    """What that makes: calls and tokens per second, and mean lengths of a call. ``computed``: prompt tokens that no
    cache gives back.
    """

    calls: float
    prompt: float
    computed: float
    output: float
    prompt_rate: float
    computed_rate: float
    output_rate: float

    @property
    def context(self) -> float:
        """Mean tokens that a call holds: its prompt, and half of its answer on average."""
        return self.prompt + self.output / 2.0


@dataclass(frozen=True, slots=True)
class Use:
    """How far one replica of so many is used. ``kv``: of the pool's tokens; ``compute``: of the time, by prompts;
    ``step``: seconds per output token, against the promise; ``resident``: calls at once, in one replica. ``stable``:
    whether calls leave as fast as they come.
    """

    replicas: int
    kv: float
    compute: float
    step: float
    resident: float
    stable: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """``replicas`` of ``gpus`` each; ``enough``: how far they are used; ``short``: one less, None for the first.
    ``binds``: what fails there.
    """

    traffic: Traffic
    layout: Layout
    replicas: int
    gpus: int
    binds: Binds
    enough: Use
    short: Use | None
    resident: float
    resident_tokens: float
    most_at_pace: int


@dataclass(frozen=True, slots=True)
class Shape:
    """One replica: the GPUs of a stage with the whole model's work, how many such stages share it, and the pool's tokens.

    Stages work at the same time, each for its part of the calls, and one after the other for each call: a prompt or a
    token takes as long as on one stage's GPUs, and as many of them are under way as there are stages.
    """

    machine: Machine
    stages: int
    pool: int

    def step(self, batch: float, context: float) -> float:
        """Seconds per output token of ``batch`` calls in all stages together."""
        return step_seconds(self.machine, max(1.0, batch / self.stages), context)

    def most(self, context: float, seconds: float, seats: int) -> int:
        """Calls, ``seats`` at most, whose tokens come within so many ``seconds``."""
        each = largest_batch(self.machine, context, seconds, -(-seats // self.stages))
        return min(seats, each * self.stages)


def traffic(demand: Demand) -> Traffic:
    """Calls and tokens of a demand. Round k's prompt holds what all rounds before it said and got, so it grows with
    each.
    """
    _check(demand)
    calls = demand.users * demand.requests_per_minute * demand.calls * demand.turns / MINUTE
    prompt = demand.prompt + (demand.turns - 1) / 2.0 * (demand.output + demand.added)
    computed = prompt * (1.0 - demand.cached)
    return Traffic(calls, prompt, computed, demand.output, calls * prompt, calls * computed, calls * demand.output)


def repeatable(demand: Demand) -> float:
    """Share of all prompt tokens that a round before it already computed or said: the most that a prefix cache gives
    back to one agent.

    Round k >= 1 repeats everything but the ``added`` tokens of the last tool.
    """
    prompts = [demand.prompt + k * (demand.output + demand.added) for k in range(demand.turns)]
    return sum(prompt - demand.added for prompt in prompts[1:]) / sum(prompts)


def _check(demand: Demand) -> None:
    hold(
        (
            Given("users", demand.users, 1e9),
            Given("requests per minute", demand.requests_per_minute, 1e6),
            Given("calls per request", demand.calls, 1e5),
            Given("turns", demand.turns, 1e4),
            Given("prompt tokens", demand.prompt, 1e8),
            Given("output tokens", demand.output, 1e8),
            Given("added tokens", demand.added, 1e8, zero=True),
            Given("cached share", demand.cached, 1.0, zero=True),
            Given("seconds per token", demand.pace, 1e4),
        ),
        place="plan",
    )


def plan(model: Model, stored: Stored, layout: Layout, demand: Demand, *, gpu: str, place: str = "plan") -> Plan:
    """The fewest replicas of a ``layout`` that are enough. ``layout`` was worked out for the demand's mean context.

    Raises :class:`SettingsError` where none is: a GPU without speeds, a model that does not fit, a pace that one stream
    cannot keep.
    """
    made = traffic(demand)
    card = GPUS.get(gpu)
    if card is None:
        raise SettingsError(
            "has no speeds in the table", place=f"GPU '{gpu}'", remedy=f"Choose one of: {', '.join(GPUS)}."
        )
    if layout.why_not:
        raise SettingsError(layout.why_not, place=place, remedy="Take more GPUs per replica, or a shorter data type.")
    shape = Shape(
        machine(model, card, stored, context=made.context, tensor_parallel=layout.tensor_parallel),
        layout.pipeline_parallel,
        layout.estimate.kv_budget_tokens,
    )
    alone = shape.step(1, made.context)
    if alone > demand.pace:
        raise SettingsError(
            f"a single stream already takes {alone * 1000:.0f} ms per token, and {demand.pace * 1000:.0f} ms are promised",
            place=place,
            remedy="Take more tensor parallelism or a shorter data type, or promise less.",
        )
    replicas = _fewest(shape, made, demand, place)
    enough = _use(shape, made, replicas)
    short = _use(shape, made, replicas - 1) if replicas > 1 else None
    most = shape.most(made.context, demand.pace * (1.0 - min(enough.compute, 0.99)), layout.estimate.seats)
    return Plan(
        made,
        layout,
        replicas,
        replicas * layout.tensor_parallel * layout.pipeline_parallel,
        _binds(shape, made, demand, short),
        enough,
        short,
        enough.resident * replicas,
        enough.resident * replicas * made.context,
        most,
    )


def _use(shape: Shape, made: Traffic, replicas: int) -> Use:
    """How far each of so many replicas is used. Little's law twice over: calls stay for their prefill and for their
    steps, and steps last the longer the more calls there are; the smallest number that agrees with itself is found from
    below.
    """
    rate = made.calls / replicas
    prefill = prefill_seconds(shape.machine, made.computed)
    compute = rate * prefill / shape.stages
    if compute >= 1.0:
        return Use(replicas, float("inf"), compute, float("inf"), float("inf"), stable=False)
    resident, step = 0.0, 0.0
    for _ in range(ROUNDS):
        step = shape.step(max(1.0, resident), made.context) / (1.0 - compute)
        found = rate * (prefill / (1.0 - compute) + made.output * step)
        if abs(found - resident) <= NEAR * found or found > MOST_RESIDENT:
            resident = found
            break
        resident = found
    stable = resident <= MOST_RESIDENT
    kv = resident * made.context / shape.pool if stable else float("inf")
    return Use(replicas, kv, compute, step if stable else float("inf"), resident if stable else float("inf"), stable)


def _holds(use: Use, demand: Demand) -> bool:
    return use.stable and use.kv <= FILL and use.compute <= LOAD and use.step <= demand.pace


def _fewest(shape: Shape, made: Traffic, demand: Demand, place: str) -> int:
    """More replicas never hurt, so the fewest are found by halving."""
    high = 1
    while not _holds(_use(shape, made, high), demand):
        high *= 2
        if high > MOST_REPLICAS:
            raise SettingsError(
                f"needs more than {MOST_REPLICAS:,} replicas",
                place=place,
                remedy="Check the numbers, or split the load.",
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _holds(_use(shape, made, middle), demand) else (middle, high)
    return high


def _binds(shape: Shape, made: Traffic, demand: Demand, short: Use | None) -> Binds:
    """Whichever lets in fewer calls, the pool or the pace. A token's promised time goes to prompts between steps and to
    its own step, so that where prompts take more of it arithmetic binds, and else what the step waits for.
    """
    if short is None:
        return Binds.NOTHING
    if short.compute > LOAD:
        return Binds.COMPUTE
    fitting = round(FILL * shape.pool / made.context)
    paced = shape.most(made.context, demand.pace * (1.0 - short.compute), max(1, 2 * fitting))
    if fitting <= paced:
        return Binds.KV
    if short.compute > HALF:
        return Binds.COMPUTE
    one, batch = shape.machine, max(1, paced // shape.stages)
    cost = step_cost(one, batch, batch, round(batch * made.context), batch * made.context)
    by_memory, by_compute = cost.memory / one.bandwidth_efficiency, cost.compute / one.flops_efficiency
    return Binds.BANDWIDTH if by_memory >= by_compute else Binds.COMPUTE
