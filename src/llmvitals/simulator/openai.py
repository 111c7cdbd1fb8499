"""The words of OpenAI's API as vLLM speaks it: what is asked for, refusals, whole answers and chunks of a stream.

Prompts are counted and hashed, and kept nowhere; answers are made-up words.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

CHARACTERS_PER_TOKEN = 4
"""As English text has them under most tokenizers, roughly."""

COMPLETION_TOKENS = 16
"""max_tokens of a completion that names none: OpenAI's and vLLM's default."""

_SALT = os.urandom(16)
_SYLLABLES = ("ba", "do", "fe", "gi", "ku", "la", "mo", "ne", "pi", "ru", "sa", "to", "vi", "we", "xa", "zu")


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """A call that is answered with an error: ``status``, OpenAI's ``kind`` of error, the parameter it is about."""

    def __init__(
        self, message: str, status: int = 400, kind: str = "BadRequestError", about: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.about = about

    def body(self) -> dict[str, Any]:
        """As vLLM says it."""
        return {"error": {"message": str(self), "type": self.kind, "param": self.about, "code": self.status}}


class _Options(msgspec.Struct):
    include_usage: bool | None = False


class _Body(msgspec.Struct):
    model: str | None = None
    messages: list[dict[str, Any]] | None = None
    prompt: Any = None
    stream: bool | None = False
    stream_options: _Options | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A call as it was asked for. ``prompt``: tokens; ``text``: a number that is the same for the same prompt, below 0."""

    chat: bool
    prompt: int
    text: int
    max_tokens: int | None
    stream: bool
    usage: bool


def read(raw: bytes, *, chat: bool, model: str, longest: int) -> Asked:
    """Read a body. Raises :class:`Refused` for what vLLM refuses, and for several choices."""
    try:
        body = msgspec.json.decode(raw, type=_Body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(f"The body is no request that can be read: {error}") from None
    if body.model is not None and body.model != model:
        raise Refused(f"The model `{body.model}` does not exist.", 404, "NotFoundError", "model")
    if body.n not in (1, None):
        raise Refused(f"n is {body.n}, and this server answers with one choice: leave n out.", about="n")
    most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    if most is not None and most < 1:
        raise Refused(f"max_tokens must be at least 1, got {most}.", about="max_tokens")
    if most is None and not chat:
        most = COMPLETION_TOKENS
    parts = _messages(body.messages) if chat else _prompt(body.prompt)
    tokens = max(1, sum(len(part) // (1 if isinstance(part, list) else CHARACTERS_PER_TOKEN) for part in parts))
    if tokens + (most or 1) > longest:
        told = f"you asked for {most} output tokens and " if most is not None else ""
        raise Refused(
            f"This model's maximum context length is {longest} tokens, but {told}your prompt has {tokens} input tokens.",
            about="max_tokens" if tokens < longest else "input_tokens",
        )
    digest = hashlib.blake2b(repr(parts).encode(errors="surrogatepass"), digest_size=8, key=_SALT).digest()
    options = body.stream_options or _Options()
    stream = bool(body.stream)
    return Asked(chat, tokens, -1 - int.from_bytes(digest), most, stream, stream and bool(options.include_usage))


def _messages(messages: list[dict[str, Any]] | None) -> list[str | list[Any]]:
    if not messages:
        raise Refused("messages must hold at least one message.", about="messages")
    found: list[str | list[Any]] = []
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        for part in parts:
            text = part.get("text") if isinstance(part, Mapping) else None
            if not isinstance(text, str):
                raise Refused("content must be text, or a list of parts of type text.", about="messages")
            found.append(text)
    return found


def _prompt(prompt: object) -> list[str | list[Any]]:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        return [prompt]
    raise Refused("prompt must be one text, or one list of token ids.", about="prompt")


def word(number: int, place: int) -> str:
    """The word at a place of an answer: made up, and the same again for the same call."""
    at = (number * 31 + place * 7) % 256
    return ("" if place == 0 else " ") + _SYLLABLES[at % 16] + _SYLLABLES[at // 16]


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of one call. ``name``: its id; ``created``: unix seconds; ``number``: what its words are made of."""

    name: str
    model: str
    created: int
    chat: bool
    number: int
    prompt: int

    _OBJECTS: ClassVar[Mapping[bool, tuple[str, str]]] = {
        True: ("chat.completion", "chat.completion.chunk"),
        False: ("text_completion", "text_completion"),
    }

    def usage(self, tokens: int) -> dict[str, Any]:
        """Tokens of the whole call."""
        return {"prompt_tokens": self.prompt, "total_tokens": self.prompt + tokens, "completion_tokens": tokens}

    def whole(self, tokens: int, reason: str) -> dict[str, Any]:
        """The answer to a call that does not stream."""
        text = "".join(word(self.number, place) for place in range(tokens))
        said = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": reason, "stop_reason": None}
        return self._of(0, [choice]) | {"usage": self.usage(tokens)}

    def role(self) -> dict[str, Any]:
        """What a chat's stream begins with."""
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return self._of(1, [choice])

    def token(self, place: int, reason: str | None) -> dict[str, Any]:
        """The chunk of one token; the last one says why it is."""
        text = word(self.number, place)
        said = {"delta": {"content": text}} if self.chat else {"text": text}
        return self._of(1, [{"index": 0, **said, "logprobs": None, "finish_reason": reason}])

    def counted(self, tokens: int) -> dict[str, Any]:
        """The last chunk, for who asked for the usage."""
        return self._of(1, []) | {"usage": self.usage(tokens)}

    def _of(self, form: int, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = self._OBJECTS[self.chat][form]
        return {"id": self.name, "object": kind, "created": self.created, "model": self.model, "choices": choices}


def event(said: Mapping[str, Any]) -> bytes:
    """One event of a stream."""
    return b"data: " + msgspec.json.encode(said) + b"\n\n"


DONE = b"data: [DONE]\n\n"
