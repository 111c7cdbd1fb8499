"""What a model keeps in memory: its weights, and for each kind of layer what a sequence leaves there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

KEY_AND_VALUE = 2


class Kept(StrEnum):
    """What layers keep of a sequence."""

    FULL = "full"  # key and value of every token
    WINDOW = "window"  # key and value of the last tokens only
    LATENT = "latent"  # one latent of every token, for all heads together (MLA)
    STATE = "state"  # a state whose size does not depend on how many tokens there are


@dataclass(frozen=True, slots=True)
class Cache:
    """``layers`` that keep the same of a sequence.

    ``heads``: KV heads; ``values``: kept for each token and head (key and value; of MLA: latent and rotary part; of a
    state: all of one layer, whatever the length). ``window``: the last tokens that are kept, 0 for all.
    ``value_bytes``: bytes per value where it is not the KV data type.

    MLA keeps ``kv_lora_rank + qk_rope_head_dim`` values for each token and layer, which every GPU of tensor parallelism
    holds whole (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1). A state is that of Mamba (Gu and Dao 2023) or of linear
    attention.
    """

    kind: Kept
    layers: int
    heads: int
    values: int
    window: int = 0
    value_bytes: float = 0.0

    def tokens(self, context: float) -> float:
        """How many tokens of a ``context`` are kept; a state counts as one."""
        if self.kind is Kept.STATE:
            return 1.0
        return min(context, self.window) if self.window else context

    def on_one_gpu(self, context: float, kv_bytes: float, tensor_parallel: int = 1) -> float:
        """Bytes that a sequence of ``context`` tokens takes on each GPU. Each holds at least one head: fewer heads are
        copied.
        """
        size = self.layers * self.values * self.tokens(context) * (self.value_bytes or kv_bytes)
        if self.kind is Kept.LATENT:
            return size
        if self.kind is Kept.STATE:
            return size / tensor_parallel
        return size * math.ceil(self.heads / tensor_parallel)


@dataclass(frozen=True, slots=True)
class Model:
    """What a capacity estimate needs of a model. ``parameters``: count of weights, all experts among them.

    ``active``: those that one token uses (0: all). ``experts``: those in experts, of which a token uses
    ``expert_share``. ``embedding``: those of the embedding and the output head, which quantised checkpoints usually
    leave at two bytes. ``stored``: bytes of the checkpoint as its config tells (0: it does not), in the data type
    ``dtype``. ``caches``: by kind of layer; without any, all layers keep all of ``kv_heads`` heads. ``notes``: what was
    assumed.
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    parameters: float
    max_context: int
    hidden: int = 0
    active: float = 0.0
    experts: float = 0.0
    expert_share: float = 1.0
    embedding: float = 0.0
    stored: float = 0.0
    dtype: str = ""
    caches: tuple[Cache, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[Cache, ...]:
        """What each kind of layer keeps."""
        return self.caches or (Cache(Kept.FULL, self.layers, self.kv_heads, KEY_AND_VALUE * self.head_dim),)

    @property
    def used(self) -> float:
        """Weights that one token uses."""
        return self.active or self.parameters

    @property
    def attention(self) -> str:
        """The kind of attention in a few letters, and of how many layers."""
        kinds = {cache.kind for cache in self.kept}
        heads = "MHA" if self.kv_heads == self.heads else "MQA" if self.kv_heads == 1 else "GQA"
        if Kept.LATENT in kinds:
            heads = "MLA"
        if len(self.kept) == 1 and kinds != {Kept.WINDOW}:
            return heads if kinds != {Kept.STATE} else "state space"
        parts = ", ".join(f"{cache.layers} {WORDS[cache.kind].format(cache.window)}" for cache in self.kept)
        return f"{heads}: {parts}" if kinds - {Kept.STATE} else parts


WORDS: dict[Kept, str] = {
    Kept.FULL: "full layers",
    Kept.WINDOW: "layers with a window of {:,} tokens",
    Kept.LATENT: "latent layers",
    Kept.STATE: "layers with a constant state",
}


def sequence_bytes(model: Model, context: float, kv_bytes: float) -> float:
    """Bytes that a sequence of ``context`` tokens takes in the model, counted once (without copies of tensor
    parallelism).
    """
    return sum(cache.on_one_gpu(context, kv_bytes) for cache in model.kept)


def token_bytes(model: Model, kv_bytes: float) -> float:
    """Bytes of one token in all layers that keep tokens, while it is inside every window."""
    return sum(cache.on_one_gpu(1, kv_bytes) for cache in model.kept if cache.kind is not Kept.STATE)


def further_token_bytes(model: Model, kv_bytes: float) -> float:
    """Bytes that a token adds once the sequence is longer than every window."""
    return sum(cache.on_one_gpu(1, kv_bytes) for cache in model.kept if cache.kind in (Kept.FULL, Kept.LATENT))


def state_bytes(model: Model, kv_bytes: float) -> float:
    """Bytes of a sequence that do not depend on its length."""
    return sum(cache.on_one_gpu(1, kv_bytes) for cache in model.kept if cache.kind is Kept.STATE)
