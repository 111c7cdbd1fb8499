"""Fields of a ``config.json``: read, checked, and under their other names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmvitals.errors import SettingsError

REMEDY = "Give the model's own Hugging Face config.json."
LARGEST_FILE = 4_000_000
"""Bytes; the longest known config.json, with every layer's quantisation written out, has less than a tenth of it."""

MOST: Mapping[str, int] = {
    "num_hidden_layers": 10_000,
    "hidden_size": 1_000_000,
    "num_attention_heads": 100_000,
    "num_key_value_heads": 100_000,
    "head_dim": 100_000,
    "vocab_size": 100_000_000,
}
"""What no model has more of: a typing error is found before it becomes a number."""

MOST_OTHERS = 100_000_000

ALIASES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size"),
    "max_position_embeddings": ("n_positions", "max_sequence_length", "seq_length"),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": ("experts_per_token", "moe_k", "moe_topk", "num_experts_per_token"),
    "vocab_size": ("padded_vocab_size",),
}
"""Other names of the same field, in the order in which they are tried."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "gemma3_text": {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
        "max_position_embeddings": 131_072,
    },
    "gemma2": {"head_dim": 256, "sliding_window": 4096, "sliding_window_pattern": 2},
    "cohere2": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "gpt2": {"vocab_size": 50_257},
}
"""What a config leaves out because it is the class' default (transformers, ``configuration_*.py`` of each)."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The language model's part of a config, and where it is from."""

    text: Mapping[str, Any]
    place: str

    @property
    def family(self) -> str:
        """The ``model_type``."""
        return str(self.text.get("model_type") or "")

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - JSON
        """A field under any of its names; the class' default, then ``default``, where it is absent or null."""
        for name in (key, *ALIASES.get(key, ())):
            if self.text.get(name) is not None:
                return self.text[name]
        kept = DEFAULTS.get(self.family, {}).get(key)
        return default if kept is None else kept

    def whole(self, key: str, default: int | None = None) -> int:
        """A positive whole number. Raises :class:`SettingsError`."""
        value = self.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            shown = "is missing" if value is None else f"is {shortly(value)}, not a positive whole number"
            raise SettingsError(f"'{key}' {shown}", place=self.place, remedy=REMEDY)
        if value > MOST.get(key, MOST_OTHERS):
            raise SettingsError(
                f"'{key}' is {shortly(value)}, more than any model has", place=self.place, remedy=REMEDY
            )
        return value

    def count(self, key: str, default: int = 0) -> int:
        """A whole number that may be 0."""
        return 0 if self.get(key, default) == 0 else self.whole(key, default)

    def listed(self, key: str) -> list[Any]:
        """A list, empty where it is something else or absent."""
        value = self.get(key)
        return value if isinstance(value, list) else []


def shortly(value: object) -> str:
    """A value in an error, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def parse(text: str, place: str) -> Mapping[str, Any]:
    """The text of a ``config.json``. Raises :class:`SettingsError` for what is none."""
    if not text.strip():
        raise SettingsError("is empty", place=place, remedy=REMEDY)
    if text.lstrip().startswith("<"):
        raise SettingsError(
            "is a web page, not JSON", place=place, remedy="Take the file itself (on Hugging Face: raw, or download)."
        )
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        raise SettingsError("is not JSON", place=place, remedy=REMEDY) from None
    if not isinstance(config, dict):
        raise SettingsError("is not a JSON object", place=place, remedy=REMEDY)
    return config


def load(path: Path) -> Mapping[str, Any]:
    """Read a ``config.json``. Raises :class:`SettingsError`."""
    place = str(path)
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise SettingsError(f"has {size:,} bytes, far more than a config.json", place=place, remedy=REMEDY)
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError(
            f"cannot be read ({error.strerror})", place=place, remedy="Check the path and its permissions."
        ) from None
    except ValueError:
        raise SettingsError("is not text", place=place, remedy=REMEDY) from None
    return parse(text, place)
