"""Draws a table of text on stdout."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from llmvitals.cli.screen import show
from llmvitals.lab.sheets import Sheet


def show_sheet(sheet: Sheet) -> None:
    """A title, a line that says how to read it, the table, and a blank line."""
    table = Table(box=None, pad_edge=False, show_header=any(sheet.head))
    for at, title in enumerate(sheet.head):
        table.add_column(title, overflow="fold", no_wrap=at == 0)
    for row in sheet.rows:
        table.add_row(*(Text(cell) for cell in row))
    show(Text(sheet.title, style="bold"))
    if sheet.note:
        show(Text(sheet.note, style="dim"))
    if sheet.rows:
        show(table)
    show("")
