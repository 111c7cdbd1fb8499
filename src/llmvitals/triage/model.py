"""What a check is made of: conditions on signals, what confirms, what it explains, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llmvitals.settings import Settings
from llmvitals.signals.reading import Reading
from llmvitals.triage.verdict import Outcome

Readings = Mapping[str, Reading]
Bound = float | str
Number = Callable[[Readings, Settings], float | None]


AGAINST: Mapping[str, str] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The condition that holds where this one does not."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One condition: ``signal op bound``. A text bound names a setting (``slo.ttft_seconds``), optionally times a
    factor.

    ``aside``: it confirms where it holds, and says nothing else: few have its telemetry, and that may only bound it.
    """

    signal: str
    op: str
    bound: Bound
    factor: float = 1.0
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to change: a sentence, the setting, and how its value follows from the signals.

    ``already``: a signal, and what is to be said where it stands at the value or below it: then the setting alone changes nothing.
    """

    text: str
    setting: str = ""
    value: Number | None = None
    already: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What another source shows that turns a suspicion into a certainty. ``limits``: all must hold beside the check's own.

    Proved, the check has this ``confidence`` (a belief, as its own) and ``note``, may lead even where it otherwise would
    not, and ``explains`` these causes besides its own.
    """

    limits: tuple[Limit, ...]
    confidence: float
    explains: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One cause of the catalogue.

    ``when``: alternatives, each a conjunction of limits; the check fires when one of them holds whole. ``cites``:
    signals whose numbers the verdict's sentence carries. ``confidence``: how far it is believed in where it fires, which
    ``calibration`` turns into the share that is stated. ``confirms``: limits that raise (or, unmet, lower) that belief.
    ``explains``: causes that are only its consequences. ``leads``: whether it may be the leading cause. ``hazard``: it
    leads even while nobody is hurt. ``even_idle``: it is named even without traffic. ``at_once``: it needs no least number
    of pages; ``by_scrapes``: it counts scrapes, readable or not. ``outcome``: what the verdict is called when it holds.
    ``needs``: for causes that no engine page shows, what would. ``source``: the section of the source documents.
    ``proof``: what another source adds to make it certain. ``unless``: limits, any of which rules it out; what cannot be
    seen rules nothing out. ``tells``: signals whose note (an error's code in words, a link's name) is told with it.
    """

    cause: str
    step: int
    title: str
    source: str
    remedy: Remedy
    when: tuple[tuple[Limit, ...], ...] = ()
    cites: tuple[str, ...] = ()
    tells: tuple[str, ...] = ()
    confirms: tuple[Limit, ...] = ()
    explains: tuple[str, ...] = ()
    confidence: float = 0.8
    leads: bool = True
    hazard: bool = False
    even_idle: bool = False
    at_once: bool = False
    by_scrapes: bool = False
    outcome: Outcome = Outcome.CAUSE
    proof: Proof | None = None
    unless: tuple[Limit, ...] = ()
    note: str = ""
    needs: str = ""
    needs_series: str = ""


STEPS: tuple[str, ...] = (
    "Can the numbers be trusted, and is it serving?",
    "Memory pressure: is the KV cache full, are requests waiting?",
    "Batch configuration: too small or too large?",
    "Cache misses: prefix, response",
    "Network and interconnect",
    "The process in front: API server, tokenizer, grammar, adapters",
    "Demand: queue growth, tenants, retries, agents, ghosts",
    "Platform: hardware, cold start, rollout",
)
