"""Courses drawn at random, and the pages of an exporter that would have shown them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from llmvitals.alerts.budgets import FINISHED
from llmvitals.alerts.conditions import Compared, Fell, Fires, Steady, parts_of
from llmvitals.alerts.course import Course, Moment
from llmvitals.alerts.limits import number_of
from llmvitals.alerts.model import CHECK_STATE, HURT, TARGET_UP, VERDICT
from llmvitals.alerts.names import series_of
from llmvitals.alerts.policy import ALERTS
from llmvitals.series import Series, series
from llmvitals.settings import Settings
from llmvitals.signals import budget
from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.verdict import Outcome

START, STEP = 1_750_000_200, 30
"""Unix seconds, a whole number of 5 minutes; seconds between pages."""

SCOPES = (("a", "m1"), ("b", "m1"), ("c", "m2"), ("d", "m2"), ("e", "m2"), ("f", "m3"), ("g", "m4"), ("h", "m5"))
WITHOUT_FINISHED = ("g",)
"""Servers whose page counts tokens and no requests."""
CLASSES = (("default", 0.95), ("chat", 0.9), ("batch", 0.99))
SHARES = (0.0, 0.0, 0.0, 0.02, 0.04, 0.08, 0.12, 0.2, 0.5, 1.0)
"""Of requests that miss, in a phase: none, under and over the limits of the burn rows."""

_PARTS = [part for alert in ALERTS for part in parts_of(alert.when)]
CAUSES = tuple(sorted({part.cause for part in _PARTS if isinstance(part, Fires)}))
SIGNALS = tuple(sorted({part.signal for part in _PARTS if isinstance(part, Compared | Fell | Steady)}))
# What a number is about, and by what it is multiplied in a phase, where a bound and both its sides say too little.
_LEVELS: Mapping[str, tuple[float, tuple[float, ...]]] = {
    "requests_waiting": (1.0, (0.0, 0.0, 1.0, 9.0)),
    "generation_tokens_rate": (1000.0, (1.0, 1.0, 1.1, 0.65, 0.5)),
    "arrival_rate": (2.0, (1.0, 1.0, 1.0, 1.1, 1.5)),
    "generation_mean_tokens": (300.0, (1.0, 1.0, 1.0, 0.9, 0.5)),
}
_SIDES = (0.0, 0.5, 0.98, 1.02, 1.5)
LEVELS: Mapping[str, tuple[float, tuple[float, ...]]] = {
    part.signal: (number_of(Settings(), part.bound) * part.factor, _SIDES)
    for part in _PARTS
    if isinstance(part, Compared)
} | _LEVELS


@dataclass
class _Counters:
    """What a server has counted since it started."""

    counts: dict[Series, float] = field(default_factory=dict)

    def add(self, key: Series, grew: float) -> None:
        self.counts[key] = self.counts.get(key, 0.0) + grew


def draw(seed: int, moments: int) -> tuple[Course, ...]:
    """One course per scope, with what happens in phases of random length."""
    random_ = random.Random(seed)
    drawn = [list(_moments(random_, *scope, moments)) for scope in SCOPES]
    return tuple(
        Course(
            instance,
            model,
            tuple(replace(moment, elsewhere=_elsewhere(drawn, scope, at)) for at, moment in enumerate(drawn[scope])),
        )
        for scope, (instance, model) in enumerate(SCOPES)
    )


def _elsewhere(drawn: list[list[Moment]], scope: int, at: int) -> bool:
    model = SCOPES[scope][1]
    others = (other for other in range(len(SCOPES)) if other != scope and SCOPES[other][1] == model)
    return any(drawn[other][at].up for other in others)


def _moments(random_: random.Random, instance: str, model: str, wanted: int) -> Iterator[Moment]:
    counters, made = _Counters(), 0
    while made < wanted:
        if random_.random() < 0.2:
            counters = _Counters()  # a restart
        shown = random_.choices(("up", "down", "vanished"), (8, 1, 1))[0]
        length = min(wanted - made, random_.choice((1, 2, 4, 10, 30, 80)))
        phase = _phase(random_) if shown == "up" else None
        for _ in range(length):
            t = float(START + made * STEP)
            made += 1
            if phase is None:
                yield Moment(t, up=False, named=shown == "down")
                continue
            phase.grow(random_, counters, instance, model)
            yield replace(phase.moment, t=t, counts=dict(counters.counts))


@dataclass
class _Phase:
    """What goes on for a while: how many requests a step, which shares of them miss, and what the triage says."""

    moment: Moment
    rate: float
    late: float
    slow: float
    failed: float
    classes: dict[str, float]

    def grow(self, random_: random.Random, counters: _Counters, instance: str, model: str) -> None:
        own = {"instance": instance, "model": model}
        ended = 0.0 if self.rate == 0 else float(random_.randint(0, round(2 * self.rate)))
        if instance not in WITHOUT_FINISHED:
            counters.add(series(FINISHED, **own, reason="stop"), ended)
        counters.add(series("llm_generation_tokens_total", **own), 100.0 * ended)
        for objective, share in (("ttft", self.late), ("tpot", self.slow)):
            counters.add(series(budget.JUDGED, **own, objective=objective), ended)
            counters.add(series(budget.MISSED, **own, objective=objective, edge="2.5"), _some(random_, ended, share))
        failed = _some(random_, ended, self.failed)
        for status, count in (("2xx", ended - failed), ("4xx", 3.0), ("5xx", failed)):
            counters.add(series("llm_http_requests_total", instance=instance, status=status, handler="/v1"), count)
        for status, count in (("2xx", ended - failed), ("400", 1.0), ("503", failed)):
            counters.add(series("llm_gateway_requests_total", **own, status=status), count)
        for name, share in self.classes.items():
            missed = _some(random_, ended, share)
            for vantage, told in (
                ("engine", ended),
                ("gateway", ended + 3.0),
            ):  # a gateway tells of refused ones as well
                own_class = {**own, "slo_class": name, "vantage": vantage}
                counters.add(series("llm_slo_requests_total", **own_class, met="no"), missed)
                counters.add(series("llm_slo_requests_total", **own_class, met="yes"), told - missed)
            counters.counts[series("llm_slo_objective_ratio", **own, slo_class=name)] = dict(CLASSES)[name]


def _some(random_: random.Random, of: float, share: float) -> float:
    return float(sum(random_.random() < share for _ in range(int(of))))


def _phase(random_: random.Random) -> _Phase:
    outcome = random_.choice((*(one.value for one in Outcome), ""))
    firing = frozenset(random_.sample(CAUSES, random_.randint(0, 4))) if outcome else frozenset()
    values = {name: LEVELS[name][0] * random_.choice(LEVELS[name][1]) for name in SIGNALS if random_.random() < 0.85}
    return _Phase(
        Moment(
            0.0,
            outcome=outcome,
            hurt=bool(outcome) and random_.random() < 0.3,
            leading=random_.choice((*firing, "")),
            firing=firing,
            values=values,
        ),
        random_.choice((0.0, 0.2, 1.0, 3.0, 10.0)),
        *(random_.choice(SHARES) for _ in range(3)),
        {name: random_.choice(SHARES) for name, _ in CLASSES if random_.random() < 0.7},
    )


def pages(courses: tuple[Course, ...]) -> Iterator[tuple[int, dict[Series, float]]]:
    """What an exporter that watches all of them shows at each moment (milliseconds), with what rules record of signals."""
    for moments in zip(*(course.moments for course in courses), strict=True):
        page: dict[Series, float] = {}
        for course, moment in zip(courses, moments, strict=True):
            page |= _page(course, moment)
        yield round(moments[0].t * 1000), page


def _page(course: Course, moment: Moment) -> dict[Series, float]:
    instance, own = course.instance, {"instance": course.instance, "model": course.model}
    if not moment.named:
        return {}
    page = {series(TARGET_UP, instance=instance): float(moment.up)}
    if not moment.up:
        return page
    page[series("llm_requests_running", **own)] = 1.0
    page |= moment.counts
    for name, value in moment.values.items():
        signal = BY_ID[name]
        labels = own if signal.expr is None else {label: own[label] for label in signal.by}
        page[series(series_of(signal), **labels, **({} if signal.expr is not None else {"window": "60s"}))] = value
    if moment.outcome:
        page[series(HURT, **own)] = float(moment.hurt)
        for outcome in Outcome:
            page[series(VERDICT, **own, verdict=outcome.value)] = float(moment.outcome == outcome.value)
        for cause in CAUSES:
            page[series(CHECK_STATE, **own, cause=cause, state="firing")] = float(cause in moment.firing)
    return page
