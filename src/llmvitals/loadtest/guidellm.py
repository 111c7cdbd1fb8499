"""Reports of GuideLLM (``benchmarks.json`` or ``.yaml``), one run per benchmark in them.

Source: guidellm 0.2 to 0.8, benchmark/benchmark.py, later benchmark/schemas/. Two shapes: until 0.3 the strategy lies under
``args`` and the totals beside the requests, since 0.4 under ``config`` and ``metrics``. Newer releases keep ten requests of each
status by default; then percentiles are used. Those of the time between tokens are weighted by tokens, which says nothing of
requests, so that only their extremes are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmvitals.loadtest import texts
from llmvitals.loadtest.fields import Document, at, lasting, listed, needed, number, whole
from llmvitals.loadtest.measured import summary
from llmvitals.loadtest.model import LoadTestError, Note, Percentiles, Request, Run, exactly

TOOL = "GuideLLM"
_QUANTILES: Mapping[str, float] = {
    "p001": 0.001,
    "p01": 0.01,
    "p05": 0.05,
    "p10": 0.10,
    "p25": 0.25,
    "p50": 0.50,
    "p75": 0.75,
    "p90": 0.90,
    "p95": 0.95,
    "p99": 0.99,
    "p999": 0.999,
}


def fits(document: Document) -> bool:
    """Whether this is a report of GuideLLM."""
    found = document.get("benchmarks")
    return isinstance(found, list) and all(isinstance(at(one, "metrics"), Mapping) for one in found)


def runs(document: Document, place: str) -> Iterator[Run]:
    """The runs of a report. Raises :class:`LoadTestError`."""
    found = listed(document, "benchmarks")
    if not found:
        raise LoadTestError("has no benchmarks", place=place, remedy="Give the report of a run that came to its end.")
    for index, benchmark in enumerate(found):
        yield _run(benchmark, document, f"{place}, benchmark {index + 1}" if len(found) > 1 else place)


def _run(benchmark: Document, document: Document, place: str) -> Run:
    strategy = at(benchmark, "config", "strategy") or at(benchmark, "args", "strategy") or {}
    duration = lasting(number(benchmark.get("duration")), place)
    totals = at(benchmark, "metrics", "request_totals") or benchmark.get("request_totals")
    succeeded = int(needed(number(at(totals, "successful")), "number of successful requests", place))
    failed = whole(at(totals, "errored")) or 0
    cut = whole(at(totals, "incomplete")) or 0
    notes = [Note(texts.CUT_OFF, {"count": cut})] if cut else []
    kind = at(strategy, "type_")
    shared: dict[str, Any] = {
        "tool": TOOL,
        "place": place,
        "duration": duration,
        "concurrency": 1.0 if kind == "synchronous" else number(at(strategy, "streams")),
        "rate": number(at(strategy, "rate")),
        "model": str(_model(benchmark, document) or ""),
        "version": str(at(document, "metadata", "guidellm_version") or ""),
    }
    groups = {name: listed(benchmark.get("requests") or {}, name) for name in ("successful", "errored")}
    in_flight = _mean(benchmark, "request_concurrency")
    if len(groups["successful"]) == succeeded and len(groups["errored"]) == failed:
        requests = [_request(one, f"{place}, request {i + 1}") for i, one in enumerate(groups["successful"])]
        requests += [Request(exactly(None), exactly(None), failed=True)] * failed
        measured = summary(requests, duration)
        measured["in_flight"] = in_flight if in_flight is not None else measured["in_flight"]
        return Run(**shared, **measured, notes=tuple(notes))
    notes.append(Note(texts.SAMPLED, {"kept": len(groups["successful"]), "all": succeeded}))
    latency = at(benchmark, "metrics", "request_latency", "successful")
    mean, std = number(at(latency, "mean")), number(at(latency, "std_dev"))
    itl = _mean(benchmark, "inter_token_latency_ms")
    return Run(
        **shared,
        succeeded=succeeded,
        failed=failed,
        in_flight=in_flight,
        ttft=_percentiles(benchmark, "time_to_first_token_ms", weighted=False),
        tpot=_percentiles(benchmark, "inter_token_latency_ms", weighted=True),
        mean_tpot=None if itl is None else itl / 1000,
        prompt_tokens=_mean(benchmark, "prompt_token_count"),
        output_tokens=_mean(benchmark, "output_token_count"),
        latency_cv=std / mean if mean and std is not None else None,
        notes=tuple(notes),
    )


def _model(benchmark: Document, document: Document) -> object:
    """Where the releases keep it, newest first."""
    places = (
        at(document, "args", "model"),
        at(benchmark, "config", "backend", "model"),
        at(benchmark, "worker", "backend_model"),
    )
    return next((found for found in places if found), None)


def _mean(benchmark: Document, measure: str) -> float | None:
    return number(at(benchmark, "metrics", measure, "successful", "mean"))


def _request(one: Document, place: str) -> Request:
    ttft = number(one.get("time_to_first_token_ms"))
    itl, tokens = number(one.get("inter_token_latency_ms")), whole(one.get("output_tokens"))
    if ttft is not None:
        needed(ttft, "time to first token", place)
    pace = exactly(0.0) if tokens == 1 else exactly(None if itl is None else itl / 1000)
    return Request(
        exactly(None if ttft is None else ttft / 1000),
        pace,
        latency=number(one.get("request_latency")),
        prompt_tokens=whole(one.get("prompt_tokens")),
        output_tokens=tokens,
    )


def _percentiles(benchmark: Document, measure: str, *, weighted: bool) -> Percentiles:
    found = at(benchmark, "metrics", measure, "successful")
    low, high = number(at(found, "min")), number(at(found, "max"))
    cuts = {q: number(at(found, "percentiles", key)) for key, q in _QUANTILES.items()} if not weighted else {}
    return Percentiles(
        tuple((q, value / 1000) for q, value in sorted(cuts.items()) if value is not None),
        None if low is None else low / 1000,
        None if high is None else high / 1000,
    )
