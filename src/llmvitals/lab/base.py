"""Deployments in which nothing is wrong: drawn so that the load follows from what the machine can do.

A deployment serves ``load`` of what it could: usual traffic from the start, and more from the onset on. Faults are put on
top (:mod:`faults`), so that the same draw without its fault is this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llmvitals.lab.draw import Draw, Longer
from llmvitals.lab.truth import SLO
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.hardware import machine
from llmvitals.simulator.roofline import Machine, step_cost
from llmvitals.simulator.setup import Gateway, Restart, Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload

WARM = 20.0
"""Seconds of simulated time before the first page."""

USUAL = 0.3
"""Share of the load that is there before the onset."""

PLANTS: tuple[tuple[str, str, int, str | None], ...] = (
    ("H100-80GB", "Llama-3.1-8B", 1, None),
    ("L40S-48GB", "Llama-3.1-8B", 1, None),
    ("A100-80GB", "Qwen2.5-7B", 1, None),
    ("A100-80GB", "Qwen2.5-32B", 2, "NVLink 3"),
    ("H100-80GB", "Llama-3.3-70B", 4, "NVLink 4"),
)
"""GPU, model, GPUs of one engine, and what joins them."""

MOST_PREFILL = 0.35
"""Share of the time that prompts may take in a healthy deployment: more of it makes streams uneven."""

ONE_GPU = tuple(plant for plant in PLANTS if plant[2] == 1)
SEVERAL = tuple(plant for plant in PLANTS if plant[2] > 1)

NAMES = ("chat", "assistant", "prod-llm", "qwen-a", "support-bot", "m1")


@dataclass(frozen=True, slots=True)
class Times:
    """Moments of a scenario (seconds of simulated time): pages from WARM on, the onset, the end, and the trailing window."""

    interval: float
    window: float
    onset: float
    end: float


def times(draw: Draw) -> Times:
    """Scrape intervals as operators set them: this exporter's own 5 s, and Prometheus' usual 10, 15 and 30 s."""
    interval = draw.one((5.0, 10.0, 15.0, 30.0))
    window = max(60.0, 6 * interval)
    onset = WARM + draw.longer.calm + window + draw.between(0.0, interval)
    return Times(interval, window, onset, onset + window * 1.2 + 10.0 + draw.longer.fault)


def again(downs: tuple[Restart, ...], times: Times, longer: Longer) -> tuple[Restart, ...]:
    """A window's restarts, and the same once more in every further window for which the play goes on."""
    later = (times.window * i for i in range(1 + int(longer.fault // times.window)))
    return tuple(replace(one, down=one.down + by, up=one.up + by) for by in later for one in downs)


@dataclass(frozen=True, slots=True)
class Base:
    """A healthy deployment. ``running``: requests that its full load keeps running (Little's law); ``rate``: requests/s of
    the full load; ``prompt``, ``output``: mean lengths; ``step``: seconds a decode step then takes.
    """

    setup: Setup
    times: Times
    running: float
    rate: float
    prompt: float
    output: float
    step: float

    @property
    def context(self) -> float:
        """Tokens that a running request holds on average."""
        return self.prompt + self.output / 2

    def engine(self, **changes: Any) -> Base:
        """The same with other engine settings."""
        return replace(self, setup=replace(self.setup, engine=replace(self.setup.engine, **changes)))

    def streams(self, **changes: Any) -> Base:
        """The same with a change to every stream."""
        return self.each(lambda stream: replace(stream, **changes))

    def each(self, change: Callable[[Stream], Stream]) -> Base:
        """The same with every stream changed by a function."""
        workload = self.setup.workload
        return replace(
            self,
            setup=replace(
                self.setup, workload=replace(workload, streams=tuple(change(stream) for stream in workload.streams))
            ),
        )

    def surge(self, **changes: Any) -> Base:
        """The same with a change to the streams that begin at the onset."""
        return self.each(lambda s: replace(s, **changes) if s.start >= self.times.onset else s)

    def more(self, *streams: Stream) -> Base:
        """The same with further streams."""
        workload = self.setup.workload
        return replace(
            self, setup=replace(self.setup, workload=replace(workload, streams=(*workload.streams, *streams)))
        )

    def part(self, name: str, **changes: Any) -> Base:
        """The same with another front, host or faults."""
        return replace(self, setup=replace(self.setup, **{name: replace(getattr(self.setup, name), **changes)}))

    def gateway(self, **changes: Any) -> Base:
        """The same with other gateway settings."""
        assert self.setup.gateway is not None
        return replace(self, setup=replace(self.setup, gateway=replace(self.setup.gateway, **changes)))

    def uptime(self, seconds: float) -> Base:
        """The same with a process of another age at time 0."""
        return replace(self, setup=replace(self.setup, uptime=seconds))

    def stream(self, name: str, share: float, **changes: Any) -> Stream:
        """A stream that begins at the onset with a share of the full rate and the usual lengths, changed as told."""
        kind: Mapping[str, Any] = {
            "name": name,
            "start": self.times.onset,
            "end": self.times.end,
            "rate": self.rate * share,
            "prompt": Lengths(self.prompt, 0.5, high=self.longest),
            "output": Lengths(self.output, 0.5, high=self.longest),
            "max_tokens": 2 * round(self.output) + 200,
            "tenant": "a",
        }
        return Stream(**{**kind, **changes})

    @property
    def longest(self) -> int:
        """The longest prompt or answer that traffic draws: both fit into one context."""
        return self.setup.engine.max_model_len // 2 - 1


def base(
    draw: Draw,
    *,
    prompt: tuple[float, float] = (200, 800),
    output: tuple[float, float] = (80, 250),
    running: tuple[float, float] = (3, 10),
    spread: tuple[float, float] = (0.4, 0.8),
    plants: tuple[tuple[str, str, int, str | None], ...] = PLANTS,
) -> Base:
    """Draw a deployment and a load that it serves well: ``running`` requests at once at full load, seats for four times
    as many and KV for as many contexts at full length.
    """
    gpu, model, gpus, link = draw.one(plants)
    plant = machine(gpu, model, gpus=gpus, link=link)
    moments = times(draw)
    lengths = round(draw.log(*prompt)), round(draw.log(*output))
    at_once = draw.log(*running)
    step = step_seconds(plant, at_once, lengths[0] + lengths[1] / 2)
    one = prefill_seconds(plant, lengths[0])
    rate = min(at_once / (lengths[1] * step + one), MOST_PREFILL / one)
    at_once = rate * (one + lengths[1] * step / (1 - rate * one))  # decoding has what prefill leaves of the time
    wide = draw.between(*spread)
    model_len = max(8192, 2 ** (round(8 * (lengths[0] + lengths[1])).bit_length()))
    size = draw.one((16, 16, 32))
    seats = max(32, 8 * round(at_once * 4 / 8))
    full = lengths[0] * (1 + 2 * wide) + 2 * lengths[1] + 200
    config = EngineConfig(
        model=draw.one(NAMES),
        block_tokens=size,
        blocks=round(max(seats * full, 1.5 * model_len) / size),
        max_num_seqs=seats,
        max_num_batched_tokens=draw.one((2048, 4096)),
        max_model_len=model_len,
        machine=plant,
    )
    longest = model_len // 2 - 1
    stream = Stream(
        "usual",
        rate=rate * USUAL,
        prompt=Lengths(lengths[0], wide, high=longest),
        output=Lengths(lengths[1], wide, high=longest),
        max_tokens=2 * lengths[1] + 200,
        tenant="a",
    )
    surge = replace(stream, name="surge", rate=rate * (1 - USUAL), start=moments.onset, end=moments.end, tenant="a")
    setup = Setup(
        config, Workload((stream, surge), draw.whole(0, 2**31)), gateway=Gateway(name=draw.one(("edge", "llm-gw")))
    )
    return Base(setup, moments, at_once, rate, lengths[0], lengths[1], step)


def step_seconds(plant: Machine, sequences: float, context: float) -> float:
    """A decode step for so many sequences of that context (seconds)."""
    return step_cost(plant, round(max(1, sequences)), round(max(1, sequences)), round(sequences * context)).seconds


def prefill_seconds(plant: Machine, prompt: float) -> float:
    """One prompt by itself (seconds of kernels)."""
    return step_cost(plant, 1, round(prompt), round(prompt)).kernel


def pooled(a: Base, contexts: float, tokens: float) -> Base:
    """A pool for so many contexts of so many tokens, at least the one full context without which no engine starts."""
    engine = a.setup.engine
    least = -(-engine.max_model_len // engine.block_tokens)
    return a.engine(blocks=max(math.ceil(contexts * tokens / engine.block_tokens), least))


def whole_contexts(contexts: float) -> float:
    """So many whole contexts and half of one: room in which those inside grow."""
    return max(1, math.floor(contexts)) + 0.5


def prompts_per_second(a: Base) -> float:
    """Prompts of mean length that the machine computes when it does nothing else."""
    return 1.0 / prefill_seconds(a.setup.engine.machine, a.prompt)


def shortened(a: Base, longest: int) -> Base:
    """A model that accepts contexts up to ``longest`` and traffic that keeps to it."""
    half = longest // 2 - 1

    def cut(stream: Stream) -> Stream:
        return replace(stream, prompt=replace(stream.prompt, high=half), output=replace(stream.output, high=half))

    return a.engine(max_model_len=longest).each(cut)


def shared_prompts(draw: Draw, busy: float) -> Base:
    """Long shared beginnings that the cache saves: the load is what the machine serves of it with hits."""
    a = base(draw, prompt=(2200, 4000), output=(30, 80), running=(2, 4), spread=(0.02, 0.1))
    fit = prompts_per_second(a)
    prefixes, tokens = draw.whole(2, 6), round(a.prompt * draw.between(0.8, 0.92))
    a = a.engine(max_num_seqs=128, blocks=1_500_000 // a.setup.engine.block_tokens)
    a = a.streams(prefix_tokens=tokens, prefixes=prefixes)
    return a.each(lambda s: replace(s, rate=fit * busy * (0.3 if s.name == "usual" else 0.7)))


def well_filled(draw: Draw) -> Base:
    """A server whose batch is as large as its users' patience allows: more seats would break the time per token."""
    a = base(draw, prompt=(100, 300), output=(60, 150), running=(3, 6), plants=ONE_GPU)
    machine = replace(a.setup.engine.machine, step_seconds=0.006, sequence_seconds=draw.between(0.0008, 0.0011))
    a = a.engine(machine=machine)
    most = draw.between(0.86, 0.92) * SLO.tpot_seconds
    seats = next(n for n in range(4, 512) if token_seconds(a, n + 1) > most)
    return a.engine(max_num_seqs=seats)


def token_seconds(a: Base, seats: int) -> float:
    """Time per output token with all seats taken: a decode step, and what prompts take of the time."""
    machine = a.setup.engine.machine
    step = step_seconds(machine, seats, a.context)
    return step / (1.0 - min(0.9, seats / (a.output * step) * prefill_seconds(machine, a.prompt)))


def served(a: Base) -> float:
    """Requests/s that its seats serve."""
    seats = a.setup.engine.max_num_seqs
    return seats / (a.output * token_seconds(a, seats))
