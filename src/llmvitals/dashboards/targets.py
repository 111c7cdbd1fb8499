"""A query as Grafana gets it."""

from __future__ import annotations

from string import ascii_uppercase
from typing import Any

from llmvitals.dashboards.model import NOW, Kind, Panel, Query
from llmvitals.dashboards.promql import promql
from llmvitals.dashboards.shapes import Traced, core
from llmvitals.dashboards.variables import SOURCE
from llmvitals.settings import Settings

_FORMAT = {Kind.XY: "table", Kind.TABLE: "table", Kind.HEATMAP: "heatmap"}


def ref(at: int) -> str:
    """How Grafana calls the query at this place: A to Z, then AA and on."""
    high, low = divmod(at, len(ascii_uppercase))
    return (ref(high - 1) if high else "") + ascii_uppercase[low]


def target(one: Panel, query: Query, at: int, settings: Settings) -> Any:  # noqa: ANN401 - grafanalib has no types
    """The query at this place of its panel."""
    words = [query.legend] if query.legend else []
    asked = promql(query, settings)
    kind: Any = Traced if query.exemplar else core.Target
    return kind(
        refId=ref(at),
        expr=f"sort_desc({asked})" if one.kind is Kind.BARS else asked,
        legendFormat=" ".join([*words, *(f"{{{{{label}}}}}" for label in query.by)]),
        instant=one.kind in NOW,
        datasource=SOURCE,
        **({"format": _FORMAT[one.kind]} if one.kind in _FORMAT else {}),
    )
