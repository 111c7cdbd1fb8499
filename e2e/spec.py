"""What a load is: streams of requests, as JSON, and the requests that they become. No clock and no network in here."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

TOKENS = range(300, 4000)
"""Ids of plain words in the vocabulary of ``make_model.py``: no special tokens among them."""

WORDS = (
    "return",
    "class",
    "value",
    "index",
    "list",
    "error",
    "state",
    "query",
    "cache",
    "block",
    "node",
    "path",
    "time",
)

Span = float | tuple[float, float]
"""One number, or the ends of a range from which each request draws its own."""


class Struct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown keys are refused: a misspelt one would make another load than was meant."""


class Stream(Struct, frozen=True):
    """Requests of one kind. Exactly one of ``rate``, ``concurrency`` and ``bursts`` says when they start.

    ``rate``: requests a second, at random moments unless ``poisson`` is false. ``concurrency``: clients of which each sends
    its next request ``think_s`` after the last answer. ``bursts``: moments, in seconds, at which ``burst`` requests start.

    A prompt is ``prompt_tokens`` random ids (a repeated run of ``pattern`` of them, if set). With ``prefix_words`` it is a
    chat instead: one of ``prefixes`` system prompts, shared by all, and ``words`` of the user; ``id_first`` puts a different
    id at the very start. ``words`` alone is a chat that shares nothing. ``planted`` is text that every chat ends with.

    ``headers`` go along with each request; ``traced`` ones begin a trace of their own (``traceparent``), whose id is logged.
    """

    name: str
    rate: float | None = None
    poisson: bool = True
    concurrency: int | None = None
    think_s: float = 0.0
    stagger_s: float = 0.0
    burst: int = 1
    bursts: tuple[float, ...] = ()
    start_s: float = 0.0
    stop_s: float | None = None
    prompt_tokens: Span = 128
    pattern: int = 0
    words: int = 0
    prefix_words: int = 0
    prefixes: int = 1
    id_first: bool = False
    max_tokens: Span | None = None
    ignore_eos: bool = True
    temperature: float = 1.0
    n: int = 1
    model: str = ""
    abort_after_s: Span | None = None
    timeout_s: float | None = None
    retries: int = 0
    backoff_s: float = 0.0
    headers: dict[str, str] = {}
    traced: bool = False
    planted: str = ""


class Expected(Struct, frozen=True):
    """What a triage of the recording must say. ``also``: causes that must be mentioned beside the leading one."""

    verdict: str
    leading: str | None = None
    also: tuple[str, ...] = ()


class Load(Struct, frozen=True):
    """A load: for a server started with ``server_flags``, ``seconds`` long, and what a triage must find in it.

    Streams start no request after ``seconds``; those under way then have ``drain_s`` to finish. A page is recorded every
    ``interval_s``. ``onset_s``: when the trouble begins, where it does not begin with the load.
    """

    load: str
    expected: Expected
    server_flags: str = ""
    seconds: float = 90.0
    drain_s: float = 0.0
    interval_s: float = 3.0
    onset_s: float = 0.0
    seed: int = 1
    streams: tuple[Stream, ...] = ()


def read(path: Path) -> Load:
    """A load from its file. Raises ``ValueError`` that names the file, what is wrong, and where."""
    try:
        load = msgspec.json.decode(path.read_bytes(), type=Load)
    except (OSError, msgspec.DecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    for stream in load.streams:
        if (stream.rate is not None) + (stream.concurrency is not None) + bool(stream.bursts) != 1:
            raise ValueError(f"{path}: stream '{stream.name}' needs exactly one of rate, concurrency and bursts")
    return load


def starts(stream: Stream, seconds: float, rng: random.Random) -> Iterator[float]:
    """The moments, in seconds, at which requests of an open stream start; nothing for a closed one."""
    end = min(seconds, stream.stop_s if stream.stop_s is not None else seconds)
    if stream.bursts:
        yield from (at for at in stream.bursts if at < end for _ in range(stream.burst))
    elif stream.rate:
        at = stream.start_s
        while at < end:
            yield at
            at += rng.expovariate(stream.rate) if stream.poisson else 1.0 / stream.rate


def drawn(span: Span, rng: random.Random) -> float:
    """One number of a span."""
    return rng.uniform(*span) if isinstance(span, tuple) else span


class Requests:
    """Makes the requests of one stream: path and body, each different in what must differ."""

    def __init__(self, stream: Stream, model: str, rng: random.Random) -> None:
        self._stream, self._model, self._rng = stream, stream.model or model, rng
        self._prefixes = [f"[system {i}] {self._text(stream.prefix_words)}" for i in range(stream.prefixes)]
        self._made = 0

    def next(self) -> tuple[str, dict[str, Any]]:
        """Path and JSON body of the next request."""
        stream, number = self._stream, self._made
        self._made += 1
        body: dict[str, Any] = {
            "model": self._model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": stream.temperature,
            "n": stream.n,
            "ignore_eos": stream.ignore_eos,
        }
        if stream.max_tokens is not None:
            body["max_tokens"] = round(drawn(stream.max_tokens, self._rng))
        if stream.prefix_words or stream.words:
            return "/v1/chat/completions", body | {"messages": self._chat(number)}
        return "/v1/completions", body | {"prompt": self._ids(round(drawn(stream.prompt_tokens, self._rng)))}

    def _chat(self, number: int) -> Sequence[dict[str, str]]:
        own, tail = f"request-id {self._rng.getrandbits(32):08x}", self._text(self._stream.words)
        tail = f"{tail} {self._stream.planted}".rstrip()
        if not self._stream.prefix_words:
            return [{"role": "user", "content": tail}]
        prefix = self._prefixes[number % len(self._prefixes)]
        system, user = (f"{own} {prefix}", tail) if self._stream.id_first else (prefix, f"{own} {tail}")
        return [{"role": "system", "content": system}, {"role": "user", "content": user}]

    def _ids(self, count: int) -> list[int]:
        run = [self._rng.choice(TOKENS) for _ in range(self._stream.pattern or count)]
        return (run * (count // len(run) + 1))[:count]

    def _text(self, count: int) -> str:
        return " ".join(self._rng.choice(WORDS) for _ in range(count))
