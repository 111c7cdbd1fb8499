"""What happens to calls, as counts of the contract's families."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from http import HTTPStatus

from llmvitals.gaps import GapKind
from llmvitals.instrument.call import Call
from llmvitals.instrument.refusals import Left
from llmvitals.instrument.store import NONE, Labels, Point, Store
from llmvitals.instrument.tenants import OTHER, TopTenants
from llmvitals.schema import LARGE_PROMPT_TOKENS

_log = logging.getLogger(__name__)

CLIENT_LEFT = Left.status
SERVER_ERROR = 500
FAILED = frozenset({429, CLIENT_LEFT})
"""Statuses besides 5xx after which a client tries again: refused, or given up at its own timeout."""

_STATUSES = frozenset(str(int(status)) for status in HTTPStatus) | {str(CLIENT_LEFT)}
_FROM_USAGE = (
    "llm_gateway_tokens_total",
    "llm_gateway_prompt_tokens_total",
    "llm_gateway_shared_prefix_tokens_total",
    "llm_gateway_tpot_seconds",
)
_BY_TENANT: Mapping[str, Labels] = {
    "llm_gateway_requests_total": (("status", "200"),),
    "llm_gateway_retries_total": NONE,
    "llm_gateway_tokens_total": NONE,
    "llm_gateway_queue_seconds": NONE,
}
_DROPPED = ("full", "ttl", "left")
_UNTOLD_AT_MOST = 0.05  # of the latest answers: with more of them untold, a sum of tokens says nothing
_LATEST = 1000
_NO_USAGE = "answers end without usage: have the engine tell it (stream_options.include_usage)"


def status_label(status: int) -> str:
    """An HTTP status as it is shown: numbers that are none of HTTP's by their class."""
    return str(status) if str(status) in _STATUSES else f"{min(max(status // 100, 1), 5)}xx"


