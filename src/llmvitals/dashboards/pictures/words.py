"""Words alone: the text of a panel, and what one says that has nothing to show."""

from __future__ import annotations

import re

from llmvitals.dashboards.pictures.look import TEXT, wrapped
from llmvitals.dashboards.pictures.paper import Box, Paper
from llmvitals.dashboards.pictures.results import Answered, Scene
from llmvitals.dashboards.promql import described
from llmvitals.settings import Settings

_LINE = 17.0
_MARKS = re.compile(r"\*\*|`|\[([^\]]*)\]\([^)]*\)")


def draw(paper: Paper, box: Box, answered: Answered, _: Scene, settings: Settings) -> None:
    """The panel's description, without the marks of Markdown."""
    y = box.y + _LINE / 2
    for part in described(answered.panel, settings).split("\n"):
        for line in wrapped(_MARKS.sub(lambda m: m[1] or "", part), TEXT + 0.5, box.width):
            if y > box.bottom:
                return
            paper.text(box.x, y, line, size=TEXT + 0.5)
            y += _LINE
        y += _LINE / 3


def nothing(paper: Paper, box: Box, why: str) -> None:
    """Why a panel is empty, in its middle."""
    lines = wrapped(why, TEXT + 1, box.width - 16)
    top = box.y + box.height / 2 - _LINE * (len(lines) - 1) / 2
    for at, line in enumerate(lines):
        paper.text(box.x + box.width / 2, top + at * _LINE, line, size=TEXT + 1, color=paper.theme.faint, ha="center")
