"""What sets a panel's queries and values apart from the panel."""

from __future__ import annotations

from collections.abc import Iterator

from llmvitals.dashboards import links
from llmvitals.dashboards.model import Kind, Names, Panel
from llmvitals.dashboards.promql import queries
from llmvitals.dashboards.shapes import Json
from llmvitals.dashboards.targets import ref
from llmvitals.settings import Settings


def overrides(one: Panel, settings: Settings) -> list[Json]:
    """What sets queries, named values and alerts apart from their panel."""
    return [*_of_queries(one, settings), *_named(one), *links.of_alerts(one)]


def _of_queries(one: Panel, settings: Settings) -> Iterator[Json]:
    """What sets one query apart from its panel: its hue, its dash, its own unit on the right axis, its words."""
    asked = queries(one, settings)
    lone = one.kind is Kind.LINES and len(asked) == 1
    own_axis = one.kind in (Kind.LINES, Kind.STACK)
    for at, query in enumerate(asked):
        properties: list[Json] = []
        if not (one.kind is Kind.BARS and one.limits):  # there a bar's colour is that of the limit it passes
            color = {"mode": "shades" if lone else "fixed", "fixedColor": query.color}
            properties.append({"id": "color", "value": color})
        if query.dashed and own_axis:
            properties.append({"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 6]}})
        if query.unit:
            properties.append({"id": "unit", "value": query.unit})
        if query.unit and own_axis:
            properties += [
                {"id": "custom.axisPlacement", "value": "right"},
                {"id": "custom.thresholdsStyle", "value": {"mode": "off"}},  # else the line is drawn on both axes
            ]
        if query.names and one.kind in (Kind.STAT, Kind.BARS):
            properties.append({"id": "mappings", "value": mappings(query.names)})
        if properties:
            yield {"matcher": {"id": "byFrameRefID", "options": ref(at)}, "properties": properties}


def _named(one: Panel) -> Iterator[Json]:
    for name, color in one.names:
        yield {
            "matcher": {"id": "byRegexp", "options": f"^{name} .*"},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }


def mappings(names: Names) -> list[Json]:
    """Values as words and colours."""
    options = {str(value): {"text": text, "color": color, "index": at} for at, (value, text, color) in enumerate(names)}
    return [{"type": "value", "options": options}] if options else []
