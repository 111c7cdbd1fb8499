"""Every board, one file each; a row that two boards share stands in the file of the one that it belongs to."""

from llmvitals.dashboards.boards import engine, fleet, hardware, queue, service, tenants, users, watching
from llmvitals.dashboards.model import Board

BOARDS: tuple[Board, ...] = (
    fleet.BOARD,
    service.BOARD,
    users.BOARD,
    queue.BOARD,
    engine.BOARD,
    hardware.BOARD,
    tenants.BOARD,
    watching.BOARD,
)
"""In the order in which an incident is read: which service, what of it, and then layer by layer."""
