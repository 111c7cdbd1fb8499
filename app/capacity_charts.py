"""The charts of the capacity page: seats by length, and waits by load."""

from __future__ import annotations

import altair as alt

from llmvitals.capacity.report import Answer
from words import t

LINE, MARK, HEIGHT = "#3d7fc4", "#d65a22", 220
SHORT = "datum.value >= 1024 ? format(datum.value / 1024, ',.0f') + 'K' : datum.value"


def seats_chart(found: Answer) -> alt.LayerChart | alt.FacetChart:
    """Seats by length, both on logarithmic axes; the length asked for is marked."""
    values = [{"x": length, "y": count} for length, count in found.by_context if count]
    lengths = [value["x"] for value in values]
    x = alt.X(
        "x:Q",
        title=t("tokens each"),
        scale=alt.Scale(type="log", base=2),
        axis=alt.Axis(values=lengths, labelExpr=SHORT, labelOverlap=True),
    )
    y = alt.Y("y:Q", title=t("seats"), scale=alt.Scale(type="log"), axis=alt.Axis(tickCount=5, format="~s"))
    shown = [alt.Tooltip("x:Q", title=t("tokens each"), format=","), alt.Tooltip("y:Q", title=t("seats"), format=",")]
    line = alt.Chart(alt.InlineData(values=values)).encode(x=x, y=y, tooltip=shown)
    marks = [line.mark_line(color=LINE, strokeWidth=2), line.mark_point(color=LINE, filled=True, size=40)]
    if found.seats and lengths and lengths[0] <= found.question.context <= lengths[-1]:
        own = alt.Chart(alt.InlineData(values=[{"x": found.question.context, "y": found.seats}])).encode(
            x=x, y=y, tooltip=shown
        )
        marks.append(own.mark_point(color=MARK, filled=True, size=110, shape="diamond"))
    return alt.layer(*marks).properties(height=HEIGHT)


def waits_chart(found: Answer) -> alt.LayerChart | alt.FacetChart:
    """The mean wait of M/M/1 by load; the acceptable wait as a line."""
    values = [{"x": load, "y": wait} for load, wait in found.waits]
    x = alt.X("x:Q", title=t("load"), scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5))
    y = alt.Y("y:Q", title=t("mean wait, seconds"), axis=alt.Axis(tickCount=5))
    shown = [alt.Tooltip("x:Q", title=t("load"), format=".0%"), alt.Tooltip("y:Q", title=t("seconds"), format=",.3~g")]
    line = alt.Chart(alt.InlineData(values=values)).encode(x=x, y=y, tooltip=shown)
    marks: list[alt.Chart] = [
        line.mark_line(color=LINE, strokeWidth=2),
        line.mark_point(color=LINE, filled=True, size=30),
    ]
    wait = found.question.acceptable_wait
    if wait is not None and values and wait <= 2 * values[-1]["y"]:
        limit = alt.Chart(alt.InlineData(values=[{"y": wait}])).encode(y="y:Q")
        marks.append(limit.mark_rule(color=MARK, strokeDash=[5, 3]))
    return alt.layer(*marks).properties(height=HEIGHT)
