"""Colours, sizes and the font of pictures, light and dark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llmvitals.errors import MissingExtraError, install

try:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path
except ImportError as missing:
    raise MissingExtraError("matplotlib is not installed", place="pictures", remedy=install("pictures")) from missing

FONT = "DejaVu Sans"
"""It comes with matplotlib, so that a picture is the same on every machine."""

SETTINGS: Any = {
    "font.family": FONT,
    "text.parse_math": False,
    "text.hinting": "none",  # else letters in a PNG are wider than they were measured
    "svg.hashsalt": "llmvitals",
    "svg.fonttype": "path",
    "path.simplify": True,
    "path.simplify_threshold": 0.2,
    "axes.unicode_minus": False,
}
"""Whatever a machine's own settings of matplotlib are."""

TITLE, TEXT, SMALL = 13.0, 11.0, 10.0
"""Sizes of letters in pixels."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of everything that is no data."""

    page: str
    frame: str
    border: str
    grid: str
    strong: str
    text: str
    faint: str


LIGHT = Theme("#F4F5F5", "#FFFFFF", "#D8DADC", "#E6E8EA", "#1F2328", "#454B52", "#5F666E")
DARK = Theme("#111217", "#181B1F", "#2F343B", "#2C3036", "#ECEDEF", "#C7CAD0", "#9BA1A9")
THEMES = {"light": LIGHT, "dark": DARK}


@lru_cache(maxsize=4096)
def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a text is, in pixels."""
    font = FontProperties(family=FONT, size=size, weight="bold" if bold else "normal")
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def fitted(text: str, size: float, width: float, *, bold: bool = False) -> str:
    """The text, cut with an ellipsis where it is wider than that."""
    if width_of(text, size, bold=bold) <= width:
        return text
    kept = text
    while kept and width_of(f"{kept}…", size, bold=bold) > width:
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def wrapped(text: str, size: float, width: float, *, bold: bool = False, most: int = 0) -> list[str]:
    """The text in lines that are no wider than that, ``most`` of them at most (0: as many as it takes)."""
    found: list[str] = []
    for word in text.split():
        longer = f"{found[-1]} {word}" if found else word
        if found and width_of(longer, size, bold=bold) <= width:
            found[-1] = longer
        else:
            found.append(word)
    if most and len(found) > most:
        found = [*found[: most - 1], " ".join(found[most - 1 :])]
    return [fitted(line, size, width, bold=bold) for line in found]


def ink_on(color: str) -> str:
    """Black or white, whichever reads better on a colour (``#RRGGBB``): by relative luminance, WCAG 2.1."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#FFFFFF" if 1.05 / (light + 0.05) > (light + 0.05) / 0.05 else "#000000"
