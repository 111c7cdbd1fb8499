"""Small simulated deployments whose numbers can be worked out by hand."""

from __future__ import annotations

from typing import Any

from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.roofline import Machine
from llmvitals.simulator.setup import Front, Setup
from llmvitals.simulator.workload import Stream, Workload
from llmvitals.simulator.world import World

IDEAL = Front(request_seconds=0.0, prompt_token_seconds=0.0, output_token_seconds=0.0, page_seconds=0.0)
"""An API process that costs nothing: the engine's own times show."""

PLAIN = Machine(
    # A decode step takes 10 ms whatever it holds, and each computed token 1 ms of kernels beyond the first ten.
    name="plain",
    memory_bytes=1e9,
    bandwidth=1e9,
    bandwidth_efficiency=1.0,
    flops=1e9,
    flops_efficiency=1.0,
    weight_bytes=1e7,
    kv_bytes_per_token=1000.0,
    flops_per_token=1e6,
    step_seconds=0.0,
    sequence_seconds=0.0,
)


def world(config: EngineConfig, *streams: Stream, seed: int = 0, front: Front = IDEAL, **parts: Any) -> World:
    """A world of these streams; ``parts``: further ones of the set-up."""
    return World(Setup(config, Workload(tuple(streams), seed), front, **parts))


def at_once(count: int, **kind: Any) -> Stream:
    """So many requests at the same moment, and no more."""
    start = kind.pop("start", 0.0)
    return Stream(clients=count, start=start, end=start + 1e-6, **kind)


def finished(here: World) -> int:
    """Requests that the engine has finished."""
    return sum(here.engine.counters.finished.values())
