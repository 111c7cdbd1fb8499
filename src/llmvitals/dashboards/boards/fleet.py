"""The board of the fleet: a line for each service, worst first."""

from __future__ import annotations

from llmvitals.dashboards.boards.hardware import PLACED, UNPLACED
from llmvitals.dashboards.model import (
    Board,
    Row,
)

PLACES = Row("", (PLACED, UNPLACED))

BOARD = Board(
    uid="llmvitals-fleet",
    file="dashboards/fleet.json",
    title="LLM fleet",
    description="Which service is not well, in which layer, and of what: a line for each, worst first.",
    rows=(PLACES,),
)
