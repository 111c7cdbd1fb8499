"""The kinds of page that are understood, and the support matrix."""

from __future__ import annotations

import re

from llmvitals.telemetry.engines import passthrough, vllm
from llmvitals.telemetry.mapping import Adapter, EngineMap, How, Support
from llmvitals.telemetry.engines.support import engine_map
from llmvitals.telemetry.gpu import dcgm

ADAPTERS: tuple[Adapter, ...] = (passthrough.ADAPTER, vllm.ADAPTER, dcgm.ADAPTER)
"""In the order in which a page is held against them."""

_CLAIMS = {adapter.kind: re.compile(adapter.claim) for adapter in ADAPTERS}

# Pages that are recognised only to say what they are.
FOREIGN: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(rb"(?m)^(?:# (?:TYPE|HELP) )?" + start), title)
    for start, title in (
        (rb"sglang[:_]\w", "SGLang"),
        (rb"tgi_\w", "Text Generation Inference"),
        (rb"trtllm_\w", "TensorRT-LLM"),
        (rb"nv_(?:inference|trt_llm)_\w", "Triton"),
        (rb"llamacpp:\w", "llama.cpp"),
        (rb"dynamo_\w", "Dynamo"),
        (rb"litellm_\w", "LiteLLM"),
        (rb"envoy_\w", "Envoy"),
        (rb"prometheus_tsdb_\w", "Prometheus itself"),
        (rb"node_\w", "the node exporter"),
    )
)


def claims(body: bytes, kind: str) -> Adapter | None:
    """The adapter that reads this page; with a kind other than ``auto`` only that one is asked."""
    for adapter in ADAPTERS:
        if kind in ("auto", adapter.kind) and _CLAIMS[adapter.kind].search(body):
            return adapter
    return None


def engines() -> tuple[EngineMap, ...]:
    """For each engine, how every canonical family comes about: mapped, derived, or unsupported because of a reason."""
    return (
        engine_map(vllm.ADAPTER, versions="0.4-0.33", derived=vllm.DERIVED, prefix=("llm_",), but=("llm_gpu_", *_OWN)),
        engine_map(dcgm.ADAPTER, versions="3.x-4.8", derived=(), prefix=("llm_gpu_",), but=()),
    )


_OWN = ("llm_target_", "llm_family_gap")  # said of every target by the ingest itself

__all__ = ["ADAPTERS", "FOREIGN", "EngineMap", "How", "Support", "claims", "engines"]
