"""Files of AIPerf and of GenAI-Perf, whose form AIPerf keeps.

- ``profile_export_aiperf.json``, ``profile_export_genai_perf.json``: one summary per run; every measure has a ``unit`` and
  percentiles over the requests that have it. Source: aiperf common/models/export_models.py, genai_perf
  export_data/json_exporter.py.
- ``profile_export.jsonl`` (AIPerf): a request a line; source: aiperf ``MetricRecordInfo``. It does not tell the
  load; the summary does.

Their time between tokens is (latency - TTFT) / (output tokens - 1), request by request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmvitals.loadtest import texts
from llmvitals.loadtest.fields import UNITS, Document, at, lasting, needed, number, whole
from llmvitals.loadtest.measured import summary
from llmvitals.loadtest.model import LoadTestError, Note, Percentiles, Request, Run, exactly

_QUANTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_PROFILING = "profiling"


def fits(document: Document) -> bool:
    """Whether this is a summary of one run."""
    return isinstance(at(document, "request_throughput", "unit"), str) and "request_latency" in document


def fits_records(document: Document) -> bool:
    """Whether this is the record of one request."""
    return isinstance(at(document, "metadata", "request_start_ns"), int) and "metrics" in document


def runs(document: Document, place: str) -> Iterator[Run]:
    """The one run of a summary. Raises :class:`LoadTestError`."""
    ours = "aiperf_version" in document or ("request_count" in document and "schema_version" in document)
    count = whole(at(document, "request_count", "avg"))
    throughput = needed(number(at(document, "request_throughput", "avg")), "request throughput", place)
    duration = _avg_seconds(document, "benchmark_duration", place)
    if duration is None:
        if not count or throughput == 0:
            raise LoadTestError("tells no duration", place=place, remedy="Give the run's profile_export.jsonl too.")
        duration = count / throughput
    latency = document.get("request_latency")
    mean, std = number(at(latency, "avg")), number(at(latency, "std"))
    succeeded = round(throughput * duration) if count is None else count
    unit = _unit(document, "request_latency", place)
    notes = []
    if document.get("was_cancelled") or document.get("is_complete") is False:
        notes.append(Note(texts.NOT_COMPLETE))
    yield Run(
        tool="AIPerf" if ours or _phases(document) or at(document, "input_config", "loadgen") else "GenAI-Perf",
        place=place,
        duration=lasting(duration, place),
        succeeded=succeeded,
        failed=whole(at(document, "error_request_count", "avg")) or 0,
        concurrency=_load(document, "concurrency"),
        rate=_load(document, "request_rate", "rate"),
        in_flight=None if mean is None else mean * unit * succeeded / duration,
        ttft=_percentiles(document, "time_to_first_token", place),
        tpot=_percentiles(document, "inter_token_latency", place),
        mean_tpot=_avg_seconds(document, "inter_token_latency", place),
        prompt_tokens=number(at(document, "input_sequence_length", "avg")),
        output_tokens=number(at(document, "output_sequence_length", "avg")),
        latency_cv=std / mean if mean and std is not None else None,
        version=str(document.get("aiperf_version") or ""),
        notes=tuple(notes),
    )


def records(rows: Sequence[Document], place: str) -> Run:
    """The run whose requests these are. Raises :class:`LoadTestError`."""
    kept = [row for row in rows if at(row, "metadata", "benchmark_phase") in (None, _PROFILING)]
    if not kept:
        raise LoadTestError("has no request of the measured phase", place=place, remedy="Give a run that was measured.")
    starts = [number(at(row, "metadata", "request_start_ns")) or 0.0 for row in kept]
    ends = [number(at(row, "metadata", "request_end_ns")) or 0.0 for row in kept]
    duration = lasting((max(ends) - min(starts)) * 1e-9, place)
    requests = [_request(row, f"{place}, request {i + 1}") for i, row in enumerate(kept)]
    warm_up = len(rows) - len(kept)
    notes = (Note(texts.WARM_UP, {"count": warm_up}),) if warm_up else ()
    measured = summary(requests, duration)
    measured["in_flight"] = sum(end - start for start, end in zip(starts, ends, strict=True)) * 1e-9 / duration
    return Run(tool="AIPerf", place=place, duration=duration, **measured, notes=(*notes, Note(texts.NO_LEVEL)))


def _request(row: Document, place: str) -> Request:
    prompt = whole(at(row, "metrics", "input_sequence_length", "value"))
    if row.get("error") or at(row, "metadata", "was_cancelled"):
        return Request(exactly(None), exactly(None), failed=True, prompt_tokens=prompt)
    tokens = whole(at(row, "metrics", "output_sequence_length", "value"))
    pace = _value(row, "inter_token_latency", place)
    return Request(
        exactly(_value(row, "time_to_first_token", place)),
        exactly(0.0) if tokens == 1 else exactly(pace),
        latency=_value(row, "request_latency", place),
        prompt_tokens=prompt,
        output_tokens=tokens,
    )


def _value(row: Document, measure: str, place: str) -> float | None:
    found = number(at(row, "metrics", measure, "value"))
    return None if found is None else needed(found, measure, place) * _unit(row["metrics"], measure, place)


def _unit(document: Document, measure: str, place: str) -> float:
    """Seconds of a measure's unit."""
    told = at(document, measure, "unit")
    if told not in UNITS:
        raise LoadTestError(f"gives {measure} in the unit {told!r}", place=place, remedy="Export it in ms.")
    return UNITS[told]


def _avg_seconds(document: Document, measure: str, place: str) -> float | None:
    found = number(at(document, measure, "avg"))
    return None if found is None else found * _unit(document, measure, place)


def _percentiles(document: Document, measure: str, place: str) -> Percentiles:
    found = document.get(measure)
    if not isinstance(found, Mapping):
        return Percentiles()
    unit = _unit(document, measure, place)
    cuts = ((q / 100, number(found.get(f"p{q}"))) for q in _QUANTILES)
    low, high = number(found.get("min")), number(found.get("max"))
    return Percentiles(
        tuple((q, value * unit) for q, value in cuts if value is not None),
        None if low is None else low * unit,
        None if high is None else high * unit,
    )


def _phases(document: Document) -> list[Any]:
    """The measured phases of a newer AIPerf."""
    found = at(document, "input_config", "phases")
    told = found if isinstance(found, list) else list(found.values()) if isinstance(found, Mapping) else []
    return [one for one in told if at(one, "kind") in (None, _PROFILING) and at(one, "name") != "warmup"]


def _load(document: Document, *keys: str) -> float | None:
    """A limit of the load, wherever a release keeps it."""
    config = document.get("input_config")
    phases = _phases(document)
    places = (phases[-1] if phases else None, at(config, "loadgen"), at(config, "perf_analyzer", "stimulus"), config)
    told = (number(at(place, key)) for place in places for key in keys)
    return next((found for found in told if found is not None), None)
