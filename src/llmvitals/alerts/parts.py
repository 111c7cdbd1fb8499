"""How one alerting rule is put together; shared by the modules that make them."""

from __future__ import annotations

from typing import Any

from llmvitals.settings import Settings
from llmvitals.signals.promql_ast import Node, show

Rule = dict[str, Any]
Group = dict[str, Any]


def rule(
    name: str,
    expr: Node,
    *,
    wait: str,
    labels: dict[str, str],
    summary: str,
    description: str,
    runbook: str,
    settings: Settings,
) -> Rule:
    """An alerting rule with the annotations that every alert carries."""
    return {
        "alert": name,
        "expr": show(expr),
        "for": wait,
        "labels": labels,
        "annotations": {
            "summary": summary,
            "description": description,
            "runbook_url": f"{settings.alerts.runbook_base.rstrip('/')}/{runbook}.md",
        },
    }
