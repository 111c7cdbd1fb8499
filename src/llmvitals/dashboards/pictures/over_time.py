"""Curves over time: lines with their limits, and bands that are stacked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes

from llmvitals.dashboards.model import Kind
from llmvitals.dashboards.pictures import axes, legend
from llmvitals.dashboards.pictures.curves import Line, lines
from llmvitals.dashboards.pictures.look import SMALL, TEXT, width_of
from llmvitals.dashboards.pictures.paper import Box, Paper
from llmvitals.dashboards.pictures.results import Answered, Scene, Span
from llmvitals.dashboards.pictures.units import said
from llmvitals.dashboards.promql import limits
from llmvitals.settings import Settings

_TICKS = 20.0
"""Pixels for the words of the time axis."""
_APART = 34.0
"""Pixels from one tick of numbers to the next, at least."""
_NEAR = 2.5
"""A limit up to so many times above all curves is inside the axis; a farther one is told at its upper edge."""
_DASH = (0, (4.5, 2.7))


def draw(paper: Paper, box: Box, answered: Answered, scene: Scene, settings: Settings) -> None:
    """The plot, its axes, its limits, and the legend below."""
    panel = answered.panel
    shown = lines(answered, scene, settings)
    rows = legend.laid([_entry(panel.kind, one) for one in shown], box.width, max(2, round(box.height / 90)))
    plot = box.inside(bottom=rows.height + 6)
    stacked = tuple(one for one in shown if panel.kind is Kind.STACK and not one.right)
    left = tuple(one for one in shown if not one.right)
    right = tuple(one for one in shown if one.right)
    times = axes.steps(scene.span)
    asked = limits(panel, settings) if left else ()
    bands = _stacked(stacked, times)
    tops = [float(np.nanmax(bands[-1]))] if stacked and not np.isnan(bands[-1]).all() else _values(left)
    near = [value for value, _ in asked if not tops or value <= _NEAR * max(tops)]
    most = max(2, int((plot.height - _TICKS) / _APART) + 1)
    own = axes.reach([*tops, *near], panel.unit, low=panel.bottom, high=panel.top, most=most) if left else None
    other = axes.reach(_values(right), right[0].unit, low=panel.bottom, high=_top(right), most=most) if right else None
    margin, far = _room(own), _room(other)
    inner = plot.inside(left=margin, right=far or 10, bottom=_TICKS, top=6)
    shown_times = axes.times(scene.span, inner.width)
    if own is not None:
        into = _axes(paper, inner, own, scene.span, shown_times)
        for value, color in asked:
            if value <= own.high:
                into.axhline(value, color=color, linewidth=1.2, linestyle=(0, (2.5, 2.5)), zorder=1.5)
        for at, one in enumerate(stacked):
            base = bands[at - 1] if at else np.where(np.isnan(bands[0]), np.nan, 0.0)
            into.fill_between(times, base, bands[at], color=one.color, alpha=0.72, linewidth=0, zorder=2)
            into.plot(times, bands[at], color=one.color, linewidth=1.2, zorder=2)
        for one in left if not stacked else ():
            _curve(into, one, scene.span)
        _told(paper, inner, own, asked, panel.unit)
    if other is not None:
        into = _axes(paper, inner, other, scene.span, shown_times, right=True, alone=own is None)
        for one in right:
            _curve(into, one, scene.span)
    legend.draw(paper, Box(box.x, plot.bottom + 6, box.width, rows.height), rows)


def _entry(kind: Kind, one: Line) -> legend.Entry:
    mark = "dash" if one.dashed else "band" if kind is Kind.STACK and not one.right else "line"
    name = f"{one.name} (right axis)" if one.right else one.name
    return legend.Entry(name, one.color, said(one.last, one.unit), mark, max(value for _, value in one.points))


def _values(found: Iterable[Line]) -> list[float]:
    return [value for one in found for _, value in one.points]


def _top(found: Sequence[Line]) -> float | None:
    """Shares end at 1 where none is above."""
    return 1.0 if found[0].unit == "percentunit" and max(_values(found), default=0.0) > 0.5 else None


def _room(found: axes.Reach | None) -> float:
    """Pixels that the words of an axis need."""
    return 0.0 if found is None else 9 + max((width_of(words, TEXT - 0.5) for _, words in found.ticks), default=0.0)


def _axes(
    paper: Paper,
    box: Box,
    found: axes.Reach,
    span: Span,
    times: Sequence[tuple[float, str]],
    *,
    right: bool = False,
    alone: bool = False,
) -> Axes:
    into = paper.axes(box)
    into.patch.set_visible(False)
    into.set_xlim(span.start, span.end)
    extra = (found.high - found.low) * 0.012
    into.set_ylim(found.low - extra, found.high + extra)
    first = not right or alone
    into.set_xticks([t for t, _ in times] if first else [], labels=[words for _, words in times] if first else [])
    into.set_yticks([value for value, _ in found.ticks], labels=[words for _, words in found.ticks])
    if right:
        into.yaxis.tick_right()
        into.tick_params(length=0)
    if first:
        into.grid(visible=True, color=paper.theme.grid, linewidth=1, zorder=0)
        into.set_axisbelow(True)
    return into


def _curve(into: Axes, one: Line, span: Span) -> None:
    """A curve that is broken where points are missing; a point alone is a dot."""
    xs, ys = _broken(one, span.step)
    into.plot(
        xs,
        ys,
        color=one.color,
        linewidth=1.8,
        linestyle=_DASH if one.dashed else "-",
        solid_joinstyle="round",
        zorder=3,
    )
    alone = [at for at in range(len(xs)) if not math.isnan(ys[at]) and _gap(ys, at - 1) and _gap(ys, at + 1)]
    if alone:
        into.plot([xs[at] for at in alone], [ys[at] for at in alone], ".", color=one.color, markersize=5, zorder=3)


def _gap(ys: Sequence[float], at: int) -> bool:
    return not 0 <= at < len(ys) or math.isnan(ys[at])


def _broken(one: Line, step: float) -> tuple[list[float], list[float]]:
    xs: list[float] = []
    ys: list[float] = []
    for t, value in one.points:
        if xs and t - xs[-1] > 1.5 * step:
            xs.append(xs[-1] + step)
            ys.append(math.nan)
        xs.append(t)
        ys.append(value)
    return xs, ys


def _stacked(found: Sequence[Line], times: np.ndarray) -> list[np.ndarray]:
    """The upper edges of bands; where one band has no point it is nothing, where none has there is a gap."""
    if not found:
        return []
    rows = np.vstack([axes.along(one.points, times) for one in found])
    none = np.isnan(rows).all(axis=0)
    edges = np.cumsum(np.nan_to_num(rows), axis=0)
    edges[:, none] = np.nan
    return list(edges)


def _told(paper: Paper, box: Box, own: axes.Reach, asked: Sequence[tuple[float, str]], unit: str) -> None:
    """The numbers of the limits, above their lines from the right edge on, none over another."""
    taken: list[Box] = []
    for value, color in asked:
        over = value > own.high
        words = f"{said(value, unit)} ↑" if over else said(value, unit)
        wide = width_of(words, SMALL, bold=True) + 6
        share = min(1.0, (value - own.low) / (own.high - own.low))
        y = box.bottom - share * box.height
        y = max(y - 14 if not over else box.y, box.y)
        spot = Box(box.right - wide, y, wide, 13)
        while any(map(spot.meets, taken)) and spot.x > box.x:
            spot = Box(spot.x - wide - 4, spot.y, wide, 13)
        taken.append(spot)
        paper.rect(spot, paper.theme.frame, radius=2, alpha=0.8)
        paper.text(spot.x + 3, spot.y + 6.5, words, size=SMALL, bold=True, color=color)
