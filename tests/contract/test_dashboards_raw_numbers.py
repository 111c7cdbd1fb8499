"""Boards of raw series on a real Prometheus: each query gives the number that the board it comes from gives of the same pages.

Golden pages of every edition are scraped several times, each series growing at a pace of its own. The Prometheus holds both what
the pages say and what adapters make of them, so that a query and its translation are asked of one store. Recordings of a real
server are held to the same.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from llmvitals.dashboards.model import Query
from llmvitals.dashboards.promql import promql, queries
from llmvitals.dashboards.raw import boards
from llmvitals.dashboards.raw.editions import EDITIONS, Edition
from llmvitals.dashboards.raw.translate import translated
from llmvitals.dashboards.raw.tree import Selector, read, walk
from llmvitals.settings import Settings
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.telemetry.mapping import Row, plain_name, spelled
from support.prometheus import PrometheusServer, joined, points_of, prometheus_of
from support.raw_store import stored

GOLDEN = Path(__file__).parents[1] / "golden"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "captures"
START, STEP, MOMENTS = 1_700_000_000, 15, 9
END = START + STEP * (MOMENTS - 1)
LATE = (0, 3)
"""Each page is that of two replicas, of which one is some moments further on."""

SETTINGS = Settings()
WINDOWS = {"$__rate_interval": "1m", "$__range": "1m"}
FIXED = {extra.other for edition in EDITIONS for extra in edition.extra if extra.op == "/"}
"""Sizes of pools, which stay."""

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


def grown(page: Path, moment: int, *, sinks: bool) -> bytes:
    """The page as it is scraped at a moment: what counts has grown, each series at its own pace, and gauges sink, or rise to what
    they are on the page.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    types = [line.split() for line in lines if line.startswith("# TYPE ")]
    counts = {words[2].removesuffix("_total") for words in types if words[3] in ("counter", "histogram", "summary")}
    found = []
    for line in lines:
        told = LINE.match(line)
        if told is None or told["name"].endswith("_info") or told["name"] in FIXED:
            found.append(line)
            continue
        name, labels = told["name"], told["labels"] or ""
        pace = zlib.crc32((plain_name(name) + EDGE.sub("", labels)).encode()) % 7 + 1
        counting = plain_name(name) in counts
        times = 1 + 0.01 * pace * moment if counting else 1 - 0.005 * pace * (moment if sinks else MOMENTS - moment)
        found.append(f"{name}{labels} {float(told['value']) * times!r}")
    return ("\n".join(found) + "\n").encode()


def scrapes(page: Path, *, late: int) -> tuple[RawPage, ...]:
    """A page over time, as of a server that is ``late`` moments further on; its gauges sink where it is, else they rise."""
    bodies = (grown(page, at + late, sinks=late > 0) for at in range(MOMENTS))
    return tuple(RawPage(START + STEP * at, 0.02, 200, body) for at, body in enumerate(bodies))


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
    names = sorted({name for edition in EDITIONS for name in edition.pages})
    parts = [p for name in names for late in LATE for p in both(f"{name}#{late}", scrapes(page_of(name), late=late))]
    with prometheus_of(tmp_path_factory.mktemp("raw"), joined(parts)) as server:
        yield server


def asked(server: PrometheusServer, text: str, instance: str, at: float, edition: Edition) -> dict[frozenset, float]:
    """The answer of a query about one instance, by labels as our own boards call them."""
    for name, value in {**WINDOWS, "$instance": f"{re.escape(instance)}#.*", "$job": "engines"}.items():
        text = text.replace(name, value.replace("\\", "\\\\"))
    text = re.sub(r"\$(cluster|namespace|model)\b", ".*", text)
    found = {}
    for labels, value in server.query(text, at=at):
        renamed = {
            "model" if k == edition.model else k: v
            for k, v in labels.items()
            if k not in ("job", "__name__") and v not in ("", "undefined")  # TensorRT-LLM's word for no name
        }
        if not math.isnan(value):
            if "le" in renamed:  # an edge is one number, however it is written
                renamed["le"] = repr(float(renamed["le"]))
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


IN_LABELS = {("sglang/pages/0.5.9", "What each replica can hold")}
"""Pages on which labels say what later releases have series for: their adapters read labels, PromQL does not."""

