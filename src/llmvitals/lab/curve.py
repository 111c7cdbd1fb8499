"""The calibration curve as a small SVG: stated confidence across, share that was right up, with 95 % intervals.

The same score gives the same bytes. Colours follow the reader's scheme, on a ground of its own, so that it reads on light and
dark pages alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmvitals.lab.calibration import ENOUGH, Bin

WIDTH, HEIGHT = 420, 360
_LEFT, _TOP, _SIDE = 60, 24, 280
_STYLE = (
    ".ground{fill:#ffffff}.line{stroke:#6e7781;fill:none}.grid{stroke:#d8dee4}.text{fill:#24292f}"
    ".dot{fill:#0969da}.bar{stroke:#0969da}"
    "@media (prefers-color-scheme: dark){.ground{fill:#0d1117}.line{stroke:#8b949e}.grid{stroke:#30363d}"
    ".text{fill:#e6edf3}.dot{fill:#58a6ff}.bar{stroke:#58a6ff}}"
)


def curve(bins: Sequence[Bin]) -> str:
    """The picture. A bin with too few verdicts to be held to its mean is a ring, the others are discs."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12" role="img" aria-label="Calibration curve">',
        f"<title>Stated confidence against the share that was right</title><style>{_STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
        *(line for tenth in range(0, 11, 2) for line in _tick(tenth / 10)),
        f'<path class="line" stroke-dasharray="4 4" d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}"/>',
        *(mark for one in bins for mark in _mark(one)),
        f'<text class="text" text-anchor="middle" x="{_x(0.5)}" y="{HEIGHT - 12}">stated confidence</text>',
        f'<text class="text" text-anchor="middle" transform="translate(16 {_y(0.5)}) rotate(-90)">'
        "share that was right</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _tick(at: float) -> tuple[str, ...]:
    return (
        f'<path class="grid" d="M{_x(at)} {_y(0)}V{_y(1)}M{_x(0)} {_y(at)}H{_x(1)}"/>',
        f'<text class="text" text-anchor="middle" x="{_x(at)}" y="{_y(0) + 16:g}">{at:g}</text>',
        f'<text class="text" text-anchor="end" x="{_x(0) - 8:g}" y="{_y(at) + 4:g}">{at:g}</text>',
    )


def _mark(one: Bin) -> tuple[str, ...]:
    low, high = one.right.interval
    x, y = _x(one.mean), _y(one.right.value or 0.0)
    kind = "dot" if one.right.n >= ENOUGH else "bar ground"
    return (
        f'<path class="bar" d="M{x} {_y(low)}V{_y(high)}"/>',
        f'<circle class="{kind}" cx="{x}" cy="{y}" r="4"><title>{one.right.hits} of {one.right.n}</title></circle>',
        f'<text class="text" font-size="10" x="{x + 7:g}" y="{y - 6:g}">{one.right.n}</text>',
    )


def _x(share: float) -> float:
    return round(_LEFT + _SIDE * share, 1)


def _y(share: float) -> float:
    return round(_TOP + _SIDE * (1 - share), 1)
