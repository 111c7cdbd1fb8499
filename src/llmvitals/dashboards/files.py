"""Every generated file of dashboards/: the boards as each Grafana reads them, and what brings them there."""

from __future__ import annotations

from llmvitals.dashboards import bringing, grafana, grafana10, v2
from llmvitals.dashboards.raw import draw as raw
from llmvitals.dashboards.written import written
from llmvitals.settings import Settings


def files(settings: Settings | None = None) -> dict[str, str]:
    """The path in the project of each file, and its text. Limits and descriptions follow ``settings``."""
    chosen = Settings() if settings is None else settings
    today = grafana.boards(chosen)
    every = today | grafana10.boards(today) | v2.boards(today) | raw.boards(chosen)
    return {path: written(data) for path, data in every.items()} | bringing.files(every)
