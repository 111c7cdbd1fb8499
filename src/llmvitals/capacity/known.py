"""Models whose shape is known without a config: those of the simulator's table that keep all of every layer."""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.capacity.model import Model
from llmvitals.simulator import hardware

WINDOWED = frozenset({"Gemma-2-9B"})
"""Of which the table does not say that half the layers keep a window only."""


HEADS: Mapping[str, int] = {"Qwen3-30B-A3B": 32}
"""Attention heads of those whose heads together are not as wide as the model (``num_attention_heads`` of the config.json)."""


def _of(one: hardware.Model) -> Model:
    return Model(
        one.layers,
        HEADS.get(one.name, one.hidden // one.head_dim),
        one.kv_heads,
        one.head_dim,
        one.parameters,
        one.context,
        hidden=one.hidden,
        active=one.active,
        experts=one.expert_parameters,
        expert_share=one.expert_share,
    )


KNOWN: Mapping[str, Model] = {name: _of(one) for name, one in hardware.MODELS.items() if name not in WINDOWED}
