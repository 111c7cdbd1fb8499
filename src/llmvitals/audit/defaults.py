"""What vLLM decides at its start where nobody said: by release, generation of the engine and GPU.

Source of every row: ``EngineArgs`` (``_set_default_args*``, ``get_batch_defaults``) and ``SchedulerConfig`` of the releases named,
as its OpenAI server has them on NVIDIA and AMD GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.audit import flags
from llmvitals.audit.flags import Version

V0, V1 = "V0", "V1"
V1_BY_DEFAULT: Version = (0, 8, 0)
V1_ONLY: Version = (0, 11, 0)
"""V0 can be chosen (``VLLM_USE_V1=0``) before this release."""

V0_CHUNKS_SINCE: Version = (0, 5, 4)
"""First release read in which V0 chunks the prompts of long contexts by itself."""

V0_CHUNKS_ABOVE = 32768
"""Longest context (tokens) up to which V0 leaves prompts whole where nobody said; above it prefill is chunked."""

LARGE_GB, HUGE_GB = 75.0, 170.0
"""Memory (decimal GB) of the GPUs with higher defaults: 70 GiB and 160 GiB in the source."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Defaults since a release: seats and tokens of a step on small, large and huge GPUs."""

    since: Version
    seats: tuple[int, int, int]
    tokens: tuple[int, int, int]
    a100_is_small: bool


BATCHES: tuple[Batch, ...] = (
    Batch((0, 8, 0), (1024, 1024, 1024), (2048, 8192, 8192), a100_is_small=False),
    Batch((0, 8, 5), (256, 1024, 1024), (2048, 8192, 8192), a100_is_small=False),
    Batch((0, 9, 0), (256, 1024, 1024), (2048, 8192, 8192), a100_is_small=True),
    Batch((0, 28, 0), (256, 1024, 1024), (2048, 8192, 16384), a100_is_small=True),
)
"""Of the V1 engine, oldest first."""

V0_SEATS = 256
V0_TOKENS = 2048
"""Or the longest context, where that is more and prefill is not chunked."""
V0_CHUNK_TOKENS = ((0, 7, 0), 512, 2048)
"""With chunked prefill: before and since this release."""


def generation(version: Version, variable: str) -> str:
    """The engine that runs. ``variable``: what VLLM_USE_V1 says."""
    if version >= V1_ONLY:
        return V1
    return V1 if variable == "1" or (version >= V1_BY_DEFAULT and variable != "0") else V0


def _batch(version: Version) -> Batch:
    return [b for b in BATCHES if b.since <= version][-1] if version >= BATCHES[0].since else BATCHES[0]


def _tier(batch: Batch, gpu: str, memory_gb: float) -> int:
    if batch.a100_is_small and "a100" in gpu.lower():
        return 0
    return 2 if memory_gb >= HUGE_GB else 1 if memory_gb >= LARGE_GB else 0


def seats(version: Version, engine: str, gpu: str, memory_gb: float | None) -> int | None:
    """``max_num_seqs`` where nobody said; None where it depends on a GPU that is not known."""
    if engine == V0:
        return V0_SEATS
    found = _batch(version)
    if memory_gb is None:
        return found.seats[0] if len(set(found.seats)) == 1 else None
    return found.seats[_tier(found, gpu, memory_gb)]


def step_tokens(
    version: Version, engine: str, gpu: str, memory_gb: float | None, *, chunked: bool, context: int | None
) -> int | None:
    """``max_num_batched_tokens`` where nobody said; None where it depends on what is not known."""
    if engine == V0 and chunked:
        since, before, after = V0_CHUNK_TOKENS
        return after if version >= since else before
    base = V0_TOKENS if engine == V0 else None
    if base is None:
        found = _batch(version)
        base = None if memory_gb is None else found.tokens[_tier(found, gpu, memory_gb)]
    if chunked:
        return base
    return None if base is None or context is None else max(context, base)


def usual(gpu: str, memory_gb: float) -> tuple[int, int]:
    """``max_num_seqs`` and ``max_num_batched_tokens`` of the newest release that was read, on GPUs of that name and memory."""
    found = _batch(flags.newest())
    tier = _tier(found, gpu, memory_gb)
    return found.seats[tier], found.tokens[tier]


def chunked(version: Version, engine: str, context: int | None) -> bool | None:
    """Whether prefill is chunked where nobody said; None where it depends on a longest context that is not known."""
    if engine == V1 or version < V0_CHUNKS_SINCE:
        return engine == V1
    return None if context is None else context > V0_CHUNKS_ABOVE


def prefix_caching(engine: str) -> bool:
    """Whether prefixes are cached where nobody said."""
    return engine == V1
