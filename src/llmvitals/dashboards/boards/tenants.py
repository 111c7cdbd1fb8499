"""The board of tenants and of the gateway in front: who calls, what they get, and what the gateway does to it."""

from __future__ import annotations

from llmvitals.dashboards.boards.tenants_behind import BEHIND, LIMITS, UPSTREAMS
from llmvitals.dashboards.boards.tenants_calls import CALLS, TIMED
from llmvitals.dashboards.boards.tenants_queue import QUEUED
from llmvitals.dashboards.boards.tenants_shares import FAIRNESS
from llmvitals.dashboards.boards.tenants_wants import SIMILAR, WANTS
from llmvitals.dashboards.model import Board

BOARD = Board(
    uid="llmvitals-tenants",
    file="dashboards/tenants.json",
    title="LLM tenants and gateway",
    description="Who calls, who gets what, and what the gateway in front does: queues, retries, breakers, caches, upstreams.",
    rows=(CALLS, FAIRNESS, WANTS, BEHIND, QUEUED, TIMED, UPSTREAMS, LIMITS, SIMILAR),
)
