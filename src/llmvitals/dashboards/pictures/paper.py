"""A sheet to draw on, in pixels from the top left corner, and its bytes."""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Polygon, Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Affine2D
from PIL import Image

from llmvitals.dashboards.pictures.look import SETTINGS, TEXT, Theme

_DPI = 72
"""So that a point of matplotlib is a pixel."""

_SIZE = re.compile(r'\b(width|height)="([\d.]+)pt"')
_COLORS = 256


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: its left upper corner and its size, in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The x of its right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of its lower edge."""
        return self.y + self.height

    def inside(self, left: float = 0, top: float = 0, right: float = 0, bottom: float = 0) -> Box:
        """The rectangle less so much at each side."""
        return Box(self.x + left, self.y + top, self.width - left - right, self.height - top - bottom)

    def meets(self, other: Box) -> bool:
        """Whether a part of the two is the same."""
        return self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom


def _few(shown: Image.Image, colors: int) -> Image.Image:
    """The image in few colours: the most frequent one, then again and again the one that is farthest from all before it, by how
    often it is there. Plain surfaces and hues keep theirs exactly; what is left out becomes the nearest.
    """
    parts = np.asarray(shown, dtype=np.int32)
    codes = parts[..., 0] << 16 | parts[..., 1] << 8 | parts[..., 2]
    found, where, times = np.unique(codes, return_inverse=True, return_counts=True)
    every = np.stack((found >> 16, found >> 8 & 255, found & 255), axis=-1)
    kept, nearest = [int(times.argmax())], np.zeros(len(found), dtype=np.uint8)
    far = ((every - every[kept[0]]) ** 2).sum(axis=1)
    while len(kept) < colors and far.any():
        at = int((far * times).argmax())
        other = ((every - every[at]) ** 2).sum(axis=1)
        nearest[other < far] = len(kept)
        far = np.minimum(far, other)
        kept.append(at)
    few = Image.fromarray(nearest[where].reshape(codes.shape), "P")
    few.putpalette(every[kept].astype(np.uint8).tobytes())
    return few


class Paper:
    """A sheet of a size; what is put on it stays in the order of its coming."""

    def __init__(self, width: float, height: float, theme: Theme) -> None:
        self.box, self.theme = Box(0, 0, width, height), theme
        self._placed = 0
        self.figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor=theme.page)
        self._place = Affine2D().scale(1 / width, -1 / height).translate(0, 1) + self.figure.transFigure

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = TEXT,
        color: str = "",
        bold: bool = False,
        ha: Literal["left", "center", "right"] = "left",
        turned: bool = False,
    ) -> None:
        """A line of text whose middle is at a height, by its digits, so that all of one row agree. ``turned``: upwards."""
        shown = Text(
            x,
            y + (0 if turned else 0.36 * size),
            text,
            color=color or self.theme.text,
            fontsize=size,
            fontweight="bold" if bold else "normal",
            horizontalalignment=ha,
            verticalalignment="center" if turned else "baseline",
            rotation=90 if turned else 0,
            transform=self._place,
        )
        self._put(shown)

    def rect(self, box: Box, face: str, *, edge: str = "none", radius: float = 0, alpha: float = 1.0) -> None:
        """A filled rectangle."""
        shape = (
            FancyBboxPatch((box.x, box.y), box.width, box.height, boxstyle=f"round,pad=0,rounding_size={radius}")
            if radius
            else Rectangle((box.x, box.y), box.width, box.height)
        )
        shape.set(facecolor=face, edgecolor=edge, linewidth=1 if edge != "none" else 0)
        shape.set(alpha=alpha, transform=self._place)
        self._put(shape)

    def shape(self, corners: tuple[tuple[float, float], ...], face: str) -> None:
        """A filled polygon."""
        self._put(Polygon(corners, facecolor=face, linewidth=0, transform=self._place))

    def line(
        self, xs: tuple[float, ...], ys: tuple[float, ...], color: str, *, width: float = 1, dashed: bool = False
    ) -> None:
        """A line through points."""
        style: Any = (0, (6 / width, 4 / width)) if dashed else "-"  # matplotlib counts dashes in widths
        self._put(
            Line2D(xs, ys, color=color, linewidth=width, linestyle=style, transform=self._place, solid_capstyle="butt")
        )

    def axes(self, box: Box) -> Axes:
        """Axes whose plotting area is the box; without a frame, a background or ticks."""
        whole = self.box
        place = (
            box.x / whole.width,
            1 - box.bottom / whole.height,
            box.width / whole.width,
            box.height / whole.height,
        )
        found = self.figure.add_axes(place, frameon=False, zorder=self._next())
        found.tick_params(length=0, labelsize=TEXT - 0.5, labelcolor=self.theme.faint, pad=4)
        return found

    def _put(self, what: Artist) -> None:
        what.set_zorder(self._next())
        self.figure.add_artist(what)

    def _next(self) -> int:
        self._placed += 1
        return self._placed

    def svg(self, title: str) -> bytes:
        """The sheet as SVG whose letters are shapes, so that it needs no font; without a date."""
        sink = io.BytesIO()
        told = {"Title": title, "Date": None, "Creator": None, "Format": None, "Type": None}
        with rc_context(SETTINGS), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a letter that the font lacks is drawn as a box
            canvas: Any = FigureCanvasSVG(self.figure)
            canvas.print_svg(sink, metadata=told)
        text = sink.getvalue().decode("utf-8")
        head, rest = text[:2000], text[2000:]
        return (_SIZE.sub(r'\1="\2"', head) + rest).encode()

    def png(self, scale: float = 2.0, colors: int = _COLORS) -> bytes:
        """The sheet as PNG of so many colours, 256 at most, and ``scale`` pixels for each of its own."""
        with rc_context(SETTINGS), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            self.figure.set_dpi(_DPI * scale)
            canvas: Any = FigureCanvasAgg(self.figure)
            canvas.draw()
            shown = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")
            self.figure.set_dpi(_DPI)
        sink = io.BytesIO()
        _few(shown, colors).save(sink, "PNG", optimize=True)
        return sink.getvalue()
