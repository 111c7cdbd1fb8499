"""What a gateway counts of the calls that pass through it. Everything here only grows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from llmvitals.schema import LARGE_PROMPT_TOKENS
from llmvitals.simulator.counters import FIRST_TOKEN, Histogram
from llmvitals.simulator.workload import Request, Stream

SMALL, LARGE = "small", "large"
STATUSES = ("200", "400", "429", "499", "500", "503", "504")
DROPPED = ("full", "ttl", "left")
CUT = ("timeout", "upstream")


@dataclass(slots=True)
class Book:
    """``tenants``: every tenant that may call. Tokens and seconds; ``answered`` by (tenant, status)."""

    tenants: tuple[str, ...]
    user_requests: int = 0
    calls: int = 0
    disconnects: int = 0
    exact_repeats: int = 0
    cache_hits: int = 0
    prompt_tokens: int = 0
    shared_tokens: int = 0
    connect_errors: int = 0
    answered: Counter[tuple[str, str]] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)
    queue_seconds: dict[str, Histogram] = field(init=False)
    first_token: dict[str, Histogram] = field(init=False)
    _texts: set[int] = field(default_factory=set)
    _prefixes: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.queue_seconds = {tenant: Histogram(FIRST_TOKEN) for tenant in self.tenants}
        self.first_token = {size: Histogram(FIRST_TOKEN) for size in (SMALL, LARGE)}

    def first(self, prompt: int, seconds: float) -> None:
        """The first token of a call has come."""
        self.first_token[LARGE if prompt >= LARGE_PROMPT_TOKENS else SMALL].observe(seconds)

    def seen(self, request: Request, stream: Stream) -> int:
        """A call comes in; how many tokens of its prompt are text that earlier prompts share.

        The gateway hashes prompts with dates, names and ids taken out, so that a text is known wherever it stands. Texts
        are remembered where a stream can repeat one at all; a retry always repeats one.
        """
        self.calls += 1
        if request.attempt:
            self.retries[stream.tenant] += 1
        again = request.attempt > 0 or request.text in self._texts
        if stream.repeats and not again:
            self._texts.add(request.text)
        self.exact_repeats += again
        prefix = (request.stream, request.prefix)
        known = prefix in self._prefixes
        if stream.prefix_tokens and not known:
            self._prefixes.add(prefix)
        return request.prompt if again else min(stream.prefix_tokens, request.prompt) if known else 0

    def sent_on(self, prompt: int, shared: int) -> None:
        """A call goes on to the engine."""
        self.prompt_tokens += prompt
        self.shared_tokens += shared
