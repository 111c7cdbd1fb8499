"""Who of several replicas of one model is different, in what, and what its own numbers say of why.

Compared is each replica with its peers (the others) by median and median absolute deviation, as in the Hampel identifier (F. R.
Hampel, "The influence curve and its role in robust estimation", JASA 69, 1974; L. Davies and U. Gather, "The identification of
multiple outliers", JASA 88, 1993): half of the peers may be odd themselves. Their cut-off grows as peers get fewer, since the
deviation of few numbers is often small by chance; and no difference counts that would change nothing (``Watched``).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.replica import COMPUTE, KV, Fleet, Replica
from llmvitals.triage.sides import DOWN, UP
from llmvitals.triage.units import inside, with_unit

LEAST_PEERS = 4
"""Fewer others than these say nothing of what is usual."""

NORMAL = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution (1 / 0.6745)."""

SIGMAS, FEW_PEERS = 6.0, 60.0
"""The cut-off is SIGMAS + FEW_PEERS / peers: 21 of four, 9 of twenty. Fitted so that of 36,000 random fleets in which nothing
is wrong 5 hold one, with loads that differ by a sixth and prompts by a fifth (tests/unit/test_outliers.py plays some of them).
"""


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


@dataclass(frozen=True, slots=True)
class Watched:
    """A signal in which a replica may be odd: on that ``side``, and by at least ``least`` (base unit) and ``share`` of the peers'
    median. ``why``: signals that may say why, the likeliest first. ``worse``: whether that side is bad, or only different.
    """

    signal: str
    side: str
    least: float
    share: float = 0.0
    why: tuple[str, ...] = ()
    worse: bool = True


_CARD = ("gpu_xid_errors", "gpu_ecc_errors", "gpu_throttle_ratio", "gpu_power_cap_ratio", "gpu_clock_ratio")

WATCHED: tuple[Watched, ...] = (
    Watched("gpu_xid_errors", UP, 1.0),
    Watched("gpu_ecc_errors", UP, 1.0),
    Watched("gpu_throttle_ratio", UP, 0.1),
    Watched("gpu_clock_ratio", DOWN, 0.1, why=("gpu_throttle_ratio", "gpu_power_cap_ratio")),
    Watched("token_mean_seconds", UP, 0.005, 0.5, why=(*_CARD, "running_max", "prompt_mean_tokens")),
    Watched(
        "queue_mean_seconds",
        UP,
        0.5,
        1.0,
        why=(*_CARD, "prefix_hit_ratio", "arrival_rate", "prompt_mean_tokens", "token_mean_seconds"),
    ),
    Watched(
        "waiting_share_ratio",
        UP,
        0.6,
        why=(*_CARD, "prefix_hit_ratio", "arrival_rate", "prompt_mean_tokens", "token_mean_seconds"),
    ),
    Watched(
        "preemptions_per_minute", UP, 5.0, 1.0, why=("running_max", "generation_mean_tokens", "prompt_mean_tokens")
    ),
    Watched(KV, UP, 0.45, why=("running_max", "prompt_mean_tokens", "generation_mean_tokens", "token_mean_seconds")),
    Watched("prefix_hit_ratio", DOWN, 0.25, 0.5, why=("restarts",)),
    Watched("error_ratio", UP, 0.05, 1.0, why=("gpu_xid_errors", "restarts")),
    Watched("restarts", UP, 1.0, why=("gpu_xid_errors", "gpu_ecc_errors")),
    Watched("page_answer_seconds", UP, 0.1, 1.0),
    Watched(COMPUTE, DOWN, 0.4, 0.5, why=("arrival_rate", "page_answer_seconds"), worse=False),
)
"""A signal that is worth a word, with the least difference that would change anything for anybody. Those of the card come first."""

REASONS: Mapping[str, tuple[str, float, float, str]] = {
    "gpu_xid_errors": (UP, 1.0, 0.0, "Its GPU reports errors"),
    "gpu_ecc_errors": (UP, 1.0, 0.0, "Its GPU's memory has errors that could not be corrected"),
    "gpu_throttle_ratio": (UP, 0.1, 0.0, "Its GPU is held down by heat or by the hardware"),
    "gpu_power_cap_ratio": (UP, 0.3, 0.0, "Its GPU is held at its power limit"),
    "gpu_clock_ratio": (DOWN, 0.1, 0.0, "Its GPU runs at lower clocks"),
    "prefix_hit_ratio": (DOWN, 0.2, 0.3, "Its prefix cache is hit less"),
    "running_max": (UP, 2.0, 0.5, "It runs more at once"),
    "arrival_rate": (UP, 0.1, 0.5, "It is sent more"),
    "prompt_mean_tokens": (UP, 100.0, 0.5, "Its prompts are longer"),
    "generation_mean_tokens": (UP, 50.0, 0.5, "Its answers are longer"),
    "token_mean_seconds": (UP, 0.005, 0.3, "Its steps are slower"),
    "restarts": (UP, 1.0, 0.0, "It was started anew"),
    "page_answer_seconds": (UP, 0.1, 1.0, "Its API process is busy: its metrics page comes late"),
}
"""What a number says of why, beyond which difference from the peers' median (in the base unit, and as a share of it): a likely
reason, no proof.
"""


