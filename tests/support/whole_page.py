"""Everything that a Prometheus may hold of exporters, made up: all that boards can ask for, of servers busy, idle, or gone.

Two clusters have a server of one name, whose numbers are not the same. Label values are those that the boards' queries match, and
one of any other. Where nothing is said otherwise a gauge is 0.5, a counter grows by 30 a page, and a histogram by 30 observations;
in the second cluster gauges are half, and what grows grows twice as fast.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from llmvitals.dashboards.raw.tree import read
from llmvitals.exporters import promises
from llmvitals.schema import FAMILIES, Family, Kind
from llmvitals.series import series
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.triage.verdict import Outcome, State
from support.boards import ONCE, filled
from support.known_series import COUNTERS, EVERYWHERE, KNOWN
from support.prometheus import Points
from support.promql_tree import selectors
from support.two_spans import PAGES, START
from support.two_spans import paged as track

TURN = 50
"""The page, of those that are chosen, at which what changes does."""

MEANS = {
    "llm_request_queue_seconds": 3.0,
    "llm_request_prefill_seconds": 0.5,
    "llm_request_decode_seconds": 1.5,
    "llm_request_ttft_seconds": 4.0,
    "llm_request_e2e_seconds": 6.0,
    "llm_gateway_ttft_seconds": 4.5,
    "llm_gateway_request_seconds": 7.0,
}
EDGES = (0.25, 1.0, 2.5, 10.0)
OF_THE_TARGET = ("llm_target_", "llm_gpu_", "llm_host_", "llm_http_", "llm_process_")  # no model is known of these
OF_THE_ENGINE = "llm_gpu_memory_utilization_setting"
MOVING = {"llm_kv_usage_ratio": (0.5, 1.0), "llm_requests_waiting": (1.5, 1.0)}
"""Gauges that climb or fall to their level, and from how much of it."""

EXPORTER = "10.0.0.9:9464"  # an exporter's own series carry its own address
MODEL = "tiny"


class Server(NamedTuple):
    """One server. ``level``: of its gauges; ``pace``: what grows a page."""

    cluster: str
    instance: str
    level: float = 0.5
    pace: int = 30
    slower: float = 1.0
    namespace: str = "chat"

    @property
    def place(self) -> dict[str, str]:
        """The labels that say which one it is."""
        return {"cluster": self.cluster, "namespace": self.namespace, "instance": self.instance}


BUSY = Server("east", "busy")
TWIN = Server("west", "busy", level=0.25, pace=60, slower=2.0)
"""A server of the same name in another cluster."""

IDLE = Server("east", "idle", level=0.0, pace=0)
GONE = Server("east", "gone")
"""It answered a minute ago."""

LEVELS: dict[str, float] = {
    "llm_target_up": 1.0,
    "llm_target_info": 1.0,
    "llm_target_status": 200.0,
}
"""Gauges of which half would be nonsense."""


def _values() -> dict[tuple[str, str], tuple[str, ...]]:
    """By series and label, what queries ask to be there."""
    found: dict[tuple[str, str], set[str]] = {}
    for drawn in ONCE:
        for asked in drawn.asked:
            for one in selectors(read(filled(asked.expr))):
                for matcher in one.matchers:
                    if matcher.op in ("=", "=~"):
                        found.setdefault((one.name, matcher.label), set()).update(
                            _samples(matcher.label, matcher.value)
                        )
    return {key: tuple(sorted(values)) for key, values in found.items()}


KNOWN_VALUES = {
    "status": ("2xx", "4xx", "5xx", "200", "404", "429", "499", "500", "503", "504", "ok", "error", "answered")
}
"""Values of labels that are matched by more than a list."""


def _samples(label: str, pattern: str) -> Iterable[str]:
    """Values that a matcher finds: those known, else each alternative, any text as 1."""
    known = [value for value in KNOWN_VALUES.get(label, ()) if re.fullmatch(pattern, value)]
    return known or (re.sub(r"\.[*+]|\[[^\]]*\][*+]?|\\d[*+]?", "1", one) for one in pattern.split("|"))


VALUES = _values()
ANY = "x"


def values_of(name: str, label: str) -> tuple[str, ...]:
    """What a label of a series may be: all that queries match, and another one."""
    return (*(value for value in VALUES.get((name, label), ()) if value), ANY)


def family_points(family: Family, server: Server) -> Points:
    """A family in use: a gauge that stays, a counter and a histogram that grow."""
    identity = server.place | {"engine": "vllm", "rank": "0"}
    if family.name == OF_THE_ENGINE or not family.name.startswith(OF_THE_TARGET):
        identity["model"] = MODEL
    exposed = f"{family.name}_bucket" if family.kind is Kind.HISTOGRAM else family.name
    found: Points = {}
    own = [label for label in family.labels if label not in identity]
    for values in product(*(values_of(exposed, label) for label in own)):
        labels = identity | dict(zip(own, values, strict=True))
        if family.kind is Kind.GAUGE:
            level = LEVELS.get(family.name, server.level)
            first, last = MOVING.get(family.name, (1.0, 1.0))
            found[series(family.name, **labels)] = track(
                lambda page, a=level * first, b=level * last: a + (b - a) * page / (PAGES - 1)
            )
        elif family.kind is Kind.COUNTER:
            found[series(family.name, **labels)] = track(lambda page: server.pace * page)
        else:
            mean = MEANS.get(family.name, 2.0) * server.slower
            for edge in (*EDGES, math.inf):
                inside = server.pace * (edge >= mean)
                text = "+Inf" if math.isinf(edge) else repr(edge)
                found[series(f"{family.name}_bucket", **labels, le=text)] = track(lambda p, inside=inside: inside * p)
            found[series(f"{family.name}_count", **labels)] = track(lambda page: server.pace * page)
            found[series(f"{family.name}_sum", **labels)] = track(lambda page, mean=mean: server.pace * mean * page)
    return found


CAUSE = "preemption-thrash"


def triage_points(server: Server) -> Points:
    """Derived gauges (absent for the idle server, which has no number for them) and the triage's series."""
    scope = server.place | {"model": MODEL}
    outcome = Outcome.CAUSE if server.pace else Outcome.NO_TRAFFIC
    found = {
        series("llm_triage_verdict", **scope, verdict=o.value): track(lambda _, o=o: o is outcome) for o in Outcome
    }
    found[series("llm_triage_hurt", **scope)] = track(lambda _: bool(server.pace))
    for resource in values_of("llm_binding", "resource"):
        found[series("llm_binding", **scope, resource=resource)] = track(lambda _, on=resource != ANY: on)
    if not server.pace:
        return found
    states = {CAUSE: State.FIRING, "unbounded-queue": State.SHADOWED, "cold-start": State.UNKNOWN}
    found[series("llm_triage_leading", **scope, cause=CAUSE)] = track(lambda _: 0.9)
    found[series("llm_triage_setting", **scope, cause=CAUSE, setting="max_num_seqs")] = track(lambda _: 24)
    for (cause, held), state in product(states.items(), State):
        key = series("llm_triage_check_state", **scope, cause=cause, state=state.value)
        found[key] = track(lambda _, on=state is held: on)
    for state in (State.FIRING, State.CLEAR):  # it fired at first, and then no more
        key = series("llm_triage_check_state", **scope, cause="kv-cache-saturation", state=state.value)
        found[key] = track(lambda page, on=state is State.FIRING: on == (page < TURN))
    for signal in SIGNALS:
        if signal.expr is None:
            found[series(f"llm_{signal.id}", **scope, window="60s")] = track(lambda _: server.level / 2)
    return found


