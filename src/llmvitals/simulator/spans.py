"""Traces of a simulated deployment: a span of each request that the engine finished, as vLLM sends it (0.32), and one of
each call that the simulated gateway answered, after OpenTelemetry's conventions for generative AI, whose child the engine's is.

An engine's span has the times that its page's histograms observed. Requests that were aborted or refused have none, as with
vLLM. Each process sends its own; what one that is killed had not sent is lost with it.
"""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

from llmvitals.errors import SettingsError
from llmvitals.simulator.gateway import Passage
from llmvitals.simulator.node import FIRST_PID, PIDS_A_START
from llmvitals.simulator.otlp import Attributes, Span, Value, export, messages
from llmvitals.simulator.sequence import Sequence
from llmvitals.simulator.workload import Call
from llmvitals.simulator.world import World

BODY_SPANS = 512
"""Most spans of one export: OpenTelemetry's default (OTEL_BSP_MAX_EXPORT_BATCH_SIZE)."""

BATCH_SECONDS = 5.0
"""How long its batch processor waits by default before it sends what it has (OTEL_BSP_SCHEDULE_DELAY)."""

KEPT = 65_536
"""Spans of a process that are kept for who asks; of more the oldest are lost, and counted."""

DIALECTS = ("vllm", "ray")
LEFT = "499"
SDK = (
    ("telemetry.sdk.language", "python"),
    ("telemetry.sdk.name", "opentelemetry"),
    ("telemetry.sdk.version", "1.45.2"),
)

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
"""W3C Trace Context, version 00."""


@dataclass(frozen=True, slots=True)
class Sending:
    """How spans leave: in a batch every ``delay`` seconds (0: as they end). ``process_id``: what the engine calls itself; None
    takes the simulated machine's.
    """

    delay: float = 0.0
    process_id: int | None = None


