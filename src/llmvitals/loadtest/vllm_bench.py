"""Result files of ``vllm bench serve`` (and of its forerunner benchmark_serving.py), of ``vllm bench sweep serve`` too.

Source: vllm/benchmarks/serve.py and sweep/serve.py. With ``--save-detailed`` a file holds each request: ``ttfts`` and ``itls`` in
seconds, ``errors`` ('' for none), ``output_lens`` (0 for a failed one). TPOT is (latency - TTFT) / (output tokens - 1), as there;
where a release keeps no latency, TTFT and the gaps add up to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from llmvitals.loadtest import texts
from llmvitals.loadtest.fields import Document, lasting, listed, needed, number, whole
from llmvitals.loadtest.measured import spread, summary
from llmvitals.loadtest.model import LoadTestError, Note, Percentiles, Request, Run, exactly

TOOL = "vllm bench serve"
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)_(ttft|tpot)_ms")
_SERVER = ("max_num_seqs", "max_num_batched_tokens")
_WARM_UP = -1
"""The number that a sweep gives its warm-up run."""
_LISTS = ("ttfts", "itls", "output_lens", "errors")
"""Lists of a detailed result: a member for each request, failed ones too."""


def fits(document: Document) -> bool:
    """Whether this is a result of ours."""
    return {"completed", "request_throughput", "duration"} <= document.keys()


def runs(document: Document, place: str) -> Iterator[Run]:
    """The one run of a result. Raises :class:`LoadTestError`."""
    if "total_input_sequences" in document:
        raise LoadTestError(
            "is a test of embeddings, which have no tokens to wait for", place=place, remedy="Give tests of generation."
        )
    if number(document.get("run_number")) == _WARM_UP:
        return
    duration = lasting(number(document["duration"]), place)
    shared = {
        "tool": TOOL,
        "place": place,
        "duration": duration,
        "concurrency": number(document.get("max_concurrency")),
        "rate": number(document.get("request_rate")),
        "model": str(document.get("model_id") or ""),
        "server": _server(document),
    }
    notes = [Note(texts.RAMP)] if document.get("ramp_up_strategy") else []
    if shared["rate"] is not None and shared["concurrency"] is not None:
        notes.append(Note(texts.CLIENT_QUEUE))
    if listed(document, "ttfts"):
        yield Run(**shared, **summary(_requests(document, place), duration), notes=tuple(notes))  # type: ignore[arg-type]
        return
    succeeded = int(needed(number(document["completed"]), "number of completed requests", place))
    failed = whole(document.get("failed"))
    if failed is None:
        failed = max(0, (whole(document.get("num_prompts")) or succeeded) - succeeded)
        notes.append(Note(texts.FAILED_BY_DIFFERENCE))
    latencies = [one for one in map(number, listed(document, "latencies")) if one is not None and one > 0]
    yield Run(
        **shared,  # type: ignore[arg-type]
        succeeded=succeeded,
        failed=failed,
        in_flight=_in_flight(document, latencies, succeeded, duration),
        ttft=_percentiles(document, "ttft"),
        tpot=_percentiles(document, "tpot"),
        mean_tpot=_seconds(document, "mean_tpot_ms"),
        prompt_tokens=_per_request(document, "total_input_tokens", succeeded),
        output_tokens=_per_request(document, "total_output_tokens", succeeded),
        latency_cv=spread(latencies) or _cv(document),
        notes=tuple(notes),
    )


def _server(document: Document) -> tuple[tuple[str, float], ...]:
    """What a sweep says of the server's settings; the keys come as they were written for it."""
    plain = {key.lstrip("-").replace("-", "_"): value for key, value in document.items()}
    return tuple((name, value) for name in _SERVER if (value := number(plain.get(name))) is not None)


def _requests(document: Document, place: str) -> list[Request]:
    lists = [listed(document, key) for key in _LISTS]
    if len({len(one) for one in lists}) != 1:
        sizes = ", ".join(f"{len(one)} {key}" for key, one in zip(_LISTS, lists, strict=True))
        raise LoadTestError(f"is not whole: {sizes}", place=place, remedy="Write it again with --save-detailed.")
    latencies, prompts = listed(document, "latencies"), listed(document, "input_lens")
    return [
        _request(row, _nth(latencies, i), whole(_nth(prompts, i)), f"{place}, request {i + 1}")
        for i, row in enumerate(zip(*lists, strict=True))
    ]


def _nth(values: Sequence[object], index: int) -> object:
    return values[index] if index < len(values) else None


def _request(row: tuple[object, ...], latency: object, prompt: int | None, place: str) -> Request:
    ttft, gaps, output, error = row
    tokens = whole(output)
    if error or not tokens:
        return Request(exactly(None), exactly(None), failed=True, prompt_tokens=prompt)
    first = needed(number(ttft), "time to first token", place)
    later = [needed(number(gap), "gap between tokens", place) for gap in gaps] if isinstance(gaps, list) else []
    took = number(latency) or first + sum(later)
    tpot = (took - first) / (tokens - 1) if tokens > 1 else 0.0
    return Request(exactly(first), exactly(tpot), latency=took, prompt_tokens=prompt, output_tokens=tokens)


def _seconds(document: Document, key: str) -> float | None:
    found = number(document.get(key))
    return None if found is None else found / 1000


def _per_request(document: Document, key: str, succeeded: int) -> float | None:
    found = number(document.get(key))
    return found / succeeded if found is not None and succeeded else None


def _percentiles(document: Document, measure: str) -> Percentiles:
    points = {0.5: _seconds(document, f"median_{measure}_ms")}
    for key in document:
        found = _PERCENTILE.fullmatch(key)
        if found and found[2] == measure:
            points[float(found[1]) / 100] = _seconds(document, key)
    return Percentiles(tuple(sorted((q, value) for q, value in points.items() if value is not None)))


def _in_flight(document: Document, latencies: Sequence[float], succeeded: int, duration: float) -> float | None:
    """Little's law; without whole answers' times, their mean is TTFT and the tokens after it."""
    if latencies:
        return sum(latencies) / duration
    mean = _seconds(document, "mean_e2el_ms")
    if mean is None:
        ttft, tpot = _seconds(document, "mean_ttft_ms"), _seconds(document, "mean_tpot_ms")
        tokens = _per_request(document, "total_output_tokens", succeeded)
        if ttft is None or tpot is None or tokens is None:
            return None
        mean = ttft + tpot * max(0.0, tokens - 1)
    return mean * succeeded / duration


def _cv(document: Document) -> float | None:
    mean, std = number(document.get("mean_e2el_ms")), number(document.get("std_e2el_ms"))
    return std / mean if mean and std is not None else None
