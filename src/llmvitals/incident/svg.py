"""Small charts as SVG: a signal over time, its limit as a labelled line, the side that breaches it shaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html import escape

from llmvitals.triage.chart import Chart

Place = Callable[[float], float]
"""Where a moment or a value lies."""

WIDTH, HEIGHT = 360, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 8, 22

STYLE = (
    ".c-line{fill:none;stroke:#2a6fb5;stroke-width:2;stroke-linejoin:round}.c-dot{fill:#2a6fb5}"
    ".c-limit{stroke:#b94714;stroke-width:1.5;stroke-dasharray:5 3}.c-side{fill:#b94714;opacity:.1}"
    ".c-since{stroke:#59636e;stroke-width:1;stroke-dasharray:2 3}.c-axis{stroke:#d0d6dc;stroke-width:1}"
    ".c-text{fill:#59636e;font:11px system-ui,sans-serif}.c-bound{fill:#a3330a;font:600 11px system-ui,sans-serif}"
    "@media (prefers-color-scheme:dark){.c-line{stroke:#6db3f2}.c-dot{fill:#6db3f2}.c-limit{stroke:#f08a55}"
    ".c-side{fill:#f08a55;opacity:.14}.c-since{stroke:#a7b0ba}.c-axis{stroke:#3b424a}.c-text{fill:#a7b0ba}"
    ".c-bound{fill:#ff9a6b}}"
)
"""The rules for charts on a page, and inside one that is a file."""

PAPER = (
    "@media print{.c-line{stroke:#2a6fb5}.c-dot{fill:#2a6fb5}.c-limit{stroke:#b94714}.c-side{fill:#b94714;opacity:.1}"
    ".c-since{stroke:#59636e}.c-axis{stroke:#d0d6dc}.c-text{fill:#59636e}.c-bound{fill:#a3330a}}"
)
"""Paper is white, whatever the screen is."""


def draw(chart: Chart, alt: str, *, alone: bool = False) -> str:
    """The chart as an element; ``alone``: as a whole file, with its own style."""
    style = f"<style>{STYLE}</style>" if alone else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(alt)}">'
        f"{style}{''.join(_parts(chart))}</svg>"
    )


def _parts(chart: Chart) -> Iterator[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    times = [t for t, _ in chart.points]
    first, last = min(times, default=0.0), max(times, default=0.0)

    def x(t: float) -> float:
        return _LEFT + (right - _LEFT) * ((t - first) / (last - first) if last > first else 0.5)

    def y(value: float) -> float:
        span = chart.high - chart.low or 1.0
        share = min(max((value - chart.low) / span, 0.0), 1.0)
        return bottom - (bottom - _TOP) * share

    for value, text in chart.ticks:
        yield f'<path class="c-axis" d="M{_LEFT} {y(value):.1f}H{right}"/>'
        yield _text(_LEFT - 5, y(value) + 4, text, "end")
    if chart.bound is not None:
        if chart.breach_end is not None:
            top, low = sorted((y(chart.bound), y(chart.breach_end)))
            yield f'<rect class="c-side" x="{_LEFT}" y="{top:.1f}" width="{right - _LEFT}" height="{low - top:.1f}"/>'
        yield f'<path class="c-limit" d="M{_LEFT} {y(chart.bound):.1f}H{right}"/>'
    if chart.since is not None:
        yield f'<path class="c-since" d="M{x(chart.since):.1f} {_TOP}V{bottom}"/>'
    yield from _line(chart, x, y)
    if chart.bound is not None:
        at = y(chart.bound) + (-5 if chart.label_above and y(chart.bound) > _TOP + 14 else 13)
        yield _text(_LEFT + 4, at, chart.bound_text, "start", "c-bound")
    if last > first:
        yield _text(_LEFT, HEIGHT - 6, _clock(first), "start")
        yield _text(right, HEIGHT - 6, _clock(last), "end")
    elif times:
        yield _text(x(first), HEIGHT - 6, _clock(first), "middle")


def _line(chart: Chart, x: Place, y: Place) -> Iterator[str]:
    runs: list[list[tuple[float, float]]] = [[]]
    for t, value in chart.points:
        if value is None:
            runs.append([])  # a gap stays one
        else:
            runs[-1].append((x(t), y(value)))
    for run in filter(None, runs):
        if len(run) > 1:
            yield f'<path class="c-line" d="M{"L".join(f"{a:.1f} {b:.1f}" for a, b in run)}"/>'
        a, b = run[-1]
        if len(run) == 1 or run is runs[-1]:
            yield f'<circle class="c-dot" cx="{a:.1f}" cy="{b:.1f}" r="3"/>'


def _text(x: float, y: float, text: str, anchor: str, style: str = "c-text") -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _clock(milliseconds: float) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000.0, UTC):%H:%M:%S}"
