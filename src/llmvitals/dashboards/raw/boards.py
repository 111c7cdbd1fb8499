"""The boards of raw series: the panels of all other boards, as far as an edition's own series say the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from llmvitals.dashboards.boards import BOARDS, engine, queue, service, users, watching
from llmvitals.dashboards.model import NO_TRAFFIC, Board, Kind, Leads, Panel, Query, Row
from llmvitals.dashboards.promql import promql, queries
from llmvitals.dashboards.raw.editions import Edition
from llmvitals.dashboards.raw.names import BESIDE, ENGINE, EXPORTER, SHAPE, CannotError
from llmvitals.dashboards.raw.translate import labels, translated
from llmvitals.settings import Settings

FOLDER = "dashboards/raw"
_OPEN = 25
"""Most panels that stand open when a board is opened."""

_ORDER = (service.BOARD, users.BOARD, queue.BOARD, engine.BOARD)
"""The boards whose rows come first: here one board holds what others spread over several."""

_OF_OURS = (watching.BOARD,)
"""Boards on our exporter itself: without it there is nothing of theirs."""

_LATE = (Kind.TABLE, Kind.STAT)
"""Kinds of which a part is taken only where nothing else shows its numbers."""

_HEADINGS = {
    EXPORTER: "Only with the llmvitals exporter",
    BESIDE: "On other pages, which the exporter joins to engines",
    ENGINE: "Not shown by these releases",
    SHAPE: "Not as the same number",
}
_NO_SERIES = "no such series for this selection: this release, or its settings, does not show it"


@dataclass(frozen=True, slots=True)
class Lost:
    """A query that has no translation: ``what`` it is called in its panel, and why, under which heading."""

    what: str
    group: str
    why: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A panel of another board with what is left of it. ``first``: its first number is."""

    row: Row
    panel: Panel
    asked: tuple[Query, ...]
    lost: tuple[Lost, ...]
    first: bool


def board(edition: Edition, settings: Settings) -> Board:
    """The board of an edition."""
    found = tuple(_panels(edition, settings))
    chosen = _chosen(found)
    rows = _rows(chosen)
    whole = Board(
        uid=f"llmvitals-raw-{edition.stem.replace('.', '-')}",
        file=f"{FOLDER}/{edition.stem}.json",
        title=f"{edition.title}, without the exporter",
        description=f"What the series of {edition.title} say by themselves. What they cannot say is named on top.",
        rows=(Row("", (_words(edition, found, chosen),)), *rows),
    )
    return replace(whole, rows=tuple(_collapsed(whole.rows)))


def kept(edition: Edition, settings: Settings) -> tuple[Kept, ...]:
    """The panels of other boards that an edition's board shows, each with what is left of it."""
    return _chosen(_panels(edition, settings))


def _panels(edition: Edition, settings: Settings) -> Iterator[Kept]:
    """Every panel of the other boards once, with the queries that can be asked."""
    seen: set[str] = set()
    for one in dict.fromkeys((*_ORDER, *BOARDS)):
        for row in one.rows if one not in _OF_OURS else ():
            for panel in row.panels:
                if panel.title not in seen and panel.kind is not Kind.TEXT:
                    seen.add(panel.title)
                    yield _left(row, panel, edition, settings)


def _left(row: Row, panel: Panel, edition: Edition, settings: Settings) -> Kept:
    asked, lost = [], []
    first = False
    for at, query in enumerate(queries(panel, settings)):
        try:
            text = translated(promql(query, settings), edition, query.by)
        except CannotError as cannot:
            lost.append(Lost((query.legend or query.column or panel.title).strip(": "), cannot.group, cannot.why))
            continue
        first = first or at == 0
        asked.append(replace(query, signal="", promql=text, by=_shown(edition, panel, query), burns=""))
    if panel.kind is Kind.XY and lost:
        asked = []  # a point needs all of its numbers
    return Kept(row, panel, tuple(asked), tuple(lost), first)


def _shown(edition: Edition, panel: Panel, query: Query) -> tuple[str, ...]:
    """The labels that a legend shows: the job only in a table, where it has a column."""
    found = labels(edition, query.by)
    return found if panel.kind is Kind.TABLE else tuple(name for name in found if name != "job")


