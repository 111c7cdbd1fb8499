"""The values that pass between a trace receiver and a page: one request as its span told it, and what was not one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from llmvitals.series import Exemplar, Series


class Vantage(StrEnum):
    """Who timed a request."""

    ENGINE = "engine"  # the server that computed it: its queue, prefill and decode
    GATEWAY = "gateway"  # what its callers see
    CLIENT = "client"  # who called


class Ended(StrEnum):
    """How a request ended."""

    OK = "ok"
    ERROR = "error"  # 5xx other than a refusal, or an error inside the stream
    REFUSED = "refused"  # 429, 503
    CLIENT_ERROR = "client-error"  # 4xx: the caller's own fault, no promise was broken
    LEFT = "left"  # the caller went away


Attributes = tuple[tuple[str, str], ...]
"""Attributes of a resource as text, sorted by name."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request (of vLLM: one sequence) as a span told it. Times in seconds, None where the span does not say.

    ``dialect``: whose words the span speaks. ``start``, ``end``: unix seconds. Ids are lower-case hex, ``parent_id`` '' for a root.
    ``decode`` is from the first token to the last; ``e2e`` from arrival to the last token (else the span's own length).
    ``sequences``: how many answers the output tokens are of (n).
    """

    dialect: str
    vantage: Vantage
    trace_id: str
    span_id: str
    parent_id: str
    start: float
    end: float
    ended: Ended = Ended.OK
    ttft: float | None = None
    e2e: float | None = None
    queue: float | None = None
    prefill: float | None = None
    decode: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    model: str = ""
    tenant: str = ""
    route: str = ""
    sequences: int = 1

    @property
    def tpot(self) -> float | None:
        """Seconds per output token after the first; 0 where there was no second, None where it is not known.

        Of several answers at once it is not: the tokens are of all, the time is that of the longest.
        """
        if self.output_tokens is None or self.sequences > 1:
            return None
        if self.output_tokens < 2:
            return 0.0
        decode = self.decode
        if decode is None and self.ttft is not None and self.e2e is not None:
            decode = self.e2e - self.ttft
        return None if decode is None else max(decode, 0.0) / (self.output_tokens - 1)


@dataclass(frozen=True, slots=True)
class Sent:
    """What one resource (a process) sent in one export."""

    resource: Attributes
    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """One export, decoded. ``other``: spans that are no request, by scope or name's kind (start-up, tools), which is no loss;
    ``refused``: request spans that could not be used, by reason. ``spans``: all of them.
    """

    sent: tuple[Sent, ...] = ()
    other: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    spans: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """What is known of a target, to find which senders are its processes.

    ``attributes``: what its settings say (:attr:`Target.spans`); ``host``, ``port``: of its address; ``pids``: process ids of this
    machine (host namespace); ``pod``: ``namespace/name``, and ``pod_uid``; ``node``: the name of the machine that the pids are of.
    ``models``: those that its page names. ``kind``: kind of engine or gateway, '' where not known; ``labels``: all that its
    samples carry beside ``model`` and ``rank``.
    """

    instance: str
    kind: str = ""
    gateway: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    port: int = 0
    pids: frozenset[int] = frozenset()
    pod: str = ""
    pod_uid: str = ""
    node: str = ""
    models: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shown:
    """What spans add to one target's page."""

    samples: Mapping[Series, float] = field(default_factory=dict)
    exemplars: Mapping[Series, Exemplar] = field(default_factory=dict)
