"""Weights of a config by part: layers, experts, embeddings, and what sees images. Norms and biases are left out (under 0.1 %)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from llmvitals.capacity import weights
from llmvitals.errors import SettingsError
from llmvitals.sources.model_fields import Fields
from llmvitals.sources.model_layers import Feed, Mix
from llmvitals.sources.model_states import delta, mamba, mamba2

UNGATED = frozenset(
    {
        *("gpt2", "gpt_neox", "gptj", "gpt_bigcode", "opt", "bloom", "falcon", "mpt", "phi", "starcoder2"),
        *("nemotron", "nemotron_h"),
    }
)
"""Families whose MLP has two matrices."""

TIED = frozenset(
    {"gemma", "gemma2", "gemma3", "gemma3_text", "cohere", "cohere2", "gpt2", "opt", "bloom", "gpt_bigcode"}
)
"""Families whose output head is the embedding unless their config says otherwise (their class' default)."""

VISION = ("hidden_size", "num_hidden_layers", "intermediate_size")


@dataclass(frozen=True, slots=True)
class Count:
    """Weights of the layers: those of experts, those that a token uses of them, and all others; of the embedding with
    the output head, and of what sees images.
    """

    experts: float = 0.0
    used_experts: float = 0.0
    others: float = 0.0
    embedding: float = 0.0
    seen: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return self.experts + self.others + self.embedding + self.seen


def counted_weights(
    config: Mapping[str, Any],
    fields: Fields,
    layers: tuple[list[Mix], list[Feed]],
    shape: tuple[int, int, int],
    *,
    known: float | None,
    place: str,
) -> Count:
    """Weights by part. Where their number is ``known`` the parts are scaled to it; what the config does not tell of
    them is then left out.
    """
    try:
        body = _body(fields, *layers, *shape)
        tied = bool(fields.get("tie_word_embeddings", config.get("tie_word_embeddings", fields.family in TIED)))
        embedding = weights.embedding(fields.whole("vocab_size"), fields.whole("hidden_size"), tied=tied)
        found = replace(body, embedding=embedding, seen=_vision(config, place))
    except SettingsError:
        if known is None:
            raise
        return Count(others=known)
    if known is None:
        return found
    times = known / found.total
    parts = (found.experts, found.used_experts, found.others, found.embedding, found.seen)
    return Count(*(part * times for part in parts))


def _body(fields: Fields, mixed: list[Mix], fed: list[Feed], heads: int, kv_heads: int, head_dim: int) -> Count:
    hidden, others = fields.whole("hidden_size"), 0.0
    for mix in dict.fromkeys(mixed):
        others += mixed.count(mix) * _mix_weights(fields, mix, heads, kv_heads, head_dim)
    gated = fields.family not in UNGATED
    if Feed.DENSE in fed:
        wide = fields.get("intermediate_size_mlp") or fields.get("intermediate_size", None if gated else 4 * hidden)
        width = (
            fields.whole("intermediate_size_mlp")
            if fields.get("intermediate_size_mlp")
            else fields.whole("intermediate_size", wide)
        )
        others += fed.count(Feed.DENSE) * weights.mlp(hidden, width, gated=gated)
    routed = fed.count(Feed.EXPERTS)
    if not routed:
        return Count(others=others)
    experts, used = fields.whole("num_experts"), fields.whole("num_experts_per_tok", 1 if _llama4(fields) else None)
    if used > experts:
        raise SettingsError(
            f"'num_experts_per_tok' is {used} of {experts} experts", place=fields.place, remedy="Correct the config."
        )
    width = (
        fields.whole("moe_intermediate_size")
        if fields.get("moe_intermediate_size")
        else fields.whole("intermediate_size")
    )
    each = weights.mlp(hidden, width, gated=gated)
    others += routed * (hidden * experts + weights.mlp(hidden, _shared(fields, width), gated=gated))
    return Count(routed * experts * each, routed * used * each, others)


def _llama4(fields: Fields) -> bool:
    return fields.family.startswith("llama4")


def _shared(fields: Fields, width: int) -> int:
    """Width of the experts that every token uses: so many of them, or one of a width of its own."""
    if fields.get("n_shared_experts"):
        each = fields.whole("moe_shared_expert_intermediate_size", width)
        return fields.whole("n_shared_experts") * each
    for key in ("shared_expert_intermediate_size", "shared_intermediate_size"):
        if fields.get(key):
            return fields.whole(key)
    return width if _llama4(fields) else 0


def _mix_weights(fields: Fields, mix: Mix, heads: int, kv_heads: int, head_dim: int) -> float:
    hidden = fields.whole("hidden_size")
    if mix is Mix.LATENT:
        return weights.latent_attention(
            hidden,
            heads,
            query_rank=fields.count("q_lora_rank"),
            kv_rank=fields.whole("kv_lora_rank"),
            plain=fields.whole("qk_nope_head_dim"),
            rotary=fields.count("qk_rope_head_dim"),
            value=fields.whole("v_head_dim"),
        )
    if mix in (Mix.FULL, Mix.WINDOW):
        gate = bool(fields.get("attn_output_gate", fields.family == "qwen3_next"))
        return weights.attention(hidden, heads, kv_heads, head_dim, fields.whole("v_head_dim", head_dim), gated=gate)
    if mix is Mix.DELTA:
        return weights.delta(hidden, *delta(fields))
    if mix is Mix.MAMBA:
        rank = fields.get("mamba_dt_rank", fields.get("time_step_rank", "auto"))
        steps = rank if isinstance(rank, int) and rank > 0 else weights.step_rank(hidden)
        return weights.mamba(hidden, *mamba(fields), steps)
    return weights.mamba2(hidden, *mamba2(fields)) if mix is Mix.MAMBA2 else 0.0


def _vision(config: Mapping[str, Any], place: str) -> float:
    """The vision tower, where its shape is told; its projector is not counted."""
    section = config.get("vision_config")
    if not isinstance(section, Mapping) or any(section.get(key) is None for key in VISION):
        return 0.0
    seen = Fields(section, f"{place}, vision_config")
    hidden, layers, intermediate = (seen.whole(key) for key in VISION)
    return weights.vision(hidden, layers, intermediate)
