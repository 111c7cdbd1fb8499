"""The KV pool that a model has on a GPU under the given flags: an estimate, for set-ups whose engine has not said it."""

from __future__ import annotations

from llmvitals.audit.model import Hardware
from llmvitals.capacity import BYTES, estimate
from llmvitals.capacity.report import AUTO, weights_of

_EIGHT_BITS = "fp8"


def pool_tokens(
    hardware: Hardware,
    *,
    context: float,
    share: float,
    kv_dtype: str,
    quantization: str,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
) -> int | None:
    """Tokens of the pool of one engine when requests hold ``context`` each; None where model or GPU are not known, or do not fit.

    ``share``: gpu_memory_utilization. ``kv_dtype`` and ``quantization``: as the flags name them.
    """
    model, memory = hardware.model, hardware.gb
    if model is None or memory is None or context <= 0 or model.heads % tensor_parallel:
        return None
    eight = hardware.weights == AUTO and quantization.startswith(_EIGHT_BITS)
    found = estimate(
        model,
        memory_gb_per_gpu=memory,
        gpus=tensor_parallel * pipeline_parallel,
        weight_bytes=weights_of(model, _EIGHT_BITS if eight and model.dtype != _EIGHT_BITS else hardware.weights)
        / model.parameters,
        kv_bytes=BYTES[_EIGHT_BITS if kv_dtype.startswith(_EIGHT_BITS) else "fp16"],
        context=context,
        utilization=share,
        pipeline_parallel=pipeline_parallel,
    )
    return found.kv_budget_tokens
