"""A request inside the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from llmvitals.simulator.pool import Key
from llmvitals.simulator.workload import Call, Request


@dataclass(slots=True, eq=False)
class Sequence:
    """A request inside the engine. ``computed``: tokens whose KV is in the pool; ``tokens``: prompt plus generated.

    While it decodes, these and ``generated`` are as of the turn ``since``: see :mod:`decoding`, which brings them up to
    date. ``asked``: max_tokens as the engine resolved it; ``limit``: generated tokens at which it ends; ``cached`` and
    ``received``: tokens of its prompt whose KV was in the prefix cache, or came from elsewhere; ``swapped``: its KV is in
    host memory; ``gone``: its client has left. Moments are the engine's own (seconds of simulated time), but ``first_seen``: when
    the API process measured the first token.
    """

    call: Call
    asked: int
    limit: int
    adapter: int
    tokens: int
    queued: float = 0.0
    computed: int = 0
    generated: int = 0
    cached: int = 0
    received: int = 0
    blocks: list[Key | None] = field(default_factory=list)
    scheduled: float | None = None
    first_token: float | None = None
    first_seen: float | None = None
    last_token: float = 0.0
    admission: int = 0  # the how manieth admission its present one is
    preemptions: int = 0
    unreported: int = 0  # preemptions that its next output will report
    decoding: bool = False
    since: int = 0
    due: int = 0  # the turn after which something happens to it
    swapped: bool = False
    gone: bool = False

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self.call.request

    def key(self, index: int, block_tokens: int) -> Key:
        """Under which a full block is published: shared inside the shared prefix, its own elsewhere."""
        request = self.call.request
        if (index + 1) * block_tokens <= request.prefix_tokens:
            return ("prefix", request.stream, request.prefix, index)
        return ("own", request.text, index)
