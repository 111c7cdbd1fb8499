"""What a capacity estimate needs, read from a Hugging Face ``config.json``; shapes that do not fit are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmvitals.capacity import Model, parameter_count
from llmvitals.errors import SettingsError

_REFUSED: tuple[tuple[str, str], ...] = (
    ("kv_lora_rank", "uses multi-head latent attention, whose cache holds latents instead of keys and values"),
    ("sliding_window", "limits attention to a sliding window, so KV does not grow with the whole context"),
    ("num_local_experts", "is a mixture of experts, whose weights this does not count"),
    ("n_routed_experts", "is a mixture of experts, whose weights this does not count"),
    ("num_experts", "is a mixture of experts, whose weights this does not count"),
    ("layer_types", "mixes kinds of attention by layer"),
    ("ssm_cfg", "is a state-space model, which holds no KV per token"),
)
"""Keys of a config.json that name an architecture for which the formulas above do not hold, and why."""


def model_of(config: Mapping[str, Any], *, place: str, parameters: float | None = None) -> Model:
    """Read a Hugging Face ``config.json``. ``parameters``: count of weights where it is known better than derived.

    Raises :class:`SettingsError` for a missing key and for an architecture that the formulas do not cover.
    """
    inner = config.get("text_config")
    text: Mapping[str, Any] = inner if isinstance(inner, Mapping) else config
    for key, why in _REFUSED:
        if _active(text, key) and not (parameters is not None and "expert" in key):
            raise SettingsError(
                f"this model {why} ('{key}')", place=place, remedy="Read the pool from the running engine instead."
            )
    heads = _whole(text, "num_attention_heads", place)
    hidden = _whole(text, "hidden_size", place)
    layers = _whole(text, "num_hidden_layers", place)
    kv_heads = _kv_heads(text, heads, place)
    head_dim = _whole(text, "head_dim", place) if text.get("head_dim") is not None else hidden // heads
    count = parameters
    if count is None:
        count = parameter_count(
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            intermediate=_whole(text, "intermediate_size", place),
            vocabulary=_whole(text, "vocab_size", place),
            tied=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        )
    return Model(layers, heads, kv_heads, head_dim, count, int(text.get("max_position_embeddings") or 0))


def _active(text: Mapping[str, Any], key: str) -> bool:
    value = text.get(key)
    if key == "sliding_window":
        return bool(value) and text.get("use_sliding_window", True) is not False
    if key == "layer_types":
        return isinstance(value, list) and len(set(map(str, value))) > 1
    return bool(value)


def _kv_heads(text: Mapping[str, Any], heads: int, place: str) -> int:
    """KV heads: grouped when stated, 1 for multi-query, else one per attention head."""
    if text.get("num_key_value_heads") is not None:
        return _whole(text, "num_key_value_heads", place)
    return 1 if text.get("multi_query") else heads


def _whole(text: Mapping[str, Any], key: str, place: str) -> int:
    value = text.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        shown = "is missing" if value is None else f"is {value!r}, not a positive whole number"
        raise SettingsError(f"'{key}' {shown}", place=place, remedy="Give the model's own Hugging Face config.json.")
    return value


def load(path: Path) -> Mapping[str, Any]:
    """Read a ``config.json``. Raises :class:`SettingsError`."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            f"cannot be read ({error.strerror})", place=str(path), remedy="Check the path and its permissions."
        ) from None
    except ValueError:
        raise SettingsError("is not JSON", place=str(path), remedy="Give the model's own config.json.") from None
    if not isinstance(config, dict):
        raise SettingsError("is not a JSON object", place=str(path), remedy="Give the model's own config.json.")
    return config
