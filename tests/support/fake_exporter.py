"""A loopback exporter with made documents: what it serves is written by hand, never by the code under test."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


def evidence(signal, title, value, unit, limit, bound, *, holds=True, gap="", standing="exact"):
    """One condition in the JSON form."""
    return {
        "signal": signal,
        "title": title,
        "value": value,
        "unit": unit,
        "limit": limit,
        "bound": bound,
        "holds": None if value is None else holds,
        "gap": gap,
        "standing": standing,
    }


PREEMPTIONS = evidence("preemptions_per_minute", "Preemptions per minute", 126.0, "1/minute", "> 5 /min", 5.0)
SPREAD = evidence("preemption_spread_ratio", "Intervals that saw a preemption", 0.92, "ratio", "≥ 33.3 %", 1 / 3)
PER_DONE = evidence("preemptions_per_completion", "Preemptions per finished request", 2.6, "", "> 0.1", 0.1)
KV = evidence("kv_usage_high_ratio", "KV usage that is reached", 0.985, "ratio", "≥ 95 %", 0.95, standing="estimate")
WAITING = evidence("waiting_share_ratio", "Share of pages with waiting requests", 1.0, "ratio", "> 50 %", 0.5)
GPU = evidence(
    "gpu_sm_active_ratio",
    "GPU: SMs active",
    None,
    "ratio",
    "< 60 %",
    0.6,
    gap="missing: no GPU is joined to this engine",
)
NO_IMAGES = evidence(
    "lora_slots", "Adapter slots", None, "", "≥ 1", 1.0, gap="unsupported: this engine runs no adapters"
)


def check(cause, state, reason, *rows):
    """One check in the JSON form."""
    return {"cause": cause, "state": state, "reason": reason, "evidence": list(rows)}


def steps(*, thrash: str = "firing", saturation: str = "shadowed") -> list[dict]:
    """The eight steps of the walk, with one check or a few each."""
    clear = "Its limits are not reached."
    return [
        {
            "step": 0,
            "title": "Trust, life and harm",
            "checks": [
                check("telemetry-broken", "clear", "Every basic family is there and moves."),
                check("not-serving", "clear", "Tokens came on every page."),
            ],
        },
        {
            "step": 1,
            "title": "Memory pressure",
            "checks": [
                check("kv-cache-saturation", saturation, "Explained by preemption-thrash.", KV, WAITING),
                check("preemption-thrash", thrash, "Work is evicted and computed again.", PREEMPTIONS, SPREAD, KV),
                check("vram-headroom", "unknown", "No framebuffer numbers: no GPU is joined.", GPU),
                check("block-fragmentation", "clear", clear),
                check("preemption-mode", "clear", "Prompts are short: recomputing them is cheap."),
            ],
        },
        {
            "step": 2,
            "title": "Batch configuration",
            "checks": [
                check("batch-too-small", "clear", clear, GPU),
                check("batch-too-large", "clear", clear),
                check("head-of-line-blocking", "not-applicable", "Needs latency per class: a gateway or spans."),
            ],
        },
        {"step": 3, "title": "Cache misses", "checks": [check("prefix-cache-miss", "clear", clear)]},
        {
            "step": 4,
            "title": "Network and interconnect",
            "checks": [check("interconnect-bound", "not-applicable", "Needs link counters of the GPUs.")],
        },
        {
            "step": 5,
            "title": "The process in front",
            "checks": [
                check("api-server-bound", "clear", clear),
                check("adapter-slots", "not-applicable", "This engine runs no adapters.", NO_IMAGES),
            ],
        },
        {
            "step": 6,
            "title": "Demand",
            "checks": [check("unbounded-queue", "shadowed", "The queue grows because work is computed again.")],
        },
        {"step": 7, "title": "Platform", "checks": [check("hardware-event", "not-applicable", "Needs XID counters.")]},
    ]


THRASH = {
    "cause": "preemption-thrash",
    "confidence": 0.94,
    "evidence": [PREEMPTIONS, SPREAD, KV, PER_DONE, WAITING, GPU],
    "action": {
        "text": "Admit no more requests than the KV pool holds: 5,120 tokens over 1,024 tokens at the p90 context.",
        "setting": "max_num_seqs",
        "value": 4.0,
        "effect": "More requests wait for a seat, and none of those that have one is thrown out.",
        "verify": "Within 2 min: preemptions per minute ≤ 5 /min.",
    },
    "runbook": "runbooks/preemption-thrash.md",
    "note": "Waiting after a preemption shows up as decode time, not as queue time.",
}
OUTPUT = {
    "cause": "unbounded-output",
    "confidence": 0.6,
    "evidence": [
        evidence("open_max_tokens_ratio", "Requests without a max_tokens of their own", 1.0, "ratio", "> 0 %", 0.0)
    ],
    "action": {"text": "Give the server a default.", "setting": "max_tokens", "value": 512.0},
    "runbook": "runbooks/unbounded-output.md",
    "note": "",
}
BLIND = [
    {
        "what": "GPU activity",
        "why": "no GPU is joined to this engine, so compute cannot be read next to KV",
        "series": "DCGM_FI_PROF_SM_ACTIVE",
        "remedy": "Give the target its gpu_url.",
    },
    {
        "what": "latency per request class",
        "why": "an engine page has no classes",
        "series": "llm_gateway_request_seconds",
    },
]

CHANGES = [
    {
        "signal": "preemption_spread_ratio",
        "title": "Intervals that saw a preemption",
        "value": 0.92,
        "bound": 1 / 3,
        "unit": "ratio",
        "op": "<",
        "outcome": "cause",
        "cause": "kv-cache-saturation",
    },
    {
        "signal": "preemptions_per_minute",
        "title": "Preemptions per minute",
        "value": 126.0,
        "bound": 5.0,
        "unit": "1/minute",
        "op": "<=",
        "outcome": "healthy",
        "cause": "",
    },
]
LOOKALIKES = [
    {
        "cause": "kv-cache-saturation",
        "why": "The pool is full because work is computed again.",
        "evidence": PREEMPTIONS,
    },
    {"cause": "batch-too-large", "why": "Time per token is late only where work was evicted.", "evidence": None},
]

SENTENCES = {
    "cause": "More requests are admitted than the KV pool holds: 126 preemptions per minute, while 4 seats fit.",
    "healthy": "Nothing to fix: every promise is met with 8 requests running and nobody waiting.",
    "shedding": "Load is refused at admission (31 % of what is offered), and what is admitted meets its promise.",
    "no-traffic": "No requests in the last 60 s, so there is nothing to judge.",
    "undetermined": "The page lacks the histograms that would tell; see what this is blind to.",
}


def document(verdict="cause", *, now=None):
    """A whole triage document of two targets: the one with that verdict first, a healthy one behind it."""
    first, second = body(verdict, "vllm-0", now), body("healthy", "vllm-1", now)
    targets = [
        {
            "name": one["scope"]["instance"],
            "model": one["scope"]["model"],
            "verdict": one["verdict"],
            "leading": one["leading"] and one["leading"]["cause"],
            "sentence": one["sentence"],
            "detail": one,
        }
        for one in (first, second)
    ]
    return first | {"targets": targets}


def body(verdict, instance, now=None):
    """The document of one scope."""
    end = time.time() if now is None else now
    cause = verdict == "cause"
    calm = steps() if cause else steps(thrash="clear", saturation="clear")
    if verdict in ("no-traffic", "undetermined"):
        for step in calm:
            for row in step["checks"]:
                if row["state"] in ("clear", "shadowed"):
                    row.update(state="unknown", reason="Nothing happened that could be measured.")
    elif not cause:
        calm[6]["checks"][0].update(state="clear", reason="Its limits are not reached.")
    return {
        "verdict": verdict,
        "sentence": SENTENCES[verdict],
        "leading": THRASH if cause else None,
        "contributing": [OUTPUT] if cause else [],
        "steps": calm,
        "blind": BLIND,
        "window": {"start": end - 60.0, "end": end, "seconds": 60.0, "pages": 13},
        "scope": {"instance": instance, "model": "llama-3-8b"},
        "hurt": cause,
        "changes": CHANGES if cause else [],
        "lookalikes": LOOKALIKES if cause else [],
    }


LINES = {
    "preemptions_per_minute": ([0, 0, 2, 18, 60, 90, 110, 124, 118, 130, 122, 126], None),
    "preemption_spread_ratio": ([0, 0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.9, 0.92, 0.92, 0.92], None),
    "kv_usage_high_ratio": ([0.2, 0.4, 0.6, 0.8, 0.95, 0.97, 0.98, 0.99, 0.98, 0.99, 0.98, 0.985], None),
    "preemptions_per_completion": ([None, None, None, 0.2, 0.8, 1.4, 2.0, 2.3, 2.5, 2.6, 2.6, 2.6], None),
    "waiting_share_ratio": ([0, 0, 0, 0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1, 1], None),
    "ttft_p95_seconds": ([0.1, 0.12, 0.2, 0.5, 1.0, 1.6, 2.2, 2.6, 2.9, 3.1, 3.0, 3.1], 2.0),
    "tpot_p95_seconds": ([0.02, 0.02, 0.021, 0.03, 0.04, 0.06, 0.07, 0.08, 0.08, 0.08, 0.08, 0.082], 0.05),
    "requests_waiting": ([0, 0, 0, 1, 3, 5, 8, 9, 10, 11, 10, 12], None),
    "requests_running": ([2, 3, 4, 6, 7, 6, 5, 5, 4, 5, 4, 4], None),
    "generation_tokens_rate": ([200, 320, 420, 500, 480, 420, 360, 320, 310, 305, 300, 298], None),
}


BEGAN_SECONDS = 40.0
"""Seconds before the end at which the made cause began to fire."""


def course(end):
    """What the made exporter's checks said of ten minutes."""
    began, start = end - BEGAN_SECONDS, end - 600.0
    return {
        "start": start,
        "end": end,
        "seconds": 60.0,
        "states": {
            "preemption-thrash": [[start, "clear"], [began, "firing"]],
            "kv-cache-saturation": [[start, "shadowed"]],
        },
        "outcomes": [[start, "healthy"], [began, "cause"]],
        "leading": [[start, ""], [began, "preemption-thrash"]],
    }


