"""The engine's own counters and histograms, in the populations that vLLM V1 gives them.

Counted when a token appears: first-token time, inter-token time, generated tokens, a prompt once and whole with its
first token. Counted when a request ends: everything else about requests. Counted when a preempted request speaks again:
its preemptions. Recomputed tokens: nowhere.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field


@dataclass(slots=True)
class Histogram:
    """Counts per bucket (upper bounds inclusive, the last one open), their sum and number."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    sum: float = 0.0
    count: int = 0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        """Add ``times`` equal observations."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times
        self.count += times


# vLLM 0.32's default bounds, as its page shows them (seconds, tokens, pieces).
FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    *(160.0, 640.0, 2560.0),
)
TOKEN_GAP = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0),
    *(1920.0, 7680.0),
)
ITERATION = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
PARALLEL = (1.0, 2.0, 5.0, 10.0, 20.0)
HTTP_FINE = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0),
    60.0,
)
HTTP_COARSE = (0.1, 0.5, 1.0)
TRANSFER = (0.005, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0)
REASONS = ("stop", "length", "abort", "error", "repetition")


def token_bounds(longest: int) -> tuple[float, ...]:
    """1-2-5 steps up to the longest context, as vLLM builds its token histograms."""
    bounds: list[float] = []
    decade = 1
    while decade <= longest:
        bounds.extend(float(step * decade) for step in (1, 2, 5) if step * decade <= longest)
        decade *= 10
    return tuple(bounds)


@dataclass(slots=True)
class Counters:
    """Everything that only grows. Seconds and tokens; ``longest`` is the engine's max_model_len."""

    longest: int
    preemptions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    received_tokens: int = 0  # of prompts, computed elsewhere
    generated_tokens: int = 0
    query_tokens: int = 0
    hit_tokens: int = 0
    steps: int = 0
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    first_token: Histogram = field(default_factory=lambda: Histogram(FIRST_TOKEN))
    token_gap: Histogram = field(default_factory=lambda: Histogram(TOKEN_GAP))
    iteration: Histogram = field(default_factory=lambda: Histogram(ITERATION))
    per_token: Histogram = field(default_factory=lambda: Histogram(TOKEN_GAP))
    e2e: Histogram = field(default_factory=lambda: Histogram(REQUEST))
    queue: Histogram = field(default_factory=lambda: Histogram(REQUEST))
    prefill: Histogram = field(default_factory=lambda: Histogram(REQUEST))
    decode: Histogram = field(default_factory=lambda: Histogram(REQUEST))
    inference: Histogram = field(default_factory=lambda: Histogram(REQUEST))
    request_preemptions: Histogram = field(default_factory=lambda: Histogram(PREEMPTIONS))
    n: Histogram = field(default_factory=lambda: Histogram(PARALLEL))
    http_fine: Histogram = field(default_factory=lambda: Histogram(HTTP_FINE))
    http_coarse: Histogram = field(default_factory=lambda: Histogram(HTTP_COARSE))
    request_prompt: Histogram = field(init=False)
    request_computed: Histogram = field(init=False)
    request_generated: Histogram = field(init=False)
    request_max_tokens: Histogram = field(init=False)
    http: dict[str, int] = field(default_factory=lambda: {"2xx": 0, "4xx": 0, "5xx": 0})  # answers that have ended
    rejected: int = 0  # refused at admission: the queue was full
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: dict[int, int] = field(default_factory=dict)  # first draft token: 0
    swapped_out: int = 0
    kv_transfer: Histogram = field(default_factory=lambda: Histogram(TRANSFER))
    kv_transfer_bytes: float = 0.0
    kv_transfer_failures: int = 0
    process_seconds: float = 0.0  # CPU of the API process
    link_bytes: float = 0.0  # between the GPUs of the engine, per GPU
    http_bytes_in: float = 0.0
    busy_seconds: float = 0.0  # kernels running
    memory_seconds: float = 0.0  # device memory moving data at its peak rate
    compute_seconds: float = 0.0  # tensor pipes at their peak rate

    def __post_init__(self) -> None:
        bounds = token_bounds(self.longest)
        self.request_prompt = Histogram(bounds)
        self.request_computed = Histogram(bounds)
        self.request_generated = Histogram(bounds)
        self.request_max_tokens = Histogram(bounds)
