"""The two APIs that probes speak: where a request goes, what it holds, what one line of the answer means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

PROMPT = "Count from one to twenty in words."
_NS = 1e-9  # Ollama's durations are in nanoseconds
_DATA = b"data:"


@dataclass(frozen=True, slots=True)
class Piece:
    """What one line of a stream says. ``text``: it brings text of the answer; ``tokens``: how many were generated;

    ``per_token``: seconds per generated token as the server timed it; ``last``: nothing follows; ``failed``: it is an error.
    """

    text: bool = False
    tokens: int | None = None
    per_token: float | None = None
    last: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API. ``body``: the request for a model ('' leaves it to the server) and a number of tokens."""

    path: str
    body: Callable[[str, int], Mapping[str, Any]]
    read: Callable[[bytes], Piece | None]


def _generate(model: str, tokens: int) -> Mapping[str, Any]:
    return {"model": model, "prompt": PROMPT, "stream": True, "options": {"num_predict": tokens, "temperature": 0}}


def _chat(model: str, tokens: int) -> Mapping[str, Any]:
    named = {"model": model} if model else {}
    return {
        **named,
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _object(line: bytes) -> Mapping[str, Any] | None:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def read_generate(line: bytes) -> Piece | None:
    """A line of ``/api/generate``; None for one that cannot be read. The last holds counts, and durations in ns."""
    found = _object(line)
    if found is None:
        return None
    if found.get("error"):  # some servers write a null beside each piece
        return Piece(failed=True, last=True)
    tokens, took = _count(found.get("eval_count")), _count(found.get("eval_duration"))
    return Piece(
        text=bool(found.get("response") or found.get("thinking")),
        tokens=tokens,
        per_token=took * _NS / tokens if took and tokens else None,
        last=bool(found.get("done")),
    )


def read_chat(line: bytes) -> Piece | None:
    """A server-sent event of ``/v1/chat/completions``; None for one that cannot be read, as comments are."""
    if not line.startswith(_DATA):
        return None
    data = line[len(_DATA) :].strip()
    if data == b"[DONE]":
        return Piece(last=True)
    found = _object(data)
    if found is None:
        return None
    if found.get("error"):
        return Piece(failed=True, last=True)
    usage = found.get("usage")
    tokens = _count(usage.get("completion_tokens")) if isinstance(usage, dict) else None
    choices = found.get("choices")
    return Piece(text=any(map(_says, choices if isinstance(choices, list) else ())), tokens=tokens)


def _says(choice: object) -> bool:
    delta = choice.get("delta") if isinstance(choice, dict) else None
    keys = ("content", "reasoning_content", "reasoning")
    return isinstance(delta, dict) and any(delta.get(key) for key in keys)


CHAT = Dialect("/v1/chat/completions", _chat, read_chat)
DIALECTS: Mapping[str, Dialect] = {"ollama": Dialect("/api/generate", _generate, read_generate)}
"""By kind of engine; all others speak :data:`CHAT`."""
