"""The engine's own counters and histograms, in the populations that vLLM V1 gives them.

Counted when a token appears: first-token time, inter-token time, generated tokens, a prompt once and whole with its
first token. Counted when a request ends: everything else about requests. Counted when a preempted request speaks again:
its preemptions. Recomputed tokens: nowhere.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from llmvitals.simulator.dialect import VLLM, Dialect


@dataclass(slots=True)
class Histogram:
    """Counts per bucket (upper bounds inclusive, the last one open), their sum and number."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    sum: float = 0.0
    count: int = 0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def __add__(self, other: Histogram) -> Histogram:
        """The observations of both, which have the same bounds."""
        both = Histogram(self.bounds)
        both.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        both.sum, both.count = self.sum + other.sum, self.count + other.count
        return both

    def observe(self, value: float, times: int = 1) -> None:
        """Add ``times`` equal observations."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times
        self.count += times


FIRST_TOKEN = VLLM.first_token

# Default bounds of what only one engine counts, as its page shows them (seconds, tokens, pieces).
PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
PARALLEL = (1.0, 2.0, 5.0, 10.0, 20.0)
HTTP_FINE = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0),
    60.0,
)
HTTP_COARSE = (0.1, 0.5, 1.0)
TRANSFER_BYTES = tuple(float(2**power) for power in range(10, 36))
TRANSFER = (0.005, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0)
REASONS = ("stop", "length", "abort", "error", "repetition")


def token_bounds(longest: int, steps: int = 0) -> tuple[float, ...]:
    """1-2-5 steps up to the longest context, as vLLM builds its token histograms; or so many equal ``steps`` (TGI)."""
    if steps:
        return tuple(longest / steps * (place + 1) for place in range(steps))
    bounds: list[float] = []
    decade = 1
    while decade <= longest:
        bounds.extend(float(step * decade) for step in (1, 2, 5) if step * decade <= longest)
        decade *= 10
    return tuple(bounds)


@dataclass(slots=True)
class Counters:
    """Everything that only grows. Seconds and tokens; ``longest`` is the engine's max_model_len, ``dialect`` says what
    bounds its histograms have.

    What vLLM does not count and others do. SGLang: ``evicted``, preemptions as they happen; ``aborted`` requests, and of
    those that were running their figures (``left_``); ``waited``, the queue time of requests as they are first scheduled.
    TGI: ``came_``, lengths of requests as they arrive. TensorRT-LLM: ``ended_first_token``, first-token times as requests
    end. llama.cpp: ``prompt_seconds``, time of prompts as their first token comes; ``most_tokens``, the longest sequence.
    """

    longest: int
    dialect: Dialect = VLLM
    preemptions: int = 0
    evicted: int = 0
    aborted: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    received_tokens: int = 0  # of prompts, computed elsewhere
    generated_tokens: int = 0
    query_tokens: int = 0
    hit_tokens: int = 0
    steps: int = 0
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    first_token: Histogram = field(init=False)
    token_gap: Histogram = field(init=False)
    iteration: Histogram = field(init=False)
    per_token: Histogram = field(init=False)
    e2e: Histogram = field(init=False)
    queue: Histogram = field(init=False)
    prefill: Histogram = field(init=False)
    decode: Histogram = field(init=False)
    inference: Histogram = field(init=False)
    request_preemptions: Histogram = field(default_factory=lambda: Histogram(PREEMPTIONS))
    n: Histogram = field(default_factory=lambda: Histogram(PARALLEL))
    http_fine: Histogram = field(default_factory=lambda: Histogram(HTTP_FINE))
    http_coarse: Histogram = field(default_factory=lambda: Histogram(HTTP_COARSE))
    request_prompt: Histogram = field(init=False)
    request_computed: Histogram = field(init=False)
    request_generated: Histogram = field(init=False)
    request_max_tokens: Histogram = field(init=False)
    waited: Histogram = field(init=False)
    left_e2e: Histogram = field(init=False)
    left_prompt: Histogram = field(init=False)
    left_generated: Histogram = field(init=False)
    came_prompt: Histogram = field(init=False)
    came_max_tokens: Histogram = field(init=False)
    ended_first_token: Histogram = field(init=False)
    prompt_seconds: float = 0.0
    most_tokens: int = 0
    http: dict[str, int] = field(default_factory=lambda: {"2xx": 0, "4xx": 0, "5xx": 0})  # answers that have ended
    rejected: int = 0  # refused at admission: the queue was full
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: dict[int, int] = field(default_factory=dict)  # first draft token: 0
    swapped_out: int = 0
    kv_transfer: Histogram = field(default_factory=lambda: Histogram(TRANSFER))
    kv_transfer_bytes: Histogram = field(default_factory=lambda: Histogram(TRANSFER_BYTES))
    kv_transfer_failures: int = 0
    process_seconds: float = 0.0  # CPU of the API process
    link_bytes: float = 0.0  # between the GPUs of the engine, per GPU
    http_bytes_in: float = 0.0
    busy_seconds: float = 0.0  # kernels running
    memory_seconds: float = 0.0  # device memory moving data at its peak rate
    compute_seconds: float = 0.0  # tensor pipes at their peak rate

    def __post_init__(self) -> None:
        bounds = self.dialect
        lengths = bounds.lengths or token_bounds(self.longest, bounds.steps)
        answers = bounds.answers or lengths
        self.first_token, self.ended_first_token = Histogram(bounds.first_token), Histogram(bounds.first_token)
        self.token_gap = Histogram(bounds.token_gap)
        self.per_token = Histogram(bounds.per_token)
        self.iteration = Histogram(bounds.iteration)
        self.e2e, self.left_e2e = Histogram(bounds.request), Histogram(bounds.request)
        self.prefill, self.decode = Histogram(bounds.prefill or bounds.request), Histogram(bounds.request)
        self.inference = Histogram(bounds.request)
        self.queue, self.waited = Histogram(bounds.queue), Histogram(bounds.queue)
        self.request_prompt, self.left_prompt = Histogram(lengths), Histogram(lengths)
        self.request_generated, self.left_generated = Histogram(answers), Histogram(answers)
        self.came_prompt, self.came_max_tokens = Histogram(lengths), Histogram(answers)
        self.request_computed = Histogram(lengths)
        self.request_max_tokens = Histogram(answers)
