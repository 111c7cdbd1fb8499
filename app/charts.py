"""Small charts of evidence with the limit drawn in."""

from __future__ import annotations

import json

import altair as alt

from llmvitals.triage.chart import Chart

LINE, LIMIT = "#3d7fc4", "#d65a22"


def draw(chart: Chart) -> alt.LayerChart | alt.FacetChart:
    """The signal over time, its limit as a labelled line, and the side that breaches it shaded."""
    y = alt.Y(
        "v:Q",
        title=None,
        scale=alt.Scale(domain=[chart.low, chart.high], nice=False),
        axis=alt.Axis(tickCount=4, labelExpr=f"datum.label + {json.dumps(chart.tick_unit)}"),
    )
    x = alt.X(
        "t:T",
        title=None,
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(format="%H:%M:%S", tickCount=3, labelBound=True),
    )
    shown = [alt.Tooltip("t:T", title="UTC", format="%H:%M:%S"), alt.Tooltip("v:Q", title=chart.unit, format=",.3~g")]
    points = alt.Chart(alt.InlineData(values=[{"t": t, "v": v} for t, v in chart.points])).encode(
        x=x, y=y, tooltip=shown
    )
    line = points.mark_line(color=LINE, strokeWidth=2) if chart.moves else points.mark_point(color=LINE, filled=True)
    return alt.layer(*_limit(chart, y), line).properties(height=140)


def _limit(chart: Chart, y: alt.Y) -> list[alt.Chart]:
    if chart.bound is None:
        return []
    value = {"v": chart.bound, "end": chart.breach_end, "text": chart.bound_text}
    base = alt.Chart(alt.InlineData(values=[value])).encode(y=y)
    label = base.mark_text(align="left", baseline="middle", dx=4, dy=-8 if chart.label_above else 9, color=LIMIT)
    layers = [
        base.mark_rule(color=LIMIT, strokeDash=[5, 3], strokeWidth=1.5),
        label.encode(x=alt.value(0), text="text:N"),
    ]
    if chart.breach_end is not None:
        layers.insert(0, base.mark_rect(color=LIMIT, opacity=0.1).encode(y2="end:Q"))
    return layers
