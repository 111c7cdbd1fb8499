"""The score on a page (docs/accuracy.md): Markdown between two marks; the rest of the page is written by hand."""

from __future__ import annotations

from llmvitals.errors import SettingsError
from llmvitals.lab.score import Score
from llmvitals.lab.sheets import CALIBRATION, Sheet, sheets

BEGIN, END = "<!-- score:begin -->", "<!-- score:end -->"
CURVE = "img/calibration.svg"
"""Where the calibration curve lies, seen from the page."""


def markdown(score: Score, command: str) -> str:
    """The generated block of the page; ``command`` makes the same score again."""
    counted = f"`{command}`: {score.played} scenarios played, {score.whole.n} counted.\n"
    return "\n".join([counted, *(_markdown(sheet) for sheet in sheets(score))])


def renewed(text: str, block: str, *, place: str) -> str:
    """A page's text with ``block`` between its marks. Raises :class:`SettingsError` when a mark is missing."""
    before, first, rest = text.partition(BEGIN)
    _, last, after = rest.partition(END)
    if not first or not last:
        raise SettingsError(
            "lacks the marks of the score", place=place, remedy=f"Put '{BEGIN}' and '{END}' where it belongs."
        )
    return f"{before}{first}\n{block}{last}{after}"


def _markdown(sheet: Sheet) -> str:
    lines = [sheet.head, ("---",) * len(sheet.head), *sheet.rows]
    table = "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
    curve = f"![stated confidence against the share that was right]({CURVE})\n\n" if sheet.title == CALIBRATION else ""
    note = f"{sheet.note}\n\n" if sheet.note else ""
    return f"### {sheet.title}\n{note}{curve}{table}"
