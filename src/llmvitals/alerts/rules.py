"""The files of ``alerts/``: what an operator loads into Prometheus, the Prometheus operator, and Alertmanager."""

from __future__ import annotations

from typing import Any

import yaml

from llmvitals.alerts.alerting import alert_groups
from llmvitals.alerts.alertmanager import config
from llmvitals.alerts.recording import recording_groups
from llmvitals.settings import Settings

_HEADER = "# Made by `llmvitals generate`; edits are overwritten.\n"
_SCRAPE = "# Scrape the exporter with `honor_labels: true`: its `instance` names the engine, not the exporter.\n"
_COMPAT = (
    "# Without keep_firing_for: for vmalert, and for Prometheus before 2.42. Load this file or llmvitals-alerts.yaml.\n"
)
_EXAMPLE = "# An example: replace the two webhook addresses; keep the inhibitions.\n"


def files(settings: Settings | None = None) -> dict[str, str]:
    """Every generated file of ``alerts/`` by its path from the project's root. The same settings give the same text."""
    chosen = settings or Settings()
    recording, alerts = recording_groups(chosen), alert_groups(chosen)
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "llmvitals", "labels": {"app.kubernetes.io/name": "llmvitals"}},
        "spec": {"groups": [*recording, *alerts]},
    }
    return {
        "alerts/llmvitals-recording.yaml": _text({"groups": recording}, _SCRAPE),
        "alerts/llmvitals-alerts.yaml": _text({"groups": alerts}, _SCRAPE),
        "alerts/llmvitals-alerts-compat.yaml": _text({"groups": alert_groups(chosen, keep=False)}, _SCRAPE + _COMPAT),
        "alerts/prometheusrule.yaml": _text(resource, _SCRAPE),
        "alerts/alertmanager-example.yaml": _text(config(chosen), _EXAMPLE),
    }


class _Plain(yaml.SafeDumper):
    """No anchors: every rule stands by itself."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(data: dict[str, Any], note: str) -> str:
    return _HEADER + note + yaml.dump(data, Dumper=_Plain, sort_keys=False, width=100_000, allow_unicode=True)
