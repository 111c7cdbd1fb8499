"""One bar for each series, as it is now, the longest first."""

from __future__ import annotations

from llmvitals.dashboards.pictures.curves import Line, lines, meant, passed
from llmvitals.dashboards.pictures.look import TEXT, fitted, width_of
from llmvitals.dashboards.pictures.paper import Box, Paper
from llmvitals.dashboards.pictures.results import Answered, Scene
from llmvitals.dashboards.pictures.units import said
from llmvitals.dashboards.promql import limits
from llmvitals.settings import Settings

_LOW, _TALL = 20.0, 34.0


def draw(paper: Paper, box: Box, answered: Answered, scene: Scene, settings: Settings) -> None:
    """Bars with their names at the left and their numbers at the right, in the colour of the highest limit they pass."""
    panel = answered.panel
    shown = sorted(lines(answered, scene, settings), key=lambda one: -one.last)
    asked = limits(panel, settings)
    room = max(1, int(box.height // _LOW))
    kept = shown if len(shown) <= room else shown[: max(1, room - 1)]
    texts = [_text(one) for one in kept]
    named = min(max(width_of(one.name, TEXT) for one in kept) + 8, 0.4 * box.width)
    told = max(width_of(text, TEXT, bold=True) for text in texts) + 8
    area = box.inside(left=named, right=told)
    low = min(panel.bottom or 0.0, *(one.last for one in kept))
    high = panel.top if panel.top is not None else max(one.last for one in kept)
    tall = min(_TALL, box.height / (len(kept) + (len(kept) < len(shown))))
    for at, (one, text) in enumerate(zip(kept, texts, strict=True)):
        y = box.y + at * tall
        share = min(1.0, max(0.0, (one.last - low) / (high - low))) if high > low else 0.0
        paper.text(box.x, y + tall / 2, fitted(one.name, TEXT, named - 8))
        paper.rect(Box(area.x, y + 3, area.width, tall - 6), paper.theme.grid, radius=2)
        color = passed(one.last, asked, one.color)
        paper.rect(Box(area.x, y + 3, max(2.0, share * area.width), tall - 6), color, radius=1)
        paper.text(box.right, y + tall / 2, text, bold=True, color=paper.theme.strong, ha="right")
    if len(kept) < len(shown):
        y = box.y + (len(kept) + 0.5) * tall
        paper.text(box.x, y, f"and {len(shown) - len(kept)} more", color=paper.theme.faint)


def _text(one: Line) -> str:
    words = meant(one.last, one.query)
    return words[0] if words else said(one.last, one.unit)
