"""Recording rules: every signal that compiles, over each range. They read canonical families only."""

from __future__ import annotations

from llmvitals.alerts import text
from llmvitals.alerts.parts import Group
from llmvitals.alerts.policy import RULE_WINDOWS
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.signals.promql import to_promql


def recording_groups() -> list[Group]:
    """One group per range, so that a number and those it is compared with are of one moment."""
    return [
        {
            "name": f"llmvitals-signals-{window}",
            "rules": [
                {"record": text.recorded(signal, window), "expr": to_promql(signal.expr, window=window, by=signal.by)}
                for signal in SIGNALS
                if signal.expr is not None
            ],
        }
        for window in RULE_WINDOWS
    ]
