"""The engine's metrics as a Ray node's page shows them when vLLM runs under Ray Serve: its own logger's names.

A colon becomes an underscore, ``ray_`` stands in front, and each series says which replica it is of. The page is the
node's: nothing of the API process and no ``_created`` series come along, nor the HTTP answers.
"""

from __future__ import annotations

from collections.abc import Iterator

from llmvitals.simulator.engine import Engine
from llmvitals.simulator.exposition import vllm_v1

REPLICA = (
    'Component="core_worker",JobId="01000000",NodeAddress="10.0.0.1",ReplicaId="sim-0",'
    'SessionName="session",Version="2.60.0",WorkerId="00"'
)


def page(engine: Engine, origin: float, uptime: float) -> Iterator[str]:
    """The page's lines."""
    for line in vllm_v1.page(engine, origin, uptime):
        if "vllm:" not in line or "_created" in line:
            continue
        spelled = line.replace("vllm:", "ray_vllm_", 1)
        if spelled.startswith("#"):
            yield spelled
        elif "{" in spelled:
            yield spelled.replace("{", "{" + REPLICA + ",", 1)
        else:
            name, _, value = spelled.partition(" ")
            yield f"{name}{{{REPLICA}}} {value}"
