"""What was promised to one request, and whether it was kept: exact where its times are known, else by what bounds them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from llmvitals.settings import Slo
from llmvitals.slo import Promise, promise_of
from llmvitals.telemetry.spans.model import Ended, Request

YES, NO, UNKNOWN = "yes", "no", "unknown"
"""Values of the label ``met``."""

FAILED = "failed"
"""The objective that a request misses when it ends in an error or is refused."""

NOBODYS_FAULT = frozenset({Ended.CLIENT_ERROR, Ended.LEFT})
"""Ends that break no promise: the caller's own mistake, and a caller that went away."""

_REMEMBERED = 4096

Limits = tuple[tuple[str, float], ...]
"""A promise's thresholds by objective, in seconds."""


def judged(request: Request, limits: Limits, floor: float | None = None) -> tuple[str, tuple[str, ...]]:
    """Whether a request met every threshold (a value at one meets it), and which it missed.

    ``floor``: seconds before which its first token cannot have come. A time that is not known is judged by what bounds it: the
    first token lies between ``floor`` and the whole answer, the whole answer is no shorter than the first token took, and the
    time per token is at most the whole answer over the tokens after the first. Where that does not settle it, nothing does.
    """
    if request.ended is not Ended.OK:
        return NO, (FAILED,)
    ttft, tpot, e2e = request.ttft, request.tpot, request.e2e
    if ttft is None or tpot is None or e2e is None:
        return _bounded(limits, _bounds(request, ttft, tpot, e2e, floor))
    exact = {"ttft": ttft, "tpot": tpot, "e2e": e2e}
    missed = tuple(name for name, limit in limits if exact[name] > limit)
    return (NO if missed else YES), missed


def _bounds(
    request: Request, ttft: float | None, tpot: float | None, e2e: float | None, floor: float | None
) -> Mapping[str, tuple[float, float]]:
    whole = math.inf if e2e is None else e2e
    least = ttft if ttft is not None else min(floor or 0.0, whole)
    after_first = max((request.output_tokens or 0) - 1, 0) if request.sequences == 1 else 0
    slowest = whole / after_first if after_first else math.inf
    return {
        "ttft": (least, whole) if ttft is None else (ttft, ttft),
        "tpot": (0.0, slowest) if tpot is None else (tpot, tpot),
        "e2e": (least, math.inf) if e2e is None else (e2e, e2e),
    }


def _bounded(limits: Limits, bounds: Mapping[str, tuple[float, float]]) -> tuple[str, tuple[str, ...]]:
    missed = tuple(name for name, limit in limits if bounds[name][0] > limit)
    if missed:
        return NO, missed
    return (YES if all(bounds[name][1] <= limit for name, limit in limits) else UNKNOWN), ()


class Classes:
    """The promise to each request, remembered, since few kinds of them make up all."""

    def __init__(self, slo: Slo) -> None:
        self._slo = slo
        self._none = msgspec.structs.replace(slo, classes=tuple(one for one in slo.classes if not one.models))
        every = tuple(msgspec.structs.replace(one, models=("*",)) if one.models else one for one in slo.classes)
        self._all = msgspec.structs.replace(slo, classes=every)
        self._known: dict[tuple[str, tuple[str, ...], str, str], Promise | None] = {}

    @property
    def inherited(self) -> bool:
        """Whether any class asks for what only a gateway knows of a request."""
        return any(one.tenants or one.routes for one in self._slo.classes)

    def of(self, model: str, models: tuple[str, ...], tenant: str, route: str) -> Promise | None:
        """The promise to a request. ``model`` '' : it does not name its model, which is one of ``models`` (none: nobody knows).

        None where what nobody knows decides it.
        """
        key = (model, models, tenant, route)
        try:
            return self._known[key]
        except KeyError:
            pass
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        found = self._known[key] = self._found(model, models, tenant, route)
        return found

    def _found(self, model: str, models: tuple[str, ...], tenant: str, route: str) -> Promise | None:
        if model or models:
            named = (model,) if model else models
            found = {promise_of(self._slo, model=one, tenant=tenant, route=route) for one in named}
        else:  # a class that asks for models may take it or not: what it comes to if all do, and if none does
            found = {promise_of(slo, tenant=tenant, route=route) for slo in (self._all, self._none)}
        return found.pop() if len(found) == 1 else None