class Counts:
    """Counts into ``store``. ``prompts``: whether an eye is on what calls ask; ``without_usage``: answers of which the engine told
    no usage.
    """

    def __init__(self, store: Store, tenants: TopTenants, *, prompts: bool) -> None:
        self._store = store
        self._tenants = tenants
        self._prompts = prompts
        self._told = self._untold = 0
        self.without_usage = 0
        self._chars = self._tokens = 0.0
        tenants.gone = lambda name: store.forget(("tenant", name))
        for family in ("calls", "disconnects", "prompt_tokens"):
            store.claim(f"llm_gateway_{family}_total")
        store.claim("llm_gateway_streams_cut_total", (("reason", "timeout"),), (("reason", "upstream"),))
        store.claim("llm_gateway_ttft_seconds", (("size", "small"),), (("size", "large"),))
        store.claim("llm_gateway_request_seconds")
        store.claim("llm_gateway_tpot_seconds")
        if prompts:
            for family in ("exact_repeats", "shared_prefix_tokens", "cache_hits"):
                store.claim(f"llm_gateway_{family}_total")
        store.withheld.update(dict.fromkeys(_FROM_USAGE, lambda: not self.usage_is_told))

    def begin(self, *, tenanted: bool, queued: bool) -> None:
        """Show what is counted by tenant and of a queue, 0 from now on."""
        other: Labels = (("tenant", OTHER),)
        for family, labels in _BY_TENANT.items():
            if queued or family != "llm_gateway_queue_seconds":
                self._store.claim(family, (*other, *labels) if tenanted else labels)
            if tenanted:
                self._store.unclaim(family, labels)
        if queued:
            self._store.claim("llm_gateway_queue_dropped_total", *((("reason", reason),) for reason in _DROPPED))

    def whose(self, call: Call) -> Labels:
        """The label for the tenant of a call; none where it has none."""
        with self._store.lock:
            label = self._tenants.label(call.tenant)
        return (("tenant", label),) if label else NONE

    @property
    def usage_is_told(self) -> bool:
        """Whether the engine tells what its answers took, of nearly all of the latest ones."""
        return self._untold <= _UNTOLD_AT_MOST * (self._told + self._untold)

    def gaps(self) -> Iterator[Point]:
        """Families that are withheld now, and why."""
        if not self.usage_is_told:
            for family in _FROM_USAGE:
                if family in self._store.counters or family in self._store.histograms:
                    yield (("family", family), ("gap", GapKind.MISSING.value), ("reason", _NO_USAGE)), 1.0

    def prompt_tokens(self, call: Call) -> int:
        """Prompt tokens as the engine told them; before that by the characters that a token had so far, at first four."""
        if call.prompt_tokens is not None:
            return call.prompt_tokens
        return round(call.prompt_chars * self._tokens / self._chars if self._chars else call.prompt_chars / 4)

    def came(self, call: Call) -> None:
        """A call came in."""
        self._store.add("llm_gateway_calls_total")
        self.whose(call)

    def retried(self, call: Call | None, *, by_gateway: bool) -> None:
        """A call repeats one that failed."""
        whose = NONE if call is None else self.whose(call)
        self._store.add("llm_gateway_retries_total", 1, (*whose, ("by", "gateway")) if by_gateway else whose)

    def waited(self, call: Call | None, seconds: float) -> None:
        """A call left the queue after so many seconds, sent on or given up."""
        if call is not None:
            call.queued = (call.queued or 0.0) + seconds
        self._store.observe("llm_gateway_queue_seconds", seconds, NONE if call is None else self.whose(call))
        self._store.tell()

    def dropped(self, call: Call | None, reason: str) -> None:
        """The queue gave a call up: full, ttl or left."""
        if call is not None:
            call.refused = reason
        self._store.add("llm_gateway_queue_dropped_total", 1, (("reason", reason),))

    def first_token(self, call: Call) -> None:
        """The first token of a stream came."""
        if call.first_token is not None:
            size = "small" if self.prompt_tokens(call) < LARGE_PROMPT_TOKENS else "large"
            self._store.observe("llm_gateway_ttft_seconds", call.first_token - call.arrived, (("size", size),))
            self._store.tell()

    def ended(self, call: Call, seconds: float) -> None:
        """A call ended, so many seconds after it came."""
        whose, status = self.whose(call), call.status or SERVER_ERROR
        with self._store.lock:
            self._store.add("llm_gateway_requests_total", 1, (*whose, ("status", status_label(status))))
            self._store.observe("llm_gateway_request_seconds", seconds)
            if call.left:
                self._store.add("llm_gateway_disconnects_total")
            elif call.cut:
                self._store.add("llm_gateway_streams_cut_total", 1, (("reason", call.cut),))
            if call.upstream_seconds is not None:
                own = seconds - (call.queued or 0.0) - call.upstream_seconds
                self._store.observe("llm_gateway_overhead_seconds", max(0.0, own))
            if not call.cached:
                self._usage(call)

    def _usage(self, call: Call) -> None:
        were_told = self.usage_is_told
        if call.prompt_tokens is None or call.output_tokens is None:
            if call.status == HTTPStatus.OK and not call.cut:
                self._untold += 1
                self.without_usage += 1
        else:
            self._told += 1
            self._learn(call)
            self._used(call, call.prompt_tokens, call.output_tokens)
        if self._told + self._untold > _LATEST:
            self._told, self._untold = self._told // 2, self._untold // 2
        if were_told and not self.usage_is_told:
            _log.warning("%s; tokens are not shown meanwhile (%d calls so far)", _NO_USAGE, self.without_usage)

    def _used(self, call: Call, prompt: int, output: int) -> None:
        label = self._tenants.used(call.tenant, prompt + output)
        self._store.add("llm_gateway_tokens_total", prompt + output, (("tenant", label),) if label else NONE)
        self._store.add("llm_gateway_prompt_tokens_total", prompt)
        if self._prompts:
            self._store.add("llm_gateway_shared_prefix_tokens_total", prompt * call.shared)
        each = output / call.sequences  # sequences of one call come side by side
        if each >= 2 and call.first_token is not None and call.last_token is not None and not call.left:
            self._store.observe("llm_gateway_tpot_seconds", (call.last_token - call.first_token) / (each - 1))

    def _learn(self, call: Call) -> None:
        if call.prompt_chars and call.prompt_tokens:
            self._chars, self._tokens = 0.99 * self._chars + call.prompt_chars, 0.99 * self._tokens + call.prompt_tokens
