"""Boards of raw series on a real Prometheus: each query gives the number that the board it comes from gives of the same pages.

Golden pages of every edition are scraped several times, each series growing at a pace of its own. The Prometheus holds both what the
pages say and what adapters make of them, so that a query and its translation are asked of one store. Recordings of real servers
are held to the same where they are at hand.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from llmvitals.dashboards.model import Query
from llmvitals.dashboards.promql import promql, queries
from llmvitals.dashboards.raw import boards
from llmvitals.dashboards.raw.editions import EDITIONS, Edition
from llmvitals.dashboards.raw.translate import translated
from llmvitals.settings import Settings
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.telemetry.mapping import plain_name
from support.prometheus import PrometheusServer, joined, load_blocks, openmetrics, points_of
from support.raw_store import stored

GOLDEN = Path(__file__).parents[1] / "golden"
START, STEP, MOMENTS = 1_700_000_000, 15, 9
END = START + STEP * (MOMENTS - 1)
SETTINGS = Settings()
WINDOWS = {"$__rate_interval": "1m", "$__range": "2m"}
LINE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?P<labels>\{.*\})? (?P<value>\S+)$")
EDGE = re.compile(r'le="[^"]*",?')


@dataclass(frozen=True, slots=True)
class Case:
    """A query of another board and what it is called on an edition's."""

    edition: Edition
    panel: str
    query: Query
    raw: str

    @property
    def canonical(self) -> str:
        return promql(self.query, SETTINGS)

    def __str__(self) -> str:
        return f"{self.edition.stem}: {self.panel}: {self.query.legend or self.query.column}"


def cases() -> Iterator[Case]:
    for edition in EDITIONS:
        for kept in boards.kept(edition, SETTINGS):
            lost = {one.what for one in kept.lost}
            for query in queries(kept.panel, SETTINGS):
                if (query.legend or query.column or kept.panel.title).strip(": ") not in lost:
                    yield Case(edition, kept.panel.title, query, translated(promql(query, SETTINGS), edition, query.by))


CASES = tuple(cases())
EACH = pytest.mark.parametrize("case", CASES, ids=map(str, CASES))


def grown(page: Path, moment: int) -> bytes:
    """The page as it is scraped at a moment: what counts has grown, each series at its own pace, gauges have sunk a little."""
    counts = set()
    found = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("# TYPE ") and line.endswith((" counter", " histogram", " summary")):
            counts.add(line.split()[2].removesuffix("_total"))
        told = LINE.match(line)
        if told is None or told["name"].endswith("_info"):
            found.append(line)
            continue
        name, labels = told["name"], told["labels"] or ""
        pace = zlib.crc32((plain_name(name) + EDGE.sub("", labels)).encode()) % 7 + 1
        counting = plain_name(name) in counts or name.removesuffix("_total") in counts or not counts
        times = 1 + 0.01 * pace * moment if counting else 1 - 0.005 * pace * moment
        found.append(f"{name}{labels} {float(told['value']) * times!r}")
    return ("\n".join(found) + "\n").encode()


def scrapes(page: Path) -> tuple[RawPage, ...]:
    return tuple(RawPage(START + STEP * at, 0.02, 200, grown(page, at)) for at in range(MOMENTS))


@cache
def page_of(name: str) -> Path:
    """A golden page by its path without its ending: golden pages have several."""
    folder, _, stem = name.rpartition("/")
    (found,) = [p for p in (GOLDEN / folder).iterdir() if p.name.removesuffix(p.suffix) == stem]
    return found


def both(instance: str, pages: Iterable[RawPage]) -> tuple:
    """What the pages say, and what their adapter makes of them, as points."""
    several = tuple(pages)
    ingest = Ingest(instance=instance)
    return stored(several, {"instance": instance, "job": "engines"}), points_of(ingest.read(page) for page in several)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory) -> Iterator[PrometheusServer]:
    folder = tmp_path_factory.mktemp("raw")
    names = sorted({name for edition in EDITIONS for name in edition.pages})
    parts = [part for name in names for part in both(name, scrapes(page_of(name)))]
    load_blocks(openmetrics(joined(parts)), folder / "data")
    with PrometheusServer(folder) as server:
        yield server


def asked(server: PrometheusServer, text: str, instance: str, at: float, edition: Edition) -> dict[frozenset, float]:
    """The answer of a query about one instance, by labels as our own boards call them."""
    for name, value in {**WINDOWS, "$instance": re.escape(instance), "$job": "engines"}.items():
        text = text.replace(name, value.replace("\\", r"\\") if name == "$instance" else value)
    text = re.sub(r"\$\w+", ".*", text)
    found = {}
    for labels, value in server.query(text, at=at):
        renamed = {
            "model" if k == edition.model else k: v for k, v in labels.items() if k not in ("job", "__name__") and v
        }
        if not math.isnan(value):
            found[frozenset(renamed.items())] = value
    return found


def compare(server: PrometheusServer, case: Case, instance: str, at: float) -> bool:
    """Hold a query against its translation; whether there was anything to compare."""
    ours = asked(server, case.canonical, instance, at, case.edition)
    theirs = asked(server, case.raw, instance, at, case.edition)
    unborn = {key for key, value in ours.items() if value == 0.0 and key not in theirs}
    wanted = {key: value for key, value in ours.items() if key not in unborn}
    assert theirs == {key: pytest.approx(value, rel=1e-9, abs=1e-12) for key, value in wanted.items()}, instance
    return bool(theirs)


@pytest.mark.prometheus
@EACH
def test_a_raw_query_gives_the_number_of_the_query_that_it_was_made_from(case: Case, prometheus) -> None:
    told = [compare(prometheus, case, name, END) for name in case.edition.pages]
    assert any(told), f"no page of {case.edition.title} answers {case.raw}"
