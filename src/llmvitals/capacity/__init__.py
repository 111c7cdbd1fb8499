"""Arithmetic of serving capacity: KV budget, seats, queue ceiling, Little's law, M/M/1. Pure functions.

Bytes are bytes; GPU memory is counted in decimal GB as vendors sell it (80 GB = 80e9 bytes), contexts in tokens, times in
seconds. What cannot be known before the engine starts (activations, CUDA graphs) is an assumption and is shown as one.
"""

from __future__ import annotations

from dataclasses import dataclass

GB = 1e9
KEY_AND_VALUE = 2


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model: memory in decimal GB as the vendor's data sheet states it."""

    name: str
    memory_gb: float
    source: str


GPUS: tuple[Gpu, ...] = (
    Gpu("T4-16GB", 16, "NVIDIA T4 data sheet"),
    Gpu("A10-24GB", 24, "NVIDIA A10 data sheet"),
    Gpu("L4-24GB", 24, "NVIDIA L4 data sheet"),
    Gpu("RTX4090-24GB", 24, "GeForce RTX 4090 specifications"),
    Gpu("RTX5090-32GB", 32, "GeForce RTX 5090 specifications"),
    Gpu("V100-32GB", 32, "NVIDIA V100 data sheet"),
    Gpu("A100-40GB", 40, "NVIDIA A100 data sheet"),
    Gpu("A100-80GB", 80, "NVIDIA A100 data sheet"),
    Gpu("L40S-48GB", 48, "NVIDIA L40S data sheet"),
    Gpu("H100-80GB", 80, "NVIDIA H100 data sheet"),
    Gpu("H100-NVL-94GB", 94, "NVIDIA H100 NVL data sheet"),
    Gpu("GH200-96GB", 96, "NVIDIA GH200 data sheet (HBM3)"),
    Gpu("H200-141GB", 141, "NVIDIA H200 data sheet"),
    Gpu("B200-180GB", 180, "NVIDIA DGX B200 data sheet (1,440 GB over 8 GPUs)"),
    Gpu("MI300X-192GB", 192, "AMD Instinct MI300X data sheet"),
)

BYTES: dict[str, float] = {
    "fp32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
    "fp4": 0.5,
}
"""Bytes per value by data type. Quantised weights also carry scales, a few percent that this leaves out."""


@dataclass(frozen=True, slots=True)
class Model:
    """What a capacity estimate needs of a model. ``parameters``: count of weights."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    parameters: float
    max_context: int


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, bytes_per_value: float) -> float:
    """KV bytes that one token of context holds: ``2 x layers x KV heads x head dim x bytes``; 2 for key and value.

    Source: multi-head attention caches one key and one value vector per layer and KV head (Shazeer 2019, "Fast
    Transformer Decoding"; grouped heads: Ainslie et al. 2023, "GQA"). Llama-3-70B in FP16 (80, 8, 128): 327,680 bytes.
    """
    return KEY_AND_VALUE * layers * kv_heads * head_dim * bytes_per_value


def context_bytes(tokens: int, bytes_per_token: float) -> float:
    """KV bytes that ``tokens`` of context hold."""
    return tokens * bytes_per_token


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
    """Requests that the pool holds at once: ``budget / mean context``, to the nearest, 0 when not even one fits.

    To the nearest, because the mean is an estimate: 200,000 tokens at 4,000 each are 50.
    """
    exact = budget_tokens / mean_context
    return round(exact) if exact >= 1.0 else 0


def queue_ceiling(service_rate: float, acceptable_wait: float) -> float:
    """Longest queue whose last request still waits no longer than ``acceptable_wait`` seconds.

    Little's law for the queue alone: ``requests per second x seconds``. 8/s and 5 s give 40.
    """
    return littles_law(service_rate, acceptable_wait)


def littles_law(arrival_rate: float, mean_seconds: float) -> float:
    """Mean number in the system, ``L = lambda x W`` (Little 1961), for any stable system."""
    return arrival_rate * mean_seconds


def mm1_wait(service_seconds: float, utilization: float) -> float:
    """Mean wait in the queue of M/M/1 in seconds: ``S x rho / (1 - rho)``; infinite from ``rho`` = 1 on.

    Source: Kleinrock, Queueing Systems I (1975), section 3.2. An LLM server batches, so this shows the shape of the
    curve (at 0.5 one service time, at 0.9 nine), not its own numbers. ``rho`` is no GPU percentage.
    """
    if utilization >= 1.0:
        return float("inf")
    return service_seconds * utilization / (1.0 - utilization)


def parameter_count(
    *,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    intermediate: int,
    vocabulary: int,
    tied: bool,
) -> float:
    """Weights of a dense gated-MLP decoder (the Llama shape), norms left out (under 0.01 %).

    Per layer: query and output projections ``2 x hidden x heads x dim``, key and value ``2 x hidden x KV heads x dim``,
    three MLP matrices; plus the embedding, twice when the output head is not tied to it. Llama-3-70B: 70.55e9.
    """
    attention = 2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim
    embedding = vocabulary * hidden * (1 if tied else 2)
    return layers * (attention + 3 * hidden * intermediate) + embedding


OVERHEAD_GB_PER_GPU = 4.0
"""Assumption: activations and CUDA graphs, decimal GB per GPU. The engine measures the real figure when it starts."""

UTILIZATION = 0.90
"""vLLM's long-standing default of ``gpu_memory_utilization``; the engine shows its own value on its metrics page."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """KV capacity of one replica. ``kv_bytes_per_token`` is the model's; GB are decimal and over all its GPUs."""

    kv_bytes_per_token: float
    memory_gb: float
    usable_gb: float
    weights_gb: float
    overhead_gb: float
    kv_budget_gb: float
    kv_budget_tokens: int
    seats: int


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
) -> Estimate:
    """The KV pool of one tensor-parallel replica over ``gpus`` GPUs, and its seats at ``context`` tokens each.

    ``weight_bytes`` and ``kv_bytes`` are bytes per value. Llama-3-70B with FP8 weights on two H100 (160 GB x 0.90 -
    70.6 GB - 8 GB): about 200,000 tokens in FP16 KV.
    """
    memory = memory_gb_per_gpu * gpus
    weights = model.parameters * weight_bytes / GB
    overhead = overhead_gb_per_gpu * gpus
    budget = kv_budget_bytes(memory * GB, utilization, weights * GB, overhead * GB)
    held = kv_bytes_per_token(model.layers, held_kv_heads(model.kv_heads, gpus), model.head_dim, kv_bytes)
    tokens = kv_budget_tokens(budget, held)
    return Estimate(
        kv_bytes_per_token(model.layers, model.kv_heads, model.head_dim, kv_bytes),
        memory,
        memory * utilization,
        weights,
        overhead,
        budget / GB,
        tokens,
        seats(tokens, context),
    )