def history(now=None):
    """Lines of a minute, one point each five seconds, those of the picture among them; and since when each check fires."""
    end = time.time() if now is None else now
    return {
        "course": course(end),
        "signals": {
            name: {"times": [end - 5.0 * (len(v) - 1 - i) for i in range(len(v))], "values": v, "bound": bound}
            for name, (v, bound) in (LINES | {name: (v, None) for name, v in WAY.items()}).items()
        },
    }


def replica(instance, kv, activity, of="gpu_sm_active_mean_ratio", **more):
    """One replica of the picture, as /replicas tells of it."""
    known = {"waiting": 0.0, "running": 8.0, "gpus": ["0"], "joins": ["pod-labels"], "verdict": "healthy"}
    return (
        {"instance": instance, "model": "llama-3-8b", "kv": kv, "activity": activity, "activity_of": of} | known | more
    )


REPLICAS = [
    replica(
        "vllm-0",
        0.985,
        0.31,
        waiting=12.0,
        verdict="cause",
        leading="kv-cache-saturation",
        binds="kv",
        binds_why="the next request does not fit into the pool",
        kv_note="estimate",
        tensor=0.22,
        dram=0.41,
    ),
    replica("vllm-1", 0.972, 0.88, waiting=1.0, binds="nothing", gpus=["1", "2"]),
    replica("vllm-2", 0.40, 0.93, waiting=4.0, binds="compute", joins=["process-ids"]),
    replica("vllm-3", 0.12, 0.05, running=0.0, verdict="no-traffic"),
    replica("vllm-4", 0.66, 0.78, of="gpu_busy_mean_ratio"),
    replica(
        "sglang-0",
        0.7,
        None,
        of="",
        gpus=[],
        joins=[],
        activity_why="no GPU is joined: GPU 3 is not on the GPU page",
    ),
    replica(
        "vllm-9",
        None,
        0.0,
        gpus=["5"],
        kv_why="refused the connection",
        verdict="undetermined",
        waiting=None,
        running=None,
    ),
]
"""One in each quadrant, one of which only utilisation is known, and two without a place."""


