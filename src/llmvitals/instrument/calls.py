"""The calls in hand: what comes of each on its way, told by the middleware."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmvitals.instrument.body import Asked
from llmvitals.instrument.budget import Budget
from llmvitals.instrument.call import Call, State
from llmvitals.instrument.counts import FAILED, SERVER_ERROR, Counts
from llmvitals.instrument.refusals import Full
from llmvitals.instrument.repeats import Repeats
from llmvitals.instrument.retries import Failures
from llmvitals.instrument.sessions import Fresh, Sessions, hashed
from llmvitals.instrument.store import Store


class Calls:
    """``live``: calls that have not ended. ``tenanted``, ``sessioned``: whether calls have tenants, and sessions."""

    def __init__(
        self,
        store: Store,
        counts: Counts,
        budget: Budget,
        *,
        prompts: bool,
        failures: Failures,
        clock: Callable[[], float],
    ) -> None:
        self.store = store
        self.counts = counts
        self.budget = budget
        self.sessions = Sessions(clock)
        self.live: set[Call] = set()
        self.tenanted = self.sessioned = self.queued = self._users = False
        self._failures = failures
        self._user_requests = Fresh()
        self._repeats = Repeats() if prompts else None

    def begin(
        self, *, tenanted: bool = False, sessioned: bool = False, users: bool = False, queued: bool = False
    ) -> None:
        """What is known of calls from now on: whose they are, which sessions and requests of users they serve; a queue."""
        with self.store.lock:
            self.tenanted = self.tenanted or tenanted
            self.sessioned = self.sessioned or sessioned
            self.queued = self.queued or queued
            self.counts.begin(tenanted=self.tenanted, queued=self.queued)
            self._users = self._users or users
            if users:
                self.store.claim("llm_gateway_user_requests_total")

    def came(self, call: Call, headers: Mapping[bytes, bytes], user_request: str) -> bool:
        """A call came in; gives whether its headers say that it is made again."""
        with self.store.lock:
            self.live.add(call)
            self.counts.came(call)
            if call.session:
                self.sessions.called(call.tenant, call.session)
            again = self._failures.told(call.tenant, headers)
            # a call that names none is a request by itself: callers that name theirs must not look as if they fanned out
            if self._user_requests.first(hashed(user_request)) if user_request else self._users and not again:
                self.store.add("llm_gateway_user_requests_total")
            if again:
                self.counts.retried(call, by_gateway=False)
        return again

    def asked(self, call: Call, asked: Asked | None, *, again: bool) -> None:
        """A call's body has been read; ``asked`` None where it could not be understood."""
        with self.store.lock:
            if self._failures.repeats(call.body) and not again:
                self.counts.retried(call, by_gateway=False)
            if asked is None:
                return
            call.model, call.stream, call.max_tokens = asked.model, asked.stream, asked.max_tokens
            call.choices, call.sequences, call.prompt_chars = asked.choices, asked.sequences, asked.chars
            if call.session:
                for call_id, spelled in asked.tool_calls:
                    self.sessions.used_tool(call.tenant, call.session, call_id, spelled)
            if self._repeats is not None:
                repeated, call.shared = self._repeats.asked(asked.model, asked.texts)
                if repeated:
                    self.store.add("llm_gateway_exact_repeats_total")

    def reserve(self, call: Call) -> None:
        """Set a call's tokens aside until it ends. Raises :class:`Full` when they do not fit."""
        with self.store.lock:
            try:
                self.budget.reserve(call, self.counts.prompt_tokens(call))
            except Full as full:
                call.refused = full.reason
                raise

    def sent(self, call: Call) -> None:
        """A call is sent on; its tokens are set aside if that was not asked for before."""
        with self.store.lock:
            call.sent()
            if self.budget.limit is not None and not call.reserved:
                self.budget.book(call, self.counts.prompt_tokens(call))

    def ended(self, call: Call, seconds: float) -> None:
        """A call has ended, so many seconds after it came."""
        with self.store.lock:
            self.live.discard(call)
            call.state = State.ENDED
            self.budget.release(call)
            status = call.status or SERVER_ERROR
            if call.body and (status in FAILED or status >= SERVER_ERROR or call.cut):
                self._failures.failed(call.body)
            self.counts.ended(call, seconds)
        self.store.tell()
