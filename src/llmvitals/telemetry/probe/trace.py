"""The trace of a probe: ids that a receiver of spans can tell from users' by themselves, and the headers that carry them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

DIALECT = "probe"
"""Who tells of the request that a probe was (:attr:`llmvitals.telemetry.spans.model.Request.dialect`)."""

_PREFIX = b"llmprobe".hex()
"""How the trace id of every probe begins. The other half is random, as W3C Trace Context asks of an id's right part."""

_RANDOM_BYTES = 8
_SPAN_BYTES = 8


def is_probe(trace_id: str) -> bool:
    """Whether a trace (id in lower-case hex) is a probe's, of this exporter or of another one.

    It needs no memory: it holds before the probe has ended, after a restart, and with gateways in between.
    """
    return trace_id.startswith(_PREFIX)


@dataclass(frozen=True, slots=True)
class Trace:
    """The ids of one probe, in lower-case hex."""

    trace_id: str
    span_id: str

    @classmethod
    def fresh(cls, random: Callable[[int], bytes] = secrets.token_bytes) -> Trace:
        """New ids; ``random`` gives that many bytes."""
        return cls(_PREFIX + random(_RANDOM_BYTES).hex(), random(_SPAN_BYTES).hex())

    @property
    def headers(self) -> Mapping[str, str]:
        """``traceparent`` with the flag "sampled", so that engines tell of it, and an id that logs can be searched for."""
        return {
            "traceparent": f"00-{self.trace_id}-{self.span_id}-01",
            "X-Request-Id": f"llmvitals-probe-{self.trace_id[len(_PREFIX) :]}",
        }
