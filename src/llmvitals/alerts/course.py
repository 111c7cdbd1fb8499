"""How one scope went: what a replay knows at each moment, as frozen values. Made by ``backtest/``, read by ``holds.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmvitals.series import Series


@dataclass(frozen=True, slots=True)
class Moment:
    """One scope at one moment (``t``: unix seconds), as the exporter's page would have shown it.

    ``up``: the target gave a readable page; ``named``: the exporter's page knows the target at all (one that it does not
    know is not up); ``elsewhere``: another target that is up serves its model; ``outcome``: of the verdict, '' where there
    is none; ``leading``: the cause that leads; ``firing``: the causes whose checks fire; ``values``: numbers of signals by
    id (no entry: no number); ``counts``: the series of :func:`llmvitals.alerts.budgets.counted_names`, as they stand.
    """

    t: float
    up: bool = True
    named: bool = True
    elsewhere: bool = False
    outcome: str = ""
    hurt: bool = False
    leading: str = ""
    firing: frozenset[str] = frozenset()
    values: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[Series, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Course:
    """The moments of one scope, oldest first, one for each evaluation of the rules: also where its target is not ``named``."""

    instance: str
    model: str
    moments: tuple[Moment, ...]