def _chosen(found: Iterable[Kept]) -> tuple[Kept, ...]:
    """The panels to draw, in their order: whole ones, and of the others those with a number that none before them has.

    What has lost its first number and most of the others is about something else.
    """
    several = [one for one in found if one.asked and (one.first or len(one.asked) >= len(one.lost))]
    shown: set[str] = set()
    taken = []
    for one in sorted(several, key=lambda one: (bool(one.lost), one.panel.kind in _LATE)):
        mine = {query.promql for query in one.asked}
        if not one.lost or not mine <= shown:
            taken.append(one)
            shown |= mine
    return tuple(one for one in several if one in taken)


def _rows(chosen: Iterable[Kept]) -> Iterator[Row]:
    """The panels under the headings of their own boards, in the order in which these come first."""
    by_title: dict[str, list[Kept]] = {}
    for one in chosen:
        by_title.setdefault(one.row.title or "At a glance", []).append(one)
    for title, several in by_title.items():
        yield Row(title, tuple(map(_panel, several)), several[0].row.collapsed)


def _collapsed(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows, those closed that would bring the open panels beyond what a board may open with."""
    free = _OPEN
    for row in rows:
        closed = row.collapsed or len(row.panels) > free
        yield replace(row, collapsed=closed)
        free -= 0 if closed else len(row.panels)


def _panel(one: Kept) -> Panel:
    """What is left of a panel. A stack that lacks a band is no whole any more, so its bands become lines."""
    panel = one.panel
    words = panel.description
    title = panel.title
    kind = Kind.LINES if panel.kind is Kind.STACK and one.lost else panel.kind
    if one.lost:
        what = "; ".join(f"{', '.join(names)} ({why})" for why, names in _by_why(one.lost))
        words = f"Part of it is not here: {_plain(what)}. " + words
        left = ", ".join(dict.fromkeys((query.legend or query.column).strip(": ") for query in one.asked))
        title = f"{title} (here: {left})"
    columns = {query.column for query in one.asked}
    return replace(
        panel,
        title=title,
        kind=kind,
        queries=one.asked,
        description=words,
        empty=panel.empty if panel.empty.startswith(NO_TRAFFIC) and "exporter" not in panel.empty else _NO_SERIES,
        leads=Leads.NOWHERE,
        worst=panel.worst if panel.worst.removeprefix("-") in columns else "",
    )


def _plain(text: str) -> str:
    """Text for a description, which is a format string."""
    return text.replace("{", "{{").replace("}", "}}")


def _by_why(lost: Iterable[Lost]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for one in lost:
        names = found.setdefault(one.why, [])
        if one.what not in names:
            names.append(one.what)
    return list(found.items())


def _words(edition: Edition, found: Iterable[Kept], chosen: tuple[Kept, ...]) -> Panel:
    """What is missing, by name and reason, and how to get it."""
    drawn = {one.panel.title for one in chosen}
    missing = [
        Lost(one.panel.title, one.lost[0].group, one.lost[0].why)
        for one in found
        if one.panel.title not in drawn and one.lost
    ]
    lines = [
        f"These panels ask the series of **{edition.title}** as a Prometheus scrapes them, and show the same numbers as the boards"
        " of the llmvitals exporter. What they cannot show:",
        "",
    ]
    for group, heading in _HEADINGS.items():
        mine = _by_why(one for one in missing if one.group == group)
        if mine:
            lines += [f"**{heading}**", "", *(f"- {why}: {'; '.join(names)}" for why, names in mine), ""]
    parts = [(one.panel.title, dict.fromkeys(x.what for x in one.lost)) for one in chosen if one.lost]
    if parts:
        lines += ["**In part** (a panel's own description says why)", ""]
        lines += [*(f"- {title}: without {', '.join(names)}" for title, names in parts), ""]
    lines += [
        "**Also only with it**: verdicts, causes and the alerts on them. To have all of this, run `llmvitals serve` beside the"
        " engine, scrape it with `honor_labels: true`, and import the boards above this folder.",
        "",
        "**Read with care**",
        "",
        *(f"- {note}" for note in edition.notes),
        "- A counter that no event has touched yet may be absent: the panel then says so, where the exporter knows a 0.",
    ]
    return Panel(
        Kind.TEXT,
        "What this board cannot say, and why",
        "none",
        (),
        _plain("\n".join(lines)),
        _NO_SERIES,
        width=24,
        height=7,
    )
