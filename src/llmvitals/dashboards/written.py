"""How boards are written to files: their text, and where a form for another Grafana stands."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from llmvitals.dashboards.shapes import Json

_WIDTH = 120
"""Columns of a line, unless one value is longer."""


def written(data: Json) -> str:
    """A board's data as the text of its file: sorted, so that what did not change stays where it is, and with whatever fits into
    a line in one, as an override is read."""
    return _text(data, 0) + "\n"


def _text(value: object, depth: int, name: str = "") -> str:
    """A value at this depth, after its name where it has one."""
    match value:
        case dict():
            first, last = "{}"
            parts = [_text(one, depth + 1, f"{json.dumps(key)}: ") for key, one in sorted(value.items())]
        case list():
            first, last = "[]"
            parts = [_text(one, depth + 1) for one in value]
        case _:
            return name + json.dumps(value)
    line = f"{name}{first}{', '.join(parts)}{last}"
    if "\n" not in line and depth + len(line) < _WIDTH:  # one column for the comma
        return line
    inside = ",\n".join(" " * (depth + 1) + part for part in parts)
    return f"{name}{first}\n{inside}\n{' ' * depth}{last}"


def within(folder: str, path: str) -> str:
    """Where a board's form for another Grafana stands: under the same name in a folder beside it."""
    place = PurePosixPath(path)
    return str(place.parent / folder / place.name)
