"""Draws the boards of raw series: panels as everywhere, with what is chosen at their top from the engine's own series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llmvitals.dashboards import grafana
from llmvitals.dashboards.annotations import PROCESS_START, RESTARTS, restarted
from llmvitals.dashboards.links import others
from llmvitals.dashboards.raw.boards import board
from llmvitals.dashboards.raw.editions import EDITIONS, Edition
from llmvitals.dashboards.raw.names import CannotError
from llmvitals.dashboards.raw.translate import translated
from llmvitals.dashboards.shapes import Json, Variable
from llmvitals.dashboards.variables import SOURCE, marked
from llmvitals.settings import Settings

TAG = "llmvitals-raw"
"""What these boards are tagged with, so that each finds the others and no board of the exporter's."""


def boards(settings: Settings) -> dict[str, Json]:
    """Every board of raw series as plain data, by its path in the project. Limits and descriptions follow ``settings``."""
    found = ((board(edition, settings), _frame(edition, settings)) for edition in EDITIONS)
    return {one.file: grafana.drawn(one, settings, frame) for one, frame in found}


def _frame(edition: Edition, settings: Settings) -> grafana.Frame:
    """Variables and annotations of their own, and no ways to the app, which knows targets by other names."""
    return grafana.Frame(
        TAG,
        (others("Boards of raw series", TAG),),
        tuple(_variables(edition, settings)),
        tuple(_marks(edition)),
    )


def _variables(edition: Edition, settings: Settings) -> Iterator[Variable]:
    """The source, then job, model and instance, each within what is chosen before it, then where runbooks are."""
    source = "The Prometheus (or compatible) that scrapes the engines."
    yield Variable("datasource", "Data source", source, "datasource", "prometheus")
    kept = ",".join(f'{m.label}{m.op}"{m.value}"' for m in edition.kept)
    job = _choice(edition, "job", "Job", "Jobs of the scrape configuration that show such series.", "job", [kept])
    yield replace(job, every="")  # all of them, and not every job there is: `up` is asked of these alone
    chosen = ['job=~"$job"', kept]
    if edition.model:
        yield _choice(edition, "model", "Model", "Models that are served there.", edition.model, chosen)
        chosen = [chosen[0], f'{edition.model}=~"$model"', kept]
    yield _choice(edition, "instance", "Instance", "Addresses that are scraped.", "instance", chosen)
    runbooks = "Where the runbooks are read; panels link to the page of each cause."
    base = settings.alerts.runbook_base.rstrip("/")
    yield Variable("runbook_url", "Runbooks", runbooks, "textbox", base)


def _choice(edition: Edition, name: str, title: str, description: str, label: str, within: list[str]) -> Variable:
    inside = ",".join(text for text in within if text)
    series = f"{edition.anchor}{{{inside}}}" if inside else edition.anchor
    return Variable(name, title, description, "query", f"label_values({series}, {label})", SOURCE)


def _marks(edition: Edition) -> Iterator[Json]:
    """Restarts, where the engine's page tells when its process began."""
    try:
        asked = translated(restarted(PROCESS_START), edition)
    except CannotError:
        return
    yield marked(RESTARTS, asked)
