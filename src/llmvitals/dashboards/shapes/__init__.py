"""grafanalib's classes in the shape that Grafana 11 to 13 reads: grafanalib 0.7.1 is older than that.

Its ``Threshold`` and ``Template`` describe what the removed ``graph`` panel and Grafana 6 read, its tables and heatmaps what
those were before Grafana 8; all of these are made here. What its other classes lack goes through their ``extraJson``, and
:func:`today` takes out what Grafana no longer knows. The shapes are those of the TypeScript models in ``@grafana/schema``.
"""

from llmvitals.dashboards.shapes.base import (
    LINES,
    STATES,
    TILES,
    Json,
    Threshold,
    Traced,
    Variable,
    core,
    today,
)
from llmvitals.dashboards.shapes.tables import Column, Label, Table
from llmvitals.dashboards.shapes.values import Bars, Heatmap
from llmvitals.dashboards.shapes.xychart import Points, XYChart, field

__all__ = (
    "LINES",
    "STATES",
    "TILES",
    "Bars",
    "Column",
    "Heatmap",
    "Json",
    "Label",
    "Points",
    "Table",
    "Threshold",
    "Traced",
    "Variable",
    "XYChart",
    "core",
    "field",
    "today",
)
