"""Alerts on the watching itself: what makes the other alerts blind. They ask Prometheus about exporters, not about servers."""

from __future__ import annotations

from llmvitals.alerts.conditions import Written
from llmvitals.alerts.model import PAGE, TARGET_UP, TELEMETRY_GROUP, Alert
from llmvitals.settings import Settings
from llmvitals.signals.promql_ast import Call, Node, Selector


def _nobody(settings: Settings, labels: tuple[str, ...]) -> Node:
    return Call("absent", (Selector(TARGET_UP),))


ALERTS: tuple[Alert, ...] = (
    Alert(
        "LLMNobodyWatches",
        "No llmvitals exporter is scraped",
        PAGE,
        Written(_nobody),
        "5m",
        "nobody-watches",
        TARGET_UP,
        TELEMETRY_GROUP,
        words="llm_target_up is absent: 0 targets are watched, so no other alert of this set can fire.",
        by=(),
    ),
)
