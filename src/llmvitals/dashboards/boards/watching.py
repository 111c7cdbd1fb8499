"""The board of the watching itself: exporters, rules, collectors, and whether all that should be seen is seen.

No rule needs to be loaded for them, but for the alerts themselves: what a rule asks is asked here of the exporter's page.
"""

from __future__ import annotations

from llmvitals.dashboards.boards import watching_exporters, watching_rules, watching_targets
from llmvitals.dashboards.boards.alerting import ALERTS
from llmvitals.dashboards.model import Board

BOARD = Board(
    uid="llmvitals-watching",
    file="dashboards/exporters.json",
    title="llmvitals: who watches",
    description="Whether what the other boards show can be trusted: exporters, targets, rules, and what cannot be seen.",
    rows=(
        watching_targets.ROW,
        watching_exporters.ROW,
        watching_rules.ROW,
        ALERTS,
        watching_targets.DETAIL,
        watching_exporters.COSTS,
        watching_exporters.PUSH,
        watching_exporters.TRACES,
    ),
)
