"""Series over the time that is chosen at the top of a board and as much before it, and what a panel's queries say at its end."""

from __future__ import annotations

from collections.abc import Callable

from llmvitals.dashboards.model import Panel
from llmvitals.dashboards.promql import promql
from support.boards import filled
from support.prometheus import PrometheusServer

START, STEP, PAGES = 1_700_000_000, 15, 81
END = START + STEP * (PAGES - 1)
SPAN = 600
"""Seconds that are chosen, up to the end; as many lie before them."""


def track(value: float | Callable[[int], float], begin: int = 0) -> list[tuple[int, float]]:
    """Samples of the pages from ``begin`` on (seconds from the start): a number, or what is said of each moment."""
    pages = (page * STEP for page in range(PAGES) if page * STEP >= begin)
    return [((START + at) * 1000, float(value(at) if callable(value) else value)) for at in pages]


def says(server: PrometheusServer, panel: Panel, **chosen: str) -> dict[str, dict[tuple[str, ...], float]]:
    """What each query of a panel finds at the end: by its legend or heading, by the values of the labels that it keeps."""
    found = {}
    for query in panel.queries:
        answer = server.query(filled(promql(query), span=f"{SPAN}s", **chosen), at=END)
        rows = {tuple(labels.get(name, "") for name in query.by): value for labels, value in answer}
        assert len(rows) == len(answer), "two rows of one name"
        found[query.legend or query.column] = rows
    return found
