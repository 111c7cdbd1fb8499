"""One call in the gateway's hands: when it came, what it asks for, and how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span

now = time.monotonic
"""The clock of every duration here (seconds; no wall clock, so that no correction of it makes a wait)."""


class State(StrEnum):
    """Where a call is."""

    CAME = "came"
    WAITING = "waiting"  # in the gateway's queue
    SENT = "sent"  # sent on, not answered yet
    ENDED = "ended"


@dataclass(slots=True, eq=False)
class Call:
    """What the kit knows of a call. Moments on :data:`now`'s clock, durations in seconds.

    ``began``: its arrival as unix time (nanoseconds). ``choices``: answers asked for by prompt (``n``); ``sequences``: by all of
    its prompts. ``max_tokens``: None where it sets no limit. ``prompt_chars``: characters of the prompt; ``shared``: share of them
    in text that earlier prompts begin with. ``deadline``: when its client stops waiting. ``prompt_tokens``, ``output_tokens``: as
    the engine told them. ``queued``, ``upstream_seconds``: time spent there so far, None where it never was. ``refused``: why the
    gateway gave it up; ``cut``: why its stream was broken off. ``cached``: answered without an engine. ``body``: a hash of what was
    asked, 0 until it was read.
    """

    arrived: float
    began: int = field(default_factory=time.time_ns)
    route: str = ""
    tenant: str = ""
    session: str = ""
    model: str = ""
    stream: bool = False
    choices: int = 1
    sequences: int = 1
    max_tokens: int | None = None
    prompt_chars: int = 0
    shared: float = 0.0
    deadline: float | None = None
    state: State = State.CAME
    status: int | None = None
    first_token: float | None = None
    last_token: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    queued: float | None = None
    upstream_seconds: float | None = None
    reserved: int = 0
    body: int = 0
    refused: str = ""
    cut: str = ""
    left: bool = False
    cached: bool = False
    span: Span | None = None
    _leaving: list[Callable[[], object]] = field(default_factory=list, repr=False)

    def remaining(self) -> float | None:
        """Seconds until its deadline, 0 when that has passed, None without one: a time limit for what is asked of an engine."""
        return None if self.deadline is None else max(0.0, self.deadline - now())

    def sent(self) -> None:
        """It is sent on to an engine now."""
        if self.state in (State.CAME, State.WAITING):
            self.state = State.SENT

    def gone(self) -> None:
        """Its client went away: whoever waits for it is told, once."""
        if not self.left:
            self.left = True
            for told in list(self._leaving):
                told()

    def on_leaving(self, told: Callable[[], object]) -> Callable[[], None]:
        """Have ``told`` called when the client leaves (at once if it has); gives what takes that back."""
        if self.left:
            told()
            return lambda: None
        self._leaving.append(told)
        return lambda: self._leaving.remove(told)

    async def until_left(self) -> None:
        """Wait until the client goes away; for who cancels an engine's work then."""
        gone = asyncio.get_running_loop().create_future()
        forget = self.on_leaving(lambda: None if gone.done() else gone.set_result(None))
        try:
            await gone
        finally:
            forget()


_current: ContextVar[Call | None] = ContextVar("llmvitals_call", default=None)


def current() -> Call | None:
    """The call that this task serves; None outside of one."""
    return _current.get()


def enter(call: Call) -> Token[Call | None]:
    """This task serves a call from now on; tasks and threads that it starts do too."""
    return _current.set(call)


def leave(token: Token[Call | None]) -> None:
    """This task does not serve it any more."""
    _current.reset(token)
