"""Draws the boards of raw series: panels as everywhere, with what is chosen at their top from the engine's own series."""

from __future__ import annotations

from collections.abc import Iterator

from llmvitals.dashboards import grafana
from llmvitals.dashboards.annotations import PROCESS_START, RESTARTS, restarted
from llmvitals.dashboards.raw.boards import board
from llmvitals.dashboards.raw.editions import EDITIONS, Edition
from llmvitals.dashboards.raw.names import CannotError
from llmvitals.dashboards.raw.translate import translated
from llmvitals.dashboards.shapes import Json, Variable
from llmvitals.dashboards.variables import SOURCE, marked
from llmvitals.settings import Settings

TAG = "llmvitals-raw"
"""What these boards are tagged with, so that each finds the others and no board of the exporter's."""

_APP = "${app_url}"
_OTHERS = {"title": "Boards of raw series", "tags": [TAG]}


def boards(settings: Settings) -> dict[str, Json]:
    """Every board of raw series as plain data, by its path in the project. Limits and descriptions follow ``settings``."""
    found = {edition: board(edition, settings) for edition in EDITIONS}
    return {one.file: _own(grafana.drawn(one, settings), edition, settings) for edition, one in found.items()}


def _own(data: Json, edition: Edition, settings: Settings) -> Json:
    """The board with its own variables and annotations, and without ways to the app, which knows targets by other names."""
    for panel in _panels(data):
        panel["links"] = [link for link in panel.get("links", []) if not link["url"].startswith(_APP)]
    others = [{**link, **_OTHERS} for link in data["links"] if link["type"] == "dashboards"]
    return {
        **data,
        "annotations": {"list": list(_marks(edition))},
        "links": others,
        "tags": [TAG, "llm"],
        "templating": {"list": list(_variables(edition, settings))},
    }


def _panels(data: Json) -> Iterator[Json]:
    for row in data["panels"]:
        yield from row["panels"] if row["type"] == "row" else (row,)


def _variables(edition: Edition, settings: Settings) -> Iterator[Json]:
    """The source, then job, model and instance, each within what is chosen before it, then where runbooks are."""
    source = "The Prometheus (or compatible) that scrapes the engines."
    yield Variable("datasource", "Data source", source, "datasource", "prometheus").to_json_data()
    kept = ",".join(f'{m.label}{m.op}"{m.value}"' for m in edition.kept)
    job = _choice(edition, "job", "Job", "Jobs of the scrape configuration that show such series.", "job", [kept])
    del job["allValue"]  # all of them, and not every job there is: `up` is asked of these alone
    yield job
    chosen = ['job=~"$job"', kept]
    if edition.model:
        yield _choice(edition, "model", "Model", "Models that are served there.", edition.model, chosen)
        chosen = [chosen[0], f'{edition.model}=~"$model"', kept]
    yield _choice(edition, "instance", "Instance", "Addresses that are scraped.", "instance", chosen)
    runbooks = "Where the runbooks are read; panels link to the page of each cause."
    base = settings.alerts.runbook_base.rstrip("/")
    yield Variable("runbook_url", "Runbooks", runbooks, "textbox", base).to_json_data()


def _choice(edition: Edition, name: str, title: str, description: str, label: str, within: list[str]) -> Json:
    inside = ",".join(text for text in within if text)
    series = f"{edition.anchor}{{{inside}}}" if inside else edition.anchor
    return Variable(name, title, description, "query", f"label_values({series}, {label})", SOURCE).to_json_data()


def _marks(edition: Edition) -> Iterator[Json]:
    """Restarts, where the engine's page tells when its process began."""
    try:
        asked = translated(restarted(PROCESS_START), edition)
    except CannotError:
        return
    yield marked(RESTARTS, asked)
