"""``llmvitals picture``: boards and panels as images, from what a PromQL endpoint holds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmvitals import settings as settings_file
from llmvitals.backtest.shown import moment
from llmvitals.cli import named_source
from llmvitals.cli.backtest import when
from llmvitals.cli.duration import duration
from llmvitals.cli.named_source import ENDPOINT
from llmvitals.cli.screen import progress, remark
from llmvitals.dashboards.boards import BOARDS
from llmvitals.dashboards.model import Board, Panel
from llmvitals.dashboards.pictures.ask import Asked, asked, spanned
from llmvitals.dashboards.pictures.results import SCRAPE_SECONDS, Answered, Choice, Scene, Span, curve
from llmvitals.errors import PageError, SettingsError
from llmvitals.settings import Settings
from llmvitals.sources.access import NOBODY
from llmvitals.sources.promql_api import Endpoint, Stored

if TYPE_CHECKING:
    from llmvitals.dashboards.pictures.paper import Paper

LESS = "a longer --step or a shorter time"
_BY_NAME = {Path(board.file).stem: board for board in BOARDS}
_FORMATS = ("svg", "png")


@click.command(name="picture")
@click.option(
    "--prometheus", required=True, metavar=ENDPOINT, help="The PromQL endpoint whose series are drawn, or a source."
)
@click.option("--board", "name", required=True, metavar="NAME", help="The board, like 'service'.")
@click.option(
    "--panel", "titles", multiple=True, metavar="TITLE", help="Only this panel of it, in its own file; repeat it."
)
@click.option(
    "--from", "start", type=when, default="1h", show_default=True, metavar="TIME", help="A moment, or 1h ago."
)
@click.option("--to", "end", type=when, show_default="now", metavar="TIME", help="Where it ends.")
@click.option("--step", type=duration, metavar="DURATION", show_default="400 points", help="From point to point.")
@click.option(
    "--scrape-interval",
    "scrape",
    type=duration,
    default=f"{SCRAPE_SECONDS:g}s",
    show_default=True,
    metavar="DURATION",
    help="How often that Prometheus scrapes: rates look back over four of these.",
)
@click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Only this cluster; repeat it for more.")
@click.option("--namespace", "namespaces", multiple=True, metavar="NAME", help="Only this namespace.")
@click.option("--model", "models", multiple=True, metavar="NAME", help="Only this model.")
@click.option("--instance", "instances", multiple=True, metavar="NAME", help="Only this replica or service.")
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path), default=".", show_default=True, help="The folder."
)
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), show_default="svg of a panel, png of a board", help="Of the files."
)
@click.option("--theme", type=click.Choice(("light", "dark")), default="light", show_default=True, help="Colours.")
@click.option("--phone", is_flag=True, help="In one column, as wide as a phone.")
@click.option("--open", "opened", is_flag=True, help="With the rows that are closed until somebody clicks them.")
@click.option("--note", default="", metavar="TEXT", help="Words for the caption, like where the numbers are from.")
@click.option("--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file: limits are drawn.")
def command(
    *,
    prometheus: str,
    name: str,
    titles: tuple[str, ...],
    start: float,
    end: float | None,
    step: float | None,
    scrape: float,
    clusters: tuple[str, ...],
    namespaces: tuple[str, ...],
    models: tuple[str, ...],
    instances: tuple[str, ...],
    folder: Path,
    form: str | None,
    theme: str,
    phone: bool,
    opened: bool,
    note: str,
    settings_path: Path | None,
) -> None:
    """Draw boards and panels as images, for documents and reports.

    Asks the PromQL endpoint what the board would ask it, and draws what comes. Every image says that it was drawn by llmvitals, of
    which time, and of which replica where one is chosen.
    """
    import_module("llmvitals.dashboards.pictures.look")  # before anything is asked: it says when matplotlib is missing
    settings = settings_file.load(settings_path)
    board = found_board(name)
    panels = found_panels(board, titles) if titles else tuple(open_panels(board, everything=opened))
    last = time.time() if end is None else end
    scene = Scene(_span(start, last, step, scrape), Choice(clusters, namespaces, models, instances), note)
    url, source = named_source.endpoint(prometheus, settings)
    with Endpoint(url, access=source.access if source else NOBODY, less=LESS) as endpoint:
        answers = answered(endpoint, panels, scene, settings, scrape)
        named_source.not_whole(endpoint.place, endpoint.told)
        if all(one.empty for one in answers):
            raise PageError(
                f"holds nothing for {len(answers)} panels from {moment(start)} to {moment(last)}",
                place=endpoint.place,
                remedy="Check --from, --to and the names chosen, and that it scrapes the exporter with honor_labels.",
            )
    for one in answers:
        if one.empty:
            remark(f"'{one.panel.title}' is empty: {one.panel.empty}")
    folder.mkdir(parents=True, exist_ok=True)
    for file, paper, title in _papers(board, answers, scene, settings, theme, alone=bool(titles), phone=phone):
        kind = form or ("svg" if titles else "png")
        path = folder / f"{file}.{kind}"
        path.write_bytes(paper.svg(title) if kind == "svg" else paper.png())
        click.echo(str(path))


def _span(start: float, end: float, step: float | None, scrape: float) -> Span:
    """The time to draw, of two points at least. Raises :class:`click.UsageError`, naming the options, where it is none."""
    if not start < end:
        raise click.UsageError(f"--from ({moment(start)}) is not before --to ({moment(end)}); swap them.")
    if step is not None and step < 1:
        raise click.UsageError(f"--step is {step:g} s; give it a second at least.")
    span = spanned(start, end, step, scrape)
    if not span.start < span.end:
        raise click.UsageError(
            f"From --from to --to no step of {span.step:g} s has room; give a longer time or a shorter --step."
        )
    return span


def _papers(
    board: Board, answers: Sequence[Answered], scene: Scene, settings: Settings, theme: str, *, alone: bool, phone: bool
) -> list[tuple[str, Paper, str]]:
    """File name, sheet and title of each picture."""
    from llmvitals.dashboards.pictures.look import THEMES  # noqa: PLC0415 - matplotlib is an extra, and not for --help
    from llmvitals.dashboards.pictures.picture import PHONE, PHONE_PANEL, WIDE, of_board, of_panel  # noqa: PLC0415 - as above

    stem, colors = Path(board.file).stem, THEMES[theme]
    width = PHONE if phone else WIDE
    if not alone:
        found = {one.panel.title: one for one in answers}
        return [(stem, of_board(board, found, scene, settings, colors, width=width), board.title)]
    return [
        (
            f"{stem}-{slug(one.panel.title)}",
            of_panel(one, scene, settings, colors, width=PHONE_PANEL if phone else 0.0),
            one.panel.title,
        )
        for one in answers
    ]


def answered(
    endpoint: Endpoint, panels: Sequence[Panel], scene: Scene, settings: Settings, scrape: float = SCRAPE_SECONDS
) -> tuple[Answered, ...]:
    """Ask everything that panels ask, with a bar on stderr. Raises what :meth:`Endpoint.now` raises."""
    with progress("asking", len(panels), of="panels") as advance:
        return tuple(_one(endpoint, panel, scene, settings, scrape, advance) for panel in panels)


def _one(
    endpoint: Endpoint,
    panel: Panel,
    scene: Scene,
    settings: Settings,
    scrape: float,
    advance: Callable[[str], None],
) -> Answered:
    found = tuple(
        tuple(curve(one.labels, tuple((t, float(v)) for t, v in one.points)) for one in _answer(endpoint, question))
        for question in asked(panel, settings, scene.choice, scene.span, scrape)
    )
    advance(panel.title)
    return Answered(panel, found)


def _answer(endpoint: Endpoint, question: Asked) -> list[Stored]:
    span = question.span
    if question.instant:
        return endpoint.now(question.expr, span.end)
    return endpoint.over(question.expr, span.start, span.end, span.step)


def found_board(name: str) -> Board:
    """The board of that name. Raises :class:`SettingsError` with all names where there is none."""
    if name not in _BY_NAME:
        raise SettingsError("is no board", place=f"--board {name}", remedy=f"There are: {', '.join(_BY_NAME)}.")
    return _BY_NAME[name]


def found_panels(board: Board, titles: Sequence[str]) -> tuple[Panel, ...]:
    """The panels of these titles, as it pleases to capitals. Raises :class:`SettingsError` with all titles of the board."""
    known = {panel.title.casefold(): panel for row in board.rows for panel in row.panels}
    for title in titles:
        if title.casefold() not in known:
            every = ", ".join(f"'{panel.title}'" for panel in known.values())
            raise SettingsError("is no panel of that board", place=f"--panel '{title}'", remedy=f"There are: {every}.")
    return tuple(known[title.casefold()] for title in titles)


def open_panels(board: Board, *, everything: bool = False) -> list[Panel]:
    """The panels that stand open when a board is opened, or all of them."""
    return [panel for row in board.rows if everything or not row.collapsed for panel in row.panels]


def slug(title: str) -> str:
    """A title as the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")
