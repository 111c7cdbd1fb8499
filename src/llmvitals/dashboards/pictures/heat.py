"""Counts by bucket over time: how many answers fell between which edges."""

from __future__ import annotations

import math

import numpy as np
from matplotlib import colormaps

from llmvitals.dashboards.model import EXPONENT, NOT_ZERO, SCHEME
from llmvitals.dashboards.pictures import axes
from llmvitals.dashboards.pictures.look import SMALL, TEXT, width_of
from llmvitals.dashboards.pictures.paper import Box, Paper
from llmvitals.dashboards.pictures.results import Answered, Scene, Span
from llmvitals.dashboards.pictures.units import number, said
from llmvitals.settings import Settings

_COLORS = colormaps[SCHEME.lower()]
_TICKS, _LABEL = 20.0, 13.0


def counts(answered: Answered, span: Span) -> tuple[tuple[float, ...], np.ndarray]:
    """Upper edges in rising order, and for each edge and step how many fell between it and the one below; NaN where none."""
    times = axes.steps(span)
    buckets = (one for found in answered.found for one in found if one.label("le"))
    rows = {float(one.label("le")): axes.along(one.points, times) for one in buckets}
    if not rows:
        return (), np.empty((0, len(times)))
    edges = tuple(sorted(rows))
    total = np.vstack([rows[edge] for edge in edges])
    single = np.diff(total, axis=0, prepend=np.zeros((1, len(times))))
    single[~(single > NOT_ZERO)] = np.nan
    used = [n for n in range(len(edges)) if not np.isnan(single[n]).all()]
    if not used:
        return (), single[:0]
    first, last = max(0, used[0] - 1), min(len(edges), used[-1] + 2)
    return edges[first:last], single[first:last]


def draw(paper: Paper, box: Box, answered: Answered, scene: Scene, settings: Settings) -> None:
    """A row for each bucket from the lowest up, and the scale of colours below."""
    panel = answered.panel
    edges, found = counts(answered, scene.span)
    if not edges:
        paper.text(box.x + box.width / 2, box.y + box.height / 2, panel.empty, color=paper.theme.faint, ha="center")
        return
    unit = panel.queries[0].unit or panel.unit
    names = ["more" if math.isinf(edge) else said(edge, unit) for edge in edges]
    room = 9 + max(width_of(name, TEXT - 0.5) for name in names)
    inner = box.inside(left=room, right=10, top=6, bottom=_TICKS + 24)
    into = paper.axes(inner)
    most = float(np.nanmax(found))
    picture = _COLORS((found / most) ** EXPONENT)
    picture[np.isnan(found)] = (0, 0, 0, 0)
    half = scene.span.step / 2
    reach = (scene.span.start - half, scene.span.end + half, 0, len(edges))
    into.imshow(picture, origin="lower", aspect="auto", interpolation="nearest", extent=reach, zorder=1)
    into.set_xlim(scene.span.start, scene.span.end)
    marks = axes.times(scene.span, inner.width)
    into.set_xticks([t for t, _ in marks], labels=[words for _, words in marks])
    every = max(1, math.ceil(len(edges) * _LABEL / inner.height))
    shown = range(len(edges) - 1, -1, -every)
    into.set_yticks([n + 0.5 if math.isinf(edges[n]) else n + 1 for n in shown], labels=[names[n] for n in shown])
    into.hlines(range(1, len(edges)), *into.get_xlim(), color=paper.theme.grid, linewidth=0.6, zorder=0)
    _scale(paper, Box(box.x + room, box.bottom - 15, min(240.0, inner.width), 10), most)


def _scale(paper: Paper, box: Box, most: float) -> None:
    words, last = "in each step: few", number(most)
    paper.text(box.x, box.y + 5, words, size=SMALL, color=paper.theme.faint)
    left = box.x + width_of(words, SMALL) + 6
    into = paper.axes(Box(left, box.y + 1, 80, 8))
    into.imshow(_COLORS(np.linspace(0, 1, 64) ** EXPONENT).reshape(1, 64, 4), aspect="auto", extent=(0, 1, 0, 1))
    into.set_xticks([])
    into.set_yticks([])
    paper.text(left + 86, box.y + 5, last, size=SMALL, color=paper.theme.faint)
