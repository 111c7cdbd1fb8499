"""The engine's metrics page, in the words of the engine (or the front end before it) that it is said to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from llmvitals.simulator.engine import Engine
from llmvitals.simulator.exposition import dynamo, llamacpp, ollama, ray, sglang, tgi, triton, trtllm, vllm_v0, vllm_v1

DIALECTS: Mapping[str, Callable[[Engine, float, float], Iterator[str]]] = {
    "vllm": vllm_v1.page,
    "vllm-v0": vllm_v0.page,
    "ray": ray.page,
    "sglang": sglang.page,
    "tgi": tgi.page,
    "trtllm": trtllm.page,
    "triton": triton.page,
    "llamacpp": llamacpp.page,
    "ollama": ollama.page,
    "dynamo": dynamo.page,
}
"""By the name that an engine's configuration has for its dialect: the page's lines (engine, origin, uptime)."""


PATHS: Mapping[str, str] = {"trtllm": "/prometheus/metrics", "ollama": "/api/ps"}
"""Where that page is, where it is not ``/metrics``."""


def page(engine: Engine, origin: float, *, uptime: float = 0.0, dialect: str | None = None) -> bytes:
    """The page as it stands. ``origin``: unix seconds of simulated time 0, at which the process was ``uptime`` old.

    ``dialect`` None: the one that the engine counts for; bounds of histograms are that one's in any case.
    """
    lines = DIALECTS[dialect or engine.config.dialect](engine, origin, uptime)
    return ("\n".join(lines) + "\n").encode()
