"""A Hugging Face ``config.json`` as a model that capacity can be worked out for; shapes that are not understood are
refused.

Counts leave out norms and biases (under 0.1 %) and drafting layers (DeepSeek's, Qwen's multi-token prediction).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmvitals.capacity.model import Cache, Kept, Model
from llmvitals.errors import SettingsError
from llmvitals.sources.model_fields import Fields, load, parse
from llmvitals.sources.model_layers import REMEDY, Mix, feeds, mixes, window
from llmvitals.sources.model_states import delta_state, mamba2_state, mamba_state
from llmvitals.sources.model_stored import stored
from llmvitals.sources.model_weights import counted_weights

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
    counted = counted_weights(config, fields, (mixed, fed), (heads, kv_heads, head_dim), known=parameters, place=place)
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
            state = {Mix.DELTA: delta_state, Mix.MAMBA: mamba_state, Mix.MAMBA2: mamba2_state}[mix](fields)
            found.append(Cache(Kept.STATE, layers, 1, state, value_bytes=2.0))
    return tuple(found)
