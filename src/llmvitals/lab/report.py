"""The score on a page (docs/accuracy.md): Markdown between marks; the rest of the page is written by hand."""

from __future__ import annotations

from llmvitals.errors import SettingsError
from llmvitals.lab.score import FEW, Score
from llmvitals.lab.sheets import CALIBRATION, Sheet, sheets

SCORE, CASES = "score", "cases"
"""The generated parts of the page, by the name in their marks."""
CURVE = "img/calibration.svg"
"""Where the calibration curve lies, seen from the page."""


def markdown(score: Score, command: str) -> str:
    """The generated block of the page; ``command`` makes the same score again."""
    counted = f"`{command}`: {score.played} scenarios played, {score.whole.n} counted.{_few(score)}\n"
    return "\n".join([counted, *(_markdown(sheet) for sheet in sheets(score))])


def marks(part: str) -> tuple[str, str]:
    """What stands before and after a generated part."""
    return f"<!-- {part}:begin -->", f"<!-- {part}:end -->"


def renewed(text: str, block: str, *, place: str, part: str = SCORE) -> str:
    """A page's text with ``block`` between the marks of its part. Raises :class:`SettingsError` when a mark is missing."""
    begin, end = marks(part)
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise SettingsError(
            f"lacks the marks of the part '{part}'", place=place, remedy=f"Put '{begin}' and '{end}' where it belongs."
        )
    return f"{before}{first}\n{block}{last}{after}"


def table(sheet: Sheet) -> str:
    """A sheet's rows as Markdown."""
    lines = [sheet.head, ("---",) * len(sheet.head), *sheet.rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _few(score: Score) -> str:
    few = ", ".join(f"{cause} ({n})" for cause, n in score.few.items())
    return f" Causes that fewer than {FEW} of them show: {few}." if few else ""


def _markdown(sheet: Sheet) -> str:
    curve = f"![stated confidence against the share that was right]({CURVE})\n\n" if sheet.title == CALIBRATION else ""
    note = f"{sheet.note}\n\n" if sheet.note else ""
    return f"### {sheet.title}\n{note}{curve}{table(sheet)}"
