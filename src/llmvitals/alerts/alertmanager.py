"""An example Alertmanager configuration: two receivers, and alerts that explain others silence them."""

from __future__ import annotations

from typing import Any

from llmvitals.alerts.policy import CAUSES, Severity
from llmvitals.schema import SCOPE
from llmvitals.triage.checks import BY_CAUSE

EXAMPLE_URL = "http://127.0.0.1:9099"


def inhibitions() -> list[dict[str, Any]]:
    """A target that is gone silences all of its instance; a cause silences its consequences in the same scope, but what
    waits for office hours silences nothing that wakes somebody.
    """
    alerted = {row.cause: row.severity for row in CAUSES}
    quiet = {Severity.PAGE: set(Severity), Severity.TICKET: {Severity.TICKET}}
    gone = {
        "source_matchers": ['alertname="LLMTargetGone"'],
        "target_matchers": ['alertname=~"LLM.+"', 'alertname!="LLMTargetGone"'],
        "equal": ["instance"],
    }
    unwatched = {"source_matchers": ['alertname="LLMNobodyWatches"'], "target_matchers": ['alertname="LLMTargetGone"']}
    explained = [
        {
            "source_matchers": [f'cause="{row.cause}"', 'alertname!="LLMTargetGone"'],
            "target_matchers": [f'cause=~"{"|".join(consequences)}"'],
            "equal": list(SCOPE),
        }
        for row in CAUSES
        if (
            consequences := [
                cause for cause in BY_CAUSE[row.cause].explains if alerted.get(cause) in quiet[row.severity]
            ]
        )
    ]
    return [gone, unwatched, *explained]


def config() -> dict[str, Any]:
    """The whole example. Pages come soon and often, tickets are gathered."""
    return {
        "route": {
            "receiver": "tickets",
            "group_by": list(SCOPE),
            "group_wait": "1m",
            "group_interval": "10m",
            "repeat_interval": "24h",
            "routes": [
                {
                    "receiver": "pager",
                    "matchers": ['severity="page"'],
                    "group_wait": "10s",
                    "group_interval": "1m",
                    "repeat_interval": "1h",
                }
            ],
        },
        "receivers": [
            {"name": name, "webhook_configs": [{"url": f"{EXAMPLE_URL}/{name}", "send_resolved": True}]}
            for name in ("pager", "tickets")
        ],
        "inhibit_rules": inhibitions(),
    }