def outliers(fleet: Fleet) -> tuple[Outlier, ...]:
    """The replicas that differ from their peers (same model, :data:`LEAST_PEERS` or more others), in the order of what matters.

    An idle one among busy ones is told as different, not as worse.
    """
    models: dict[str, list[Replica]] = {}
    for one in fleet.replicas:
        if not one.gone:
            models.setdefault(one.model, []).append(one)
    found = [odd for group in models.values() if len(group) > LEAST_PEERS for odd in _odd(group)]
    order = {watched.signal: i for i, watched in enumerate(WATCHED)}
    return tuple(sorted(found, key=lambda o: (not o.worse, order[o.signal], o.model, o.instance)))


@dataclass(frozen=True, slots=True)
class _Peers:
    """What the others have: how many, their median, and their robust standard deviation."""

    others: int
    median: float
    spread: float


def _odd(group: Sequence[Replica]) -> Iterator[Outlier]:
    for watched in WATCHED:
        known = [(one, one.numbers[watched.signal]) for one in group if watched.signal in one.numbers]
        if len(known) <= LEAST_PEERS:
            continue
        values = sorted(value for _, value in known)
        # whoever lies beyond the middle is taken out on that side: the others' median is the same for all of them
        usual = statistics.median(values[:-1] if watched.side == UP else values[1:])
        for one, value in known:
            if _away(value, usual, watched) < _least(usual, watched):
                continue
            peers = _peers(values, value)
            if _beyond(value, peers, watched):
                because = _because(one, group, watched)
                signal = BY_ID[watched.signal]
                yield Outlier(
                    one.instance,
                    one.model,
                    watched.signal,
                    signal.title,
                    signal.unit,
                    value,
                    peers.median,
                    peers.spread,
                    peers.others,
                    watched.worse,
                    _sentence(one, group, because) if because else "",
                    because,
                )


def spread(values: Sequence[float]) -> float:
    """The robust standard deviation of one number or more: what a few odd ones among them hardly move."""
    middle = statistics.median(values)
    return NORMAL * statistics.median(abs(x - middle) for x in values)


def _peers(values: Sequence[float], own: float) -> _Peers:
    """Of all values (in order), those without one's own."""
    others = list(values)
    others.remove(own)
    return _Peers(len(others), statistics.median(others), spread(others))


def _away(value: float, usual: float, watched: Watched) -> float:
    return value - usual if watched.side == UP else usual - value


def _least(usual: float, watched: Watched) -> float:
    """The least difference that is worth a word."""
    return max(watched.least, watched.share * abs(usual))


def _beyond(value: float, peers: _Peers, watched: Watched) -> bool:
    """Whether it lies so far out, on the watched side, that neither chance nor what nobody notices explains it."""
    away = _away(value, peers.median, watched)
    return math.isfinite(away) and away >= _least(peers.median, watched) and away > _cut(peers)


def _cut(peers: _Peers) -> float:
    """How far out chance leads."""
    return (SIGMAS + FEW_PEERS / peers.others) * peers.spread


def _because(one: Replica, group: Sequence[Replica], watched: Watched) -> str:
    """The first of the signals that may say why, in which it differs as well: by what counts, and beyond all its peers' usual."""
    for name in watched.why:
        side, least, share, _ = REASONS[name]
        peers = _of(name, one, group)
        if peers is not None:
            away = (one.numbers[name] - peers.median) * (1 if side == UP else -1)
            if away >= max(least, share * abs(peers.median)) and away > _cut(peers):
                return name
    return ""


def _of(name: str, one: Replica, group: Sequence[Replica]) -> _Peers | None:
    values = sorted(other.numbers[name] for other in group if name in other.numbers)
    own = one.numbers.get(name)
    return None if own is None or len(values) <= LEAST_PEERS else _peers(values, own)


def _sentence(one: Replica, group: Sequence[Replica], name: str) -> str:
    peers = _of(name, one, group)
    assert peers is not None
    unit, title = BY_ID[name].unit, inside(BY_ID[name].title)
    own, others = with_unit(one.numbers[name], unit), with_unit(peers.median, unit)
    return f"{REASONS[name][3]}: {title} {own}, its peers' {others}."
