"""Counts of weights by part of a decoder. Norms and biases are left out (under 0.1 % of any model here).

Shapes are those of the models' public code: Llama and Mixtral (attention and gated MLP), DeepSeek-V2 (latent
attention), Mamba (Gu and Dao 2023), Mamba-2 (Dao and Gu 2024), Qwen3-Next (gated delta rule; Yang et al. 2024).
"""

from __future__ import annotations

import math


def embedding(vocabulary: int, hidden: int, *, tied: bool) -> float:
    """The embedding, and the output head where it is another matrix."""
    return vocabulary * hidden * (1 if tied else 2)


def attention(hidden: int, heads: int, kv_heads: int, key_dim: int, value_dim: int, *, gated: bool = False) -> float:
    """Query, key, value and output projections; ``gated``: each head's output has a gate, as wide as its query."""
    query = hidden * heads * key_dim * (2 if gated else 1)
    return query + hidden * kv_heads * (key_dim + value_dim) + heads * value_dim * hidden


def latent_attention(
    hidden: int, heads: int, *, query_rank: int, kv_rank: int, plain: int, rotary: int, value: int
) -> float:
    """Multi-head latent attention: queries through a rank of their own (0: directly), keys and values through the
    latent.
    """
    wide = heads * (plain + rotary)
    query = query_rank * (hidden + wide) if query_rank else hidden * wide
    return query + hidden * (kv_rank + rotary) + kv_rank * heads * (plain + value) + heads * value * hidden


def mlp(hidden: int, intermediate: int, *, gated: bool = True) -> float:
    """Three matrices with a gate, two without."""
    return (3 if gated else 2) * hidden * intermediate


def delta(hidden: int, key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int) -> float:
    """Linear attention by the gated delta rule: query, key, value and gate in one projection, two gates per head, a
    convolution.
    """
    keys, values = key_heads * key_dim, value_heads * value_dim
    return hidden * (2 * keys + 2 * values + 2 * value_heads) + (2 * keys + values) * kernel + values * hidden


def delta_state(key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int) -> int:
    """Values of a sequence's state in one such layer: a matrix per head, and what the convolution looks back at."""
    return value_heads * key_dim * value_dim + (2 * key_heads * key_dim + value_heads * value_dim) * (kernel - 1)


def mamba(hidden: int, inner: int, state: int, kernel: int, step_rank: int) -> float:
    """A Mamba layer: in, convolution, what selects, step sizes, the state's matrix, out."""
    return (
        hidden * 2 * inner
        + inner * kernel
        + inner * (step_rank + 2 * state)
        + step_rank * inner
        + inner * state
        + inner * hidden
    )


def mamba_state(inner: int, state: int, kernel: int) -> int:
    """Values of a sequence's state in one Mamba layer."""
    return inner * (state + kernel - 1)


def mamba2(hidden: int, heads: int, head_dim: int, groups: int, state: int, kernel: int) -> float:
    """A Mamba-2 layer."""
    inner, mixed = heads * head_dim, heads * head_dim + 2 * groups * state
    return hidden * (inner + mixed + heads) + mixed * kernel + inner * hidden


def mamba2_state(heads: int, head_dim: int, groups: int, state: int, kernel: int) -> int:
    """Values of a sequence's state in one Mamba-2 layer."""
    return heads * head_dim * state + (heads * head_dim + 2 * groups * state) * (kernel - 1)


def step_rank(hidden: int) -> int:
    """The rank of Mamba's step sizes where a config says 'auto'."""
    return math.ceil(hidden / 16)


def vision(hidden: int, layers: int, intermediate: int) -> float:
    """A vision transformer: four projections and two matrices per layer. SigLIP (1152, 27, 4304): 411e6 of 417e6."""
    return layers * (attention(hidden, 1, 1, hidden, hidden) + mlp(hidden, intermediate, gated=False))
