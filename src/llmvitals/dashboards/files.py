"""Every generated file of dashboards/: the boards as each Grafana reads them, and what brings them there."""

from __future__ import annotations

from llmvitals.dashboards import bringing, grafana, grafana10, v2
from llmvitals.dashboards.raw import draw as raw
from llmvitals.settings import Settings


def files(settings: Settings | None = None) -> dict[str, str]:
    """The path in the project of each file, and its text. Limits and descriptions follow ``settings``."""
    chosen = Settings() if settings is None else settings
    boards = grafana.files(chosen) | grafana10.files(chosen) | v2.files(chosen) | raw.files(chosen)
    return boards | bringing.files(boards)
