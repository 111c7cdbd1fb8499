"""What Ollama answers at ``/api/ps``: the models that it holds, as JSON. It has no metrics page, and shows nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from llmvitals.simulator.engine import Engine

KEEP_SECONDS = 300.0
"""How long a model is kept after its last request (Ollama's default)."""


def page(engine: Engine, origin: float, uptime: float) -> Iterator[str]:
    """The document, in one line. ``origin``: unix seconds of simulated time 0."""
    config = engine.config
    size = round(config.machine.weight_bytes + config.pool_tokens * config.machine.kv_bytes_per_token)
    expires = datetime.fromtimestamp(origin + engine.clock.now + KEEP_SECONDS, UTC)
    name = f"{config.model}:latest"
    model = {
        "name": name,
        "model": name,
        "size": size,
        "digest": "0" * 64,
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "llama",
            "families": ["llama"],
            "parameter_size": "8.0B",
            "quantization_level": "F16",
        },
        "expires_at": expires.isoformat().replace("+00:00", "Z"),
        "size_vram": size,
        "context_length": config.max_model_len,
    }
    yield json.dumps({"models": [model]})