SELDOM = {
    "What the engine saw fail": "no golden page has a request that ended so",
    "How answers end": "no golden page has a request that ended so",
    "How finished requests ended": "no golden page has a request that ended so",
    "Compute, per GPU": "golden pages hold zeros of it",
    "Memory traffic, per GPU": "golden pages hold zeros of it",
    "Operations per byte": "golden pages hold zeros of it",
    "Transfer's share of the first token": "the page of a server that only decodes has no first tokens",
    "Whose time is the wait for the first token": "on made pages of old releases first tokens take less than queue and prefill",
    "Queued for longer than the promise": "golden pages have few edges, and none that this asks for",
    "Between which edges p95 of first tokens lies": "golden pages have few edges, and none above",
}
"""Panels of which a query may find nothing although its series are there."""


def names(text: str) -> set[str]:
    return {node.name for node in walk(read(text)) if isinstance(node, Selector)}


@cache
def on_pages(edition: Edition) -> frozenset[str]:
    """The names of samples on an edition's golden pages."""
    bodies = [page_of(name).read_text(encoding="utf-8") for name in edition.pages]
    told = (LINE.match(line) for body in bodies for line in body.splitlines())
    return frozenset(found["name"] for found in told if found)


@cache
def in_mapping(edition: Edition) -> frozenset[str]:
    """The names that the adapter reads from pages of the edition's releases, under the prefix that these have."""
    rows = edition.adapter.rows
    shown = tuple(row for row in rows if not (spans := spans_of(row)) or any(map(edition.holds, spans)))
    return frozenset(spelled(replace(edition.adapter, rows=shown)))


def spans_of(row: Row) -> list[str]:
    return [text for text in (row.v0, row.v1, row.span) if text]


@pytest.mark.prometheus
@EACH
def test_a_raw_query_gives_the_number_of_the_query_that_it_was_made_from(case: Case, prometheus) -> None:
    pages = [name for name in case.edition.pages if (name, case.panel) not in IN_LABELS]
    told = [compare(prometheus, case, name, END) for name in pages]
    absent = names(case.raw) - on_pages(case.edition) - {"up"}
    assert any(told) or absent or case.panel in SELDOM, f"no page of {case.edition.title} answers {case.raw}"


@EACH
def test_a_raw_query_asks_only_for_series_that_these_releases_have(case: Case) -> None:
    unknown = names(case.raw) - on_pages(case.edition) - in_mapping(case.edition) - {"up"}
    assert not unknown
    assert not [name for name in names(case.raw) if name.startswith("llm_")]


def test_most_queries_find_something_on_a_golden_page() -> None:
    """Series that only a flag or an event brings are on few pages; a translation that asks for nothing else proves nothing."""
    asked = [case for case in CASES if case.edition.stem in ("vllm", "sglang", "tgi", "trtllm")]
    there = [case for case in asked if names(case.raw) <= on_pages(case.edition)]
    assert len(there) > 0.7 * len(asked)


def captured(folder: Path) -> tuple[RawPage, ...]:
    """The pages of a recording of one target."""
    (target,) = json.loads((folder / "capture.json").read_text(encoding="utf-8"))["targets"]
    scrapes = target["scrapes"]
    return tuple(
        RawPage(
            s["t"],
            s["took"],
            s["status"],
            gzip.decompress((folder / s["file"]).read_bytes()) if s.get("file") else None,
        )
        for s in scrapes
    )


def hold(folder: Path, recordings: Iterable[Path], edition: str) -> set[str]:
    """Hold all queries of an edition against recordings; the panels that had something to compare."""
    pages = {recording.name: captured(recording) for recording in recordings}
    points = joined(p for name, found in pages.items() for p in both(f"{name}#", found))
    told = set()
    with prometheus_of(folder, points) as server:
        for case in (case for case in CASES if case.edition.stem == edition):
            for name, found in pages.items():
                if compare(server, case, name, found[-1].t):
                    told.add(case.panel)
    return told


@pytest.mark.prometheus
def test_recordings_of_a_real_server_give_the_same_numbers(tmp_path: Path, ran_recording) -> None:
    recordings = [FIXTURES / name for name in ("healthy", "kv-preemption", "admission-503")]
    told = hold(tmp_path, recordings, "vllm")
    assert {"Time to first token", "Running and waiting", "Preemptions", "Prefix cache", "Tokens per second"} <= told
    for recording in recordings:
        ran_recording(recording)


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("name", "edition"),
    [
        ("ngram-drafts", "vllm"),
        ("data-parallel-2", "vllm"),
        ("two-api-servers", "vllm"),
        ("vllm-0.11-light", "vllm-0.9.2-0.11"),
    ],
)
def test_whole_recordings_give_the_same_numbers(name: str, edition: str, shared, tmp_path: Path, ran_recording) -> None:
    recording = shared / "captures" / name
    assert {"Time to first token", "Running and waiting"} <= hold(tmp_path, [recording], edition)
    ran_recording(recording)
