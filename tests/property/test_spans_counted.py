"""Whatever comes in whatever order: every span is in exactly one number, no counter falls, and who came in time is joined."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from llmvitals.schema import Kind, family_of
from llmvitals.series import Series
from llmvitals.settings import Settings, Slo, SloClass, Spans
from llmvitals.telemetry.spans import counting
from llmvitals.telemetry.spans.ledger import Ledger
from llmvitals.telemetry.spans.model import Ended, Place, Request, Shown
from support.requests import ENGINE, GATEWAY, Clock, client, engine, gateway, give, values

WAIT = 10.0
SLO = Slo(classes=(SloClass(name="theirs", tenants=("t*",)), SloClass(name="big", models=("b*",))))
CALLS = 4
OTHER = replace(ENGINE, instance="f", host="10.0.0.3")

PLACES: tuple[tuple[Place, ...], ...] = (
    (),
    (ENGINE, GATEWAY),
    (ENGINE,),
    (ENGINE, OTHER, GATEWAY),
    (replace(ENGINE, models=()), GATEWAY),
    (replace(ENGINE, models=("m", "b")), replace(GATEWAY, attributes={"service.name": "gateway"})),
    (replace(OTHER, attributes={"service.name": "engine"}), ENGINE, GATEWAY),
)
"""Sets of targets that a page may show, from none to some among which a process must choose."""


def pool() -> list[Request]:
    """Spans of a few calls: a client's, its gateway's, tries at engines with and without a known parent, in shared traces."""
    spans = []
    for n in range(CALLS):
        user = client(trace=f"{n // 2:032x}", tenant="t")
        front = gateway(
            trace=user.trace_id, parent=user.span_id, tenant=f"t{n}", ttft=0.5 if n % 2 else None, ended=list(Ended)[n]
        )
        spans += [user, front]
        spans += [engine(trace=user.trace_id, parent=front.span_id, ended=Ended.OK if n else Ended.ERROR)]
        spans += [engine(trace=user.trace_id, parent="5" * 16, model="b" if n else "")]
        spans += [engine(trace=user.trace_id, parent=user.span_id), engine()]
    return spans


step = st.tuples(
    st.sampled_from([0.0, 0.5, 4.0, 9.5, 10.0, 70.0, -30.0]),
    st.one_of(
        st.lists(st.integers(0, CALLS * 6 - 1), min_size=1, max_size=6),
        st.sampled_from(["settle", "reload", *map(str, range(len(PLACES)))]),
    ),
)


def falls(before: dict[Series, float], after: dict[Series, float]) -> list[Series]:
    """Counters and histograms that went down."""
    return [
        key
        for key, value in after.items()
        if (family := family_of(key.name)) is not None
        and family.kind is not Kind.GAUGE
        and value < before.get(key, 0.0) - 1e-9
    ]


def merged(shown: dict[str, Shown]) -> dict[Series, float]:
    return {key: value for one in shown.values() for key, value in one.samples.items()}


@settings(max_examples=120, deadline=None)
@given(st.lists(step, max_size=25), st.sampled_from([1, 2, 5, 1000]))
def test_every_span_is_in_one_number_and_no_counter_falls(steps, most):
    clock, spans = Clock(), pool()
    config = Settings(slo=SLO, spans=Spans(join_seconds=WAIT, max_open=most))
    ledger = Ledger(config, clock=clock)
    page: dict[Series, float] = {}
    given_, distinct = 0, set()
    before = ledger.counts()
    for after, what in steps:
        clock.now += after
        if isinstance(what, list):
            given_ += len(what)
            distinct |= {spans[n].span_id for n in what}
            give(ledger, *(spans[n] for n in what))
        elif what == "settle":
            ledger.settle()
        elif what == "reload":
            ledger = Ledger(config, clock=clock, previous=ledger)
        else:
            now = merged(ledger.shown(PLACES[int(what)]))
            assert falls(page, now) == []
            page |= now
        counts = ledger.counts()
        assert counts.spans == given_
        assert counts.spans == sum(counts.taken.values()) + counts.other + sum(counts.dropped.values()) + counts.open
        assert counts.dropped.get(counting.DUPLICATE, 0) == given_ - len(distinct)
        assert all(counts.taken[k] >= v for k, v in before.taken.items())
        assert all(counts.dropped[k] >= v for k, v in before.dropped.items())
        assert 0 <= counts.open <= 2 * most
        before = counts
    for _ in range(4):
        clock.now += counting.UNPLACED_SECONDS
        ledger.settle()
    counts = ledger.counts()
    assert counts.open == 0
    # what counts is on the accounts: an engine's and a gateway's requests each once, at one target or another
    told = {k: v for k, v in _told(ledger).items() if v}
    clients = sum(one.vantage == "client" for one in spans if one.span_id in distinct)
    assert sum(told.values()) == sum(counts.taken.values()) - clients


def _told(ledger: Ledger) -> dict[tuple[str, str], float]:
    """Requests of every account, whether a page shows it or not."""
    book, accounts = ledger._counting._book, ledger._counting._accounts
    found: dict[tuple[str, str], float] = {}
    for name, account in accounts.items():
        account.place = replace(account.place, models=())  # shown whole
        for key, value in values(account.shown({}, book), "llm_span_requests_total", "ended").items():
            found[name, key[0]] = found.get((name, key[0]), 0.0) + value
    return found


@dataclass
class Arrival:
    """When the two spans of a call came."""

    engine: float
    gateway: float


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.builds(Arrival, st.integers(0, 60).map(float), st.integers(0, 60).map(float)), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_who_came_within_the_wait_is_joined_and_nobody_else(arrivals, ticks, together):
    clock = Clock()
    ledger = Ledger(Settings(slo=SLO, spans=Spans(join_seconds=WAIT)), clock=clock)
    give(ledger, engine(), gateway())
    ledger.shown((ENGINE, GATEWAY))  # from now on it is known whose they are
    begin = clock.now
    events: list[tuple[float, Request]] = []
    in_time = 0
    for one in arrivals:
        front = gateway(trace="a" * 32 if together else "", tenant="t")
        below = engine(trace=front.trace_id, parent=front.span_id)
        events += [(one.engine, below), (one.gateway, front)]
        in_time += abs(one.engine - one.gateway) < WAIT
    for t, span in sorted(events, key=lambda event: event[0]):
        clock.now = begin + t
        if ticks:
            ledger.shown((ENGINE, GATEWAY))
        give(ledger, span)
    for _ in range(4):
        clock.now += WAIT
        ledger.settle()
    shown = ledger.shown((ENGINE, GATEWAY))
    assert ledger.counts().joined.get("parent", 0) == in_time
    if not together:  # of one trace, others may be taken for the callers of those whose own came late
        around = values(shown, "llm_span_frontend_seconds_count", "slo_class", "parent")
        theirs = values(shown, "llm_span_requests_total", "slo_class", keep="e")
        assert around == ({("theirs", "gateway"): float(in_time)} if in_time else {})
        assert theirs.get(("theirs",), 0.0) == in_time
