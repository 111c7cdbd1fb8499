"""Layer by layer: what mixes tokens there (attention of some kind, or a state), and what follows it (a dense MLP, or
experts).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from llmvitals.errors import SettingsError
from llmvitals.sources.model_fields import Fields, shortly


class Mix(StrEnum):
    """What mixes tokens in a layer."""

    FULL = "full"
    WINDOW = "window"
    LATENT = "latent"
    DELTA = "delta"  # linear attention with a constant state
    MAMBA = "mamba"
    MAMBA2 = "mamba2"
    NOTHING = "nothing"


class Feed(StrEnum):
    """What follows it."""

    DENSE = "dense"
    EXPERTS = "experts"
    NOTHING = "nothing"


NAMES: dict[str, Mix] = {
    "full_attention": Mix.FULL,
    "attention": Mix.FULL,
    "global": Mix.FULL,
    "global_attention": Mix.FULL,
    "sliding_attention": Mix.WINDOW,
    "sliding_window": Mix.WINDOW,
    "local": Mix.WINDOW,
    "local_attention": Mix.WINDOW,
    "chunked_attention": Mix.WINDOW,
    "linear_attention": Mix.DELTA,
}
"""Names in ``layer_types`` (transformers). ``mamba`` stands for either of two, which the other fields tell apart."""

LETTERS: dict[str, tuple[Mix, Feed]] = {
    "M": (Mix.MAMBA2, Feed.NOTHING),
    "*": (Mix.FULL, Feed.NOTHING),
    "-": (Mix.NOTHING, Feed.DENSE),
    "E": (Mix.NOTHING, Feed.EXPERTS),
}
"""``hybrid_override_pattern`` of Nemotron-H: one letter a layer."""

WINDOW_OFF = frozenset({"qwen2", "qwen2_moe", "qwen3", "qwen3_moe"})
"""Whose ``sliding_window`` counts only where ``use_sliding_window`` says so (their class' default is off)."""

REMEDY = "Read the pool from the running engine instead: llmvitals capacity --live URL."


def window(fields: Fields) -> int:
    """Tokens that a layer with a window keeps; 0 where there is none, or one as long as the longest context."""
    chunk = fields.get("attention_chunk_size")
    value = chunk if chunk else fields.get("sliding_window")
    used = fields.get("use_sliding_window", fields.family not in WINDOW_OFF)
    if not value or used is False:
        return 0
    tokens = fields.whole("attention_chunk_size" if chunk else "sliding_window")
    longest = fields.get("max_position_embeddings")
    return 0 if isinstance(longest, int) and tokens >= longest else tokens


def mixes(fields: Fields, layers: int) -> list[Mix]:
    """What mixes tokens in each layer. Raises :class:`SettingsError` for a kind that is not known."""
    found = next((kinds for rule in _RULES if (kinds := rule(fields, layers)) is not None), None)
    return found if found is not None else [Mix.FULL] * layers


def _latent(fields: Fields, layers: int) -> list[Mix] | None:
    return [Mix.LATENT] * layers if fields.get("kv_lora_rank") else None


def _pattern(fields: Fields, layers: int) -> list[Mix] | None:
    letters = fields.get("hybrid_override_pattern")
    if not isinstance(letters, str):
        return None
    unknown = next((letter for letter in letters if letter not in LETTERS), None)
    if unknown or len(letters) != layers:
        why = f"has the letter {shortly(unknown)}" if unknown else f"has {len(letters)} letters for {layers} layers"
        raise SettingsError(f"'hybrid_override_pattern' {why}", place=fields.place, remedy=REMEDY)
    return [LETTERS[letter][0] for letter in letters]


def _named(fields: Fields, layers: int) -> list[Mix] | None:
    named = fields.listed("layer_types") or fields.listed("layers_block_type")
    if not named:
        return None
    if len(named) < layers:
        raise SettingsError(
            f"'layer_types' names {len(named)} layers of {layers}", place=fields.place, remedy="Give the whole config."
        )
    mamba = Mix.MAMBA2 if fields.get("mamba_n_heads") or fields.get("mamba_num_heads") else Mix.MAMBA
    kinds = NAMES | {"mamba": mamba, "mamba2": Mix.MAMBA2}
    unknown = next((name for name in named[:layers] if not isinstance(name, str) or name not in kinds), None)
    if unknown is not None:
        raise SettingsError(f"has layers of the unknown kind {shortly(unknown)}", place=fields.place, remedy=REMEDY)
    plain = Mix.WINDOW if window(fields) else Mix.FULL
    return [plain if kinds[name] is Mix.WINDOW else kinds[name] for name in named[:layers]]


def _states_only(fields: Fields, layers: int) -> list[Mix] | None:
    kind = {"mamba": Mix.MAMBA, "falcon_mamba": Mix.MAMBA, "mamba2": Mix.MAMBA2}.get(fields.family)
    return None if kind is None else [kind] * layers


def _attention_among_states(fields: Fields, layers: int) -> list[Mix] | None:
    """Jamba's period, Bamba's list, Qwen3-Next's interval."""
    if fields.get("attn_layer_period"):
        period, offset = fields.whole("attn_layer_period"), fields.count("attn_layer_offset")
        return [Mix.FULL if i % period == offset else Mix.MAMBA for i in range(layers)]
    if fields.listed("attn_layer_indices"):
        attends = set(map(str, fields.listed("attn_layer_indices")))
        return [Mix.FULL if str(i) in attends else Mix.MAMBA2 for i in range(layers)]
    if fields.get("full_attention_interval"):
        interval = fields.whole("full_attention_interval")
        return [Mix.DELTA if (i + 1) % interval else Mix.FULL for i in range(layers)]
    return None


def _chunked(fields: Fields, layers: int) -> list[Mix] | None:
    """Llama 4: layers without rotary positions see everything, the others a chunk."""
    if not fields.get("attention_chunk_size") or not window(fields):
        return None
    rotary = fields.listed("no_rope_layers")
    every = fields.whole("no_rope_layer_interval", 4)
    if len(rotary) >= layers:
        return [Mix.WINDOW if rotary[i] else Mix.FULL for i in range(layers)]
    return [Mix.WINDOW if (i + 1) % every else Mix.FULL for i in range(layers)]


def _windows(fields: Fields, layers: int) -> list[Mix] | None:
    """One full layer in so many (Gemma, Command R7B), the upper layers only (Qwen2), or all of them (Mistral)."""
    if not window(fields):
        return None
    every = fields.get("sliding_window_pattern") or fields.get("_sliding_window_pattern")
    if every is not None:
        key = "sliding_window_pattern" if fields.get("sliding_window_pattern") else "_sliding_window_pattern"
        every = fields.whole(key)
        return [Mix.WINDOW if (i + 1) % every else Mix.FULL for i in range(layers)]
    first = fields.count("max_window_layers") if fields.family in WINDOW_OFF else 0
    return [Mix.WINDOW if i >= first else Mix.FULL for i in range(layers)]


_RULES: tuple[Callable[[Fields, int], list[Mix] | None], ...] = (
    _latent,
    _pattern,
    _states_only,
    _attention_among_states,
    _named,
    _chunked,
    _windows,
)
"""The first that applies decides."""


def feeds(fields: Fields, layers: int, mixed: list[Mix]) -> list[Feed]:
    """What follows in each layer."""
    letters = fields.get("hybrid_override_pattern")
    if isinstance(letters, str):
        return [LETTERS[letter][1] for letter in letters]
    if fields.family in ("mamba", "falcon_mamba", "mamba2"):
        return [Feed.NOTHING] * layers
    if not isinstance(fields.get("num_experts"), int) or fields.count("num_experts") < 2:
        return [Feed.DENSE] * layers
    return [Feed.EXPERTS if _routed(fields, i) else Feed.DENSE for i in range(len(mixed))]


def _routed(fields: Fields, layer: int) -> bool:
    """Whether a layer has experts: by the first dense ones (DeepSeek), a step (Qwen, Llama 4), or a period (Jamba)."""
    frequency = fields.get("moe_layer_freq")
    if isinstance(frequency, list):
        return layer < len(frequency) and bool(frequency[layer])
    if fields.get("first_k_dense_replace") is not None or frequency is not None:
        return layer >= fields.count("first_k_dense_replace") and layer % fields.whole("moe_layer_freq", 1) == 0
    if fields.get("decoder_sparse_step") is not None:
        return (layer + 1) % fields.whole("decoder_sparse_step") == 0 and layer not in fields.listed("mlp_only_layers")
    if fields.get("expert_layer_period") is not None:
        return layer % fields.whole("expert_layer_period") == fields.count("expert_layer_offset")
    if fields.get("interleave_moe_layer_step") is not None:
        return (layer + 1) % fields.whole("interleave_moe_layer_step") == 0
    return layer not in fields.listed("mlp_only_layers")
