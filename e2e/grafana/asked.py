"""What a board asks, from its file alone: each panel's queries, variables and annotations, with the variables filled in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

_POINTS = 500
_STEP_MILLISECONDS = 15_000
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))")
_VALUES = re.compile(r"label_values\((.+),\s*(\w+)\)")


@dataclass(frozen=True)
class Asked:
    """The queries of one panel, or of one annotation."""

    title: str
    queries: tuple[Json, ...]


@dataclass(frozen=True)
class Offered:
    """A variable that offers values of a label."""

    name: str
    series: str
    label: str


@dataclass(frozen=True)
class Content:
    """A board: what it asks, what its variables offer, and over which time."""

    title: str
    times: tuple[str, str]
    asked: tuple[Asked, ...]
    offered: tuple[Offered, ...]

    def said(self) -> tuple[Any, ...]:
        """What a server must keep, in whatever order and with whatever it adds."""
        asked = sorted((one.title, [(query["refId"], query["expr"]) for query in one.queries]) for one in self.asked)
        return self.title, asked, sorted((one.name, one.series, one.label) for one in self.offered)


def classic(board: Json, source: str) -> Content:
    """Of a board as POST /api/dashboards/db takes it. ``source``: the data source's identity."""
    variables = board["templating"]["list"]
    chosen = {one["name"]: _chosen(one, source) for one in variables}
    every = [panel for row in board["panels"] for panel in (row, *row.get("panels", []))]
    asked = [
        Asked(panel["title"], tuple(_queries(panel["targets"], panel, chosen, source)))
        for panel in every
        if panel.get("targets")
    ]
    asked += [
        Asked(
            f"annotation: {one['name']}", tuple(_queries([{"refId": "Anno", "expr": one["expr"]}], {}, chosen, source))
        )
        for one in board["annotations"]["list"]
        if "expr" in one
    ]
    queries = ((one["name"], one["query"]["query"]) for one in variables if one["type"] == "query")
    return Content(
        board["title"], (board["time"]["from"], board["time"]["to"]), tuple(asked), tuple(_offers(queries, chosen))
    )


def resource(board: Json, source: str) -> Content:
    """Of a board as a resource (dashboard.grafana.app/v2)."""
    spec = board["spec"]
    specs = [(one["kind"], one["spec"]) for one in spec["variables"]]
    chosen = {one["name"]: source if kind == "DatasourceVariable" else _of_option(kind, one) for kind, one in specs}
    asked = []
    for element in spec["elements"].values():
        panel = element["spec"]
        data = panel["data"]["spec"]
        targets = [{"refId": one["spec"]["refId"], **one["spec"]["query"]["spec"]} for one in data["queries"]]
        if targets:
            asked.append(Asked(panel["title"], tuple(_queries(targets, data["queryOptions"], chosen, source))))
    for one in spec["annotations"]:
        target = {"refId": "Anno", "expr": one["spec"]["query"]["spec"]["expr"]}
        asked.append(Asked(f"annotation: {one['spec']['name']}", tuple(_queries([target], {}, chosen, source))))
    queries = ((one["name"], one["query"]["spec"]["query"]) for kind, one in specs if kind == "QueryVariable")
    times = (spec["timeSettings"]["from"], spec["timeSettings"]["to"])
    return Content(spec["title"], times, tuple(asked), tuple(_offers(queries, chosen)))


def _chosen(variable: Json, source: str) -> str:
    """What a variable is when a board is opened for the first time: all, or what its text says."""
    if variable["type"] == "datasource":
        return source
    if variable["type"] == "query":
        return str(variable.get("allValue") or ".*")
    return str(variable.get("current", {}).get("value", variable.get("query", "")))


def _of_option(kind: str, variable: Json) -> str:
    return str(variable.get("allValue") or ".*") if kind == "QueryVariable" else str(variable["current"]["value"])


def _queries(targets: list[Json], panel: Json, chosen: dict[str, str], source: str) -> Iterator[Json]:
    for target in targets:
        instant = bool(target.get("instant"))
        yield {
            **target,
            "expr": filled(target["expr"], chosen),
            "datasource": {"type": "prometheus", "uid": source},
            "instant": instant,
            "range": not instant,
            "maxDataPoints": panel.get("maxDataPoints", _POINTS),
            "intervalMs": _STEP_MILLISECONDS,
        }


def filled(text: str, chosen: dict[str, str]) -> str:
    """Text with the variables of the board; Grafana fills in its own (``$__range`` and the like) when it asks."""
    return _VARIABLE.sub(lambda found: chosen.get(found[1] or found[2], found[0]), text)


def _offers(queries: Iterable[tuple[str, str]], chosen: dict[str, str]) -> Iterator[Offered]:
    for name, query in queries:
        found = _VALUES.fullmatch(query)
        if found:
            yield Offered(name, filled(found[1], chosen), found[2])
