"""What is chosen at the top of a board, and what is drawn into every panel over time."""

from __future__ import annotations

from llmvitals.dashboards.annotations import MARKS, Mark
from llmvitals.dashboards.links import app_url
from llmvitals.dashboards.model import Query
from llmvitals.dashboards.promql import promql
from llmvitals.dashboards.shapes import Json, Variable
from llmvitals.settings import Settings

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
"""The data source that is chosen at the top of the board."""

_IN_PLACE = 'cluster=~"$cluster",namespace=~"$namespace"'
_SEEN = '__name__=~"llm_target_up|llm_requests_running"'
"""What is there of a target that is down, and what names its model."""


def variables(settings: Settings) -> list[Variable]:
    """The variables of every board: the source, then the target from cluster to replica, then where links lead."""
    return [
        Variable(
            name="datasource",
            label="Data source",
            description="The Prometheus (or compatible) that scrapes the llmvitals exporter.",
            type="datasource",
            query="prometheus",
        ),
        _choice("cluster", "Cluster", "Where targets are: a label of theirs, or of the Prometheus that scrapes.", ""),
        _choice("namespace", "Namespace", "Namespaces of the chosen clusters.", 'cluster=~"$cluster"'),
        _choice("model", "Model", "Models that are served there.", _IN_PLACE),
        _choice(
            "instance",
            "Replica",
            "Servers of these models, by their names in the settings.",
            f'{_IN_PLACE},model=~"$model"',
        ),
        Variable(
            name="app_url",
            label="Triage app",
            description="Where the triage app runs; panels link to it.",
            type="textbox",
            query=app_url(settings),
        ),
        Variable(
            name="runbook_url",
            label="Runbooks",
            description="Where the runbooks are read; panels link to the page of each alert and cause.",
            type="textbox",
            query=settings.alerts.runbook_base.rstrip("/"),
        ),
    ]


def _choice(name: str, label: str, description: str, within: str) -> Variable:
    """A variable of what a label may be, within what the variables before it leave."""
    series = f"{{{_SEEN}{',' if within else ''}{within}}}"
    return Variable(name, label, description, "query", f"label_values({series}, {name})", SOURCE)


def marks() -> list[Json]:
    """What every panel over time may show: one kind of marks each, switched on and off at the top of the board."""
    return [marked(mark, promql(Query("", mark.color, promql=mark.promql))) for mark in MARKS]


def marked(mark: Mark, asked: str) -> Json:
    """Grafana's form of a mark that asks this PromQL; its source reads titles, texts and whether a value is the moment."""
    return {
        "name": mark.name,
        "datasource": SOURCE,
        "enable": mark.shown,
        "hide": False,
        "iconColor": mark.color,
        "expr": asked,
        "titleFormat": mark.title,
        "textFormat": mark.text,
        "useValueForTime": mark.moment,
    }
