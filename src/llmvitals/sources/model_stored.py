"""How a checkpoint stores its weights, as its ``quantization_config`` tells: bytes in all, and the data type's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmvitals.sources.model_fields import Fields

PLAIN = 2.0
"""Bytes of a weight that is not quantised: engines load FP32 checkpoints in 16 bits too unless told otherwise."""

MXFP4 = 4.25 / 8
"""Bytes per weight: 4 bits and a scale of 8 bits for 32 of them (OCP Microscaling Formats, 2023)."""
NVFP4 = 4.5 / 8
"""4 bits and an FP8 scale for 16 of them (NVIDIA, "Introducing NVFP4", 2025)."""
GROUP = 128
SCALE_BITS = 16


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes of the checkpoint, its data type, and what was assumed."""

    size: float
    dtype: str
    notes: tuple[str, ...] = ()


def stored(config: Mapping[str, Any], fields: Fields, *, total: float, experts: float, embedding: float) -> Stored:
    """What the checkpoint takes. Embedding and output head stay as they are; of MXFP4 checkpoints everything but the
    experts does.
    """
    section = config.get("quantization_config") or fields.get("quantization_config")
    base = str(
        config.get("torch_dtype") or config.get("dtype") or fields.get("torch_dtype") or fields.get("dtype") or "bf16"
    )
    base = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(base, base)
    if not isinstance(section, Mapping) or not section:
        notes = ("An engine loads FP32 weights in 16 bits.",) if base == "fp32" else ()
        return Stored(total * PLAIN, base if base in ("bf16", "fp16") else "bf16", notes)
    found = _method(section)
    if found is None:
        method = str(section.get("quant_method") or section.get("quant_algo") or "?")[:40]
        return Stored(
            total * PLAIN, "bf16", (f"The quantization '{method}' is not known: weights are counted with 16 bits.",)
        )
    name, size = found
    short = experts if name == "mxfp4" and experts else total - embedding
    return Stored(short * size + (total - short) * PLAIN, name)


def _method(section: Mapping[str, Any]) -> tuple[str, float] | None:
    """Name and bytes per quantised weight."""
    method = str(section.get("quant_method") or "").lower()
    if "fp8" in method:
        return "fp8", 1.0
    if method == "mxfp4":
        return "mxfp4", MXFP4
    if method in ("awq", "gptq", "auto-round", "autoround", "awq_marlin", "gptq_marlin", "aqlm"):
        return _grouped(
            section.get("bits") or section.get("w_bit"), section.get("group_size") or section.get("q_group_size")
        )
    if method == "compressed-tensors":
        return _compressed(section.get("config_groups"))
    if method == "bitsandbytes":
        return ("int4", 0.5) if section.get("load_in_4bit") else ("int8", 1.0)
    algorithm = str(section.get("quant_algo") or "").upper()
    return {"FP8": ("fp8", 1.0), "NVFP4": ("nvfp4", NVFP4)}.get(algorithm)


def _grouped(bits: object, group: object) -> tuple[str, float] | None:
    """So many bits, and a scale and a zero point for each group of weights."""
    if not isinstance(bits, int) or not 1 < bits <= 16:
        return None
    size = group if isinstance(group, int) and group > 0 else GROUP
    return f"int{bits}", (bits + (SCALE_BITS + bits) / size) / 8


def _compressed(groups: object) -> tuple[str, float] | None:
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    bits, kind = weights.get("num_bits"), weights.get("type")
    if bits == 8:
        return ("fp8" if kind == "float" else "int8"), 1.0
    return ("nvfp4", NVFP4) if kind == "float" and bits == 4 else _grouped(bits, weights.get("group_size"))
