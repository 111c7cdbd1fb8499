"""A week of healthy traffic, drawn from a seed: a chat on two replicas, a coding assistant for office hours, a model for the night.

The days have their shape, and incidents that are none: batch jobs that fill a server for minutes, rushes beyond what it serves
for less than a minute, long prompts, clients that leave, prompts that do not fit, single answers that fail, and deploys.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.hardware import machine
from llmvitals.simulator.setup import Faults, Restart, Setup
from llmvitals.simulator.workload import DAY, Lengths, Stream, Workload

MINUTE, HOUR = 60.0, 3600.0

DRAINED = 2 * MINUTE
"""How long a replica gets no new requests before its process is ended: longer than its longest answer takes."""

PEAK = 14 * HOUR
"""When the day is busiest."""

SWING = 0.8
"""Four fifths more at the peak, four fifths less at night."""


@dataclass(frozen=True, slots=True)
class Served:
    """One target of the week: its name, whose page it shows, and all that is simulated of it."""

    name: str
    dialect: str
    setup: Setup

    @property
    def model(self) -> str:
        """The model's name on its page."""
        return self.setup.engine.model


@dataclass(frozen=True, slots=True)
class Deploy:
    """One target is drained, then down from ``down`` to ``up`` while its weights load (seconds from Monday 0:00)."""

    down: float
    up: float

    @property
    def drained(self) -> float:
        """From when on nobody sends it anything."""
        return self.down - DRAINED


def week(seed: int, days: int = 7) -> tuple[Served, ...]:
    """All targets, from Monday 0:00 on; the same seed draws the same week."""
    rng = random.Random(f"healthy/{seed}")
    return (*_chat(rng, days), _coder(rng, days), _night(rng, days))


def _chat(rng: random.Random, days: int) -> Iterator[Served]:
    """Two replicas behind one name, with a batch job and a rush a day, and a rolling deploy every other day."""
    engine = EngineConfig(
        model="chat",
        blocks=9000,
        max_num_seqs=48,
        max_num_batched_tokens=2048,
        max_model_len=8192,
        machine=machine("A100-80GB", "Qwen2.5-32B", gpus=2, link="NVLink 3"),
    )
    rate = rng.uniform(0.4, 0.5)
    deploys = [list[Deploy](), list[Deploy]()]
    for day in range(0, days, 2):
        at = day * DAY + rng.uniform(9.5, 11.5) * HOUR
        for own in deploys:
            own.append(Deploy(at, at + rng.uniform(1, 4) * MINUTE))
            at = own[-1].up + DRAINED + rng.uniform(1, 3) * MINUTE
    usual = Stream(
        "chat",
        rate=rate,
        prompt=Lengths(500, 0.7, high=4000),
        output=Lengths(220, 0.6, high=1000),
        max_tokens=1000,
        leaves=0.03,
        prefix_tokens=120,
        prefixes=4,
        swing=SWING,
        phase=DAY + DAY / 4 - PEAK,
    )
    seeds = rng.randrange(2**31), rng.randrange(2**31)
    for at, (own, other) in enumerate((deploys, deploys[::-1])):
        streams = [*_pieces(usual, own, other, days), *_around(usual, rng, days)]
        yield Served(f"chat-{at}", "vllm", _setup(engine, streams, seeds[at], rng, own, days))


def _around(usual: Stream, rng: random.Random, days: int) -> Iterator[Stream]:
    """What comes beside a chat's usual traffic: batch jobs, rushes, documents, and prompts that are too long."""
    for day in range(days):
        start = day * DAY + rng.uniform(16, 19) * HOUR
        yield replace(
            usual,
            name=f"batch {day}",
            tenant="batch",
            rate=0.0,
            swing=0.0,
            clients=rng.randint(16, 22),
            ramp=20.0,
            start=start,
            end=start + rng.uniform(5, 15) * MINUTE,
        )
        rush = day * DAY + rng.uniform(12, 15) * HOUR
        yield replace(
            usual, name=f"rush {day}", rate=rng.uniform(4.5, 6.5), swing=0.0, start=rush, end=rush + rng.uniform(20, 30)
        )
    documents = Lengths(6000, 0.1, high=7500)
    yield replace(usual, name="documents", rate=usual.rate / 100, prompt=documents, output=Lengths(80, 0.3))
    yield replace(usual, name="too long", rate=usual.rate / 200, prompt=Lengths(20_000))


