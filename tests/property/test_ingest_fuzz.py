"""Changed pages of every kind: an error of our own, or a snapshot whose bad families are named and whose others are as before.

The corpus: ``tests/fixtures/fuzz/seeds`` has a small page of every kind, ``found`` what once went wrong. The run is the same
every time; ``make fuzz`` runs longer and differently each time (LLMVITALS_FUZZ: changed pages per seed).
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from llmvitals.schema import family_of
from llmvitals.series import Series, Snapshot
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.telemetry.ingest.check import PageReport, check
from llmvitals.telemetry.ingest.lines import read_lines
from llmvitals.telemetry.mapping import Entry
from llmvitals.telemetry.registry import ADAPTERS
from support.fuzz_pages import NO_NUMBERS, Draft, changed, cut

CORPUS = Path(__file__).resolve().parents[1] / "fixtures" / "fuzz"
GOLDEN = CORPUS.parents[1] / "golden"
KINDS = tuple(adapter.kind for adapter in ADAPTERS)
SEEDS = sorted((CORPUS / "seeds").iterdir())
SEEDS += [  # a kind that has no seed of its own is fuzzed from its first golden page
    min((GOLDEN / kind / "pages").iterdir(), key=lambda page: page.stat().st_size)
    for kind in KINDS
    if not any(seed.name.startswith(kind) for seed in SEEDS) and (GOLDEN / kind / "pages").is_dir()
]
PAGES = [seed for seed in SEEDS if seed.suffix == ".prom"]
FOUND = sorted((CORPUS / "found").iterdir())
LONG = int(os.environ.get("LLMVITALS_FUZZ") or 0)
FUZZ = settings(
    max_examples=LONG or 25,
    derandomize=not LONG,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
LINKED = {
    "envoy": "a number that cannot be takes its family with it, whichever cluster it is of",
    "nvidia-smi": "the number of a card stands on one series, and labels those of all",
    "llamacpp": "what came from the cache follows from two counters",
    "sglang-router": "what was never counted is 0 where a counter beside it is there",
    "vllm-router": "what was never counted is 0 where a counter beside it is there",
}
"""Kinds of which a series decides about families beside its own: they may lose a sample or a label, and never change one."""
MOST_SECONDS = 2.0  # of CPU, for a page of a few KiB: a hundred times what it takes


def page(body: bytes) -> RawPage:
    return RawPage(100.0, 0.25, 200, body)


@cache
def base(seed: Path) -> tuple[Snapshot, PageReport]:
    body = seed.read_bytes()
    report = check(page(body), place="i")
    assert report.refused == ""
    return Ingest(instance="i", kind=report.kind).read(page(body)), report


@cache
def plainly(seed: Path) -> dict[str, frozenset[str]]:
    """Canonical family to the page's families it comes from, for those that nothing but rows makes."""
    _, report = base(seed)
    adapter = next(adapter for adapter in ADAPTERS if adapter.kind == report.kind)
    own = {row.family for row in adapter.rows if row.special} | {told.family for told in adapter.derived}
    return {
        told.family: frozenset(told.source.split(", "))
        for told in report.families
        if told.samples and told.state == "mapped" and told.family not in own
    }


def survive(body: bytes, kind: str) -> tuple[Snapshot, PageReport]:
    """Read a page twice (the second time from memory) and check it: nothing raises, hangs, or is no number."""
    began = time.process_time()
    ingest = Ingest(instance="i", kind=kind)
    first, second = ingest.snapshot(page(body)), ingest.snapshot(page(body))
    report = check(page(body), place="i", kind=kind)
    assert time.process_time() - began < MOST_SECONDS
    assert first.samples == second.samples
    assert first.detail == second.detail
    assert all(math.isfinite(value) and value >= 0.0 for value in first.samples.values())
    assert bool(first.detail) == bool(report.refused)
    json.dumps(report.document(), allow_nan=False)
    return first, report


def family(series: Series) -> str:
    found = family_of(series.name)
    return found.name if found is not None else ""


def gaps(snapshot: Snapshot) -> set[str]:
    return {series.label("family") for series in snapshot.samples if series.name == "llm_family_gap"}


def of(snapshot: Snapshot, name: str) -> dict[Series, float]:
    return {series: value for series, value in snapshot.samples.items() if family(series) == name}


def sources_of(names: set[str], body: bytes) -> set[str]:
    """The families that these sample names may be of."""
    parts = ("_bucket", "_sum", "_count", "_total", "_created")
    return names | {name.removesuffix(part) for name in names for part in parts} | set(read_lines(body).types) & names


