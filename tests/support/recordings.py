"""Recordings of a real vLLM under known load: where they lie, what each must give, and what its clients saw."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmvitals.series import Window
from llmvitals.signals.window import Scope, scopes
from llmvitals.sources.capture import read_capture
from llmvitals.triage.verdict import Verdict

# The verdicts that the load of each recording makes right; the first is the one to reach, others are right too.
EXPECTED: Mapping[str, tuple[str, ...]] = {
    "idle": ("no-traffic",),
    "healthy": ("healthy",),
    "prefix-hit": ("healthy",),
    "closed-loop-32": ("healthy",),
    "queue-two-seats": ("batch-too-small",),
    "kv-preemption": ("preemption-thrash",),
    "kv-admission-wait": ("kv-cache-saturation",),
    "kv-full": ("kv-cache-saturation",),
    "prefix-miss-id-first": ("prefix-cache-miss",),
    "prefix-evicted": ("healthy",),
    "no-max-tokens": ("unbounded-output",),
    "client-errors": ("healthy",),
    "client-aborts": ("ghost-compute",),
    "long-prompts": ("prefill-decode-interference",),
    "prefill-overload": ("prefill-bound",),
    "admission-503": ("shedding",),
    "engine-died": ("not-serving",),
    "vllm-0.11-light": ("cold-start",),
    "nothing-shared": ("healthy",),
    "schema-same": ("healthy",),
    "two-api-servers": ("healthy",),
    "data-parallel-2": ("healthy",),
    "pool-of-one-context": ("healthy",),
    "very-light": ("healthy", "undetermined"),
    "ngram-drafts": ("healthy", "cold-start"),
    "batch-too-large": ("batch-too-large",),
    "lora-one-slot": ("healthy", "adapter-slots"),
}

# What must be listed as contributing.
MENTIONED: Mapping[str, str] = {
    "queue-two-seats": "unbounded-queue",
    "prefix-evicted": "prefix-cache-miss",
    "lora-one-slot": "adapter-slots",
}

# What a part of a recording may show instead: it may say less, never something else.
LESS = ("undetermined", "healthy", "no-traffic")


def name_of(verdict: Verdict) -> str:
    """The leading cause, or the outcome where none leads."""
    return verdict.leading.cause if verdict.leading else str(verdict.outcome)


def only_scope(folder: Path) -> tuple[Scope, Window]:
    """The one scope that each of these recordings holds."""
    (observed,) = read_capture(folder)
    ((scope, window),) = scopes(observed.snapshots).items()
    return scope, window


def cuts(window: Window) -> Iterator[tuple[str, Window]]:
    """Parts of a recording that must not turn its verdict into another cause: every second page, the middle two thirds."""
    pages = window.snapshots
    yield "every second page", Window.of(pages[::2])
    yield "every other second page", Window.of(pages[1::2])
    yield "middle two thirds", Window.of(pages[len(pages) // 6 : len(pages) - len(pages) // 6])


@dataclass(frozen=True, slots=True)
class Request:
    """One request as its client saw it; seconds count from the load's start. ``sequences``: n."""

    start: float
    ttft: float | None
    end: float
    tpot: float | None
    ok: bool
    left: bool
    refused: bool
    sequences: int

    def inside(self, t: float) -> bool:
        """Whether it was on its way at a moment."""
        return self.start < t < self.end


def clients(folder: Path) -> tuple[float, float, list[Request]]:
    """(unix time of the load's start, seconds until clients were cut off, requests that the log holds)."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    with gzip.open(folder / "requests.jsonl.gz", "rt") as log:
        rows = [json.loads(row) for row in log]
    return about["start_unix"], about["duration_s"] + (about.get("drain_s") or 0.0), [_request(row) for row in rows]


def _request(row: Mapping[str, Any]) -> Request:
    chunks, usage, gap = row.get("chunks"), row.get("usage"), row.get("itl_mean")
    n = int(row.get("n") or 1)
    made = usage.get("completion_tokens", 0) if isinstance(usage, dict) else 0
    tpot = row.get("tpot")
    if tpot is None and gap is not None:
        # a chunk may carry several tokens; with n > 1 the log does not say whose a chunk was
        tpot = gap * (chunks - 1) / (made - 1) if n == 1 and chunks and made > 1 else gap
    return Request(
        start=float(row["t"]),
        ttft=row.get("ttft"),
        end=float(row["t"]) + float(row["e2e"]),
        tpot=tpot,
        ok=row.get("status") == 200 and bool(row.get("finish")),
        left=bool(row.get("client_aborted") or row.get("client_timeout") or row.get("cancelled_at_end")),
        refused=row.get("status") in {400, 404, 422},
        sequences=n,
    )


def quantile(values: list[float], q: float) -> float:
    """Nearest-rank quantile."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]
