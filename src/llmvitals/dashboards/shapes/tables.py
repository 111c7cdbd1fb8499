"""Rows of labels and numbers: the panel ``table``, whose columns may each have a unit, colours and words of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llmvitals.dashboards.model import NO_NUMBER
from llmvitals.dashboards.shapes.base import Json, Threshold, attr, core

CLEAR = "transparent"
"""What a cell has behind it where no limit is passed."""

NO_WORDS: Json = {"id": "noValue", "value": ""}
"""Of a label that a series lacks: links get the words of a cell, and nothing else chooses what lacks the label."""


@dataclass(frozen=True, slots=True)
class Label:
    """A column of words: the label of the series that it shows, its heading, and where a click on a word leads."""

    name: str
    heading: str
    links: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers: the field that holds them, its heading and unit, from where on a cell has which colour behind it,
    and Grafana's mappings of values to words."""

    field: str
    heading: str
    unit: str
    steps: tuple[tuple[float, str], ...] = ()
    mappings: tuple[Json, ...] = ()


@attr.s
class Table(core.Panel):  # type: ignore[misc]  # grafanalib has no types
    """The panel ``table`` in the shape that Grafana reads since 10; grafanalib's is older.

    Each query is a table of one number by label. They are merged to one, in which what lacks a label has none in that column;
    then the labels come first and every column gets its heading. What is said of a column is found by its heading.
    ``worst``: the heading it is sorted by, and whether from the largest down.
    """

    labels: tuple[Label, ...] = attr.ib(factory=tuple)
    columns: tuple[Column, ...] = attr.ib(factory=tuple)
    worst: tuple[str, bool] | None = attr.ib(default=None)
    unit: str = attr.ib(default="")
    empty: str = attr.ib(default="")

    def to_json_data(self) -> Json:
        """Grafana's form."""
        self.transformations = [{"id": "merge", "options": {}}, self._arranged()]
        found: Json = self.panel_json(
            {
                "type": "table",
                "options": {
                    "showHeader": True,
                    "frameIndex": 0,
                    "cellHeight": "sm",
                    "sortBy": [{"displayName": self.worst[0], "desc": self.worst[1]}] if self.worst else [],
                },
                "fieldConfig": {
                    "defaults": {
                        "unit": self.unit,
                        "noValue": self.empty,
                        "color": {"mode": "thresholds"},
                        "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False},
                    },
                    "overrides": [*map(_of_label, self.labels), *map(_of_column, self.columns)],
                },
            }
        )
        return found

    def _arranged(self) -> Json:
        fields = [*(label.name for label in self.labels), *(column.field for column in self.columns)]
        headings = [*(label.heading for label in self.labels), *(column.heading for column in self.columns)]
        return {
            "id": "organize",
            "options": {
                "excludeByName": {"Time": True},
                "indexByName": {name: at for at, name in enumerate(fields)},
                "renameByName": dict(zip(fields, headings, strict=True)),
            },
        }


def _of_label(label: Label) -> Json:
    properties: list[Json] = [dict(NO_WORDS)]
    if label.links:
        properties.append({"id": "links", "value": list(label.links)})
    return {"matcher": {"id": "byName", "options": label.heading}, "properties": properties}


def _of_column(column: Column) -> Json:
    return {"matcher": {"id": "byName", "options": column.heading}, "properties": list(_looks(column))}


def _looks(column: Column) -> Iterator[Json]:
    yield {"id": "unit", "value": column.unit}
    yield {"id": "noValue", "value": NO_NUMBER}
    steps = [Threshold(CLEAR), *(Threshold(color, value) for value, color in column.steps)]
    if column.steps:
        yield {"id": "thresholds", "value": {"mode": "absolute", "steps": steps}}
    if column.mappings:
        yield {"id": "mappings", "value": list(column.mappings)}
    if column.steps or column.mappings:
        yield {"id": "custom.cellOptions", "value": {"type": "color-background", "mode": "basic"}}