@dataclass(slots=True)
class Process:
    """Who sends: its resource's attributes, its instrumentation's name, when it started. ``lost``: spans that nobody got."""

    resource: Attributes
    scope: str
    started: float = 0.0
    spans: list[Span] = field(default_factory=list)
    lost: int = 0

    def add(self, span: Span) -> None:
        """A span has been made; it may end later."""
        if len(self.spans) >= KEPT:
            del self.spans[: KEPT // 16]
            self.lost += KEPT // 16
        self.spans.append(span)

    def leave(self, until: float, delay: float) -> Iterator[list[Span]]:
        """What leaves up to a moment, one export after the other."""
        self.spans.sort(key=lambda span: span.end)
        while self.spans:
            some = self.spans[:BODY_SPANS]
            moment = some[0].end
            if delay > 0:
                turn = self.started + math.ceil((moment - self.started) / delay) * delay
                moment = min(turn, some[-1].end) if len(some) == BODY_SPANS else turn
            if moment > until:
                return
            some = [span for span in some if span.end <= (moment if delay > 0 else until)]
            del self.spans[: len(some)]
            yield some


class Traces:
    """The spans of ``world`` from here on; ``origin``: the unix moment of its time 0.

    Raises :class:`SettingsError` for an engine that sends no such spans, :class:`MissingExtraError` where nothing can write them.
    """

    def __init__(self, world: World, origin: float, sending: Sending) -> None:
        messages()
        dialect = world.setup.engine.dialect
        if dialect not in DIALECTS:
            raise SettingsError(
                f"an engine that speaks as '{dialect}' sends no spans of requests here",
                place="simulate",
                remedy=f"Use one of: {', '.join(DIALECTS)}.",
            )
        self.world = world
        self.sending = sending
        self._origin = round(origin * 1e9)
        self._seed = f"{world.setup.workload.seed}/{origin!r}"
        self._lost = 0
        self._engines: dict[int, Process] = {}  # by how many were before it
        world.listen(on_end=self._ended)
        self._gateway: Process | None = None
        if world.gateway is not None:
            name = world.gateway.config.name
            resource = (*SDK, ("service.instance.id", self._uuid(name)), ("service.name", name))
            self._gateway = Process(resource, "llm-gateway")
            world.gateway.on_answer = self._answered

    @property
    def lost(self) -> int:
        """Spans that nobody asked for in time, or that died with their process."""
        behind = self._gateway.lost if self._gateway is not None else 0
        return self._lost + behind + sum(process.lost for process in self._engines.values())

    def bodies(self, until: float, *, flush: bool = False) -> list[bytes]:
        """Exports (ExportTraceServiceRequest) that leave up to a moment of simulated time and were not given before;
        ``flush``: batches that are not due as well.
        """
        delay, found = 0.0 if flush else self.sending.delay, []
        for number, process in list(self._engines.items()):
            died = self._died(number)
            found += [self._body(process, spans) for spans in process.leave(min(until, died), delay)]
            if died <= until:
                self._lost += process.lost + len(process.spans)
                del self._engines[number]
        if self._gateway is not None:
            found += [self._body(self._gateway, spans) for spans in self._gateway.leave(until, delay)]
        return found

    def _died(self, number: int) -> float:
        restarts, dies = self.world.restarts, self.world.setup.faults.dies_at
        return min(restarts[number].down if number < len(restarts) else math.inf, dies)

    # -- what ends ------------------------------------------------------------------------------------------------
    def _ended(self, sequence: Sequence, end: float, seen: float) -> None:
        """A request of the engine has ended: what vLLM tells of it."""
        call, first, scheduled, first_seen = (
            sequence.call,
            sequence.first_token,
            sequence.scheduled,
            sequence.first_seen,
        )
        context = self._context(call)
        if context is None or first is None or scheduled is None or first_seen is None:
            return
        attributes: Attributes = (
            ("gen_ai.latency.time_to_first_token", first_seen - call.arrived),
            ("gen_ai.latency.e2e", seen - call.arrived),
            ("gen_ai.latency.time_in_queue", scheduled - sequence.queued),
            ("gen_ai.usage.prompt_tokens", call.request.prompt),
            ("gen_ai.usage.completion_tokens", sequence.generated),
            ("gen_ai.latency.time_in_model_prefill", first - scheduled),
            ("gen_ai.latency.time_in_model_decode", end - first),
            ("gen_ai.latency.time_in_model_inference", end - scheduled),
            ("gen_ai.request.id", call.name or f"chatcmpl-{self._hash(8, call, 'id').hex()}"),
            ("gen_ai.request.top_p", 1.0),
            ("gen_ai.request.max_tokens", sequence.asked),
            ("gen_ai.request.temperature", 1.0),
            ("gen_ai.request.n", 1),
        )
        trace, parent = context
        span_id = self._hash(8, call, "engine")
        self._engine().add(Span("llm_request", call.arrived, seen, trace, span_id, parent, attributes))

    def _answered(self, passage: Passage, status: str) -> None:
        """The gateway has answered a call, or its client has left."""
        call, request, now = passage.call, passage.call.request, self.world.now
        attributes: list[tuple[str, Value]] = [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.request.model", self.world.setup.engine.model),
            ("gen_ai.usage.input_tokens", request.prompt),
            ("http.response.status_code", int(status)),
            ("http.route", "/v1/chat/completions"),
            ("llm.tenant", passage.stream.tenant),
            ("llm.route", passage.stream.name),
        ]
        if call.tokens:
            attributes.append(("gen_ai.usage.output_tokens", call.tokens))
        if call.first is not None:
            attributes.append(("gen_ai.response.time_to_first_chunk", call.first - passage.entered))
        if status == LEFT:
            attributes.append(("error.type", "client_disconnected"))
        elif int(status) >= 500:
            attributes.append(("error.type", status))
        if self._gateway is not None:
            ids = self._hash(16, call, "trace"), self._hash(8, call, "gateway"), b""
            name = f"chat {self.world.setup.engine.model}"
            self._gateway.add(Span(name, passage.entered, now, *ids, tuple(attributes), failed=int(status) >= 500))

    # -- who is who -----------------------------------------------------------------------------------------------
    def _context(self, call: Call) -> tuple[bytes, bytes] | None:
        """Trace and parent of an engine's span; None where its caller wants none."""
        given = _TRACEPARENT.fullmatch(call.trace)
        if given is not None:
            trace, parent, flags = (bytes.fromhex(part) for part in given.groups())
            if any(trace) and any(parent):
                return (trace, parent) if flags[0] & 1 else None
        through = self._gateway is not None and not call.name
        return self._hash(16, call, "trace"), self._hash(8, call, "gateway") if through else b""

    def _engine(self) -> Process:
        """The present engine's."""
        number = len(self.world.restarts)
        if number not in self._engines:
            pid = self.sending.process_id
            resource = (
                *SDK,
                ("service.instance.id", self._uuid(f"engine/{number}")),
                ("vllm.instrumenting_module_name", "vllm.llm_engine"),
                ("vllm.process_id", str(FIRST_PID + PIDS_A_START * number if pid is None else pid)),
                ("service.name", "unknown_service:python3.11"),
            )
            self._engines[number] = Process(resource, "vllm.tracing.otel", self.world.started)
        return self._engines[number]

    def _hash(self, size: int, call: Call, what: str) -> bytes:
        text = f"{self._seed}/{call.request.number}/{what}"
        return hashlib.blake2b(text.encode(), digest_size=size).digest()

    def _uuid(self, what: str) -> str:
        return str(
            uuid.UUID(bytes=hashlib.blake2b(f"{self._seed}/{what}".encode(), digest_size=16).digest(), version=4)
        )

    def _body(self, process: Process, spans: list[Span]) -> bytes:
        return export(process.resource, process.scope, spans, self._origin)
