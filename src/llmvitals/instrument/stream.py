"""Eyes on an answer as it passes: when its first and last token came, and what its usage says. Nothing of it is kept.

Chunks are looked at, never held back. Of a stream's events only those before the first token and those that hold ``usage`` are
decoded; an event that is spread over chunks is kept until it ends, within a bound.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Protocol

import msgspec

from llmvitals.instrument.call import Call, now

_LONGEST_EVENT = 65_536  # bytes of an unfinished event that are kept
_TAIL = 16_384  # bytes at the end of a whole answer in which its usage is looked for
_USAGE = re.compile(rb'[{,]\s*"usage"\s*:\s*(?=\{)')  # no text can hold it: inside a string its quotes are escaped
_EVENT_END = re.compile(rb"\r?\n\r?\n")


class Eyes(Protocol):
    """Who looks at the chunks of one answer."""

    def see(self, chunk: bytes) -> None:
        """The next chunk is being sent."""

    def end(self) -> None:
        """That was the last one."""


Tokens = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class _Usage(msgspec.Struct):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None
    function_call: Any = None
    refusal: Any = None


class _Choice(msgspec.Struct):
    text: Any = None
    delta: _Delta | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_usage = msgspec.json.Decoder(_Usage).decode


def _note_usage(call: Call, usage: _Usage) -> None:
    if usage.prompt_tokens is not None:
        call.prompt_tokens = usage.prompt_tokens
    if usage.completion_tokens is not None:
        call.output_tokens = usage.completion_tokens


def _holds_token(event: _Event) -> bool:
    for choice in event.choices:
        if choice.text:
            return True
        delta = choice.delta
        if delta is not None and (
            delta.content
            or delta.reasoning_content
            or delta.reasoning
            or delta.tool_calls
            or delta.function_call
            or delta.refusal
        ):
            return True
    return False


class Stream:
    """Server-sent events of one answer."""

    def __init__(self, call: Call, first_token: Callable[[Call], None]) -> None:
        self._call = call
        self._first_token = first_token
        self._rest = b""

    def see(self, chunk: bytes) -> None:
        """Look at a chunk that is being sent now."""
        call = self._call
        if (
            call.first_token is not None
            and not self._rest
            and b'"usage"' not in chunk
            and chunk.endswith(b"\n\n")
            and chunk.startswith(b"data: {")
        ):
            call.last_token = now()  # the usual chunk after the first: one event or more, whole
            return
        self._look(chunk)

    def end(self) -> None:
        """An event without its blank line is one all the same."""
        if self._rest:
            self._event(self._rest)
            self._rest = b""

    def _look(self, chunk: bytes) -> None:
        *events, rest = _EVENT_END.split(self._rest + chunk if self._rest else chunk)
        self._rest = rest if len(rest) <= _LONGEST_EVENT else rest[:64]
        for event in events:
            self._event(event)

    def _event(self, event: bytes) -> None:
        if not event.startswith(b"data:"):
            event = b"\n".join(line for line in event.splitlines() if line.startswith(b"data:"))
        data = event[5:].strip()
        if not data.startswith(b"{"):
            return  # a comment that keeps the connection alive, or [DONE]
        call = self._call
        if call.first_token is not None and b'"usage"' not in data:
            call.last_token = now()
            return
        try:
            found = _decode_event(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if found.usage is not None:
            _note_usage(call, found.usage)
        if _holds_token(found):
            call.last_token = now()
            if call.first_token is None:
                call.first_token = call.last_token
                self._first_token(call)


class Whole:
    """An answer that comes as one JSON document: its usage stands near its end."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._tail = b""

    def see(self, chunk: bytes) -> None:
        """Keep the end of what is sent."""
        self._tail = (self._tail + chunk)[-_TAIL:] if len(chunk) < _TAIL else chunk[-_TAIL:]

    def end(self) -> None:
        """Read the usage, the last one that stands there."""
        starts = [found.end() for found in _USAGE.finditer(self._tail)]
        if starts:
            with contextlib.suppress(msgspec.DecodeError):
                _note_usage(self._call, _decode_usage(self._tail[starts[-1] : _closing(self._tail, starts[-1])]))
        self._tail = b""


def _closing(text: bytes, start: int) -> int:
    """Where the object that begins at ``start`` ends; usage holds numbers and objects of numbers."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] == 0x7B:
            depth += 1
        elif text[at] == 0x7D:
            depth -= 1
            if not depth:
                return at + 1
    return len(text)


def eyes(call: Call, headers: Iterable[tuple[bytes, bytes]], first_token: Callable[[Call], None]) -> Eyes | None:
    """Who can read an answer with these headers; None where nobody can (it is compressed, or no text of an API).

    ``first_token``: told as the first token of a stream comes.
    """
    named = {name.lower(): value.lower() for name, value in headers}
    if named.get(b"content-encoding", b"identity") != b"identity":
        return None
    kind = named.get(b"content-type", b"")
    if kind.startswith(b"text/event-stream"):
        return Stream(call, first_token)
    return Whole(call) if kind.startswith(b"application/json") else None
