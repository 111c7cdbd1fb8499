"""Which requests of a trace belong to one call, in whatever order their spans come, and what is told around the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from llmvitals.telemetry.spans.joining import Joining, Told
from llmvitals.telemetry.spans.model import Ended, Request
from support.requests import client, engine, gateway

WAIT = 10.0


@dataclass
class Bench:
    """A joining with a clock of its own, and what came out of it."""

    most: int = 1000
    inherited: bool = True
    now: float = 100.0
    settled_: list[Told] = field(default_factory=list)
    around_: list[tuple[str, float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.joining = Joining(self, seconds=WAIT, most=self.most, inherited=self.inherited)

    def settled(self, told: Told) -> None:
        self.settled_.append(told)

    def around(self, told: Told, seconds: float, parent: str) -> None:
        self.around_.append((told.request.span_id, seconds, parent))

    def give(self, *requests: Request, after: float = 0.0) -> None:
        self.wait(after)
        for one in requests:
            self.joining.take(Told(one, None, one.tenant, one.route), self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.joining.expire(self.now)

    def end(self) -> None:
        """Wait until nothing is held any more."""
        for _ in range(4):
            self.wait(WAIT)
        assert len(self.joining) == 0
        assert self.joining._traces == {}

    def told(self, one: Request) -> tuple[str, str]:
        """Tenant and route under which a request was settled; it must have been, once."""
        (found,) = [told for told in self.settled_ if told.request is one]
        return found.tenant, found.route

    def open(self, one: Request) -> bool:
        return not any(told.request is one for told in self.settled_)


def test_a_root_is_settled_at_once():
    bench, one = Bench(), engine()
    bench.give(one)
    assert bench.told(one) == ("", "")
    assert len(bench.joining) == 0


@pytest.mark.parametrize("gateway_first", [True, False])
@pytest.mark.parametrize("apart", [0.0, 9.9])
def test_an_engines_request_gets_its_gateways_words_whichever_comes_first(gateway_first, apart):
    bench = Bench()
    call = gateway(tenant="search", route="/v1/chat/completions")
    one = engine(trace=call.trace_id, parent=call.span_id)
    first, second = (call, one) if gateway_first else (one, call)
    bench.give(first)
    bench.give(second, after=apart)
    assert bench.told(one) == ("search", "/v1/chat/completions")  # at once, not at the end of the wait
    assert bench.around_ == []  # another request of the same call may still come
    bench.end()
    assert bench.around_ == [(one.span_id, 0.25, "gateway")]
    assert bench.joining.joined == {"parent": 1}


@pytest.mark.parametrize("gateway_first", [True, False])
def test_who_comes_later_than_the_wait_is_not_joined(gateway_first):
    bench = Bench()
    call = gateway(tenant="search")
    one = engine(trace=call.trace_id, parent=call.span_id)
    first, second = (call, one) if gateway_first else (one, call)
    bench.give(first)
    bench.give(second, after=WAIT)
    bench.end()
    assert bench.told(one) == ("", "")
    assert bench.around_ == []
    assert bench.joining.joined == {"none": 1}


def test_without_classes_that_ask_for_it_nothing_waits_for_its_caller_to_be_counted():
    bench = Bench(inherited=False)
    call = gateway(tenant="search")
    one = engine(trace=call.trace_id, parent=call.span_id)
    bench.give(one)
    assert bench.told(one) == ("", "")
    bench.give(call)
    bench.end()
    assert bench.around_ == [(one.span_id, 0.25, "gateway")]


def test_what_an_engine_says_itself_stays():
    bench = Bench()
    call = gateway(tenant="search", route="/v1/chat/completions")
    own = engine(trace=call.trace_id, parent=call.span_id, tenant="mine", route="/generate")
    bench.give(own)
    assert bench.told(own) == ("mine", "/generate")
    half = engine(trace=call.trace_id, parent=call.span_id, tenant="mine")
    bench.give(half, call)
    assert bench.told(half) == ("mine", "/v1/chat/completions")


@pytest.mark.parametrize("order", ["ecg", "egc", "ceg", "cge", "gec", "gce"])
def test_a_gateways_own_client_span_between_leads_to_the_gateway(order):
    bench = Bench()
    front = gateway(tenant="search")
    call = client(trace=front.trace_id, parent=front.span_id, e2e=0.875)
    one = engine(trace=front.trace_id, parent=call.span_id)
    spans = {"e": one, "c": call, "g": front}
    bench.give(*(spans[letter] for letter in order))
    assert bench.told(one) == ("search", "")
    bench.end()
    assert sorted(bench.around_) == [(one.span_id, 0.125, "client"), (one.span_id, 0.25, "gateway")]
    assert bench.joining.joined == {"parent": 1}


def test_a_clients_words_count_where_no_gateway_comes():
    bench = Bench()
    call = client(tenant="app", route="/ask", parent="f" * 16)
    one = engine(trace=call.trace_id, parent=call.span_id)
    bench.give(one, call)
    assert bench.open(one)  # a gateway may be above it
    bench.end()
    assert bench.told(one) == ("app", "/ask")
    assert bench.around_ == [(one.span_id, 0.75, "client")]


def test_of_a_client_a_gateway_and_an_engine_the_gateway_is_the_engines_caller():
    bench = Bench()
    user = client()
    front = gateway(trace=user.trace_id, parent=user.span_id, tenant="search")
    one = engine(trace=user.trace_id, parent=front.span_id)
    bench.give(user, front, one)
    bench.end()
    assert bench.around_ == [(one.span_id, 0.25, "gateway")]


def test_of_several_clients_in_a_row_the_engines_own_caller_is_told():
    bench = Bench()
    outer = client(e2e=9.0)
    inner = client(trace=outer.trace_id, parent=outer.span_id)
    one = engine(trace=outer.trace_id, parent=inner.span_id)
    bench.give(outer, inner, one)
    bench.end()
    assert bench.around_ == [(one.span_id, 0.75, "client")]


# -- by trace ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("gateway_first", [True, False])
def test_spans_of_libraries_between_do_not_hide_the_only_gateway_of_a_trace(gateway_first):
    bench = Bench()
    call = gateway(tenant="search")
    one = engine(trace=call.trace_id, parent="5" * 16)
    bench.give(*((call, one) if gateway_first else (one, call)))
    assert bench.open(one)
    bench.end()
    assert bench.told(one) == ("search", "")
    assert bench.around_ == [(one.span_id, 0.25, "gateway")]
    assert bench.joining.joined == {"trace": 1}


def test_without_a_gateway_the_only_client_of_a_trace_is_the_caller():
    bench = Bench()
    call = client()
    one = engine(trace=call.trace_id, parent="5" * 16)
    bench.give(call, one)
    bench.end()
    assert bench.around_ == [(one.span_id, 0.75, "client")]


def test_a_gateway_that_tries_again_gives_several_requests_and_nothing_around_them():
    bench = Bench()
    call = gateway(tenant="search")
    tries = [engine(trace=call.trace_id, parent=call.span_id) for _ in range(2)]
    bench.give(*tries, call)
    bench.end()
    assert [bench.told(one) for one in tries] == [("search", "")] * 2
    assert bench.around_ == []

    through_a_library = [engine(trace="a" * 32, parent=letter * 16) for letter in "56"]
    bench.give(*through_a_library, gateway(trace="a" * 32, tenant="rag"))
    bench.end()
    assert [bench.told(one) for one in through_a_library] == [("rag", "")] * 2
    assert bench.around_ == []
    assert bench.joining.joined == {"parent": 2, "none": 2}


def test_a_second_request_that_comes_while_its_caller_is_kept_takes_the_first_ones_number_too():
    bench = Bench()
    call = gateway()
    first, second = (engine(trace=call.trace_id, parent=call.span_id) for _ in range(2))
    bench.give(first)
    bench.give(call, after=9.0)
    bench.give(second, after=9.0)  # the first one's own wait is long over
    bench.end()
    assert bench.around_ == []


def test_two_gateways_in_a_trace_are_nobodys_caller_unless_they_say_the_same():
    bench = Bench()
    one = engine(trace="a" * 32, parent="5" * 16)
    bench.give(one, gateway(trace="a" * 32, tenant="search"), gateway(trace="a" * 32, tenant="rag"))
    alike = engine(trace="b" * 32, parent="5" * 16)
    bench.give(alike, gateway(trace="b" * 32, tenant="search"), gateway(trace="b" * 32, tenant="search"))
    bench.end()
    assert bench.told(one) == ("", "")
    assert bench.told(alike) == ("search", "")  # one user's trace, wherever in it
    assert bench.around_ == []


def test_many_calls_of_one_trace_are_each_joined_by_their_parents():
    bench, trace = Bench(), "c" * 32
    calls = [gateway(trace=trace, tenant=f"t{n}", e2e=1.0 + n) for n in range(10)]
    ones = [engine(trace=trace, parent=call.span_id) for call in calls]
    bench.give(*ones, *reversed(calls))
    bench.end()
    assert [bench.told(one)[0] for one in ones] == [f"t{n}" for n in range(10)]
    assert sorted(bench.around_) == sorted((one.span_id, 0.25 + n, "gateway") for n, one in enumerate(ones))


# -- around the engine ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "one"),
    [
        ({"e2e": 0.7}, {}),  # shorter than the engine's part: another clock, or another request
        ({"ended": Ended.LEFT}, {}),
        ({"ended": Ended.ERROR}, {}),
        ({}, {"ended": Ended.ERROR}),
        ({"e2e": None}, {}),
        ({}, {"e2e": None}),
    ],
)
def test_nothing_is_told_around_the_engine_where_lengths_do_not_say_it(call, one):
    bench = Bench()
    front = gateway(**call)
    bench.give(front, engine(trace=front.trace_id, parent=front.span_id, **one))
    bench.end()
    assert bench.around_ == []
    assert bench.joining.joined == {"parent": 1}


def test_clocks_of_two_machines_are_not_compared():
    bench = Bench()
    front = gateway(start=5.0, end=6.0)
    one = engine(trace=front.trace_id, parent=front.span_id, start=9e8, end=9e8 + 0.75)
    bench.give(front, one)
    bench.end()
    assert bench.around_ == [(one.span_id, 0.25, "gateway")]


# -- a gateway that times no first token --------------------------------------------------------------------------------
def test_a_gateway_without_a_first_token_waits_for_what_its_engine_says_of_it():
    bench = Bench()
    blind = gateway(ttft=None)
    bench.give(blind, engine(trace=blind.trace_id, parent=blind.span_id, ttft=0.625))
    assert bench.open(blind)
    bench.end()
    (told,) = [one for one in bench.settled_ if one.request is blind]
    assert told.floor == 0.625


@pytest.mark.parametrize("parents", [("5" * 16,), ("own", "own"), ("5" * 16, "6" * 16), ()])
def test_of_which_request_a_gateway_gave_the_tokens_must_be_certain(parents):
    bench = Bench()
    blind = gateway(ttft=None)
    for parent in parents:
        bench.give(engine(trace=blind.trace_id, parent=blind.span_id if parent == "own" else parent, ttft=0.5))
    bench.give(blind)
    bench.end()
    (told,) = [one for one in bench.settled_ if one.request is blind]
    assert told.floor == (0.5 if len(parents) == 1 else None)


def test_a_request_that_failed_tells_nothing_of_its_gateways_first_token():
    bench = Bench()
    blind = gateway(ttft=None)
    bench.give(blind, engine(trace=blind.trace_id, parent=blind.span_id, ttft=0.5, ended=Ended.ERROR))
    bench.end()
    assert [one.floor for one in bench.settled_ if one.request is blind] == [None]


def test_a_failed_or_timed_call_of_a_gateway_waits_for_nothing():
    bench = Bench()
    for one in (gateway(), gateway(ttft=None, ended=Ended.REFUSED), client(ttft=None)):
        bench.give(one)
        assert not bench.open(one)


# -- bounds -----------------------------------------------------------------------------------------------------------
def test_beyond_the_bound_the_oldest_is_settled_early_and_said_so():
    bench = Bench(most=3)
    ones = [engine(parent="5" * 16) for _ in range(5)]
    bench.give(*ones)
    assert [bench.open(one) for one in ones] == [False, False, True, True, True]
    assert len(bench.joining) == 3
    assert bench.joining.hurried == 2
    bench.end()
    assert all(not bench.open(one) for one in ones)
    assert len(bench.joining._traces) == 0


def test_a_caller_that_made_room_is_not_joined_any_more_and_its_engine_tells_nothing_around():
    bench = Bench(most=1)
    call = gateway(tenant="search")
    one = engine(trace=call.trace_id, parent=call.span_id)
    bench.give(call, engine(parent="5" * 16), one)
    bench.end()
    assert bench.told(one) == ("", "")
    assert bench.around_ == []


def test_what_is_settled_early_tells_nothing_around_it():
    bench = Bench(most=2)
    call = gateway()
    bench.give(call, engine(trace=call.trace_id, parent=call.span_id), gateway(), gateway())
    bench.end()
    assert bench.around_ == []  # another request of the call may have come
    assert bench.joining.joined == {"parent": 1}


def test_a_ring_of_parents_ends():
    bench = Bench()
    a, b = client(own="a" * 16, parent="b" * 16, trace="d" * 32), client(own="b" * 16, parent="a" * 16, trace="d" * 32)
    selfish = client(own="e" * 16, parent="e" * 16, trace="e" * 32)
    ones = [engine(trace=call.trace_id, parent=call.span_id) for call in (a, b, selfish)]
    bench.give(*ones, a, b, selfish)
    bench.end()
    assert [bench.told(one) for one in ones] == [("", "")] * 3


def test_a_clock_that_was_set_back_holds_nothing_for_longer():
    bench = Bench(now=5000.0)
    call = gateway(ttft=None)
    bench.give(engine(trace=call.trace_id, parent=call.span_id), call, engine(parent="5" * 16))
    bench.wait(-3600.0)
    bench.end()
    assert len(bench.settled_) == 3


def test_a_span_of_a_caller_that_comes_twice_is_let_go_of_twice():
    bench = Bench()
    call = gateway()
    bench.give(call)
    bench.give(call, after=5.0)
    bench.end()
