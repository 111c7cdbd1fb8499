"""The kinds of page that are understood, and the support matrix."""

from __future__ import annotations

from llmvitals.schema import FAMILIES, Origin, origin_of
from llmvitals.telemetry.engines import passthrough, sglang, vllm
from llmvitals.telemetry.engines.support import engine_map
from llmvitals.telemetry.gpu import dcgm
from llmvitals.telemetry.mapping import Adapter, EngineMap, How, Support

ADAPTERS: tuple[Adapter, ...] = (passthrough.ADAPTER, vllm.ADAPTER, sglang.ADAPTER, dcgm.ADAPTER)
"""In the order in which a page is held against them."""

# Pages that are recognised only to say what they are.
FOREIGN: tuple[tuple[bytes, str], ...] = (
    (b"tgi_", "Text Generation Inference"),
    (b"trtllm_", "TensorRT-LLM"),
    (b"nv_inference_", "Triton"),
    (b"nv_trt_llm_", "Triton"),
    (b"llamacpp:", "llama.cpp"),
    (b"dynamo_", "Dynamo"),
    (b"litellm_", "LiteLLM"),
    (b"envoy_", "Envoy"),
    (b"prometheus_tsdb_", "Prometheus itself"),
    (b"node_", "the node exporter"),
)


def speaks(body: bytes, start: bytes) -> bool:
    """Whether a sample's or a TYPE line's name starts like this."""
    return any(b"\n" + line in body or body.startswith(line) for line in (start, b"# TYPE " + start))


def claims(body: bytes, kind: str) -> Adapter | None:
    """The adapter that reads this page; with a kind other than ``auto`` only that one is asked."""
    for adapter in ADAPTERS:
        if kind in ("auto", adapter.kind) and any(speaks(body, start) for start in adapter.claims):
            return adapter
    return None


def engines() -> tuple[EngineMap, ...]:
    """For each engine, how every canonical family comes about: mapped, derived, or unsupported because of a reason."""
    gpu = [family for family in FAMILIES if origin_of(family.name) is Origin.GPU]
    own = [family for family in FAMILIES if origin_of(family.name) is Origin.ENGINE]
    return (
        engine_map(vllm.ADAPTER, versions="0.4-0.33", derived=vllm.DERIVED, families=own),
        engine_map(sglang.ADAPTER, versions="0.3-0.5", derived=sglang.DERIVED, families=own, cannot=sglang.CANNOT),
        engine_map(dcgm.ADAPTER, versions="3.x-4.8", derived=(), families=gpu),
    )


__all__ = ["ADAPTERS", "FOREIGN", "EngineMap", "How", "Support", "claims", "engines", "speaks"]
