"""A model on GPUs as the machine of the simulator's roofline, and what follows for one stream and for many.

Everything here is an estimate: peaks are the data sheets', what kernels reach of them is an assumption
(``simulator.hardware``).
"""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.capacity.model import Model
from llmvitals.simulator import hardware
from llmvitals.simulator.hardware import Card
from llmvitals.simulator.roofline import Machine, step_cost

PROBES = 24
"""Halvings of a search for the largest batch: enough for any batch under 16 million."""


@dataclass(frozen=True, slots=True)
class Stored:
    """How a model is held: bytes of all weights, bytes of a KV value, and whether arithmetic is done in FP8."""

    weights: float
    kv_bytes: float
    fp8: bool = False


def machine(model: Model, card: Card, stored: Stored, *, context: float, tensor_parallel: int = 1) -> Machine:
    """``model`` on ``tensor_parallel`` cards joined by the best link that they have.

    ``context``: mean tokens of a sequence; windows, states and copied heads make the KV of a token depend on it.
    """
    each = sum(cache.on_one_gpu(context, stored.kv_bytes, tensor_parallel) for cache in model.kept)
    return Machine(
        name=card.product,
        memory_bytes=card.memory_bytes,
        bandwidth=card.bandwidth,
        bandwidth_efficiency=hardware.BANDWIDTH_EFFICIENCY,
        flops=card.fp8_flops if stored.fp8 and card.fp8_flops else card.flops,
        flops_efficiency=hardware.FLOPS_EFFICIENCY,
        weight_bytes=stored.weights,
        kv_bytes_per_token=each * tensor_parallel / context,
        flops_per_token=2.0 * model.used,
        step_seconds=hardware.STEP_SECONDS,
        sequence_seconds=hardware.SEQUENCE_SECONDS,
        idle_watts=hardware.IDLE_SHARE * card.watts,
        max_watts=card.watts,
        gpus=tensor_parallel,
        layers=model.layers,
        hidden=model.hidden or model.heads * model.head_dim,
        link=hardware.LINKS[card.links[0]] if tensor_parallel > 1 else None,
        expert_bytes=stored.weights * model.experts / model.parameters,
        expert_share=model.expert_share,
        sm_clock_mhz=card.sm_clock_mhz,
        attention_flops=4.0 * model.layers * model.heads * model.head_dim,
    )


def step_seconds(machine: Machine, batch: float, context: float) -> float:
    """A decode step of ``batch`` sequences of ``context`` tokens each: the time per output token of all of them."""
    return step_cost(machine, round(batch), max(1, round(batch)), round(batch * context), batch * context).seconds


def prefill_seconds(machine: Machine, tokens: float) -> float:
    """Kernel time of a prompt of ``tokens`` that are computed in one step."""
    whole = max(1, round(tokens))
    return step_cost(machine, 1, whole, whole, whole * whole / 2.0).kernel


def largest_batch(machine: Machine, context: float, seconds: float, seats: int) -> int:
    """Sequences, ``seats`` at most, whose decode step takes no longer than ``seconds``; 0 when not even one keeps that
    pace.
    """
    low, high = 0, max(0, seats)
    for _ in range(PROBES):
        if low >= high:
            break
        middle = (low + high + 1) // 2
        low, high = (middle, high) if step_seconds(machine, middle, context) <= seconds else (low, middle - 1)
    return low
