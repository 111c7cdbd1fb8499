"""A report as Markdown (GitHub's dialect): whatever came from outside stands there as text, never as markup."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmvitals.incident.blocks import Banner, Block, Code, Figure, Figures, Heading, Para, Quote, Report, Table

_MARKUP = re.compile(r"[\\`*\[\]{}|~$]|(?<!\w)_|_(?!\w)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_START = re.compile(r"(?P<mark>[#+=-])|(?P<number>\d+)(?P<dot>[.)])(?=\s|$)")


def markdown(report: Report) -> str:
    """The whole document."""
    body = "\n\n".join(part for block in report.blocks for part in _block(block))
    return f"# {escaped(report.title)}\n\n{body}\n"


def escaped(text: str) -> str:
    """A text in one line without any meaning as markup."""
    line = " ".join(_printable(text).split())
    line = "".join(_ENTITIES.get(c, c) for c in _MARKUP.sub(lambda found: f"\\{found[0]}", line))
    start = _START.match(line)
    if start is None:
        return line
    return f"\\{line}" if start["mark"] else f"{start['number']}\\{line[start.start('dot') :]}"


def _printable(text: str) -> str:
    """Without characters that steer a terminal or turn the direction of reading."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Banner():
            trust = f" ({escaped(block.trust)})" if block.trust else ""
            title = f": {escaped(block.title)}" if block.title != block.badge.word else ""
            yield f"**{escaped(block.badge.word)}{title}**{trust}"
            yield escaped(block.sentence)
            yield _table(Table(("", ""), block.facts))
        case Heading():
            yield f"{'#' * block.level} {escaped(block.text)}"
        case Para():
            yield escaped(block.text)
        case Quote():
            yield "\n".join(f"> {escaped(line)}  " for line in block.text.splitlines())
        case Code():
            yield _code(block.text)
        case Table():
            yield _table(block)
        case Figures():
            yield from map(_figure, block.figures)


def _table(table: Table) -> str:
    lines = [_cells(table.heads), _cells(tuple("---" for _ in table.heads), raw=True)]
    return "\n".join([*lines, *map(_cells, table.rows)])


def _cells(cells: tuple[str, ...], *, raw: bool = False) -> str:
    return f"| {' | '.join(cell if raw else escaped(cell) for cell in cells)} |"


def _code(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{_printable(text)}\n{fence}"


def _figure(figure: Figure) -> str:
    row = figure.chart.row
    said = ", ".join(part for part in (row.badge.word, row.limit, row.note) if part)
    head = f"**{escaped(row.title)}: {escaped(row.value)}**" + (f" ({escaped(said)})" if said else "")
    if not figure.chart.points:
        return head
    return f"{head}\n\n![{escaped(figure.alt)}](charts/{figure.file})"
