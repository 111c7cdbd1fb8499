"""Cumulative counts of the requests of one model, one class and one vantage, and the histograms of their times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import attrgetter

from llmvitals.remembered import remembered
from llmvitals.schema import BY_NAME, LARGE_PROMPT_TOKENS
from llmvitals.series import Exemplar, Labels, Series, series
from llmvitals.settings import UNKNOWN_CLASS, Slo
from llmvitals.slo import Promise, promises
from llmvitals.telemetry.histogram import Histogram
from llmvitals.telemetry.spans.model import Ended, Request, Vantage
from llmvitals.telemetry.spans.verdict import FAILED, NO, NOBODYS_FAULT, UNKNOWN, YES, judged

FRONTEND = "llm_span_frontend_seconds"

_WIDE = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0)
_LONG = (15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_TOKEN = (0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
_TIMES = (*_WIDE, *_LONG)

EDGES: Mapping[str, tuple[float, ...]] = {
    "llm_span_ttft_seconds": _TIMES,
    "llm_span_tpot_seconds": (*_TOKEN, 2.0, 5.0, 10.0, 60.0, 600.0),
    "llm_span_e2e_seconds": _TIMES,
    "llm_span_queue_seconds": _TIMES,
    "llm_span_prefill_seconds": _TIMES,
    "llm_span_decode_seconds": _TIMES,
    FRONTEND: _TIMES,
}
"""Upper edges in seconds to which the thresholds of all classes are added, so that counts at those are exact."""

_OBJECTIVES = {"llm_span_ttft_seconds": "ttft", "llm_span_tpot_seconds": "tpot", "llm_span_e2e_seconds": "e2e"}

_SEEN = tuple((f"llm_span_{name}_seconds", attrgetter(name)) for name in ("ttft", "tpot", "e2e"))
_OWN = tuple((f"llm_span_{name}_seconds", attrgetter(name)) for name in ("queue", "prefill", "decode"))
_TOLD = {Vantage.ENGINE: (*_SEEN, *_OWN), Vantage.GATEWAY: _SEEN, Vantage.CLIENT: ()}
"""The times that requests of a vantage are counted by."""

_OPEN: tuple[str, tuple[str, ...]] = (UNKNOWN, ())
"""What is known of a request whose class is not: nothing, and nothing that it missed."""


def edges_of(slo: Slo) -> Mapping[str, tuple[float, ...]]:
    """The upper edges of each family: :data:`EDGES` and every class' thresholds of its kind."""
    every = [pair for one in promises(slo) for pair in one.thresholds]
    return {
        name: tuple(sorted({*edges, *(seconds for kind, seconds in every if kind == _OBJECTIVES.get(name))}))
        for name, edges in EDGES.items()
    }


def size_of(request: Request) -> str:
    """The label ``size``: of the prompt, unknown where nobody counted it."""
    tokens = request.prompt_tokens
    return "unknown" if tokens is None else "small" if tokens < LARGE_PROMPT_TOKENS else "large"


@remembered(32_768)
def _key(name: str, labels: Labels, label: str, value: str) -> Series:
    return series(name, **dict(labels), **{label: value})


@remembered(8192)
def _with(labels: Labels, more: Labels) -> Labels:
    return tuple(sorted({**dict(labels), **dict(more)}.items()))


class Tally:
    """What the requests of one model, class and vantage came to. ``promise`` None: the class is not known."""

    __slots__ = ("_ended", "_limits", "_met", "_missed", "_times", "_tokens", "name", "promise", "vantage")

    def __init__(self, promise: Promise | None, vantage: Vantage) -> None:
        self.promise = promise
        self.name = promise.name if promise is not None else UNKNOWN_CLASS
        self.vantage = vantage
        self._limits = promise.thresholds if promise is not None else ()
        self._met = dict.fromkeys((YES, NO, UNKNOWN), 0)
        self._missed = dict.fromkeys((*(name for name, _ in self._limits), FAILED), 0)
        self._ended = dict.fromkeys(Ended, 0)
        self._tokens: Counter[str] = Counter()
        self._times: dict[tuple[str, str], Histogram] = {}

    def add(self, request: Request, floor: float | None, edges: Mapping[str, tuple[float, ...]]) -> None:
        """Count one request. Times are those of requests that ended well: others are cut short and would flatter."""
        self._ended[request.ended] += 1
        if request.prompt_tokens is not None:
            self._tokens["prompt"] += request.prompt_tokens
        if request.output_tokens is not None:
            self._tokens["output"] += request.output_tokens
        if request.ended in NOBODYS_FAULT:
            return
        met, missed = judged(request, self._limits, floor) if self.promise or request.ended is not Ended.OK else _OPEN
        self._met[met] += 1
        for name in missed:
            self._missed[name] += 1
        if request.ended is not Ended.OK:
            return
        end, trace_id = request.end, request.trace_id
        for name, read in _TOLD[self.vantage]:
            seconds = read(request)
            if seconds is not None:
                part = size_of(request) if name == "llm_span_ttft_seconds" else ""
                self._histogram(name, part, edges).add(seconds, end, trace_id)

    def around(self, request: Request, seconds: float, parent: str, edges: Mapping[str, tuple[float, ...]]) -> None:
        """Count what a request took around the engine, by whose span told it."""
        self._histogram(FRONTEND, parent, edges).add(seconds, request.end, request.trace_id)

    def _histogram(self, name: str, part: str, edges: Mapping[str, tuple[float, ...]]) -> Histogram:
        found = self._times.get((name, part))
        if found is None:
            found = self._times[name, part] = Histogram.over(edges[name])
        return found

    def keep(self, edges: Mapping[str, tuple[float, ...]]) -> None:
        """Drop the histograms whose edges are others now: they begin anew."""
        self._times = {key: one for key, one in self._times.items() if one.edges == edges[key[0]]}

    def show(self, labels: Labels, samples: dict[Series, float], exemplars: dict[Series, Exemplar]) -> None:
        """Add its samples and exemplars; ``labels``: of its target and model."""
        own = _with(labels, (("slo_class", self.name), ("vantage", self.vantage.value)))
        for name, label, counts in (
            ("llm_slo_requests_total", "met", self._met),
            ("llm_slo_missed_total", "objective", self._missed),
            ("llm_span_requests_total", "ended", self._ended),
            ("llm_span_tokens_total", "kind", self._tokens),
        ):
            for value, count in counts.items():
                samples[_key(name, own, label, str(value))] = float(count)
        for (name, part), histogram in self._times.items():
            known = {"slo_class": self.name, "vantage": self.vantage.value, "size": part, "parent": part}
            more = tuple((label, known[label]) for label in BY_NAME[name].labels)
            histogram.show(name, _with(labels, more), samples, exemplars)
