"""The boards as tests ask them: each panel as it is laid out and as Grafana gets it, and its queries with variables filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import Any

import pytest

from llmvitals.dashboards import files, grafana, grafana10, v2
from llmvitals.dashboards.boards import BOARDS
from llmvitals.dashboards.model import PLACE, Board, Panel, Query, Row
from llmvitals.dashboards.promql import queries
from llmvitals.dashboards.raw import draw
from llmvitals.settings import Settings

DATA: dict[str, dict[str, Any]] = grafana.boards(Settings())
"""Each board as Grafana gets it, by its path in the project."""


@cache
def raw_boards() -> dict[str, dict[str, Any]]:
    """The same of the boards of raw series."""
    return draw.boards(Settings())


@cache
def older_boards() -> dict[str, dict[str, Any]]:
    """The same of those that are made for Grafana 10."""
    return grafana10.boards(DATA)


@cache
def resources() -> dict[str, dict[str, Any]]:
    """The same as the resources that Grafana 13 keeps."""
    return v2.boards(DATA)


@cache
def made_files() -> dict[str, str]:
    """The text of every generated file, by its path in the project."""
    return files.files()


@dataclass(frozen=True, slots=True)
class Asked:
    """One query: as it is laid out (None: one that the drawer adds), and as Grafana asks it."""

    query: Query | None
    target: dict[str, Any]

    @property
    def expr(self) -> str:
        """Its PromQL, with Grafana's variables."""
        return str(self.target["expr"])

    @property
    def labels(self) -> frozenset[str]:
        """The labels that its series must have, but for those of the place: what the query keeps and its legend shows."""
        if self.query is None:
            return frozenset(re.findall(r"\{\{(\w+)\}\}", self.target.get("legendFormat", "")))
        return frozenset((*self.query.by, *re.findall(r"\{\{(\w+)\}\}", self.query.legend))) - frozenset(PLACE)

    @property
    def placed(self) -> bool:
        """Whether its series say where their target is."""
        return "instance" in self.labels


@dataclass(frozen=True, slots=True)
class Drawn:
    """One panel of one board. ``data``: as Grafana gets it; ``id``: the board and the title."""

    board: Board
    row: Row
    panel: Panel
    data: dict[str, Any]

    @property
    def id(self) -> str:
        """The board's short name and the panel's title."""
        return f"{PurePath(self.board.file).stem}/{self.panel.title}"

    @property
    def title(self) -> str:
        """The panel's title."""
        return self.panel.title

    @property
    def instant(self) -> bool:
        """Whether it is asked once and not along the time axis."""
        return all(target.get("instant") for target in self.data.get("targets", [])) and bool(self.data.get("targets"))

    @property
    def asked(self) -> tuple[Asked, ...]:
        """Its queries in order; those that the drawer adds come last."""
        laid = queries(self.panel, Settings())
        targets = self.data.get("targets", [])
        assert len(laid) <= len(targets), f"{self.id}: a query is not drawn"
        return tuple(Asked(laid[at] if at < len(laid) else None, target) for at, target in enumerate(targets))


def panels_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    """All panels of a board, those in collapsed rows among them."""
    every = [panel for row in data["panels"] for panel in (row, *row.get("panels", []))]
    return [panel for panel in every if panel["type"] != "row"]


def _drawn() -> Iterable[Drawn]:
    for board in BOARDS:
        found = {panel["title"]: panel for panel in panels_of(DATA[board.file])}
        for row in board.rows:
            for panel in row.panels:
                yield Drawn(board, row, panel, found[panel.title])


EVERY: tuple[Drawn, ...] = tuple(_drawn())
"""Every panel of every board; one that two boards share is there twice."""


def _once() -> Iterable[Drawn]:
    seen: set[Panel] = set()
    for one in EVERY:
        if one.panel not in seen and one.panel.queries:
            seen.add(one.panel)
            yield one


ONCE: tuple[Drawn, ...] = tuple(_once())
"""Every panel that asks something, where it is first."""


def each(panels: Iterable[Drawn], name: str = "drawn") -> Callable[..., Any]:
    """A test for each of these panels, named after its board and title."""
    found = tuple(panels)
    return pytest.mark.parametrize(name, found, ids=[one.id for one in found])


def of(title: str, board: str = "") -> Drawn:
    """The panel with this title, of the board with this short name or of the first that has it."""
    return next(one for one in EVERY if one.title == title and board in ("", PurePath(one.board.file).stem))


def filled(expr: str, *, window: str = "60s", span: str = "600s", **chosen: str) -> str:
    """A query as Grafana sends it: everything is chosen but for ``chosen``. ``window``: four scrapes; ``span``: the chosen time."""
    known = dict.fromkeys(("cluster", "namespace", "model", "instance"), ".*") | chosen
    known |= {"__rate_interval": window, "__range": span, "__interval": "15s"}
    return re.sub(r"\$\{?([a-z_]\w*)\}?", lambda found: known[found[1]], expr)  # "$1" is a part of a label that matched
