"""What the requests of one target came to: their tallies, and what they add to its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from llmvitals.gaps import GapKind, family_gap
from llmvitals.series import Exemplar, Series, series
from llmvitals.settings import PROBE_CLASS, UNKNOWN_CLASS, Slo
from llmvitals.slo import Promise, matches, promises
from llmvitals.telemetry.histogram import Histogram
from llmvitals.telemetry.spans.model import Ended, Place, Request, Shown, Vantage
from llmvitals.telemetry.spans.senders import By, Resource
from llmvitals.telemetry.spans.tally import FRONTEND, Tally, edges_of
from llmvitals.telemetry.spans.verdict import Classes

MOST_MODELS = 32
"""Models of one target that are told apart; requests of others count as :data:`OTHER_MODELS`."""

MOST_MISTAKEN = 16
"""Beyond so many none is taken from a call that was its caller's own mistake: who makes names up leaves room for what is served."""

OTHER_MODELS = "other"

_NAMELESS = frozenset({"", OTHER_MODELS})

_NO_MODEL = "its spans do not name their model, and its page names several"
_HIDDEN = ("llm_slo_*", "llm_span_*")


class Book:
    """What all accounts of one settings file share: the classes, and the edges of the histograms."""

    def __init__(self, slo: Slo) -> None:
        self.classes = Classes(slo)
        self.edges = edges_of(slo)
        self.promises = promises(slo)
        self._models = {one.name: one.models for one in slo.classes}

    def reachable(self, model: str) -> Iterator[Promise]:
        """The promises of the classes that may take requests of a model."""
        for one in self.promises:
            if matches(self._models.get(one.name, ()), model):
                yield one


class Account:
    """One target's. ``place``: as the newest page shows it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._tallies: dict[tuple[str, str, Vantage], Tally] = {}
        self._probes: dict[tuple[str, str], Histogram] = {}
        self._models: set[str] = set()
        self._last_end: dict[Vantage, float] = {}
        self._joins: set[str] = set()

    def moved(self, place: Place) -> None:
        """The target as it is now. A page that names no model at the moment (it may be down) takes none away."""
        self.place = place if place.models else replace(place, models=self.place.models)

    def add(self, request: Request, tenant: str, route: str, floor: float | None, book: Book) -> None:
        """Count one request."""
        self._tally(request, tenant, route, book).add(request, floor, book.edges)
        if request.end > self._last_end.get(request.vantage, 0.0):
            self._last_end[request.vantage] = request.end

    def around(self, request: Request, tenant: str, route: str, seconds: float, parent: str, book: Book) -> None:
        """Count what one of its requests took around the engine."""
        self._tally(request, tenant, route, book).around(request, seconds, parent, book.edges)

    def probed(self, request: Request, seconds: float, parent: str, book: Book) -> None:
        """Count what a probe took around the engine."""
        model = self._model(request)
        self._models.add(model)
        found = self._probes.get((model, parent))
        if found is None:
            found = self._probes[model, parent] = Histogram.over(book.edges[FRONTEND])
        found.add(seconds, request.end, request.trace_id)

    def _tally(self, request: Request, tenant: str, route: str, book: Book) -> Tally:
        promise = book.classes.of(request.model, self.place.models, tenant, route)
        return self._of(self._model(request), promise, request.vantage)

    def _of(self, model: str, promise: Promise | None, vantage: Vantage) -> Tally:
        key = (model, promise.name if promise is not None else UNKNOWN_CLASS, vantage)
        found = self._tallies.get(key)
        if found is None:
            found = self._tallies[key] = Tally(promise, vantage)
            self._models.add(model)
        return found

    def _model(self, request: Request) -> str:
        """The model that a request counts for. All of an engine whose page names one are that one's, however they call it."""
        models = self.place.models
        if len(models) == 1 and (not request.model or not self.place.gateway):
            return models[0]
        model = request.model
        if not model or model in self._models:
            return model
        most = MOST_MISTAKEN if request.ended is Ended.CLIENT_ERROR else MOST_MODELS
        return model if len(self._models - _NAMELESS) < most else OTHER_MODELS

    def keep(self, book: Book) -> None:
        """Go on under other settings: what was counted by a promise or by edges that are others now begins anew."""
        same = {*book.promises, None}
        self._tallies = {key: one for key, one in self._tallies.items() if one.promise in same}
        self._models = {model for model, _, _ in self._tallies}
        for one in self._tallies.values():
            one.keep(book.edges)

    def shown(self, senders: Mapping[By, int], book: Book) -> Shown:
        """What it adds to its target's page. ``senders``: its processes that are known now, by how they were found."""
        place = self.place
        labels = {**place.labels, "instance": place.instance}
        samples: dict[Series, float] = {}
        exemplars: dict[Series, Exemplar] = {}
        if len(place.models) == 1:  # from the start, so that the first of a kind is seen as one
            for promise in book.reachable(place.models[0]):
                self._of(place.models[0], promise, Vantage.GATEWAY if place.gateway else Vantage.ENGINE)
        for (model, _, _), tally in self._tallies.items():
            if model or len(place.models) < 2:
                named = {**labels, "model": model} if model else labels
                tally.show(tuple(sorted(named.items())), samples, exemplars)
            else:  # shown without a model they would be read as each one's
                for family in _HIDDEN:
                    samples[family_gap(family, GapKind.UNSUPPORTED, _NO_MODEL, **labels)] = 1.0
        for (model, parent), histogram in self._probes.items():
            if model or len(place.models) < 2:
                named = {**labels, **({"model": model} if model else {}), "slo_class": PROBE_CLASS, "parent": parent}
                histogram.show(FRONTEND, tuple(sorted(named.items())), samples, exemplars)
        samples.update(self._about(labels, senders, book))
        return Shown(samples, exemplars)

    def _about(
        self, labels: Mapping[str, str], senders: Mapping[By, int], book: Book
    ) -> Iterator[tuple[Series, float]]:
        """What is told of no request: promises, how new all this is, whose spans they are."""
        named = {tally.promise for tally in self._tallies.values()}
        for one in book.promises:
            if one not in named:
                continue
            yield series("llm_slo_objective_ratio", **labels, slo_class=one.name), one.objective
            for objective, seconds in one.thresholds:
                name = "llm_slo_threshold_seconds"
                yield series(name, **labels, slo_class=one.name, objective=objective), seconds
        for vantage, end in self._last_end.items():
            yield series("llm_span_last_end_seconds", **labels, vantage=vantage.value), end
        self._joins |= {by.value for by in senders}
        known = {by.value: number for by, number in senders.items()}
        for join in sorted(self._joins):
            yield series("llm_span_senders", **labels, join=join), float(known.get(join, 0))


@dataclass(slots=True, eq=False)
class Sender:
    """A process whose spans of one vantage come. ``account``: its target's; ``why``: what kept it from having one.

    ``active``: when it last sent, on the ledger's clock; ``looked``: the number of the set of targets that it was held against.
    """

    resource: Resource
    peer: str
    vantage: Vantage
    active: float
    account: Account | None = None
    by: By = By.NONE
    why: str = ""
    looked: int = -1
