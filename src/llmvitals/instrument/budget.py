"""Tokens set aside for calls in hand, against what may be set aside at once."""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.instrument.call import Call
from llmvitals.instrument.refusals import Full


@dataclass(slots=True)
class Budget:
    """``limit``: tokens, None: none. ``open_tokens``: what a call without ``max_tokens`` is taken to generate at most.

    Not safe for threads: who books holds a lock around it.
    """

    limit: int | None
    open_tokens: int
    reserved: int = 0

    def needs(self, call: Call, prompt: int) -> int:
        """Tokens that a call may come to hold: for each answer asked for, its prompt and all that it may generate."""
        generated = call.max_tokens if call.max_tokens is not None else self.open_tokens
        return prompt * call.choices + generated * call.sequences

    def reserve(self, call: Call, prompt: int) -> None:
        """Set a call's tokens aside. Raises :class:`Full` (reason ``tokens``) when they do not fit; once per call."""
        needed = self.needs(call, prompt) - call.reserved
        if self.limit is not None and self.reserved + needed > self.limit:
            left = max(0, self.limit - self.reserved)
            raise Full(f"the call may need {needed} tokens and {left} are left", reason="tokens", retry_after=1.0)
        self.book(call, prompt)

    def book(self, call: Call, prompt: int) -> None:
        """Set a call's tokens aside whether they fit or not: it was sent on without asking."""
        needed = self.needs(call, prompt)
        self.reserved += needed - call.reserved
        call.reserved = needed

    def release(self, call: Call) -> None:
        """The call has ended: what it did not use is free again, and what it used as well."""
        self.reserved -= call.reserved
        call.reserved = 0
