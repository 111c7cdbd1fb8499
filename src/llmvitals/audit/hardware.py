"""A model's config.json and a GPU, as a person names them, for an audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmvitals.audit.model import AuditError, Hardware
from llmvitals.capacity import gpu_of
from llmvitals.capacity.report import AUTO
from llmvitals.sources import model_config


def hardware(
    config: Mapping[str, Any] | None,
    *,
    gpu: str = "",
    memory_gb: float | None = None,
    gpus: int | None = None,
    weights: str = AUTO,
    place: str = "the model's config.json",
) -> Hardware:
    """What is known. Raises :class:`AuditError` for a GPU that is not listed, and what :func:`model_config.model_of` raises."""
    known = gpu_of(gpu) if gpu else None
    if gpu and known is None:
        raise AuditError(
            f"there is no GPU '{gpu}'", place="GPU", remedy="Choose a listed one, or give its memory in GB."
        )
    model = model_config.model_of(config, place=place) if config is not None else None
    return Hardware(model, known, memory_gb, gpus, weights)
