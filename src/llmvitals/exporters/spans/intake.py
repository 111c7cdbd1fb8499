"""What both receivers hand their exports to: bytes in memory are bounded, one thread decodes, every export is counted.

Nothing is acknowledged before it is counted: an answer is there only once the ledger has the spans. What does not fit is
refused at once, and the sender told to come again, so that memory is bounded by the settings and nothing piles up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Protocol

from llmvitals.errors import SpansError
from llmvitals.exporters.logs import log
from llmvitals.exporters.spans.result import RETRY_SECONDS, TAKEN, Answer, Result, refusals
from llmvitals.exporters.spans.unpack import TooLargeError, claimed, unpacked
from llmvitals.settings import Spans
from llmvitals.telemetry.spans.decode import decode
from llmvitals.telemetry.spans.model import Batch, Place, Shown

QUIET_SECONDS = 60.0
"""A refusal of one kind is logged once in so long, however often it happens; all are counted."""


class LedgerLike(Protocol):
    """Where spans are kept, see :class:`llmvitals.telemetry.spans.ledger.Ledger`."""

    def take(self, batch: Batch, peer: str) -> None:
        """Count what one export holds."""

    def settle(self) -> None:
        """Count what has waited long enough for its caller's span."""

    def shown(self, places: Sequence[Place]) -> dict[str, Shown]:
        """What belongs on each target's page, by instance."""