def promise_points(server: Server) -> Points:
    """Counters of promises: of 30 requests a page, one misses its first token and three their pace."""
    found: Points = {}
    for objective, missed, edge in (("ttft", 1, "2.5"), ("tpot", 3, "0.05")):
        labels = server.place | {"model": MODEL, "engine": "vllm", "rank": "0", "objective": objective}
        judged, late = promises.NAMES
        part = server.pace * missed // 30
        found[series(judged, **labels)] = track(lambda page: server.pace * page)
        found[series(late, **labels, edge=edge)] = track(lambda page, part=part: part * page)
    return found


def watching_points() -> Points:
    """What one exporter says of itself, with a collector that works now and did not at first, and its scrape."""
    own = {"job": "llmvitals", "cluster": "east", "namespace": "chat", "instance": EXPORTER}
    collector = {**BUSY.place, "job": "llmvitals"}
    return {
        series("up", **own): track(lambda _: 1),
        series("llmvitals_cycle_age_seconds", **own): track(lambda _: 2.5),
        series("llmvitals_cycle_duration_seconds", **own): track(lambda _: 0.3),
        series("llmvitals_config_last_reload_successful", **own): track(lambda _: 0),
        series("llmvitals_targets", **own): track(lambda _: 2),
        series("llmvitals_collector_success", **collector, collector="scrape"): track(lambda _: 1),
        series("llmvitals_collector_success", **collector, collector="gpu"): track(lambda p: p >= TURN),
        series("llmvitals_collector_duration_seconds", **collector, collector="scrape"): track(lambda _: 0.2),
        series("llmvitals_history_snapshots", **collector): track(lambda _: 20),
        series("llmvitals_target_left_out", **collector, reason="asked by another"): track(lambda _: 1),
        series("llm_target_up", **GONE.place, engine="vllm"): track(lambda _: 0),
    }


