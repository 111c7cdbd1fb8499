"""Bring every board to a real Grafana and ask what its panels ask: a line for each panel, 1 where anything went wrong.

``python e2e/grafana/run.py GRAFANA_URL [FOLDER]`` : boards are read from FOLDER, without it from the project's. From the
environment: GRAFANA_TOKEN, or GRAFANA_USER and GRAFANA_PASSWORD; PROMETHEUS_URL as Grafana reaches it, without it the data source
that is there; KEEP=1 leaves what was made. Nothing is written outside a folder of its own, whose boards have their own identities.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api import RESOURCE_VERSION, RESOURCES, Access, Grafana, GrafanaError
from asked import Asked, Content, classic, resource
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
BOARDS = HERE.parents[1] / "dashboards"
OLDER, RESOURCE, RAW = "grafana-10", "v2", "raw"
NEWER_XY_CHART = (11, 1)
OFF = ("", "0", "no", "false")
THE_BOARD = "the board itself"
WIDTH = 240
"""Columns of output that goes into a file: an error stays in one line."""
Json = dict[str, Any]


@dataclass
class Row:
    """What became of one panel."""

    board: str
    panel: str
    frames: int = 0
    error: str = ""


@dataclass
class Made:
    """What stands in Grafana because of this run, to be taken away in reverse."""

    grafana: Grafana
    paths: list[str] = field(default_factory=list)

    def remove(self) -> list[str]:
        """Everything that was made; says what stays."""
        left = []
        for path in reversed(self.paths):
            try:
                self.grafana.call("DELETE", path, allowed=(404,))
            except GrafanaError as error:
                left.append(str(error))
        return left


def main(url: str, folder: Path, environment: Mapping[str, str]) -> int:
    """All boards, one after the other."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    access = Access(*(environment.get(f"GRAFANA_{name}", "") for name in ("TOKEN", "USER", "PASSWORD")))
    keep = environment.get("KEEP", "").lower() not in OFF
    try:
        grafana = Grafana(url, access)
        rows, left = play(grafana, folder, environment.get("PROMETHEUS_URL", ""), keep=keep)
    except GrafanaError as error:
        console.print(f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        return 2
    table = Table("board", "panel", "frames", "error", box=None)
    for row in rows:
        table.add_row(row.board, row.panel, str(row.frames), row.error)
    console.print(table)
    wrong = [row for row in rows if row.error]
    for line in left:
        console.print(f"could not be removed: {line}", markup=False)
    console.print(f"{len(rows)} panels, annotations and variables of boards asked, {len(wrong)} wrong")
    return 1 if wrong or left else 0


def play(grafana: Grafana, folder: Path, prometheus: str, *, keep: bool) -> tuple[list[Row], list[str]]:
    """Brings and asks everything; what could not be removed afterwards comes second."""
    name = f"llmvitals-e2e-{secrets.token_hex(4)}"
    made = Made(grafana)
    rows: list[Row] = []
    left: list[str] = []
    version, resources = grafana.version(), grafana.keeps_resources()
    with removed(made, left, keep=keep):
        source = grafana.source(name, prometheus)
        if prometheus:
            made.paths.append(f"/api/datasources/uid/{source}")
        grafana.call("POST", "/api/folders", {"uid": name, "title": name})
        made.paths.append(f"/api/folders/{name}")
        for board in boards(grafana, folder, name, version, resources=resources):
            rows += of_board(grafana, made, board, source)
    return rows, left


@contextmanager
def removed(made: Made, left: list[str], *, keep: bool) -> Iterator[None]:
    """Whatever happens inside, nothing stays in Grafana that is not to be kept."""
    try:
        yield
    finally:
        if not keep:
            left += made.remove()


@dataclass(frozen=True)
class Board:
    """A board's file for this server: the identity that it gets there, how it is brought, and how its content is read."""

    path: str
    uid: str
    data: Json
    bring: Callable[[Json, str], str]
    read: Callable[[Json, str], Content]


def boards(grafana: Grafana, folder: Path, name: str, version: tuple[int, int], *, resources: bool) -> Iterator[Board]:
    """Every board in the shape of the server's version and, where it keeps them, as a resource.

    Identities are not those of the files, under which somebody's boards may be there.
    """

    def by_api(data: Json, uid: str) -> str:
        body = {"dashboard": {**data, "uid": uid, "id": None}, "folderUid": name, "overwrite": False}
        grafana.call("POST", "/api/dashboards/db", body)
        return f"/api/dashboards/uid/{uid}"

    def by_resource(data: Json, uid: str) -> str:
        place = f"/apis/{RESOURCES}/{RESOURCE_VERSION}/namespaces/{grafana.namespace()}/dashboards"
        grafana.call("POST", place, {**data, "metadata": {"name": uid, "annotations": {"grafana.app/folder": name}}})
        return f"{place}/{uid}"

    older = {path.name for path in (folder / OLDER).glob("*.json")} if version < NEWER_XY_CHART else set()
    chosen = [folder / OLDER / path.name if path.name in older else path for path in sorted(folder.glob("*.json"))]
    chosen += sorted((folder / RAW).rglob("*.json"))
    files = [(path, by_api, classic) for path in chosen]
    files += [(path, by_resource, resource) for path in sorted((folder / RESOURCE).glob("*.json")) if resources]
    for at, (path, bring, read) in enumerate(files):
        data = json.loads(path.read_text(encoding="utf-8"))
        yield Board(str(path.relative_to(folder)), f"{name}-{at}", data, bring, read)


def of_board(grafana: Grafana, made: Made, board: Board, source: str) -> Iterator[Row]:
    """Brings one board, reads it back as Grafana kept it, and asks all that it asks."""
    try:
        place = board.bring(board.data, board.uid)
        made.paths.append(place)
        kept = grafana.call("GET", place)
        content = board.read(kept.get("dashboard", kept), source)
    except GrafanaError as error:
        yield Row(board.path, THE_BOARD, error=str(error))
        return
    if content.said() != board.read(board.data, source).said():
        yield Row(board.path, THE_BOARD, error="Grafana kept something else than what it was given")
    for asked in content.asked:
        yield of_panel(grafana, board.path, asked, content.times)
    for offered in content.offered:
        title = f"variable: {offered.name}"
        try:
            yield Row(board.path, title, len(grafana.values(source, offered.series, offered.label)))
        except GrafanaError as error:
            yield Row(board.path, title, error=str(error))


def of_panel(grafana: Grafana, board: str, asked: Asked, times: tuple[str, str]) -> Row:
    """Asks one panel's queries in one call, as Grafana does."""
    try:
        results = grafana.ask(list(asked.queries), times)
    except GrafanaError as error:
        return Row(board, asked.title, error=str(error))
    errors = [f"{ref}: {one['error']}" for ref, one in results.items() if one.get("error")]
    errors += [f"{query['refId']}: not answered" for query in asked.queries if query["refId"] not in results]
    frames = sum(any(frame["data"]["values"]) for one in results.values() for frame in one.get("frames") or [])
    return Row(board, asked.title, frames, "; ".join(errors))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not sys.argv[1]:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else BOARDS, os.environ))