class Hold:
    """The bytes of one export that are in memory. Only its handler grows it; who has it last lets go of it, once."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.size = 0

    def grow(self, to: int) -> bool:
        """Take room for ``to`` bytes in all; False where there is none."""
        if not self._intake._reserve(to - self.size, first=self.size):
            return False
        self.size = max(to, self.size)
        return True

    def drop(self) -> None:
        """Give the room back."""
        self._intake._release(self.size)
        self.size = 0


@dataclass(slots=True)
class _Export:
    """One export that waits for its turn."""

    body: bytes
    packed: bool
    protocol: str
    peer: str
    hold: Hold
    answer: Future[Answer] = field(default_factory=Future)


class Intake:
    """Takes exports in from any thread. ``decode`` replaces the decoder; :meth:`close` ends the thread that decodes."""

    def __init__(
        self,
        ledger: LedgerLike,
        config: Spans,
        *,
        decode: Callable[[bytes, Spans], Batch] = decode,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self._ledger = ledger
        self._decode = decode
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[_Export | None] = SimpleQueue()
        self._exports: Counter[tuple[str, Result]] = Counter()
        self._told: dict[tuple[str, Result], float] = {}
        self._lost = 0
        self._pending = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def pending(self) -> int:
        """Bytes in memory that are not worked through."""
        return self._pending

    @property
    def lost(self) -> int:
        """Spans that were decoded and that the ledger failed to take, which is a fault of ours."""
        return self._lost

    def exports(self) -> dict[tuple[str, Result], int]:
        """Exports so far by protocol and result."""
        with self._lock:
            return dict(self._exports)

    def hold(self) -> Hold:
        """Room for one export that begins to arrive; none is taken yet."""
        return Hold(self)

    def take(
        self, body: bytes, protocol: str, peer: str, *, packed: bool = False, hold: Hold | None = None
    ) -> Future[Answer]:
        """Have an export decoded and counted. ``peer``: the sender's IP; ``hold``: what its bytes hold already.

        Never waits and never raises. The answer says busy at once where there is no room. Who cancels it before its turn
        came is a sender that went away: it was not told that we have the spans, and neither have we.
        """
        hold = hold or self.hold()
        most = self.config.max_body_bytes
        if len(body) > most:
            return self._refused(hold, protocol, Answer(Result.TOO_LARGE, self.too_large()))
        if not hold.grow(claimed(body, most) if packed else len(body)):
            return self._refused(hold, protocol, Answer(Result.BUSY, self.busy()))
        export = _Export(body, packed, protocol, peer, hold)
        with self._lock:
            if not self._closed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="spans", daemon=True)
                    self._thread.start()
                self._waiting.put(export)
                return export.answer
        return self._refused(hold, protocol, Answer(Result.BUSY, "the exporter is ending"))

    def count(self, protocol: str, result: Result, message: str = "") -> None:
        """Count an export that never got as far as :meth:`take`."""
        now = self._monotonic()
        key = (protocol, result)
        with self._lock:
            self._exports[key] += 1
            tell = result not in TAKEN and now - self._told.get(key, now - QUIET_SECONDS) >= QUIET_SECONDS
            if tell:
                self._told[key] = now
            count = self._exports[key]
        if tell:
            level = logging.ERROR if result is Result.FAILED else logging.WARNING
            log(
                "span-export-refused",
                level=level,
                protocol=protocol,
                result=result.value,
                exports=count,
                detail=message,
            )

    def shown(self, places: Sequence[Place]) -> dict[str, Shown]:
        """What belongs on each target's page now. Called once per cycle."""
        ledger = self._ledger
        ledger.settle()
        return ledger.shown(places)

    def reload(self, config: Spans, ledger: LedgerLike) -> None:
        """Use other settings and another ledger from the next export on; what is under way reaches the one before."""
        self._ledger, self.config = ledger, config

    def close(self, seconds: float) -> None:
        """Work off what waits, for at most ``seconds``, and end. What comes later is told to come again."""
        with self._lock:
            self._closed, thread = True, self._thread
        self._waiting.put(None)
        if thread is not None:
            thread.join(seconds)

    def too_large(self) -> str:
        """What a sender of too much is told."""
        return (
            f"an export may hold {self.config.max_body_bytes} bytes, unpacked. Send fewer spans at once "
            "(OTEL_BSP_MAX_EXPORT_BATCH_SIZE), or raise spans.max_body_bytes."
        )

    def busy(self) -> str:
        """What a sender is told for whom there is no room now."""
        return f"no room for this export now; send it again in {RETRY_SECONDS} s"

    def _reserve(self, more: int, *, first: int) -> bool:
        with self._lock:
            # One export alone always fits: a bound below the largest body must not refuse it for ever.
            if more > 0 and self._pending > first and self._pending + more > self.config.max_pending_bytes:
                return False
            self._pending += max(more, 0)
            return True

    def _release(self, size: int) -> None:
        with self._lock:
            self._pending -= size

    def _refused(self, hold: Hold, protocol: str, answer: Answer) -> Future[Answer]:
        hold.drop()
        self.count(protocol, answer.result, answer.message)
        told: Future[Answer] = Future()
        told.set_result(answer)
        return told

    def _work(self) -> None:
        while (export := self._waiting.get()) is not None:
            if not export.answer.set_running_or_notify_cancel():
                export.hold.drop()
                self.count(export.protocol, Result.INCOMPLETE, "the sender went away")
                continue
            answer = self._worked(export)
            export.hold.drop()
            self.count(export.protocol, answer.result, answer.message)
            export.answer.set_result(answer)

    def _worked(self, export: _Export) -> Answer:
        try:
            body = unpacked(export.body, self.config.max_body_bytes) if export.packed else export.body
        except TooLargeError:
            return Answer(Result.TOO_LARGE, self.too_large())
        except ValueError as error:
            return Answer(Result.MALFORMED, str(error))
        spans = 0
        try:
            batch = self._decode(body, self.config)
            spans = batch.spans
            self._ledger.take(batch, export.peer)
        except SpansError as error:
            return Answer(Result.MALFORMED, error.thing)
        except Exception as error:  # a fault of ours ends neither the thread nor what others send
            self._lost += spans
            return Answer(Result.FAILED, f"{type(error).__name__} in {_where(error)}")
        rejected = sum(batch.refused.values())
        return Answer(Result.PARTIAL if rejected else Result.OK, refusals(batch.refused.items()), rejected)


def _where(error: BaseException) -> str:
    """The function that raised; never what the error says, which may quote what somebody sent."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_qualname}, line {trace.tb_lineno}" if trace is not None else "an unknown place"
