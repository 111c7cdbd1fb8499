"""Consoles: results on stdout, progress on stderr; both plain when they are not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:  # a server that says nothing loads no library for saying it
    from rich.console import Console, RenderableType

PIPED_WIDTH = 120
"""Columns where there is no terminal: wide enough that tables keep their lines."""

_LONGEST = 100_000
"""Columns that no line of a result needs; a table takes what its cells need and no more."""


def out() -> Console:
    """Where results go."""
    from rich.console import Console  # noqa: PLC0415  # who says nothing loads none of it

    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False, emoji=False)


def err() -> Console:
    """Where progress and remarks go."""
    from rich.console import Console  # noqa: PLC0415  # who says nothing loads none of it

    return Console(stderr=True, width=None if sys.stderr.isatty() else PIPED_WIDTH, highlight=False, emoji=False)


def remark(text: str) -> None:
    """Say a line on stderr as it stands, broken where the terminal breaks it."""
    err().print(text, soft_wrap=True, markup=False)


def show(what: RenderableType, *, whole: bool = False) -> None:
    """Put a result on stdout; piped, without the blanks with which a table fills its lines.

    ``whole``: piped, its lines are as long as they must be, so that a name that somebody looks for is never cut in two.
    """
    console = out()
    if console.is_terminal:
        console.print(what)
        return
    if whole:
        console = type(console)(width=_LONGEST, highlight=False, emoji=False)
    with console.capture() as kept:
        console.print(what)
    click.echo("\n".join(line.rstrip() for line in kept.get().splitlines()))


class Advance(Protocol):
    """Called once per finished piece of work; ``text`` says what was done."""

    def __call__(self, text: str) -> None: ...


@contextmanager
def progress(title: str, total: int, *, of: str = "pages", quiet: bool = False) -> Iterator[Advance]:
    """A bar on stderr while ``total`` pieces of work are done; nothing where stderr is not a terminal, or when ``quiet``."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415  # as above

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[of]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}", style="dim"),
        console=err(),
        transient=True,
        disable=quiet or not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(title, total=total, last="", of=of)
        yield lambda text: bar.update(task, advance=1, last=text)
