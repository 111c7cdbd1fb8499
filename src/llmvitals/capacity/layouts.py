"""Replicas against tensor parallelism: how so many GPUs can be shared out, what fits, how many seats that gives and how
fast one stream runs. Seats are arithmetic; paces are estimates of the roofline.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llmvitals.capacity.memory import OVERHEAD_GB_PER_GPU, UTILIZATION, Estimate, estimate
from llmvitals.capacity.model import Model
from llmvitals.capacity.speed import Stored, machine, step_seconds
from llmvitals.simulator.hardware import GPUS


@dataclass(frozen=True, slots=True)
class Layout:
    """``replicas`` of ``tensor_parallel`` x ``pipeline_parallel`` GPUs each.

    ``why_not``: why it is no choice, '' where it is one. ``pace``: tokens per second of a single stream; ``full_pace``:
    of each stream with all seats taken; ``throughput``: of all streams of all replicas then. None where the table of
    GPUs has no speeds, or where nothing fits.
    """

    replicas: int
    tensor_parallel: int
    pipeline_parallel: int
    estimate: Estimate
    why_not: str = ""
    pace: float | None = None
    full_pace: float | None = None
    throughput: float | None = None

    @property
    def gpus(self) -> int:
        """GPUs that it takes in all."""
        return self.replicas * self.tensor_parallel * self.pipeline_parallel

    @property
    def seats(self) -> int:
        """Seats of all replicas."""
        return self.replicas * self.estimate.seats

    @property
    def budget_tokens(self) -> int:
        """Tokens of all pools."""
        return self.replicas * self.estimate.kv_budget_tokens


@dataclass(frozen=True, slots=True)
class Asked:
    """What layouts are asked for: a GPU by name ('' for one that is not in the table), its memory, and how the model is
    held.
    """

    gpu: str
    memory_gb: float
    stored: Stored
    context: float
    utilization: float = UTILIZATION
    overhead_gb: float = OVERHEAD_GB_PER_GPU


def layouts(model: Model, asked: Asked, gpus: int) -> tuple[Layout, ...]:
    """The ways to share out ``gpus`` GPUs, most replicas first: tensor parallelism by powers of two, pipelines where
    more than a node's eight GPUs are taken together.
    """
    return tuple(layout(model, asked, gpus // (tp * pp), tp, pp) for tp, pp in _shapes(gpus))


def _shapes(gpus: int) -> Iterator[tuple[int, int]]:
    for size in (2**power for power in range(11)):
        if size <= gpus and gpus % size == 0:
            yield (size, 1) if size <= 8 else (8, size // 8)


def layout(model: Model, asked: Asked, replicas: int, tensor_parallel: int, pipeline_parallel: int = 1) -> Layout:
    """One way, worked out."""
    found = estimate(
        model,
        memory_gb_per_gpu=asked.memory_gb,
        gpus=tensor_parallel * pipeline_parallel,
        weight_bytes=asked.stored.weights / model.parameters,
        kv_bytes=asked.stored.kv_bytes,
        context=asked.context,
        utilization=asked.utilization,
        overhead_gb_per_gpu=asked.overhead_gb,
        pipeline_parallel=pipeline_parallel,
    )
    why_not = _why_not(model, found, tensor_parallel, pipeline_parallel)
    plain = Layout(replicas, tensor_parallel, pipeline_parallel, found, why_not)
    card = GPUS.get(asked.gpu)
    if card is None or why_not:
        return plain
    # The stages of a pipeline work one after the other for one stream, each with the bandwidth of its own GPUs (plan.Shape).
    one = machine(model, card, asked.stored, context=asked.context, tensor_parallel=tensor_parallel)
    in_stage = max(1.0, found.seats / pipeline_parallel)
    full = 1.0 / step_seconds(one, in_stage, asked.context)
    return Layout(
        replicas,
        tensor_parallel,
        pipeline_parallel,
        found,
        why_not,
        pace=1.0 / step_seconds(one, 1, asked.context),
        full_pace=full,
        throughput=full * found.seats * replicas,
    )


def _why_not(model: Model, found: Estimate, tensor_parallel: int, pipeline_parallel: int) -> str:
    if model.heads % tensor_parallel:
        return f"{model.heads} heads do not split over {tensor_parallel} GPUs"
    if pipeline_parallel > model.layers:
        return f"{model.layers} layers do not split into {pipeline_parallel} stages"
    if found.kv_budget_gb <= 0:
        return "the weights do not fit"
    if not found.seats:
        return "not one request of this length fits"
    return ""
