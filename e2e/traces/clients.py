"""What clients got, by their own log: requests by class, held to their promise, and how near to a threshold each lay."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from table import PROMISES, RATIO, Promised

SLACK_SECONDS = 0.25
"""How much later than its gateway a client may find a first token to have come, on one busy machine (0.11 s at a load of six for
each core, 2 ms in between); never sooner, but for what their clocks are rounded by. Of the end of an answer either may learn first.
"""

ROUNDED_SECONDS = 0.001

REFUSED = (429, 503)
_HALF = 1 << 64


@dataclass(slots=True)
class Count:
    """Requests of one class by their clients' log: ``yes`` and ``no`` for sure, and ``near``: too near to a threshold to tell.

    ``missed``, ``nearly``: by objective, the same two. ``whole``: answers that came whole; ``own``: those that met their promise by
    the client's clock alone.
    """

    yes: int = 0
    no: int = 0
    near: int = 0
    whole: int = 0
    own: int = 0
    missed: Counter[str] = field(default_factory=Counter)
    nearly: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Log:
    """One load's requests. ``by_class``: those that count; ``ended``: all of them, by how they ended, in the words of the page;
    ``prompt``, ``output``: tokens of answers that came whole; ``traces``: ids of all; ``whole``: rows of those answers by trace.
    """

    by_class: dict[str, Count] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)
    prompt: int = 0
    output: int = 0
    traces: set[str] = field(default_factory=set)
    whole: dict[str, dict[str, Any]] = field(default_factory=dict)
    open: int = 0


def ended(row: dict[str, Any]) -> str:
    """How a request ended, in the words of the page; '' where it was still open as the load ended."""
    status = row.get("status")
    if row.get("cancelled_at_end"):
        return ""
    if row.get("client_aborted") or row.get("client_timeout"):
        return "left"
    if status in REFUSED:
        return "refused"
    if status is not None and 400 <= status < 500:
        return "client-error"
    return "ok" if status == 200 and row.get("finish") and not row.get("exc") else "error"


def times(row: dict[str, Any]) -> dict[str, float]:
    """What a client timed of a whole answer, by objective (seconds). Its first token is, as for a gateway, the first that
    shows text: one that is a part of a character shows none.
    """
    first, after_first = row.get("text_s", row["e2e"]), row["usage"]["completion_tokens"] - 1
    tpot = (row["e2e"] - first) / after_first if after_first > 0 else 0.0
    return {"ttft": first, "tpot": tpot, "e2e": row["e2e"]}


def within(row: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Between what its gateway must have timed of the same answer, by objective (seconds)."""
    timed, after_first = times(row), row["usage"]["completion_tokens"] - 1
    part = SLACK_SECONDS / after_first if after_first > 0 else 0.0
    return {
        "ttft": ((timed["ttft"] if "text_s" in row else row["ttft"]) - SLACK_SECONDS, timed["ttft"] + ROUNDED_SECONDS),
        "tpot": (timed["tpot"] - part, timed["tpot"] + part),
        "e2e": (timed["e2e"] - SLACK_SECONDS, timed["e2e"] + SLACK_SECONDS),
    }


def held(count: Count, row: dict[str, Any], limits: dict[str, float]) -> None:
    """Hold one whole answer against its promise."""
    timed, bounds = times(row), within(row)
    count.own += all(timed[name] <= limit for name, limit in limits.items())
    sure = [name for name, limit in limits.items() if bounds[name][0] > limit]
    near = [name for name, limit in limits.items() if bounds[name][0] <= limit < bounds[name][1]]
    count.missed.update(sure)
    count.nearly.update(near)
    if sure:
        count.no += 1
    elif near:
        count.near += 1
    else:
        count.yes += 1


def read(folder: Path, tenants: dict[str, str]) -> Log:
    """The log of one load. ``tenants``: of each of its streams."""
    with gzip.open(folder / "requests.jsonl.gz", "rt", encoding="utf-8") as lines:
        return counted([json.loads(line) for line in lines], tenants)


def counted(rows: list[dict[str, Any]], tenants: dict[str, str]) -> Log:
    """What the rows of a log come to."""
    log = Log()
    for row in rows:
        how = ended(row)
        log.traces.add(row["trace_id"])
        if not how:
            log.open += 1
            continue
        log.ended[how] += 1
        if how in ("left", "client-error"):
            continue  # no promise was broken
        promise = class_of(tenants[row["stream"]])
        count = log.by_class.setdefault(promise.name, Count())
        if how == "ok":
            count.whole += 1
            log.whole[row["trace_id"]] = row
            log.prompt += row["usage"]["prompt_tokens"]
            log.output += row["usage"]["completion_tokens"]
            held(count, row, promise.limits)
        else:
            count.no += 1
            count.missed["failed"] += 1
    return log


def class_of(tenant: str) -> Promised:
    """The class of a tenant's requests."""
    return next(one for one in PROMISES if one.takes(tenant))


def kept(traces: Iterable[str], ratio: float = RATIO) -> int:
    """How many of these traces a sampler ``traceidratio`` keeps: those whose id's right half lies below the ratio."""
    return sum(int(one, 16) % _HALF < round(ratio * _HALF) for one in traces)
