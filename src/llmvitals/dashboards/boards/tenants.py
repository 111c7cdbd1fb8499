"""The board of tenants and of the gateway in front: who calls, what they get, and what the gateway does to it."""

from __future__ import annotations

from llmvitals.dashboards.boards.requests import REQUESTS
from llmvitals.dashboards.model import (
    Board,
)

BOARD = Board(
    uid="llmvitals-tenants",
    file="dashboards/tenants.json",
    title="LLM tenants and gateway",
    description="Who calls, who gets what, and what the gateway in front does: queues, retries, breakers, caches, upstreams.",
    rows=(REQUESTS,),
)