def _coder(rng: random.Random, days: int) -> Served:
    """One server for office hours, deployed at night, when nobody is there."""
    engine = EngineConfig(
        model="coder",
        blocks=25_000,
        max_num_seqs=64,
        max_num_batched_tokens=8192,
        max_model_len=32_768,
        machine=machine("H100-80GB", "Llama-3.1-8B"),
    )
    streams, deploys = [], []
    for day in range(days):
        start, end = day * DAY + rng.uniform(7.5, 8.5) * HOUR, day * DAY + rng.uniform(18, 20) * HOUR
        streams.append(
            Stream(
                f"office {day}",
                start=start,
                end=end,
                rate=rng.uniform(0.5, 0.8) * (0.3 if day % 7 >= 5 else 1.0),
                burstiness=1.5,
                prompt=Lengths(1800, 1.0, high=16_000),
                output=Lengths(150, 0.8, high=1500),
                max_tokens=2000,
                leaves=0.1,
                prefix_tokens=600,
                prefixes=3,
            )
        )
        if day % 3 == 0:
            down = day * DAY + rng.uniform(2, 4) * HOUR
            deploys.append(Deploy(down, down + rng.uniform(1, 4) * MINUTE))
    return Served("coder-0", "sglang", _setup(engine, streams, rng.randrange(2**31), rng, deploys, days))


def _night(rng: random.Random, days: int) -> Served:
    """A model that a job uses for half an hour at night, and nobody else but for a call now and then."""
    engine = EngineConfig(
        model="summaries",
        blocks=12_000,
        max_num_seqs=32,
        max_num_batched_tokens=4096,
        max_model_len=16_384,
        machine=machine("L40S-48GB", "Llama-3.1-8B"),
    )
    call = Stream(
        "now and then",
        rate=1 / (40 * MINUTE),
        prompt=Lengths(2500, 0.4, high=8000),
        output=Lengths(120, 0.3),
        max_tokens=400,
    )
    streams = [call]
    for day in range(days):
        start = day * DAY + rng.uniform(1, 3) * HOUR
        streams.append(
            replace(
                call,
                name=f"job {day}",
                rate=0.0,
                clients=6,
                think=1.0,
                start=start,
                end=start + rng.uniform(20, 40) * MINUTE,
            )
        )
    return Served("summaries-0", "vllm-v0", _setup(engine, streams, rng.randrange(2**31), rng, [], days))


def _pieces(usual: Stream, own: list[Deploy], other: list[Deploy], days: int) -> Iterator[Stream]:
    """A replica's traffic: none while it is away, twice as much while the other one is."""
    changes = [(one.drained, 0.0, one.up) for one in own] + [(one.drained, 2.0, one.up) for one in other]
    start = 0.0
    for at, factor, until in sorted(changes):
        yield replace(usual, start=start, end=at)
        if factor:
            yield replace(usual, rate=usual.rate * factor, start=at, end=until)
        start = until
    yield replace(usual, start=start, end=days * DAY)


def _setup(
    engine: EngineConfig, streams: list[Stream], seed: int, rng: random.Random, deploys: list[Deploy], days: int
) -> Setup:
    """With the odd answer that fails: for some tenths of a second now and then, and for some seconds once a day."""
    moments = [(rng.uniform(0, days * DAY), rng.uniform(0.2, 1.0)) for _ in range(days * 24)]
    moments += [(day * DAY + rng.uniform(8, 20) * HOUR, rng.uniform(3, 6)) for day in range(days)]
    faults = Faults(
        failing=tuple(sorted((at, at + lasts) for at, lasts in moments)),
        restarts=tuple(Restart(one.down, one.up, "rollout") for one in deploys),
        first_step_seconds=rng.uniform(0.5, 1.5),
    )
    return Setup(engine, Workload(tuple(streams), seed), faults=faults, uptime=math.floor(rng.uniform(3, 30)) * DAY)
