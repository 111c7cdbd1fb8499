"""The generated rules and the Alertmanager's example with nothing changed but their waits, and the receivers' address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from llmvitals.alerts.alertmanager import EXAMPLE_URL
from llmvitals.alerts.rules import files
from llmvitals.settings import Settings

Cut = Callable[[str, str], str]
"""From the name of a wait (``for``, ``group_wait``, ...) and what it is, what it is in a test."""

_OF_RULES = ("for", "keep_firing_for")
_OF_ROUTES = ("group_wait", "group_interval", "repeat_interval")


def rules(folder: Path, settings: Settings, cut: Cut) -> list[Path]:
    """Both rule files, written into ``folder``."""
    made, written = files(settings), []
    for name in ("llmvitals-recording", "llmvitals-alerts"):
        data = yaml.safe_load(made[f"alerts/{name}.yaml"])
        for rule in (rule for group in data["groups"] for rule in group["rules"]):
            rule |= {key: cut(key, rule[key]) for key in _OF_RULES if key in rule}
        written.append(folder / f"{name}.yaml")
        written[-1].write_text(yaml.safe_dump(data), encoding="utf-8")
    return written


def example(settings: Settings, receivers: str, cut: Cut) -> dict[str, Any]:
    """The Alertmanager's configuration; ``receivers``: their address, without a path."""
    config: dict[str, Any] = yaml.safe_load(
        files(settings)["alerts/alertmanager-example.yaml"].replace(EXAMPLE_URL, receivers)
    )
    for route in (config["route"], *config["route"]["routes"]):
        route |= {key: cut(key, route[key]) for key in _OF_ROUTES}
    return config


def write_example(folder: Path, config: dict[str, Any]) -> Path:
    """The configuration as a file."""
    path = folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path