def replicas(now=None):
    """The replicas of a made fleet."""
    end = time.time() if now is None else now
    return {"end": end, "seconds": 60.0, "limits": {"kv": 0.95, "activity": 0.6}, "replicas": REPLICAS}


WAY = {
    "kv_usage_high_ratio": [0.3, 0.4, 0.52, 0.6, 0.71, 0.8, 0.9, 0.955, 0.97, 0.98, 0.982, 0.985],
    "gpu_sm_active_mean_ratio": [0.5, 0.62, 0.7, 0.74, None, 0.7, 0.62, 0.5, 0.42, 0.36, 0.33, 0.31],
}


class FakeExporter:
    """Serves ``answers`` (path to document, or (status, bytes)) on a free loopback port; a test may change them.

    ``late``: seconds that a path takes to answer.
    """

    def __init__(self) -> None:
        self.verdict = "cause"
        self.answers: dict[str, object] = {}
        self.late: dict[str, float] = {}
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                fake.asked.append((parts.path, parse_qs(parts.query)))
                time.sleep(fake.late.get(parts.path, 0.0))
                status, body = fake.answer(parts.path)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        if path in self.answers:
            found = self.answers[path]
            return found if isinstance(found, tuple) else (200, json.dumps(found).encode())
        if path == "/triage":
            return 200, json.dumps(document(self.verdict)).encode()
        if path == "/replicas":
            return 200, json.dumps(replicas()).encode()
        if path == "/history":
            return 200, json.dumps(history()).encode()
        return 404, b"{}"

    def close(self) -> None:
        """Stop answering; later requests are refused."""
        self.server.shutdown()
        self.server.server_close()
