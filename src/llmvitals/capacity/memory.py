"""The KV pool before an engine starts: what the engine's share of memory leaves beside weights and overhead.

Bytes are bytes; GPU memory is counted in decimal GB as vendors sell it (80 GB = 80e9 bytes), contexts in tokens. What
cannot be known before the engine starts (activations, CUDA graphs) is an assumption and is shown as one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmvitals.capacity.gpus import GB
from llmvitals.capacity.model import KEY_AND_VALUE, Model, further_token_bytes, sequence_bytes, token_bytes

OVERHEAD_GB_PER_GPU = 4.0
"""Assumption: activations and CUDA graphs, decimal GB per GPU. vLLM's own logs show 2.6 to 9: docs/capacity.md lists
them. The engine measures the real figure when it starts.
"""

UTILIZATION = 0.90
"""vLLM's default of ``gpu_memory_utilization`` up to 0.18, and the one that most set-ups write; from 0.20 on it is 0.92. The engine
shows its own value on its metrics page.
"""

FEW_SEATS = 10
"""Below so many only whole requests count: see :func:`seats`."""


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, bytes_per_value: float) -> float:
    """KV bytes that one token of context holds: ``2 x layers x KV heads x head dim x bytes``; 2 for key and value.

    Source: multi-head attention caches one key and one value vector per layer and KV head (Shazeer 2019, "Fast
    Transformer Decoding"; grouped heads: Ainslie et al. 2023, "GQA"). Llama-3-70B in FP16 (80, 8, 128): 327,680 bytes.
    """
    return KEY_AND_VALUE * layers * kv_heads * head_dim * bytes_per_value


def kv_budget_bytes(memory_bytes: float, utilization: float, weight_bytes: float, overhead_bytes: float) -> float:
    """Bytes left for the KV pool, 0 when the model does not fit; all over the whole replica.

    ``memory x utilization - weights - overhead``: vLLM takes its share of each GPU at start (``gpu_memory_utilization``)
    and gives to the pool what a profiling run leaves. ``overhead_bytes`` stands for activations and CUDA graphs.
    """
    return max(0.0, memory_bytes * utilization - weight_bytes - overhead_bytes)


def held_kv_heads(kv_heads: int, tensor_parallel: int) -> int:
    """KV heads that the replica stores in all: each GPU needs at least one, so fewer heads than GPUs are copied."""
    return max(kv_heads, tensor_parallel)


def kv_budget_tokens(budget_bytes: float, bytes_per_token: float) -> int:
    """Tokens of context that the pool holds at once, whole ones."""
    return int(budget_bytes // bytes_per_token)


def seats(budget_tokens: float, mean_context: float) -> int:
    """Requests that the pool holds at once: ``budget / mean context``, 0 when not even one fits.

    To the nearest, because the mean is an estimate: 200,000 tokens at 4,000 each are 50. Of fewer than ten only whole
    ones count: there the last one would be a tenth of the pool and more, which it does not have.
    """
    exact = budget_tokens / mean_context
    return round(exact) if exact >= FEW_SEATS else int(exact)


@dataclass(frozen=True, slots=True)
class Estimate:
    """KV capacity of one replica. ``kv_bytes_per_token`` is the model's; GB are decimal and over all its GPUs.

    ``kv_budget_tokens`` and ``seats`` are those for sequences of the mean context that was given: windows and states
    make what a token costs depend on it. ``kv_bytes_per_further_token``: beyond every window;
    ``kv_bytes_per_sequence``: of that mean context.
    """

    kv_bytes_per_token: float
    memory_gb: float
    usable_gb: float
    weights_gb: float
    overhead_gb: float
    kv_budget_gb: float
    kv_budget_tokens: int
    seats: int
    kv_bytes_per_further_token: float = 0.0
    kv_bytes_per_sequence: float = 0.0


def estimate(
    model: Model,
    *,
    memory_gb_per_gpu: float,
    gpus: int,
    weight_bytes: float,
    kv_bytes: float,
    context: float,
    utilization: float = UTILIZATION,
    overhead_gb_per_gpu: float = OVERHEAD_GB_PER_GPU,
    pipeline_parallel: int = 1,
) -> Estimate:
    """The KV pool of one replica over ``gpus`` GPUs, and its seats at ``context`` tokens each.

    ``weight_bytes`` and ``kv_bytes`` are bytes per value; ``pipeline_parallel`` stages split the layers (the fullest
    one decides), and the GPUs of a stage split the heads. Llama-3-70B with FP8 weights on two H100 (160 GB x 0.90 -
    70.6 GB - 8 GB): about 200,000 tokens in FP16 KV.
    """
    tensor_parallel = gpus // pipeline_parallel
    stage = fullest_stage(model.layers, pipeline_parallel)
    weights = model.parameters * weight_bytes
    on_one = weights * stage / tensor_parallel
    free = kv_budget_bytes(memory_gb_per_gpu * GB, utilization, on_one, overhead_gb_per_gpu * GB)
    each = sum(cache.on_one_gpu(context, kv_bytes, tensor_parallel) for cache in model.kept) * stage
    tokens = kv_budget_tokens(free, each / context)
    return Estimate(
        kv_bytes_per_token=token_bytes(model, kv_bytes),
        memory_gb=memory_gb_per_gpu * gpus,
        usable_gb=memory_gb_per_gpu * gpus * utilization,
        weights_gb=weights / GB,
        overhead_gb=overhead_gb_per_gpu * gpus,
        kv_budget_gb=free * gpus / GB,
        kv_budget_tokens=tokens,
        seats=seats(tokens, context),
        kv_bytes_per_further_token=further_token_bytes(model, kv_bytes),
        kv_bytes_per_sequence=sequence_bytes(model, context, kv_bytes),
    )


def fullest_stage(layers: int, stages: int) -> float:
    """Share of the layers on the GPUs that hold most of them: 80 layers in 3 stages are 27, 27 and 26."""
    return math.ceil(layers / stages) / layers
