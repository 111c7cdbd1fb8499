"""Arithmetic of serving capacity: KV budget, seats, queue ceiling, Little's law, M/M/1. Pure functions.

What needs speeds of GPUs stands in modules of its own, which know the simulator: ``layouts`` (replicas against tensor
parallelism), ``plan`` (users to GPUs) and ``whatif`` (before and after a change).
"""

from __future__ import annotations

from llmvitals.capacity.gpus import BYTES, GB, GPUS, Gpu, gpu_of
from llmvitals.capacity.memory import (
    OVERHEAD_GB_PER_GPU,
    UTILIZATION,
    Estimate,
    estimate,
    held_kv_heads,
    kv_budget_bytes,
    kv_budget_tokens,
    kv_bytes_per_token,
    seats,
)
from llmvitals.capacity.model import KEY_AND_VALUE, Cache, Kept, Model
from llmvitals.capacity.queueing import littles_law, load_for, mm1_wait, queue_ceiling, wait_curve

__all__ = [
    "BYTES",
    "GB",
    "GPUS",
    "KEY_AND_VALUE",
    "OVERHEAD_GB_PER_GPU",
    "UTILIZATION",
    "Cache",
    "Estimate",
    "Gpu",
    "Kept",
    "Model",
    "estimate",
    "gpu_of",
    "held_kv_heads",
    "kv_budget_bytes",
    "kv_budget_tokens",
    "kv_bytes_per_token",
    "littles_law",
    "load_for",
    "mm1_wait",
    "queue_ceiling",
    "seats",
    "wait_curve",
]
