"""Who of several replicas of one model is different, in what, and what its own numbers say of why.

Compared is each replica with its peers by median and median absolute deviation, as in the Hampel identifier (F. R. Hampel,
"The influence curve and its role in robust estimation", JASA 69, 1974; L. Davies and U. Gather, "The identification of
multiple outliers", JASA 88, 1993).
"""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.triage.replica import Fleet


@dataclass(frozen=True, slots=True)
class Outlier:
    """One replica that differs from its peers in one signal.

    ``value``, ``peers`` (their median) and ``spread`` (their robust standard deviation) in the base ``unit``; ``others``: how
    many peers have that number; ``worse``: whether it lies on the bad side. ``reason``: a sentence, from its other numbers, ''
    where those do not tell; ``because``: the signal that the reason rests on.
    """

    instance: str
    model: str
    signal: str
    title: str
    unit: str
    value: float
    peers: float
    spread: float
    others: int
    worse: bool = True
    reason: str = ""
    because: str = ""


def outliers(fleet: Fleet) -> tuple[Outlier, ...]:
    """The replicas that differ from their peers (same model, four or more), the farthest first."""
    return ()
