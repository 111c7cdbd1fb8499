"""States over time: a lane for each series, coloured by what its value means."""

from __future__ import annotations

from collections.abc import Iterator

from llmvitals.dashboards.pictures import axes, legend
from llmvitals.dashboards.pictures.curves import Line, lines
from llmvitals.dashboards.pictures.look import TEXT, fitted, width_of
from llmvitals.dashboards.pictures.paper import Box, Paper
from llmvitals.dashboards.pictures.results import Answered, Scene
from llmvitals.settings import Settings

_TICKS, _LANE, _TALL = 20.0, 17.0, 64.0


def draw(paper: Paper, box: Box, answered: Answered, scene: Scene, settings: Settings) -> None:
    """Lanes from the first query's first series down, the time below, and what the colours mean."""
    shown = lines(answered, scene, settings)
    meant = {float(value): (text, color) for value, text, color in answered.panel.queries[0].names}
    met = {value for one in shown for _, value in one.points}
    entries = [legend.Entry(text, color, mark="band") for value, (text, color) in meant.items() if value in met]
    rows = legend.laid(entries, box.width, 2)
    lanes = box.inside(bottom=rows.height + 6 + _TICKS)
    most = max(1, int(lanes.height // _LANE))
    kept = shown if len(shown) <= most else shown[: most - 1]
    named = min(max(width_of(one.name, TEXT) for one in shown) + 10, 0.42 * box.width)
    area = lanes.inside(left=named, right=4)
    pixels = area.width / (scene.span.end - scene.span.start)
    high = min(_TALL, area.height / (len(kept) + (len(kept) < len(shown))))
    for at, one in enumerate(kept):
        y = area.y + at * high
        paper.text(lanes.x, y + high / 2, fitted(one.name, TEXT, named - 8))
        for start, end, value in runs(one, scene.span.step, scene.span.end):
            color = meant.get(value, ("", one.color))[1]
            first = area.x + max(0.0, start - scene.span.start) * pixels
            paper.rect(
                Box(first, y + 1.5, max(1.0, area.x + (end - scene.span.start) * pixels - first), high - 3), color
            )
    if len(kept) < len(shown):
        y = area.y + (len(kept) + 0.5) * high
        paper.text(lanes.x, y, f"and {len(shown) - len(kept)} more", color=paper.theme.faint)
    bottom = area.y + high * (len(kept) + (len(kept) < len(shown)))
    for t, words in axes.times(scene.span, area.width):
        x = area.x + (t - scene.span.start) * pixels
        half = width_of(words, TEXT - 0.5) / 2
        paper.text(min(x, box.right - half), bottom + 9, words, size=TEXT - 0.5, color=paper.theme.faint, ha="center")
    legend.draw(paper, Box(box.x, box.bottom - rows.height, box.width, rows.height), rows)


def runs(one: Line, step: float, end: float) -> Iterator[tuple[float, float, float]]:
    """Stretches of one value: from when to when, and the value. A point stands until the next one, a step long at most."""
    start, until, value = 0.0, 0.0, None
    for t, now in one.points:
        if value is not None and (now != value or t - until > 0.5 * step):
            yield start, min(until, end), value
            value = None
        if value is None:
            start, value = t, now
        until = t + step
    if value is not None:
        yield start, min(until, end), value
