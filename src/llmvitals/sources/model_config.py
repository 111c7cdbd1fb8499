"""A Hugging Face ``config.json`` as a model that capacity can be worked out for; shapes that are not understood are
refused.

Counts leave out norms and biases (under 0.1 %) and drafting layers (DeepSeek's, Qwen's multi-token prediction).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from llmvitals.capacity import weights
from llmvitals.capacity.model import Cache, Kept, Model
from llmvitals.errors import SettingsError
from llmvitals.sources.model_fields import Fields, load, parse
from llmvitals.sources.model_layers import REMEDY, Feed, Mix, feeds, mixes, window
from llmvitals.sources.model_stored import stored

__all__ = ["load", "model_of", "parse"]

REFUSED: tuple[tuple[str, str], ...] = (
    ("num_kv_shared_layers", "lets layers share their KV"),
    ("hidden_size_per_layer_input", "gives each layer an embedding of its own"),
    ("linear_attn_config", "mixes kinds of linear attention"),
    ("compress_ratios", "compresses KV by a ratio of its own in each layer"),
    ("global_head_dim", "has heads of two sizes"),
    ("block_configs", "has layers of different shapes"),
    ("attn_config", "nests its attention in a section of its own"),
)
"""Keys that name an architecture for which no formula here holds, and why."""

REFUSED_FAMILIES: Mapping[str, str] = {
    "falcon_h1": "has attention and a state in each layer",
    "zamba2": "shares one attention between layers",
    "rwkv": "holds no KV",
    "rwkv6": "holds no KV",
    "lfm2": "has convolutions among its layers",
    "deepseek_v4": "compresses KV by a ratio of its own in each layer",
    "encoder-decoder": "has an encoder and a decoder",
    "t5": "has an encoder and a decoder",
    "whisper": "has an encoder and a decoder",
    "bart": "has an encoder and a decoder",
}

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
class _Count:
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


def model_of(config: Mapping[str, Any], *, place: str, parameters: float | None = None) -> Model:
    """Read a Hugging Face ``config.json``. ``parameters``: count of weights where it is known better than derived.

    Raises :class:`SettingsError` for a missing key and for an architecture that the formulas do not cover.
    """
    fields = _language(config, place)
    _refuse(fields)
    layers, hidden = fields.whole("num_hidden_layers"), fields.whole("hidden_size")
    mixed = mixes(fields, layers)
    fed = feeds(fields, layers, mixed)
    attends = any(mix in (Mix.FULL, Mix.WINDOW, Mix.LATENT) for mix in mixed)
    heads = fields.whole("num_attention_heads") if attends else fields.whole("num_attention_heads", 1)
    kv_heads, head_dim = _kv_heads(fields, heads), fields.whole("head_dim", max(1, hidden // heads))
    caches = _caches(fields, mixed, kv_heads, head_dim)
    longest = fields.count("max_position_embeddings")
    counted = _counted(config, fields, (mixed, fed), (heads, kv_heads, head_dim), known=parameters, place=place)
    kept = stored(config, fields, total=counted.total, experts=counted.experts, embedding=counted.embedding)
    return Model(
        layers,
        heads,
        kv_heads,
        head_dim,
        counted.total,
        longest,
        hidden=hidden,
        active=counted.total - counted.experts + counted.used_experts - counted.seen,
        experts=counted.experts,
        expert_share=counted.used_experts / counted.experts if counted.experts else 1.0,
        embedding=counted.embedding,
        stored=kept.size,
        dtype=kept.dtype,
        caches=caches,
        notes=kept.notes,
    )


def _counted(
    config: Mapping[str, Any],
    fields: Fields,
    layers: tuple[list[Mix], list[Feed]],
    shape: tuple[int, int, int],
    *,
    known: float | None,
    place: str,
) -> _Count:
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
        return _Count(others=known)
    if known is None:
        return found
    times = known / found.total
    parts = (found.experts, found.used_experts, found.others, found.embedding, found.seen)
    return _Count(*(part * times for part in parts))


def _language(config: Mapping[str, Any], place: str) -> Fields:
    """The language model's section of a multimodal config, or the whole."""
    for key in ("text_config", "llm_config", "language_config", "thinker_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            return _language(inner, place) if key == "thinker_config" else Fields(inner, place)
    return Fields(config, place)


def _refuse(fields: Fields) -> None:
    why = REFUSED_FAMILIES.get("encoder-decoder" if fields.get("is_encoder_decoder") is True else fields.family)
    key = next((f"'{key}': {value}" for key, value in REFUSED if fields.get(key)), "")
    if why or key:
        thing = f"a model of the kind '{fields.family}' {why}" if why else f"has {key}"
        raise SettingsError(f"{thing}, which no formula here covers", place=fields.place, remedy=REMEDY)


def _kv_heads(fields: Fields, heads: int) -> int:
    """KV heads: grouped when stated, 1 for multi-query, else one per attention head."""
    if (
        fields.get("multi_query")
        and not fields.get("new_decoder_architecture")
        and not _says(fields, "num_key_value_heads")
    ):
        return 1
    return fields.whole("num_key_value_heads", heads)


def _says(fields: Fields, key: str) -> bool:
    return fields.text.get(key) is not None


def _caches(fields: Fields, mixed: list[Mix], kv_heads: int, head_dim: int) -> tuple[Cache, ...]:
    """What each kind of layer keeps, in the order in which the kinds first appear."""
    found = []
    for mix in dict.fromkeys(mixed):
        layers = mixed.count(mix)
        both = head_dim + fields.whole("v_head_dim", head_dim)
        if mix is Mix.FULL:
            found.append(Cache(Kept.FULL, layers, kv_heads, both))
        elif mix is Mix.WINDOW:
            found.append(Cache(Kept.WINDOW, layers, kv_heads, both, window(fields)))
        elif mix is Mix.LATENT:
            latent = fields.whole("kv_lora_rank") + fields.count("qk_rope_head_dim")
            found.append(Cache(Kept.LATENT, layers, 1, latent))
            if fields.get(
                "index_head_dim"
            ):  # sparse attention's index: FP8 keys with a scale of 4 bytes (DeepSeek-V3.2)
                found.append(Cache(Kept.LATENT, layers, 1, fields.whole("index_head_dim") + 4, value_bytes=1.0))
        elif mix is not Mix.NOTHING:
            state = {Mix.DELTA: _delta_state, Mix.MAMBA: _mamba_state, Mix.MAMBA2: _mamba2_state}[mix](fields)
            found.append(Cache(Kept.STATE, layers, 1, state, value_bytes=2.0))
    return tuple(found)


def _body(fields: Fields, mixed: list[Mix], fed: list[Feed], heads: int, kv_heads: int, head_dim: int) -> _Count:
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
        return _Count(others=others)
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
    return _Count(routed * experts * each, routed * used * each, others)


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
        return weights.delta(hidden, *_delta(fields))
    if mix is Mix.MAMBA:
        rank = fields.get("mamba_dt_rank", fields.get("time_step_rank", "auto"))
        steps = rank if isinstance(rank, int) and rank > 0 else weights.step_rank(hidden)
        return weights.mamba(hidden, *_mamba(fields), steps)
    return weights.mamba2(hidden, *_mamba2(fields)) if mix is Mix.MAMBA2 else 0.0


def _delta(fields: Fields) -> tuple[int, int, int, int, int]:
    names = ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim", "conv_kernel_dim")
    keys, values, key_dim, value_dim, kernel = (fields.whole(f"linear_{name}") for name in names)
    return keys, values, key_dim, value_dim, kernel


def _delta_state(fields: Fields) -> int:
    return weights.delta_state(*_delta(fields))


def _mamba(fields: Fields) -> tuple[int, int, int]:
    """Inner width, state, kernel."""
    expand = fields.whole("mamba_expand", fields.whole("expand", 2))
    inner = fields.whole("hidden_size") * expand
    own = fields.family in ("mamba", "falcon_mamba")
    inner = fields.whole("intermediate_size", inner) if own else inner
    state = fields.whole("mamba_d_state", fields.whole("state_size", 16))
    return inner, state, fields.whole("mamba_d_conv", fields.whole("conv_kernel", 4))


def _mamba_state(fields: Fields) -> int:
    return weights.mamba_state(*_mamba(fields))


def _mamba2(fields: Fields) -> tuple[int, int, int, int, int]:
    """Heads, their size, groups, state, kernel; Nemotron-H and Bamba name them differently."""

    def either(*names: str) -> int:
        return fields.whole(next((name for name in names if fields.get(name) is not None), names[0]))

    return (
        either("mamba_n_heads", "mamba_num_heads", "num_heads"),
        either("mamba_d_head", "mamba_head_dim", "head_dim"),
        either("mamba_n_groups", "n_groups"),
        either("mamba_d_state", "ssm_state_size", "state_size"),
        either("mamba_d_conv", "conv_kernel"),
    )


def _mamba2_state(fields: Fields) -> int:
    return weights.mamba2_state(*_mamba2(fields))


def _vision(config: Mapping[str, Any], place: str) -> float:
    """The vision tower, where its shape is told; its projector is not counted."""
    section = config.get("vision_config")
    if not isinstance(section, Mapping) or any(section.get(key) is None for key in VISION):
        return 0.0
    seen = Fields(section, f"{place}, vision_config")
    hidden, layers, intermediate = (seen.whole(key) for key in VISION)
    return weights.vision(hidden, layers, intermediate)
