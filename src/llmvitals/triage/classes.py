"""What each class of requests got of what it was promised: a table beside the verdict, whatever that is."""

from __future__ import annotations

from llmvitals.signals.context import Context
from llmvitals.signals.derived.requests import ClassSeen, by_class
from llmvitals.signals.reading import Reading
from llmvitals.signals.told import REQUESTS
from llmvitals.triage.verdict import ClassShare


def classes(context: Context) -> tuple[ClassShare, ...]:
    """Every class that had requests in the window, the fastest burn first; none where no traces tell, or they have stopped."""
    if REQUESTS not in context.window.names():
        return ()
    found = by_class(context)
    if isinstance(found, Reading):
        return ()
    vantage, seen, held = found
    shares = (_share(one, vantage, str(held.standing)) for one in seen)
    return tuple(sorted(shares, key=lambda one: (-one.burn, one.name)))


def _share(one: ClassSeen, vantage: str, standing: str) -> ClassShare:
    told = one.told
    return ClassShare(
        told.name,
        one.requests,
        one.goodput,
        told.within("ttft"),
        told.within("tpot"),
        told.objective,
        one.burn,
        vantage,
        standing,
    )
