"""What a call asks for, read from its body: the model, limits, and the prompt's text for as long as it takes to hash it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeGuard

import msgspec

Count = Annotated[int, msgspec.Meta(le=1 << 40)]
"""A number that can be: what is larger makes the body one that nobody serves."""


class _Function(msgspec.Struct):
    name: str = ""
    arguments: Any = None


class _ToolCall(msgspec.Struct):
    id: str = ""
    function: _Function | None = None


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None
    tool_calls: list[_ToolCall] | None = None


class _Body(msgspec.Struct):
    model: str = ""
    messages: list[_Message] = []
    prompt: Any = None
    tools: msgspec.Raw = msgspec.Raw()
    stream: bool | None = None
    n: Count | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None


_decode = msgspec.json.Decoder(_Body, strict=False).decode


@dataclass(frozen=True, slots=True)
class Asked:
    """A body that was understood. ``texts``: the prompt's parts in order, held no longer than the caller of :func:`read` does;
    ``tool_calls``: what the latest answer before it called: (id, name and arguments).
    """

    model: str
    stream: bool
    choices: int
    sequences: int
    max_tokens: int | None
    texts: tuple[str, ...]
    tool_calls: tuple[tuple[str, str], ...] = ()

    @property
    def chars(self) -> int:
        """Characters of the prompt."""
        return sum(map(len, self.texts))


def read(body: bytes) -> Asked | None:
    """A body of OpenAI's chat or completions API; None where it is none that can be read."""
    try:
        found = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    tools = bytes(found.tools).decode("utf-8", "replace")
    texts = (*([tools] if tools not in ("", "null") else ()), *_of_messages(found.messages), *_of_prompt(found.prompt))
    limit = found.max_completion_tokens if found.max_completion_tokens is not None else found.max_tokens
    limit = None if limit is not None and limit < 0 else limit  # some take a negative number for none
    n = max(1, found.n or 1)
    sequences = n * (len(found.prompt) if _many(found.prompt) else 1)
    return Asked(found.model, bool(found.stream), n, sequences, limit, texts, tuple(_last_calls(found.messages)))


def _many(prompt: object) -> TypeGuard[list[object]]:
    """Whether a completion's prompt is a list of prompts, and not one of token ids."""
    return isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)


def _of_messages(messages: list[_Message]) -> Iterator[str]:
    for message in messages:
        yield f"{message.role}\n{_text(message.content)}"
        for call in message.tool_calls or ():
            yield _spelled(call)


def _of_prompt(prompt: object) -> Iterator[str]:
    if prompt is None:
        return
    if _many(prompt):
        yield from (_text(each) for each in prompt)
    else:
        yield _text(prompt)


def _text(content: object) -> str:
    """Content as text. Parts that are no text (pictures) stand for themselves as they came."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return "\n".join(str(part["text"]) if "text" in part else _spelt_out(part) for part in content)
    return _spelt_out(content)


def _spelt_out(part: object) -> str:
    return msgspec.json.encode(part, order="deterministic").decode()


def _spelled(call: _ToolCall) -> str:
    if call.function is None:
        return ""
    arguments = call.function.arguments
    return f"{call.function.name}\n{arguments if isinstance(arguments, str) else _spelt_out(arguments)}"


def _last_calls(messages: list[_Message]) -> Iterator[tuple[str, str]]:
    """Tools that the latest answer called. Earlier ones stood in earlier calls of the session already."""
    for message in reversed(messages):
        if message.role == "assistant":
            yield from ((call.id, _spelled(call)) for call in message.tool_calls or ())
            return
        if message.role not in ("tool", "function"):
            return
