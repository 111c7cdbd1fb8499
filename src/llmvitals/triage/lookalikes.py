"""Causes that look like the leading one and are not it, with the row of evidence that decides between them.

Three kinds: what holds as well and follows from the leading cause (shadowed), what its own exclusion rules out, and what shows
most of its signs and lacks one. Which those are follows from the table of checks; ``ALIKE`` adds what people take for each other
although the checks share little (catalogue of causes, column "look-alike to rule out").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import cache

from llmvitals.triage.changes import Standpoint
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.judge import against
from llmvitals.triage.model import Check
from llmvitals.triage.units import inside, with_unit
from llmvitals.triage.verdict import CheckResult, Evidence, LookAlike, Outcome, State

MOST = 4
"""Look-alikes that are told of one verdict at most."""

COMMON = 3
"""A condition that more checks than this share tells none of them apart."""

CHANCE = "probability"
"""The unit of what says whether a promise is kept: many causes have that in common."""

ALIKE: Mapping[str, tuple[str, ...]] = {
    "not-serving": ("telemetry-broken", "connection-exhaustion", "hardware-event"),
    "hardware-event": ("interconnect-bound", "batch-too-large", "not-serving"),
    "vram-headroom": ("rollout-and-probes", "hardware-event", "kv-cache-saturation"),
    "cold-start": ("api-server-bound", "rollout-and-probes", "prefill-bound"),
    "rollout-and-probes": ("vram-headroom", "not-serving", "connection-exhaustion"),
    "interconnect-bound": ("batch-too-large", "prefill-bound", "hardware-event"),
    "kv-transfer-bound": ("grammar-compilation", "adapter-slots", "prefill-bound"),
    "adapter-slots": ("grammar-compilation", "batch-too-small"),
    "grammar-compilation": ("adapter-slots", "kv-transfer-bound", "cold-start"),
    "retry-storm": ("unbounded-queue", "overloaded-and-shedding", "connection-exhaustion"),
    "runaway-agent": ("noisy-tenant", "uncached-repeats", "fan-out"),
    "noisy-tenant": ("unbounded-queue", "runaway-agent", "retry-storm"),
    "fan-out": ("unbounded-queue", "runaway-agent", "retry-storm"),
    "uncached-repeats": ("runaway-agent", "prefix-cache-miss"),
    "preemption-mode": ("preemption-thrash", "kv-cache-saturation"),
    "preemption-thrash": ("kv-cache-saturation", "preemption-mode", "batch-too-large"),
    "block-fragmentation": ("kv-cache-saturation", "preemption-thrash"),
    "kv-cache-saturation": ("batch-too-small", "preemption-thrash", "block-fragmentation", "prefill-bound"),
    "context-imbalance": ("kv-cache-saturation",),
    "draft-rejected": ("batch-too-large", "prefill-decode-interference"),
    "batch-too-small": ("api-server-bound", "kv-cache-saturation", "prefill-bound"),
    "batch-too-large": ("prefill-decode-interference", "interconnect-bound", "draft-rejected", "hardware-event"),
    "connection-exhaustion": ("api-server-bound", "not-serving", "rollout-and-probes"),
    "api-server-bound": ("connection-exhaustion", "grammar-compilation", "prefill-bound"),
    "prefix-caching-off": ("prefix-cache-miss", "prefill-bound"),
    "prefix-cache-miss": ("prefix-caching-off", "prefill-bound"),
    "prefill-bound": ("prefill-decode-interference", "batch-too-small", "kv-cache-saturation", "prefix-cache-miss"),
    "prefill-decode-interference": ("batch-too-large", "prefill-bound", "draft-rejected"),
    "head-of-line-blocking": ("prefill-bound", "batch-too-small", "kv-cache-saturation"),
    "unbounded-queue": ("overloaded-and-shedding", "retry-storm", "kv-cache-saturation"),
    "ghost-compute": ("retry-storm", "connection-exhaustion", "unbounded-output"),
    "unbounded-output": ("batch-too-large", "fan-out"),
    "telemetry-broken": ("not-serving", "rollout-and-probes"),
    "overloaded-and-shedding": ("unbounded-queue", "retry-storm"),
}
"""What people take for each other, by the cause that leads; the likeliest mistake first."""


def lookalikes(now: Standpoint, mentioned: Collection[str] = ()) -> tuple[LookAlike, ...]:
    """What this verdict could be taken for and is not; ``mentioned``: causes that contribute, and so are no look-alikes."""
    if now.outcome is Outcome.UNDETERMINED:
        return ()
    subject = now.cause or ("overloaded-and-shedding" if now.outcome is Outcome.SHEDDING else "")
    named = ALIKE.get(subject, ())
    found: list[tuple[int, int, LookAlike]] = []
    for place, check in enumerate(CHECKS):
        if check.cause == subject or check.cause in mentioned or not check.when:
            continue
        told = _told(check, now, subject, known=check.cause in named)
        if told is not None:
            kind, alike = told
            found.append((kind, named.index(check.cause) if check.cause in named else len(named) + place, alike))
    return tuple(alike for _, _, alike in sorted(found, key=lambda one: one[:2])[:MOST])


def _told(check: Check, now: Standpoint, subject: str, *, known: bool) -> tuple[int, LookAlike] | None:
    """A check as a look-alike, and how near it comes: 0 holds as well, 1 named in the table, 2 by what it shows."""
    result = now.results[check.cause]
    if result.state is State.SHADOWED and result.reason == f"explained by {subject}":
        return 0, _follows(check, now, subject)
    if result.state is not State.CLEAR:
        return None  # what is not known is no look-alike that was ruled out
    first = next((e for e in result.evidence[len(_rows(check, result)) :] if e.holds), None)
    if first is not None:
        return 0, LookAlike(check.cause, f"{first.title} is {_value(first)}: that rules it out.", first)
    failed = [e for e in result.evidence if e.holds is False]
    if len(failed) > 1 and not known:
        return None
    if not known and not check.leads:
        return None
    telling = [e for e in result.evidence if e.holds and _key(e) not in _common() and e.unit != CHANCE]
    if not failed or failed[0].value is None or not (telling or (known and len(failed) < len(result.evidence))):
        return None
    # the condition that belongs to it alone says more than one that many share
    decides = next((e for e in failed if e.value is not None and _key(e) not in _common()), failed[0])
    return 1 if known else 2, LookAlike(check.cause, _lacks(decides), decides)


def _lacks(e: Evidence) -> str:
    """Why it is not it, by the condition that does not hold."""
    if e.unit == CHANCE and e.limit.startswith("<"):
        return f"{e.title} is {_value(e)}: that promise is kept."
    return f"{against(e)}."


def _follows(check: Check, now: Standpoint, subject: str) -> LookAlike:
    """Why what holds as well is only a consequence: what the leading cause shows beyond it."""
    own = {e.signal for e in now.results[check.cause].evidence}
    rows = [e for e in now.results[subject].evidence if e.holds and e.value is not None]
    beyond = [e for e in rows if e.signal not in own and _key(e) not in _common()]
    decides = next(iter(beyond or [e for e in rows if e.signal not in own] or rows), None)
    number = f": {inside(decides.title)} {_value(decides)} ({decides.limit})" if decides is not None else ""
    return LookAlike(check.cause, f"It shows as well, and follows from {subject}{number}.", decides)


def _rows(check: Check, result: CheckResult) -> tuple[Evidence, ...]:
    """The rows of a result that are conditions of the check: what follows them would rule it out."""
    lengths = {len(rows) for rows in check.when}
    size = len(result.evidence) - len(check.unless)
    return result.evidence[:size] if check.unless and size in lengths else result.evidence


def _key(e: Evidence) -> tuple[str, str]:
    return e.signal, e.limit.split(maxsplit=1)[0]


def _value(e: Evidence) -> str:
    return with_unit(e.value or 0.0, e.unit)


@cache
def _common() -> frozenset[tuple[str, str]]:
    """Conditions (signal and side) that too many checks share to tell any of them apart."""
    counted = Counter(
        key for check in CHECKS for key in {(limit.signal, limit.op) for rows in check.when for limit in rows}
    )
    return frozenset(key for key, n in counted.items() if n > COMMON)
