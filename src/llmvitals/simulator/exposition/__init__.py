"""The engine's metrics page, in the words of the engine that it is said to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from llmvitals.simulator.engine import Engine
from llmvitals.simulator.exposition import sglang, vllm_v0, vllm_v1

DIALECTS: Mapping[str, Callable[[Engine, float, float], Iterator[str]]] = {
    "vllm": vllm_v1.page,
    "vllm-v0": vllm_v0.page,
    "sglang": sglang.page,
}
"""By the name that an engine's configuration has for its dialect: the page's lines (engine, origin, uptime)."""


def page(engine: Engine, origin: float, *, uptime: float = 0.0, dialect: str | None = None) -> bytes:
    """The page as it stands. ``origin``: unix seconds of simulated time 0, at which the process was ``uptime`` old.

    ``dialect`` None: the one that the engine counts for; bounds of histograms are that one's in any case.
    """
    lines = DIALECTS[dialect or engine.config.dialect](engine, origin, uptime)
    return ("\n".join(lines) + "\n").encode()
