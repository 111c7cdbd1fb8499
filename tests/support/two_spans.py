"""Series over the time that is chosen at the top of a board and as much before it, and what a panel's queries say at its end."""

from __future__ import annotations

from collections.abc import Callable

from llmvitals.dashboards.model import Panel
from llmvitals.settings import Settings
from support import made_servers
from support.made_servers import START, STEP, Found, Samples, asked, found
from support.prometheus import PrometheusServer

PAGES = 81
END = START + STEP * (PAGES - 1)
SPAN = 600
"""Seconds that are chosen, up to the end; as many lie before them."""


def paged(values: Callable[[int], float]) -> Samples:
    """A series by page."""
    return made_servers.track(values, PAGES)


def track(value: float | Callable[[int], float], begin: int = 0) -> Samples:
    """Samples of the pages from ``begin`` on (seconds from the start): a number, or what is said of each moment."""
    said = value if callable(value) else lambda _: value
    return paged(lambda page: said(page * STEP))[-(-begin // STEP) :]


def says(server: PrometheusServer, panel: Panel, **chosen: str) -> Found:
    """What each query of a panel finds at the end: by its legend or heading, by the values of the labels that it keeps."""
    return found(
        server,
        asked(panel, Settings()),
        lambda query, labels: tuple(labels.get(name, "") for name in query.by),
        at=END,
        span=f"{SPAN}s",
        **chosen,
    )
