"""Which promise holds for which requests: the classes of the settings, resolved."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from llmvitals.settings import DEFAULT_CLASS, Slo, SloClass


@dataclass(frozen=True, slots=True)
class Promise:
    """What one class of requests was promised. Seconds; ``e2e_seconds`` None: nothing of the whole answer. ``objective``: the share
    of them that must meet all of it.
    """

    name: str
    ttft_seconds: float
    tpot_seconds: float
    e2e_seconds: float | None
    objective: float

    @property
    def thresholds(self) -> tuple[tuple[str, float], ...]:
        """Each threshold by the name of its objective."""
        given = (("ttft", self.ttft_seconds), ("tpot", self.tpot_seconds), ("e2e", self.e2e_seconds))
        return tuple((name, seconds) for name, seconds in given if seconds is not None)


def promises(slo: Slo) -> tuple[Promise, ...]:
    """Every class, in the order in which they take requests; the default one last."""
    return (*(_resolved(slo, one) for one in slo.classes), _default(slo))


def promise_of(slo: Slo, *, model: str = "", tenant: str = "", route: str = "") -> Promise:
    """The promise to a request: of the first class whose patterns match all that they ask for, else the default one."""
    asked = {"models": model, "tenants": tenant, "routes": route}
    for one in slo.classes:
        if all(matches(getattr(one, key), value) for key, value in asked.items()):
            return _resolved(slo, one)
    return _default(slo)


def slo_of_model(slo: Slo, model: str) -> Slo:
    """The thresholds by which a model's own page is judged: those of the class that takes all its requests, if one does.

    A page tells no tenants and no routes, so a class that asks for them takes only some.
    """
    for one in slo.classes:
        if one.models and not (one.tenants or one.routes) and matches(one.models, model):
            found = _resolved(slo, one)
            return msgspec.structs.replace(
                slo, ttft_seconds=found.ttft_seconds, tpot_seconds=found.tpot_seconds, objective=found.objective
            )
    return slo


def matches(patterns: tuple[str, ...], value: str) -> bool:
    """Whether a class that asks for ``patterns`` (shell patterns, none: for nothing) may take requests of this value."""
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)


def _default(slo: Slo) -> Promise:
    return Promise(DEFAULT_CLASS, slo.ttft_seconds, slo.tpot_seconds, None, slo.objective)


def _resolved(slo: Slo, one: SloClass) -> Promise:
    return Promise(
        one.name,
        one.ttft_seconds or slo.ttft_seconds,
        one.tpot_seconds or slo.tpot_seconds,
        one.e2e_seconds,
        one.objective or slo.objective,
    )