@pytest.mark.parametrize("seed", PAGES, ids=lambda seed: seed.stem)
@FUZZ
@given(random=st.randoms(use_true_random=False))
def test_what_is_not_touched_keeps_its_value(seed: Path, random: Random) -> None:
    before, report = base(seed)
    draft: Draft = changed(seed.read_bytes(), random)
    after, told = survive(draft.body(), report.kind)
    if after.detail:
        return
    touched = sources_of(draft.touched, seed.read_bytes())
    named = gaps(after) | {warned.family for warned in told.warnings} | set(told.unknown)
    for name, sources in plainly(seed).items():
        if not sources & touched and report.kind not in LINKED:
            assert of(after, name) == of(before, name), (name, sources)
        elif not sources & touched:
            values = Counter(of(before, name).values())
            assert not Counter(of(after, name).values()) - values, (name, sources)
            assert of(after, name) or name in named, name
        elif not of(after, name) and not named & {name, *sources}:
            states = [state for state in told.families if state.family == name]
            assert all(state.why for state in states), (name, states)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.stem)
@FUZZ
@given(random=st.randoms(use_true_random=False))
def test_a_page_cut_anywhere_shows_no_number_that_was_not_on_it(seed: Path, random: Random) -> None:
    before, report = base(seed)
    after, _ = survive(cut(seed.read_bytes(), random), report.kind)
    if seed.suffix != ".prom":
        return
    for name in plainly(seed) if not after.detail else ():
        whole = of(before, name)
        for series, value in of(after, name).items():
            assert value == whole.get(series) or _summed(seed, name), (series, value)


def _summed(seed: Path, name: str) -> bool:
    """A sum over series that a page ends in the middle of is smaller; nothing on the page says that it did end there."""
    _, report = base(seed)
    adapter = next(adapter for adapter in ADAPTERS if adapter.kind == report.kind)
    return any(row.add or row.fallback for row in adapter.rows if row.family == name)


def counted(series: Series, snapshot: Snapshot) -> bool:
    """Whether a histogram's count stands for what its highest bucket says: every observation is in that."""
    name = series.name.removesuffix("_count")
    top = Series(f"{name}_bucket", tuple(sorted((*series.labels, ("le", "+Inf")))))
    return name != series.name and snapshot.samples.get(top) == snapshot.samples.get(series)


@pytest.mark.parametrize("seed", PAGES, ids=lambda seed: seed.stem)
def test_what_is_no_number_becomes_none_and_names_its_family(seed: Path) -> None:
    """Every line that is taken, with texts in turn that no number may be made of."""
    before, report = base(seed)
    body = seed.read_bytes()
    lines = body.splitlines()
    ingest = Ingest(instance="i", kind=report.kind)
    ingest.read(page(body))
    turn = 0
    for line in read_lines(body).lines:
        meaning = ingest.reader.meaning(line.series)
        if not isinstance(meaning, Series | Entry):
            continue
        for _ in range(len(NO_NUMBERS) if LONG else 1):
            text = NO_NUMBERS[turn % len(NO_NUMBERS)]
            turn += 1
            spoiled = [*lines]
            spoiled[line.number - 1] = line.series + b" " + text
            after = Ingest(instance="i", kind=report.kind).snapshot(page(b"\n".join(spoiled) + b"\n"))
            if after.detail:
                continue
            series = meaning if isinstance(meaning, Series) else meaning.series
            row = meaning.row if isinstance(meaning, Entry) else None
            zeros = {s for s, value in after.samples.items() if value == 0.0 and before.samples.get(s, 0.0) != 0.0}
            assert not zeros, (line, text, zeros)
            if row is not None and (row.special or not row.family or row.nothing == float(-1)):
                continue
            if text in {b"+Inf", b"inf", b"1e999"} and series.name.endswith("_limit"):
                continue
            stands_in = row is not None and row.fallback
            assert family(series) in gaps(after) or stands_in or series in after.samples, (line, text)
            if turn % 5 == 0 and (row is None or not (row.fallback or meaning.stand_in)):
                told = check(page(b"\n".join(spoiled) + b"\n"), place="i", kind=report.kind)
                assert line.family in {warned.family for warned in told.warnings}, (line, text)
            if row is not None and row.add:
                assert series not in after.samples or counted(series, after), (line, text)


@pytest.mark.parametrize("kind", ["auto", *KINDS])
@settings(FUZZ, max_examples=LONG or 15)
@given(body=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_bytes_whatever_break_anything(kind: str, body: bytes) -> None:
    survive(body, kind)


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.name)
def test_what_once_went_wrong_stays_right(file: Path) -> None:
    body = file.read_bytes()
    for kind in ("auto", *KINDS):
        survive(body, kind)


def test_every_kind_has_a_seed_in_both_spellings_of_the_format() -> None:
    kinds = {base(seed)[1].kind for seed in SEEDS}
    formats = {base(seed)[1].format for seed in SEEDS}
    assert {"prometheus", "openmetrics", "json", "text"} <= formats
    assert set(KINDS) - kinds == set()
