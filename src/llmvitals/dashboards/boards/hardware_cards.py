"""How boards ask for GPUs: each card under a name that people know, and what is told of it only by some exporters."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import asked
from llmvitals.dashboards.model import INSTANCE, WINDOW, Query

NO_GPU = "no GPU is joined to this target: a GPU exporter's page, or NVML on its node"

CARD = ("instance", "card")
GPUS = f"count by (instance) (count by (instance, gpu) (llm_gpu_info{{{INSTANCE}}}))"
"""How many cards are joined to each target."""


def named(series: str) -> str:
    """The same series with the card's name in ``card``: its number and the beginning of its id, after its machine where the
    target's labels tell that, and of a MIG slice the slice's own number. Numbers alone repeat on every machine, and whole ids
    cannot be read out.
    """
    node = f'label_replace({series}, "node", "$1 ", "node", "(.+)")'
    short = f'label_replace({node}, "id", " $1$2", "gpu", "(.{{0,12}})[^/]*(/.*)?")'
    return f'label_join({short}, "card", "", "node", "index", "id")'


def on_boards(series: str) -> str:
    """The same series with the card that a MIG slice is a part of in ``board``; a whole card is its own."""
    return f'label_replace({series}, "board", "$1", "gpu", "([^/]*).*")'


def by_card(series: str, *more: str, agg: str = "max") -> str:
    """One number of a series for each card, and for ``more``."""
    return f"{agg} by ({', '.join((*CARD, *more))}) ({named(series)})"


def of_cards(family: str, *, agg: str = "max", rate: bool = False, where: str = "") -> str:
    """A family as one number for each card, of counters their growth per second; ``where``: more matchers."""
    series = f"{family}{{{where}{INSTANCE}}}"
    return by_card(f"rate({series}[{WINDOW}])" if rate else series, agg=agg)


def card(legend: str, color: str, promql: str, *more: str, dashed: bool = False, unit: str = "") -> Query:
    """A query that is kept apart by card, and by ``more``."""
    return asked(legend, color, promql, *CARD, *more, dashed=dashed, unit=unit)


def shown(family: str, legend: str, color: str, *, agg: str = "max", dashed: bool = False, unit: str = "") -> Query:
    """A query of a gauge of cards."""
    return card(legend, color, of_cards(family, agg=agg), dashed=dashed, unit=unit)
