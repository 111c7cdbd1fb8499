"""Courses of changed pages: one target's pages in a row, read by one reader, some of them all the way to verdict and page.

Every page follows from the seed and the number of its course, so that what went wrong can be played again.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from prometheus_client.parser import text_string_to_metric_families

from llmvitals.exporters.cycle import Engine
from llmvitals.series import Snapshot
from llmvitals.settings import Settings, Target
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.telemetry.ingest.check import check
from llmvitals.telemetry.registry import ADAPTERS
from support.fuzz_bytes import wild

ROOT = Path(__file__).resolve().parents[2]
KINDS = tuple(adapter.kind for adapter in ADAPTERS)
PAGES = 16
"""How many pages a course has."""

WHOLE_WAY = 10
"""Every so many courses are judged and shown as well: that takes some 10 ms."""

MOST_BYTES = 48_000  # of a page before it is changed: larger ones say nothing else, more slowly
MOST_SECONDS = 5.0  # of CPU, for one page; 50 ms is much
INTERVAL = 15.0


class FoundError(Exception):
    """A page went wrong. ``pages``: all of its course up to it."""

    def __init__(self, seed: int, course: int, what: str, pages: Sequence[bytes]) -> None:
        super().__init__(seed, course, what, pages)
        self.told = f"course {course} of seed {seed}, page {len(pages)}: {what}"
        self.course, self.pages = course, tuple(pages)

    def __str__(self) -> str:
        """Which page it was, and what went wrong."""
        return self.told


@dataclass(frozen=True, slots=True)
class Page:
    """A page to begin with. ``kind``: what it is known as; '' where only its text tells."""

    name: str
    kind: str
    body: bytes


@cache
def corpus() -> tuple[Page, ...]:
    """Every page of the tests, and of the recordings beside the checkout where there are any: their first and last page."""
    found: dict[bytes, Page] = {}
    tests = ROOT / "tests"
    folders = [(kind, tests / "golden" / kind / "pages") for kind in KINDS]
    folders += [("", tests / "fixtures" / "fuzz" / "seeds"), ("", tests / "fixtures" / "fuzz" / "found")]
    files = [(kind, path) for kind, folder in folders if folder.is_dir() for path in sorted(folder.rglob("*"))]
    shared = Path(os.environ.get("LLMVITALS_SHARED") or ROOT.parent / "shared")
    for captures in (tests / "fixtures" / "captures", shared / "captures"):
        for folder in sorted(captures.iterdir()) if captures.is_dir() else ():
            pages = [path for path in sorted(folder.rglob("*")) if path.name.endswith((".gz", ".prom"))]
            files += [("", path) for path in pages[:1] + pages[-1:]]
    for kind, path in files:
        body = _read(path) if path.is_file() else b""
        if 0 < len(body) <= MOST_BYTES:
            found.setdefault(body, Page(path.relative_to(path.parents[3]).as_posix(), kind, body))
    return tuple(found.values())


def _read(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def play(seed: int, course: int) -> int:
    """Read one course; how many pages it had. Raises :class:`FoundError`."""
    random = Random(f"{seed}/{course}")
    before: list[bytes] = []
    try:
        (_judged if course % WHOLE_WAY == 0 else _watched)(random, before)
    except Exception as error:
        raise FoundError(seed, course, f"{type(error).__name__}: {error}", before) from error
    return len(before)


def _picked(random: Random) -> tuple[Page, Page, str]:
    """A page, one to get mixed up with, and as what it is read."""
    page, other = random.choice(_drawn()), random.choice(_drawn())
    kind = random.choice((page.kind or "auto", page.kind or "auto", "auto", random.choice(KINDS)))
    return page, other, kind


@cache
def _drawn() -> tuple[Page, ...]:
    """The corpus, where small pages stand more often: they are read sooner and have as much that can go wrong."""
    return tuple(page for page in corpus() for _ in range(max(1, 8_000 // (len(page.body) + 1_000))))


def _page(body: bytes, turn: int, random: Random) -> RawPage:
    """As it came; now and then the clock is set, or nobody knows what it took."""
    t = 1000.0 + INTERVAL * turn + random.choice((0.0,) * 14 + (-3600.0, 1e6))
    return RawPage(t, random.choice((0.25, 0.25, 9.0, None)), random.choice((200, 200, 200, None)), body)


def _watched(random: Random, before: list[bytes]) -> None:
    """One reader over all pages; the last page is read afresh as well, and told about."""
    page, other, kind = _picked(random)
    ingest = Ingest(instance="i", kind=kind)
    body = page.body
    for turn in range(PAGES):
        body = wild(page.body, other.body, random)
        before.append(body)
        began = time.process_time()
        _sound(ingest.snapshot(_page(body, turn, random)))
        assert time.process_time() - began < MOST_SECONDS, "takes too long"
    last = RawPage(1e6, 0.25, 200, body)
    again = ingest.snapshot(last)
    assert again.samples == ingest.snapshot(last).samples, "the same page is read as another the second time"
    report = check(last, place="i", kind=kind)
    json.dumps(report.document(), allow_nan=False)


def _judged(random: Random, before: list[bytes]) -> None:
    """The exporter over one or two targets: pages to snapshots, signals, verdict and page."""
    picked = [_picked(random) for _ in range(random.choice((1, 2)))]
    targets = tuple(
        Target(
            url=f"http://e{at}:1",
            name=f"fuzz-{at}",
            kind=kind,
            gateway="fuzz-1" if at == 0 and len(picked) == 2 and random.random() < 0.3 else "",
        )
        for at, (_, _, kind) in enumerate(picked)
    )
    engine = Engine(Settings(targets=targets), fetch=_nothing, clock=lambda: 0.0)
    for turn in range(PAGES // len(picked)):
        pages = {}
        for target, (page, other, _) in zip(targets, picked, strict=True):
            before.append(wild(page.body, other.body, random))
            pages[target.name] = _page(before[-1], turn, random)
        collected = engine.record(pages)
        if turn % 4 != 3 or turn < PAGES // len(picked) - 5:
            continue
        cycle = engine.publish(max(page.t for page in pages.values()), collected)
        for snapshot in cycle.snapshots:
            _sound(snapshot)
        failed = [one.instance for one in cycle.collected if one.collector == "triage" and not one.ok]
        assert not failed, f"the triage of {failed} failed"
        _shown(cycle.page)


def _nothing(url: str, *, timeout_s: float, **_: object) -> RawPage:
    raise RuntimeError(f"nothing is fetched, not even {url} within {timeout_s:g} s")


def _sound(snapshot: Snapshot) -> None:
    """Only numbers that a count, a time or a share can be; none beside a sentence why there is none."""
    assert not snapshot.detail.startswith("cannot be read: "), snapshot.detail
    for series, value in snapshot.samples.items():
        assert 0.0 <= value < math.inf, f"{series} is {value}"
    down = [s for s, value in snapshot.samples.items() if s.name == "llm_target_up" and value == 0.0]
    assert down or not snapshot.detail, "a page that cannot be read counts as up"


def _shown(page: bytes) -> None:
    """The page is one that Prometheus takes: it is text, each series stands once, and no number but those that we can mean."""
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in seen, f"{key} stands twice on the page"
            seen.add(key)
            assert math.isfinite(sample.value), f"{key} is {sample.value}"


class Quiet(logging.Handler):
    """What the exporter logs because its page must stand: that a course failed is told by what it checks."""

    def emit(self, record: logging.LogRecord) -> None:
        """Nothing is said: a changed page brings many lines that nobody reads."""
