"""Small charts of evidence with the limit drawn in, as one piece of HTML each.

Lines are a picture inside the page (a data URI), words are HTML over it: the chart is as wide as its column on every screen, stands
there at once, and is replaced by the next one without a moment in which nothing is drawn, which a chart library's canvas is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from urllib.parse import quote

from llmvitals.triage.chart import Chart
from llmvitals.triage.units import digits
from words import t

LINE, LIMIT, MARK = "#3d7fc4", "#d65a22", "#8a6fc0"
MOST_HOVERED = 60
"""Points that say their number under the pointer; of more, the last in each place."""

_TOP = 88.0
"""From here up (per cent) there is no room for a tick's label above its line."""

_RIGHT, _LOW = 60.0, 25.0
"""A mark's words stand to its left from here on, and above where the limit's own lie at the bottom (per cent)."""

STYLE = """<style>
.lv-chart { margin:2px 0 14px; }
.lv-chart .plot { position:relative; height:118px; border-bottom:1px solid var(--line); }
.lv-chart img { position:absolute; inset:0; width:100%; height:100%; display:block; }
.lv-chart span { position:absolute; font-size:11px; line-height:1; white-space:nowrap; color:var(--soft); }
.lv-chart .tick { left:0; right:0; height:0; border-top:1px solid var(--line); }
.lv-chart .tick b { position:absolute; right:0; bottom:2px; font-weight:400; }
.lv-chart .tick.top b { bottom:auto; top:2px; }
.lv-chart .lim { left:2px; color:light-dark(#a3330a,#ff9a6b); font-weight:600; }
.lv-chart .since { color:light-dark(#62388f,#cfa8f5); font-weight:600; }
.lv-chart .plot i { position:absolute; top:0; bottom:0; }
.lv-chart .axis { display:flex; justify-content:space-between; font-size:11px; color:var(--soft); padding-top:3px;
 font-variant-numeric:tabular-nums; }
</style>"""


def draw(chart: Chart) -> str:
    """The signal over time, its limit as a labelled line, the side that breaches it shaded, the moment its check began to fire."""
    first, last = chart.points[0][0], chart.points[-1][0]
    ticks = "".join(
        f'<span class="tick{" top" if _up(chart, v) > _TOP else ""}" style="bottom:{_up(chart, v):.2f}%">'
        f"<b>{escape(text)}</b></span>"
        for v, text in chart.ticks
        if v
    )
    return (
        f'<div class="lv lv-chart" data-chart="{escape(chart.row.signal)}" data-points="{_count(chart)}" role="img" '
        f'aria-label="{escape(_said(chart))}"><div class="plot">{ticks}'
        f'<img alt="" decoding="sync" src="data:image/svg+xml,{quote(_svg(chart), safe=_SAFE)}">'
        f"{_limit(chart)}{_since(chart, first, last)}{''.join(_hover(chart, first, last))}</div>"
        f'<div class="axis"><b>{_clock(first)}</b><b>{_clock(last)} UTC</b></div></div>'
    )


_SAFE = " =/:,.-"


def _svg(chart: Chart) -> str:
    """In hundredths of the plot; strokes keep their width however it is stretched."""
    first, last = chart.points[0][0], chart.points[-1][0]
    parts = []
    if chart.bound is not None:
        y = 100 - _up(chart, chart.bound)
        if chart.breach_end is not None:
            end = 100 - _up(chart, chart.breach_end)
            parts.append(
                f"<rect x='0' width='100' y='{min(y, end):.2f}' height='{abs(end - y):.2f}' fill='{LIMIT}' opacity='.1'/>"
            )
        parts.append(_stroke(f"M0 {y:.2f}H100", LIMIT, "1.5", " stroke-dasharray='5 3'"))
    if chart.since is not None:
        parts.append(_stroke(f"M{_along(chart.since, first, last):.2f} 0V100", MARK, "1.5", ""))
    line = " ".join(_line(chart, first, last))
    parts.append(_stroke(line, LINE, "2" if chart.moves else "7", " stroke-linecap='round' stroke-linejoin='round'"))
    return f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 100 100' preserveAspectRatio='none'>{''.join(parts)}</svg>"


def _stroke(path: str, colour: str, width: str, more: str) -> str:
    return f"<path d='{path}' fill='none' stroke='{colour}' stroke-width='{width}' vector-effect='non-scaling-stroke'{more}/>"


def _line(chart: Chart, first: float, last: float) -> Iterator[str]:
    """Where a number is absent the line is broken; a number between two gaps is a dot."""
    drawn = False
    for at, value in chart.points:
        if value is None:
            drawn = False
            continue
        x, y = _along(at, first, last), 100 - _up(chart, value)
        yield f"{'L' if drawn else f'M{x:.2f} {y:.2f}L'}{x:.2f} {y:.2f}"
        drawn = True


def _limit(chart: Chart) -> str:
    if chart.bound is None:
        return ""
    side = "margin-bottom:4px" if chart.label_above else "margin-bottom:-14px"
    return f'<span class="lim" style="bottom:{_up(chart, chart.bound):.2f}%;{side}">{escape(chart.bound_text)}</span>'


def _since(chart: Chart, first: float, last: float) -> str:
    if chart.since is None:
        return ""
    x = _along(chart.since, first, last)
    place = f"left:{x:.2f}%;margin-left:4px" if x < _RIGHT else f"right:{100 - x:.2f}%;margin-right:4px"
    low = chart.bound is None or _up(chart, chart.bound) > _LOW
    place += ";bottom:3px" if low else ";top:3px"
    return f'<span class="since" style="{place}">{escape(t("since {moment}", moment=_clock(chart.since)))}</span>'


def _hover(chart: Chart, first: float, last: float) -> Iterator[str]:
    shown = {round(_along(at, first, last) / 100 * MOST_HOVERED): (at, v) for at, v in chart.points if v is not None}
    width = 100 / MOST_HOVERED
    for place, (at, value) in shown.items():
        left = min(max(0.0, place * width - width / 2), 100 - width)
        text = f"{_clock(at)} UTC: {digits(value)} {chart.unit}".rstrip()
        yield f'<i style="left:{left:.2f}%;width:{width:.2f}%" title="{escape(text)}"></i>'


def _said(chart: Chart) -> str:
    """The chart in words, for whoever does not see it."""
    known = [v for _, v in chart.points if v is not None]
    lowest, highest = (f"{digits(v)} {chart.unit}".rstrip() for v in (min(known), max(known)))
    said = t(
        "{title} from {start} to {end} UTC: lowest {lowest}, highest {highest}, now {now}",
        title=chart.row.title,
        start=_clock(chart.points[0][0]),
        end=_clock(chart.points[-1][0]),
        lowest=lowest,
        highest=highest,
        now=chart.row.value,
    )
    return f"{said}; {chart.bound_text}" if chart.bound_text else said


def _count(chart: Chart) -> int:
    return sum(v is not None for _, v in chart.points)


def _up(chart: Chart, value: float) -> float:
    """How far up, in per cent."""
    return 100 * min(1.0, max(0.0, (value - chart.low) / (chart.high - chart.low)))


def _along(at: float, first: float, last: float) -> float:
    """How far along, in per cent; a single point stands at the right end, where now is."""
    return 100 * (at - first) / (last - first) if last > first else 100.0


def _clock(milliseconds: float) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%H:%M:%S")
