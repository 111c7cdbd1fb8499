"""What a simulated engine is: its scheduler's limits and its KV pool, under vLLM's names, and its machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmvitals.errors import SettingsError
from llmvitals.simulator.dialect import COUNTING
from llmvitals.simulator.roofline import GPU_8B, Machine


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding: ``tokens`` drafted per step and sequence, each accepted with chance ``acceptance`` while all
    before it were (Leviathan et al. 2023). ``cost``: what drafting one token costs, as a share of a plain decode step.
    """

    tokens: int
    acceptance: float
    cost: float = 0.1


@dataclass(frozen=True, slots=True)
class Transfer:
    """KV that comes from a prefill engine over one link: ``bandwidth`` bytes/s, ``latency`` seconds a transfer.

    ``failures``: share of transfers that fail after ``timeout`` seconds; their prompts are computed here.
    """

    bandwidth: float
    latency: float = 0.002
    failures: float = 0.0
    timeout: float = 10.0


class Preemption(StrEnum):
    """What happens to the KV of a sequence that is thrown out: dropped, or moved to host memory and back."""

    RECOMPUTE = "recompute"
    SWAP = "swap"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """A server's settings. ``blocks``: usable KV blocks (vLLM's ``num_gpu_blocks`` is one more: its null block).

    ``dialect``: which engine's page it shows, and so what it counts; how it works is the same.
    """

    model: str = "sim-8b"
    block_tokens: int = 16
    blocks: int = 32_768
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 2048
    max_model_len: int = 8192
    prefix_caching: bool = True
    reserve_full_prompt: bool = (
        True  # vLLM's scheduler_reserve_full_isl: admit only what fits whole, not its first chunk
    )
    gpu_memory_utilization: float = 0.92
    machine: Machine = GPU_8B
    chunked_prefill: bool = True  # off: a step computes whole prompts or decodes, prompts first (vLLM V0's default)
    preemption: Preemption = Preemption.RECOMPUTE
    swap_bandwidth: float = 2.5e10  # bytes/s between device and host: PCIe 4.0 x16, as it is reached
    max_queued: int | None = (
        None  # so many may wait beside max_num_seqs that run: vLLM's max_num_queued_reqs is both together
    )
    max_loras: int = 1
    grammar_workers: int = 1
    speculation: Speculation | None = None
    transfer: Transfer | None = None
    default_max_tokens: int | None = None
    dialect: str = "vllm"

    def __post_init__(self) -> None:
        """Refuse what vLLM refuses at start: a pool that cannot hold one context of full length, a step too small for all."""
        if min(self.block_tokens, self.blocks, self.max_num_seqs, self.max_num_batched_tokens, self.max_model_len) < 1:
            raise SettingsError(
                "every limit of a simulated engine must be at least 1",
                place="EngineConfig",
                remedy="Give positive numbers.",
            )
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise SettingsError(
                f"a step of {self.max_num_batched_tokens} tokens cannot decode {self.max_num_seqs} sequences",
                place="EngineConfig",
                remedy=f"Raise max_num_batched_tokens to {self.max_num_seqs} or lower max_num_seqs.",
            )
        if self.dialect not in COUNTING:
            raise SettingsError(
                f"no simulated engine shows pages of '{self.dialect}'",
                place="EngineConfig",
                remedy=f"Use one of: {', '.join(COUNTING)}.",
            )
        if self.max_model_len > self.pool_tokens:
            raise SettingsError(
                f"a context of {self.max_model_len} tokens does not fit into a pool of {self.pool_tokens}",
                place="EngineConfig",
                remedy=f"Lower max_model_len to {self.pool_tokens} or give more blocks.",
            )

    @property
    def pool_tokens(self) -> int:
        """Tokens that the usable blocks hold."""
        return self.blocks * self.block_tokens