def rule_points() -> Points:
    """What Prometheus makes of rules: a signal that is recorded, and alerts that fire, wait, and are over."""
    busy = BUSY.place | {"model": MODEL}
    firing = {"alertname": "LLMFirstTokensLate", "alertstate": "firing", "severity": "page", **busy}
    cause = {"alertname": "LLMPreemptionThrash", "severity": "ticket", "cause": CAUSE, **busy}
    blind = {"alertname": "LLMExporterStuck", "alertstate": "firing", "severity": "page", "instance": EXPORTER}
    pending = track(lambda _: 1)
    found = {
        series("llm:requests_running:5m", **one.place, model=MODEL): track(lambda _: 0) for one in (BUSY, TWIN, IDLE)
    }
    found |= {series("ALERTS", **labels): pending for labels in (firing, blind)}
    for labels in (firing, blind):
        since = {name: value for name, value in labels.items() if name != "alertstate"}
        found[series("ALERTS_FOR_STATE", **since)] = track(lambda _: START - 60)
    found[series("ALERTS", **cause, alertstate="pending")] = pending
    found[series("ALERTS", **busy, alertname="LLMTokensSlow", alertstate="firing")] = pending[:TURN]
    return found


def other_points(made: Points) -> Points:
    """Of what boards ask for and nothing above has: one series of each value that they match."""
    there = {key.name for key in made}
    asked = {one.name for drawn in ONCE for a in drawn.asked for one in selectors(read(filled(a.expr)))}
    found: Points = {}
    for name in sorted(asked - there):
        labels = sorted(KNOWN[name] - EVERYWHERE - {"engine", "rank"})
        ours = not name.startswith(("llm_", "llm:"))
        place = BUSY.place | ({"instance": EXPORTER, "job": "llmvitals"} if ours else {})
        for values in product(*((MODEL,) if label == "model" else values_of(name, label) for label in labels)):
            key = series(name, **place, **dict(zip(labels, values, strict=True)))
            found[key] = track(lambda page: 30 * page) if name in COUNTERS else track(lambda _: 1)
    return found


def whole_page() -> Points:
    """All of it."""
    found: Points = {}
    for server in (BUSY, TWIN, IDLE):
        for family in FAMILIES:
            found |= family_points(family, server)
        found |= triage_points(server) | promise_points(server)
    found |= watching_points() | rule_points()
    return found | other_points(found)
