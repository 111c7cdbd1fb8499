"""What a simulated engine is: its scheduler's limits and its KV pool, under vLLM's names, and its machine."""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.errors import SettingsError
from llmvitals.simulator.roofline import GPU_8B, Machine


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """A server's settings. ``blocks``: usable KV blocks (vLLM's ``num_gpu_blocks`` is one more: its null block)."""

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

    def __post_init__(self) -> None:
        """Refuse what vLLM refuses at start: a pool that cannot hold one context of full length."""
        if min(self.block_tokens, self.blocks, self.max_num_seqs, self.max_num_batched_tokens, self.max_model_len) < 1:
            raise SettingsError(
                "every limit of a simulated engine must be at least 1",
                place="EngineConfig",
                remedy="Give positive numbers.",
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
