"""``profile_export.json`` of GenAI-Perf: every request with the moments of its chunks, as Perf Analyzer wrote them (nanoseconds).

Source: genai_perf/profile_data_parser/llm_profile_data_parser.py. Chunks without text do not count, as there. Tokens are counted
in the file only where the server told its usage; else every chunk holds one at least, and ``max_tokens`` at most all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmvitals.loadtest import texts
from llmvitals.loadtest.fields import Document, at, lasting, listed, number, whole
from llmvitals.loadtest.measured import summary
from llmvitals.loadtest.model import LoadTestError, Note, Request, Run, exactly

TOOL = "GenAI-Perf"
_DATA = "data:"
_LIMITS = ("max_tokens", "max_completion_tokens")


def fits(document: Document) -> bool:
    """Whether this is such an export."""
    return isinstance(document.get("experiments"), list)


def runs(document: Document, place: str) -> Iterator[Run]:
    """One run per experiment. Raises :class:`LoadTestError`."""
    experiments = listed(document, "experiments")
    if not experiments:
        raise LoadTestError("has no experiments", place=place, remedy="Give the export of a run that was measured.")
    for index, experiment in enumerate(experiments):
        where = f"{place}, experiment {index + 1}" if len(experiments) > 1 else place
        rows = listed(experiment, "requests") if isinstance(experiment, Mapping) else ()
        moments = [m for row in rows for m in (at(row, "timestamp"), *(at(row, "response_timestamps") or ()))]
        if not moments or not all(isinstance(m, int) for m in moments):
            raise LoadTestError("has no requests", place=where, remedy="Give the export of a run that was measured.")
        duration = lasting((max(moments) - min(moments)) * 1e-9, where)
        requests = [_request(row) for row in rows]
        counted = all(one.failed or one.tpot[0] == one.tpot[1] for one in requests)
        mode, value = at(experiment, "experiment", "mode"), number(at(experiment, "experiment", "value"))
        yield Run(
            tool=TOOL,
            place=where,
            duration=duration,
            concurrency=value if mode == "concurrency" else None,
            rate=value if mode == "request_rate" else None,
            **summary(requests, duration),
            notes=() if counted else (Note(texts.CHUNKS),),
        )


def _request(row: Document) -> Request:
    sent, moments = at(row, "timestamp"), at(row, "response_timestamps") or ()
    chunks = [
        (moment, _parts(at(out, "response")))
        for moment, out in zip(moments, listed(row, "response_outputs"), strict=False)
    ]
    texts_at = [moment for moment, parts in chunks if any(map(_has_text, parts))]
    if not texts_at:
        return Request(exactly(None), exactly(None), failed=True)
    usage = next((at(p, "usage") for _, parts in reversed(chunks) for p in parts if at(p, "usage")), None)
    tokens, prompt = whole(at(usage, "completion_tokens")), whole(at(usage, "prompt_tokens"))
    first, last = texts_at[0] * 1e-9, texts_at[-1] * 1e-9
    return Request(
        exactly(first - sent * 1e-9),
        _pace(last - first, tokens, len(texts_at), _limit(at(row, "request_inputs"))),
        latency=last - sent * 1e-9,
        prompt_tokens=prompt,
        output_tokens=tokens,
    )


def _pace(took: float, tokens: int | None, chunks: int, limit: float) -> tuple[float, float]:
    """Seconds per output token after the first, as far as they are known."""
    if tokens is not None:
        return exactly(took / (tokens - 1) if tokens > 1 else 0.0)
    if chunks < 2:
        return 0.0, math.inf if limit > 1 else 0.0
    return (took / (limit - 1) if limit > 1 else 0.0), took / (chunks - 1)


def _limit(inputs: object) -> float:
    """The most tokens that a request asked for."""
    payload = at(inputs, "payload")
    found: Any = _json(payload) if isinstance(payload, str) else payload
    told = [number(at(found[0] if isinstance(found, list) and found else found, key)) for key in _LIMITS]
    return next((value for value in told if value is not None), math.inf)


def _parts(response: object) -> Sequence[Any]:
    """The JSON documents in what came at once: server-sent events, or one answer."""
    if not isinstance(response, str):
        return ()
    pieces = [piece.strip() for piece in response.split("\n\n")]
    found = [_json(piece.removeprefix(_DATA).strip()) for piece in pieces]
    return [one for one in found if isinstance(one, Mapping)]


def _json(text: str) -> Any:  # noqa: ANN401 - what somebody's JSON holds
    try:
        return json.loads(text)
    except ValueError:
        return None


def _has_text(part: object) -> bool:
    choices = at(part, "choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    told = (
        at(first, "text"),
        *(at(first, where, key) for where in ("delta", "message") for key in ("content", "reasoning_content")),
    )
    return any(isinstance(one, str) and one for one in told)
