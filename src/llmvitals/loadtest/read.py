"""From files to runs: which tool wrote what, and which of them are the same run told twice."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from llmvitals.loadtest import aiperf, genai_perf, guidellm, texts, vllm_bench
from llmvitals.loadtest.fields import Document
from llmvitals.loadtest.model import LoadTestError, Note, Run

MOST_BYTES = 512 * 1024 * 1024
SUFFIXES = (".json", ".jsonl", ".csv", ".yaml", ".yml")
_REMEDY = (
    "Give results of vllm bench serve (--save-result), vllm bench sweep, GuideLLM (benchmarks.json), AIPerf or GenAI-Perf "
    "(profile_export*.json, .jsonl)."
)


@dataclass(frozen=True, slots=True)
class Format:
    """A form of file: how a document of it is known, and the runs in it."""

    fits: Callable[[Document], bool]
    runs: Callable[[Document, str], Iterator[Run]]


FORMATS = (
    Format(vllm_bench.fits, vllm_bench.runs),
    Format(guidellm.fits, guidellm.runs),
    Format(aiperf.fits, aiperf.runs),
    Format(genai_perf.fits, genai_perf.runs),
)


@dataclass(frozen=True, slots=True)
class Results:
    """The runs of all files, each once, and what is to be said of the files."""

    runs: tuple[Run, ...]
    notes: tuple[Note, ...] = ()


def read_paths(paths: Iterable[Path]) -> Results:
    """The runs of these files, and of all result files in these folders. Raises :class:`LoadTestError`."""
    files: list[tuple[str, bytes]] = []
    for path in paths:
        if path.is_dir():
            found = [one for one in sorted(path.rglob("*")) if one.suffix in SUFFIXES and _is_result(one)]
            if not found:
                raise LoadTestError("holds no result of a load test", place=str(path), remedy=_REMEDY)
            files += [(str(one), _content(one)) for one in found]
        else:
            files.append((str(path), _content(path)))
    return read_contents(files)


def read_contents(files: Iterable[tuple[str, bytes]]) -> Results:
    """The runs of files by their names and contents. Raises :class:`LoadTestError`."""
    return _once([run for name, content in files for run in _runs(name, content)])


def _is_result(path: Path) -> bool:
    """Whether a file that was not named, but found in a folder, is one of ours."""
    try:
        next(iter(_runs(str(path), _content(path))), None)
    except LoadTestError as error:
        return error.remedy != _REMEDY
    return True


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise LoadTestError("is larger than 512 MB", place=str(path), remedy="Save it without the generated texts.")
        return path.read_bytes()
    except OSError as error:
        raise LoadTestError(
            f"cannot be read: {error.strerror}", place=str(path), remedy="Check the path and its permissions."
        ) from None


def _runs(name: str, content: bytes) -> Iterator[Run]:
    rows = _documents(name, content)
    if rows and all(aiperf.fits_records(row) for row in rows):
        yield aiperf.records(rows, name)
        return
    if not rows:
        raise LoadTestError("is empty", place=name, remedy=_REMEDY)
    for index, row in enumerate(rows):
        place = f"{name}, result {index + 1}" if len(rows) > 1 else name
        known = next((form for form in FORMATS if form.fits(row)), None)
        if known is None:
            raise LoadTestError("is no result of a load test that is known here", place=place, remedy=_REMEDY)
        try:
            yield from known.runs(row, place)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError):
            raise LoadTestError("is damaged", place=place, remedy="Give the file as the tool wrote it.") from None


def _documents(name: str, content: bytes) -> list[Mapping[str, Any]]:
    """The documents of a file: a table's rows, a list's members, JSON one after another (``--append-result``), or one."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LoadTestError("is no text", place=name, remedy=_REMEDY) from None
    if name.endswith(".csv"):
        try:
            return [dict(row) for row in csv.DictReader(io.StringIO(text))]
        except csv.Error:
            raise LoadTestError("is no table that can be read", place=name, remedy=_REMEDY) from None
    if name.endswith((".yaml", ".yml")):
        try:
            found = [yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))]
        except (yaml.YAMLError, RecursionError):
            raise LoadTestError("is no YAML that can be read", place=name, remedy=_REMEDY) from None
    else:
        found = list(_json(name, text))
    if len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    if not all(isinstance(one, Mapping) for one in found):
        raise LoadTestError("is no result of a load test that is known here", place=name, remedy=_REMEDY)
    return found


def _json(name: str, text: str) -> Iterator[Any]:
    decoder, position = json.JSONDecoder(), 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position >= len(text):
            return
        try:
            found, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            line = text.count("\n", 0, position) + 1
            raise LoadTestError("is no JSON", place=f"{name}, line {line}", remedy=_REMEDY) from None
        yield found


def _once(runs: Sequence[Run]) -> Results:
    """Each run once: a second copy is left out, and a summary is joined to its records."""
    kept: list[Run] = []
    notes: list[Note] = []
    copies: dict[Run, int] = {}
    others: dict[tuple[object, ...], list[int]] = {}
    for run in runs:
        bare = replace(run, place="", notes=())
        whole, counts = run.requests is None, (run.tool, run.succeeded, run.failed)
        twin = next((i for i in others.get((*counts, not whole), ()) if _took_alike(kept[i], run)), None)
        if bare in copies:
            notes.append(Note(texts.DUPLICATE, {"place": run.place, "other": kept[copies[bare]].place}))
        elif twin is not None:
            records, told = (kept[twin], run) if whole else (run, kept[twin])
            notes.append(Note(texts.JOINED, {"place": told.place, "other": records.place}))
            kept[twin] = _joined(records, told)
            others[(*counts, not whole)].remove(twin)
            copies[bare] = twin
        else:
            copies[bare] = len(kept)
            others.setdefault((*counts, whole), []).append(len(kept))
            kept.append(run)
    return Results(tuple(kept), tuple(notes))


def _took_alike(one: Run, other: Run) -> bool:
    """Whether a summary and records tell of one run: as many requests that took, on average, exactly so long are no chance."""
    took = _mean_latency(one), _mean_latency(other)
    return took[0] is not None and took[1] is not None and math.isclose(took[0], took[1], rel_tol=1e-4)


def _mean_latency(run: Run) -> float | None:
    """Seconds that a successful request took from end to end."""
    if run.requests is not None:
        told = [one.latency for one in run.requests if one.latency is not None]
        return statistics.fmean(told) if told else None
    return run.in_flight * run.duration / run.succeeded if run.in_flight is not None and run.succeeded else None


def _joined(records: Run, told: Run) -> Run:
    notes = tuple(note for note in records.notes if note.text != texts.NO_LEVEL)
    return replace(
        records,
        concurrency=told.concurrency,
        rate=told.rate,
        duration=told.duration,
        model=told.model,
        version=told.version,
        notes=notes + told.notes,
    )
