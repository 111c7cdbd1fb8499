"""An example Alertmanager configuration: two receivers, one notification for what belongs together, and who is silenced by whom."""

from __future__ import annotations

from typing import Any

from llmvitals.alerts import names
from llmvitals.alerts.silences import SILENCES
from llmvitals.settings import Settings

EXAMPLE_URL = "http://127.0.0.1:9099"


def inhibitions(settings: Settings) -> list[dict[str, Any]]:
    """The table of silences; what happens in one cluster silences nothing in another."""
    return [
        {
            "source_matchers": [_named(silence.of)],
            "target_matchers": [_named(silence.silenced)],
            "equal": list(names.joined(settings, silence.equal)),
        }
        for silence in SILENCES
    ]


def _named(alerts: tuple[str, ...]) -> str:
    return f'alertname="{alerts[0]}"' if len(alerts) == 1 else f'alertname=~"{"|".join(alerts)}"'


def config(settings: Settings) -> dict[str, Any]:
    """The whole example. Pages come soon; what else of the same model wakes somebody within minutes is the same incident, and
    comes once. Tickets wait for so long that a page on their incident, which tells the cause, comes first and silences them.
    """
    return {
        "route": {
            "receiver": "tickets",
            "group_by": list(dict.fromkeys(settings.alerts.group_by)),
            "group_wait": "3m",
            "group_interval": "10m",
            "repeat_interval": "24h",
            "routes": [
                {
                    "receiver": "pager",
                    "matchers": ['severity="page"'],
                    "group_wait": "10s",
                    "group_interval": "3m",
                    "repeat_interval": "1h",
                }
            ],
        },
        "receivers": [
            {"name": name, "webhook_configs": [{"url": f"{EXAMPLE_URL}/{name}", "send_resolved": True}]}
            for name in ("pager", "tickets")
        ],
        "inhibit_rules": inhibitions(settings),
    }
