"""The board of one service: the verdict, the two separations, and of each of the three layers the panels that answer the most.

Whatever it shows below its top stands on another board, among more of its kind: the panels of a row lead there.
"""

from __future__ import annotations

from dataclasses import replace

from llmvitals.dashboards.boards.alerting import ALERTS
from llmvitals.dashboards.boards.engine_kv import PREEMPTIONS, SEATS
from llmvitals.dashboards.boards.engine_steps import THROUGHPUT
from llmvitals.dashboards.boards.hardware_gpus import ACTIVITY
from llmvitals.dashboards.boards.hardware_gpus import ERRORS as CARD_ERRORS
from llmvitals.dashboards.boards.hardware_host import FRONT
from llmvitals.dashboards.boards.queue import QUEUE_AGE, RUNNING_WAITING
from llmvitals.dashboards.boards.queue_admission import FLOW
from llmvitals.dashboards.boards.users import ERRORS, GAP, TPOT, TTFT
from llmvitals.dashboards.boards.users_promised import GOODPUT
from llmvitals.dashboards.boards.users_time import WHOSE
from llmvitals.dashboards.boards.verdict import VERDICT
from llmvitals.dashboards.model import Board, Row

BOARD = Board(
    uid="llmvitals-serving",
    file="dashboards/service.json",
    title="LLM service",
    description="Why is it slow, and what to change: the verdict, the two separations, the three layers side by side.",
    rows=(
        VERDICT,
        replace(ALERTS, board="llmvitals-watching"),
        Row("User experience", (TTFT, TPOT, GAP, GOODPUT, ERRORS, WHOSE), board="llmvitals-users"),
        Row("Queue and admission", (RUNNING_WAITING, QUEUE_AGE, FLOW), board="llmvitals-queue"),
        Row("Engine and hardware: the engine", (SEATS, PREEMPTIONS, THROUGHPUT), board="llmvitals-engine"),
        Row("Engine and hardware: GPUs and host", (ACTIVITY, CARD_ERRORS, FRONT), board="llmvitals-hardware"),
    ),
)
