"""The ledger: each request counted once, for its class, at its target; what was promised held against what was measured."""

from __future__ import annotations

import threading
import tracemalloc
from dataclasses import replace

import pytest
from msgspec import structs

from llmvitals.schema import BY_NAME, Kind, Origin, family_of, origin_of
from llmvitals.settings import Settings, Slo, SloClass, Spans
from llmvitals.telemetry.spans import account, counting, recent
from llmvitals.telemetry.spans.ledger import Ledger
from llmvitals.telemetry.spans.model import Batch, Ended, Place, Request, Sent, Shown
from llmvitals.telemetry.spans.recent import Recent
from llmvitals.telemetry.spans.verdict import judged
from support.requests import (
    ENGINE,
    GATEWAY,
    START,
    Clock,
    client,
    engine,
    exemplars,
    gateway,
    give,
    sent,
    values,
)

PLACES = (ENGINE, GATEWAY)
CHAT = SloClass(name="chat", tenants=("search", "chat-*"), ttft_seconds=0.5, tpot_seconds=0.03, objective=0.9)
BATCH = SloClass(name="batch", routes=("/v1/batches",), ttft_seconds=60.0, tpot_seconds=1.0, e2e_seconds=0.7)
CLASSES = Settings(slo=Slo(classes=(CHAT, BATCH)))
BY_MODEL = Settings(slo=Slo(classes=(SloClass(name="big", models=("big-*",)), SloClass(name="rag", tenants=("rag",)))))

MET = ("llm_slo_requests_total", "slo_class", "vantage", "met")
MISSED = ("llm_slo_missed_total", "slo_class", "vantage", "objective")
ENDED = ("llm_span_requests_total", "slo_class", "vantage", "ended")


def ledger(settings: Settings | None = None, *, clock: Clock | None = None, previous: Ledger | None = None) -> Ledger:
    return Ledger(settings or Settings(), clock=clock or Clock(), previous=previous)


def page(settings: Settings | None, *requests: Request, place: Place = ENGINE) -> Shown:
    """What a target's page gets of these requests, once nothing waits any more."""
    clock = Clock()
    one = ledger(settings, clock=clock)
    one.shown(PLACES)
    give(one, *requests)
    for _ in range(3):
        one.shown(tuple(place if place.instance == other.instance else other for other in PLACES))
        clock.now += 10.0
        one.settle()
    return one.shown(tuple(place if place.instance == other.instance else other for other in PLACES))[place.instance]


# -- whether a promise was kept -----------------------------------------------------------------------------------------
LIMITS = (("ttft", 0.5), ("tpot", 0.05), ("e2e", 2.0))


@pytest.mark.parametrize(
    ("told", "met", "missed"),
    [
        ({}, "yes", ()),  # 0.05 s per token is the threshold itself, and meets it
        ({"ttft": 0.5, "e2e": 1.0}, "yes", ()),
        ({"ttft": 0.5000001}, "no", ("ttft",)),
        ({"decode": 0.51}, "no", ("tpot",)),
        ({"e2e": 2.0001}, "no", ("e2e",)),
        ({"ttft": 0.6, "decode": 3.0, "e2e": 3.6}, "no", ("ttft", "tpot", "e2e")),
        ({"output_tokens": 1, "decode": 0.0}, "yes", ()),  # no second token, so none came late
        ({"ended": Ended.ERROR}, "no", ("failed",)),
        ({"ended": Ended.REFUSED, "ttft": 9.0}, "no", ("failed",)),
        # what is not known is judged by what bounds it
        ({"ttft": None}, "unknown", ()),
        ({"ttft": None, "e2e": 0.5, "output_tokens": 12}, "yes", ()),  # all of it came before the first token had to
        ({"ttft": None, "e2e": 2.5}, "no", ("e2e",)),
        ({"output_tokens": None}, "unknown", ()),
        ({"output_tokens": None, "ttft": 0.6}, "no", ("ttft",)),
        ({"decode": None, "ttft": None, "e2e": 0.5}, "yes", ()),  # 0.5 s over ten tokens is the most it can have been
        ({"decode": None, "ttft": None, "e2e": 0.51}, "unknown", ()),
        ({"e2e": None}, "unknown", ()),
        ({"e2e": None, "ttft": 2.5}, "no", ("ttft", "e2e")),  # an answer is no shorter than its first token took
        ({"sequences": 2}, "unknown", ()),  # the tokens are of both, so they bound no time per token
        ({"sequences": 2, "ttft": None, "e2e": 0.4}, "unknown", ()),
    ],
)
def test_a_promise_is_kept_broken_or_not_known(told, met, missed):
    assert judged(engine(**told), LIMITS) == (met, missed)


def test_a_first_token_that_cannot_have_come_in_time_did_not():
    blind = engine(ttft=None)
    assert judged(blind, LIMITS, 0.4) == ("unknown", ())
    assert judged(blind, LIMITS, 0.6) == ("no", ("ttft",))
    assert judged(engine(ttft=None, e2e=0.5), LIMITS, 0.6) == ("yes", ())  # two clocks: the answer's length counts


# -- what is counted ----------------------------------------------------------------------------------------------------
def test_each_end_counts_and_only_those_break_a_promise_that_are_the_servers_fault():
    shown = page(None, *(engine(ended=ended) for ended in Ended), engine(ttft=2.5))
    assert values(shown, *ENDED) == {("default", "engine", e.value): 2.0 if e is Ended.OK else 1.0 for e in Ended}
    assert values(shown, *MET) == {("default", "engine", "yes"): 1.0, ("default", "engine", "no"): 3.0}
    assert values(shown, *MISSED) == {("default", "engine", "failed"): 2.0, ("default", "engine", "ttft"): 1.0}


def test_times_are_those_of_requests_that_ended_well_and_tokens_those_of_all():
    shown = page(
        None, engine(), engine(ended=Ended.LEFT), engine(ended=Ended.ERROR, output_tokens=None), engine(ttft=None)
    )
    counts = {
        name: sum(values(shown, f"llm_span_{name}_seconds_count").values())
        for name in ("ttft", "tpot", "e2e", "queue", "prefill", "decode")
    }
    assert counts == {"ttft": 1.0, "tpot": 2.0, "e2e": 2.0, "queue": 2.0, "prefill": 2.0, "decode": 2.0}
    assert values(shown, "llm_span_ttft_seconds_sum", "size") == {("small",): 0.25}
    assert values(shown, "llm_span_queue_seconds_sum") == {(): 0.125}
    assert values(shown, "llm_span_tokens_total", "kind") == {("prompt",): 400.0, ("output",): 33.0}


def test_prompts_are_split_by_size_at_1024_tokens():
    sizes = {1023: "small", 1024: "large", None: "unknown"}
    shown = page(None, *(engine(prompt_tokens=tokens) for tokens in sizes))
    assert values(shown, "llm_span_ttft_seconds_count", "size") == {(size,): 1.0 for size in sizes.values()}


def test_classes_and_their_thresholds_are_held_against_each_request():
    calls = [gateway(tenant="search"), gateway(tenant="chat-7", ttft=0.6), gateway(route="/v1/batches"), gateway()]
    ones = [engine(trace=call.trace_id, parent=call.span_id) for call in calls]
    shown = page(CLASSES, *calls, *ones)
    assert values(shown, *MET) == {
        ("chat", "engine", "no"): 2.0,
        ("batch", "engine", "no"): 1.0,
        ("default", "engine", "yes"): 1.0,
    }
    assert values(shown, *MISSED) == {("chat", "engine", "tpot"): 2.0, ("batch", "engine", "e2e"): 1.0}
    assert values(shown, "llm_slo_objective_ratio", "slo_class") == {
        ("chat",): 0.9,
        ("batch",): 0.95,
        ("default",): 0.95,
    }
    assert values(shown, "llm_slo_threshold_seconds", "slo_class", "objective") == {
        ("chat", "ttft"): 0.5,
        ("chat", "tpot"): 0.03,
        ("batch", "ttft"): 60.0,
        ("batch", "tpot"): 1.0,
        ("batch", "e2e"): 0.7,
        ("default", "ttft"): 2.0,
        ("default", "tpot"): 0.05,
    }
    seen = page(CLASSES, *calls, *ones, place=GATEWAY)
    assert values(seen, *MET) == {
        ("chat", "gateway", "no"): 2.0,
        ("batch", "gateway", "no"): 1.0,
        ("default", "gateway", "no"): 1.0,  # (1.0 - 0.375) / 10 is over 0.05
    }
    assert values(seen, *MISSED)[("chat", "gateway", "ttft")] == 1.0


def test_what_a_request_took_around_the_engine_counts_for_its_class_at_the_engine():
    call = gateway(tenant="search")
    one = engine(trace=call.trace_id, parent=call.span_id)
    shown = page(CLASSES, call, one)
    assert values(shown, "llm_span_frontend_seconds_sum", "slo_class", "parent") == {("chat", "gateway"): 0.25}
    assert values(shown, "llm_span_frontend_seconds_count", "slo_class", "parent") == {("chat", "gateway"): 1.0}
    assert exemplars(shown, "llm_span_frontend_seconds")["0.3"].trace_id == one.trace_id


def test_a_gateway_that_times_no_first_token_breaks_its_promise_where_its_engine_did():
    calls = [gateway(ttft=None, e2e=4.0, output_tokens=1000) for _ in range(2)]
    slow = engine(trace=calls[0].trace_id, parent=calls[0].span_id, ttft=2.5, e2e=3.0)
    quick = engine(trace=calls[1].trace_id, parent=calls[1].span_id)
    shown = page(None, *calls, slow, quick, place=GATEWAY)
    assert values(shown, *MET) == {("default", "gateway", "no"): 1.0, ("default", "gateway", "unknown"): 1.0}
    assert values(shown, *MISSED) == {("default", "gateway", "ttft"): 1.0}
    assert values(shown, "llm_span_ttft_seconds_count") == {}  # a bound is no time


def test_clients_count_as_taken_and_are_on_no_page():
    one = ledger()
    give(one, client(), client(ended=Ended.ERROR), engine())
    assert one.shown(PLACES).keys() == {"e"}
    assert one.counts().taken == {"genai": 2, "vllm": 1}
    assert one.counts().senders == {"only": 1}


# -- histograms -----------------------------------------------------------------------------------------------------------
def test_buckets_hold_every_threshold_exactly_and_a_value_at_an_edge_lies_in_it():
    odd = Slo(
        ttft_seconds=1.23456789,
        classes=(SloClass(name="x", tenants=("x",), ttft_seconds=0.1 + 0.2, e2e_seconds=700.0),),
    )
    shown = page(
        Settings(slo=odd), engine(ttft=1.23456789, e2e=9.0), engine(ttft=1.2345678901, e2e=9.0), engine(ttft=0.3)
    )
    edges = {
        key.label("le"): value for key, value in shown.samples.items() if key.name == "llm_span_ttft_seconds_bucket"
    }
    assert {float(le) for le in edges} >= {1.23456789, 0.30000000000000004, 0.3, 0.001, 600.0}
    assert [edges[le] for le in ("0.3", "0.30000000000000004", "1", "1.23456789", "1.5", "+Inf")] == [1, 1, 1, 2, 3, 3]
    assert list(map(float, edges)) == sorted(map(float, edges))
    whole = {key.label("le") for key in shown.samples if key.name == "llm_span_e2e_seconds_bucket"}
    assert "700" in whole
    assert "700" not in edges


def test_each_bucket_shows_its_newest_request():
    old, new = engine(ttft=0.25, end=START + 5), engine(ttft=0.26, end=START + 9)
    late = engine(ttft=0.27, end=START + 7)  # told last, and no newer
    far = engine(ttft=700.0, end=START)
    found = exemplars(page(None, old, new, late, far), "llm_span_ttft_seconds")
    assert {le: (one.value, one.t, one.trace_id) for le, one in found.items()} == {
        "0.3": (0.26, START + 9, new.trace_id),
        "+Inf": (700.0, START, far.trace_id),
    }


def test_all_that_is_shown_is_in_the_schema_with_its_labels_and_whose_it_is():
    place = replace(ENGINE, labels={"instance": "e", "engine": "vllm", "team": "x"})
    call = gateway(tenant="search")
    shown = page(CLASSES, call, engine(trace=call.trace_id, parent=call.span_id), place=place)
    families = set()
    for key in shown.samples:
        family = family_of(key.name)
        assert family is not None
        assert origin_of(family.name) is Origin.SPANS
        families.add(family.name)
        labels = dict(key.labels)
        assert list(key.labels) == sorted(key.labels)
        assert (labels.pop("instance"), labels.pop("engine"), labels.pop("team")) == ("e", "vllm", "x")
        labels.pop("model", None)
        assert labels.keys() - {"le"} == set(family.labels)
        assert ("le" in labels) is key.name.endswith("_bucket")
        assert family.kind is not Kind.HISTOGRAM or key.name != family.name
    assert families == {name for name in BY_NAME if origin_of(name) is Origin.SPANS}
    assert all(key in shown.samples for key in shown.exemplars)


def test_counters_begin_at_0_so_that_the_first_of_a_kind_is_seen():
    shown = page(CLASSES, engine())
    zero = {
        key.label("met") for key, v in shown.samples.items() if key.name == MET[0] and key.label("slo_class") == "chat"
    }
    assert zero == {"yes", "no", "unknown"}
    misses = {k.label("objective") for k in shown.samples if k.name == MISSED[0] and k.label("slo_class") == "batch"}
    assert misses == {"ttft", "tpot", "e2e", "failed"}


def test_how_new_it_is_and_whose_processes_told_it():
    shown = page(None, engine(end=START + 3), engine(end=START + 2))
    assert values(shown, "llm_span_last_end_seconds", "vantage") == {("engine",): START + 3}
    assert values(shown, "llm_span_senders", "join") == {("only",): 1.0}


def test_a_clock_that_is_ahead_makes_nothing_newer_than_it_can_be():
    clock = Clock()
    one = ledger(clock=clock)
    one.shown(PLACES)
    give(one, engine(start=clock.now + 1e8, end=clock.now + 1e8 + 1))
    before = clock.now
    shown = one.shown(PLACES)["e"]
    assert values(shown, "llm_span_last_end_seconds", "vantage") == {("engine",): before}
    clock.now += 60.0
    late = engine(start=before + 50, end=before + 55)
    give(one, late)
    shown = one.shown(PLACES)["e"]
    assert values(shown, "llm_span_last_end_seconds", "vantage") == {("engine",): before + 55}
    assert {one.trace_id for one in shown.exemplars.values()} == {late.trace_id}


# -- models -----------------------------------------------------------------------------------------------------------------
def test_requests_that_name_no_model_are_the_only_ones_of_the_page():
    shown = page(BY_MODEL, engine(), place=replace(ENGINE, models=("big-7b",)))
    assert values(shown, MET[0], "model", "slo_class") == {("big-7b", "big"): 1.0}


def test_an_engines_requests_are_its_pages_models_however_they_call_it():
    shown = page(None, engine(model="an-adapter"), engine(model="m"))
    assert values(shown, MET[0], "model") == {("m",): 2.0}
    seen = page(None, gateway(model="alias"), gateway(model=""), place=GATEWAY)
    assert values(seen, MET[0], "model") == {("alias",): 1.0, ("m",): 1.0}


def test_of_several_models_nobody_knows_whose_a_request_is_and_a_gap_says_so():
    two = replace(ENGINE, models=("big-7b", "small"))
    shown = page(BY_MODEL, engine(), engine(model="small"), place=two)
    assert values(shown, MET[0], "model", "slo_class", "met") == {("small", "default", "yes"): 1.0}
    gaps = {(k.label("family"), k.label("gap"), k.label("reason")) for k in shown.samples if k.name == "llm_family_gap"}
    assert {(family, gap) for family, gap, _ in gaps} == {("llm_slo_*", "unsupported"), ("llm_span_*", "unsupported")}
    assert all("several" in reason for _, _, reason in gaps)
    assert not values(page(BY_MODEL, engine(model="small"), place=two), "llm_family_gap")


def test_where_the_model_decides_the_class_and_nobody_names_it_the_class_is_unknown():
    nameless = replace(ENGINE, models=())
    slow, failed = engine(ttft=99.0), engine(ended=Ended.ERROR)
    shown = page(BY_MODEL, slow, failed, place=nameless)
    assert values(shown, *MET) == {("unknown", "engine", "unknown"): 1.0, ("unknown", "engine", "no"): 1.0}
    assert values(shown, *MISSED) == {("unknown", "engine", "failed"): 1.0}
    assert values(shown, "llm_slo_threshold_seconds", "slo_class") == {}
    # where no class asks for models, the same requests are the default class'
    assert values(page(CLASSES, slow, failed, place=nameless), *MET) == {("default", "engine", "no"): 2.0}
    # and where all the models of the page are one class', that is theirs
    alike = replace(ENGINE, models=("big-a", "big-b"))
    assert not values(page(BY_MODEL, engine(), place=alike), *MET)  # withheld: whose of the two it was is not known


def test_a_class_that_comes_before_those_that_ask_for_models_needs_none():
    first = Slo(classes=(SloClass(name="rag", tenants=("rag",)), SloClass(name="big", models=("big-*",))))
    call = gateway(tenant="rag")
    shown = page(
        Settings(slo=first), call, engine(trace=call.trace_id, parent=call.span_id), place=replace(ENGINE, models=())
    )
    assert values(shown, MET[0], "slo_class") == {("rag",): 1.0}


def test_a_page_that_names_no_model_for_a_while_keeps_the_one_that_it_named():
    one = ledger()
    give(one, engine())
    one.shown(PLACES)
    one.shown((replace(ENGINE, models=()), GATEWAY))
    give(one, engine())
    assert values(one.shown((replace(ENGINE, models=()), GATEWAY)), MET[0], "model") == {("m",): 2.0}


def test_models_of_a_gateway_are_bounded():
    over = account.MOST_MODELS + 5
    shown = page(None, *(gateway(model=f"m{n}") for n in range(over)), place=replace(GATEWAY, models=()))
    models = values(shown, ENDED[0], "model")
    assert len(models) == account.MOST_MODELS + 1
    assert models[(account.OTHER_MODELS,)] == 5.0
    assert sum(models.values()) == over


def test_names_that_callers_make_up_leave_room_for_models_that_are_served():
    mistaken = [gateway(model=f"typo-{n}", ended=Ended.CLIENT_ERROR) for n in range(account.MOST_MODELS + 5)]
    served = [gateway(model=f"m{n}") for n in range(account.MOST_MODELS - account.MOST_MISTAKEN)]
    again = gateway(model="m0", ended=Ended.CLIENT_ERROR)
    shown = page(None, *mistaken, *served, again, place=replace(GATEWAY, models=()))
    models = values(shown, ENDED[0], "model")
    assert {f"m{n}" for n in range(len(served))} < {model for (model,) in models}
    assert models[("m0",)] == 2.0
    assert models[(account.OTHER_MODELS,)] == len(mistaken) - account.MOST_MISTAKEN


@pytest.mark.parametrize("name", ["default", "unknown", "probe", ""])
def test_no_class_of_the_settings_has_a_name_that_means_something_else_here(name):
    with pytest.raises(ValueError, match="a class needs a name"):
        SloClass(name=name, tenants=("x",))


# -- whose it is ----------------------------------------------------------------------------------------------------------
def test_what_comes_before_its_target_is_known_waits_for_it():
    clock = Clock()
    one = ledger(clock=clock)
    call = gateway()
    give(one, engine(trace=call.trace_id, parent=call.span_id), call)
    assert one.counts().open == 2
    assert one.shown(()) == {}
    assert one.counts().unplaced == {"no-such-target": 2}
    clock.now += 10.0  # what was told around the engine waits as well
    one.settle()
    assert values(one.shown(PLACES), ENDED[0], "vantage") == {("engine",): 1.0, ("gateway",): 1.0}
    assert values(one.shown(PLACES), "llm_span_frontend_seconds_count", "parent") == {("gateway",): 1.0}
    assert (one.counts().open, sum(one.counts().taken.values()), one.counts().unplaced) == (0, 2, {})


def test_what_nobody_claims_is_dropped_and_counted():
    clock = Clock()
    one = ledger(clock=clock)
    two = (ENGINE, replace(ENGINE, instance="f", host="10.0.0.3"))
    give(one, engine(), engine())
    one.shown(two)
    assert one.counts().unplaced == {"nothing-tells": 1}
    assert one.counts().senders == {"none": 1}
    clock.now += counting.UNPLACED_SECONDS
    one.settle()
    assert one.counts().dropped == {counting.NO_TARGET: 2}
    give(one, engine())
    assert values(one.shown((*two[:1],)), ENDED[0]) == {(): 1.0}  # only what is new


def test_nothing_is_told_around_a_request_that_was_dropped():
    clock = Clock()
    one = ledger(Settings(spans=Spans(join_seconds=50.0)), clock=clock)
    call = gateway()
    give(one, engine(trace=call.trace_id, parent=call.span_id))
    clock.now += 40.0
    give(one, call)
    clock.now += 50.0  # the call's time is over; its engine's request was given up after 60 s
    shown = one.shown(PLACES)
    assert one.counts().dropped == {counting.NO_TARGET: 1}
    assert one.counts().joined == {"parent": 1}
    assert values(shown, ENDED[0], "vantage") == {("gateway",): 1.0}
    assert values(shown, "llm_span_frontend_seconds_count") == {}


def test_no_more_waits_for_a_target_than_may():
    one = ledger(Settings(spans=Spans(max_open=10)))
    give(one, *(engine() for _ in range(25)))
    assert (one.counts().open, one.counts().dropped) == (10, {counting.NO_TARGET: 15})


def test_a_new_process_that_sends_more_than_may_wait_is_placed_before_the_next_page():
    ledger = Ledger(Settings(spans=Spans(max_open=20)), clock=Clock())
    ledger.shown([ENGINE])  # the targets are known, no process is
    for _ in range(10):
        give(ledger, *(engine() for _ in range(8)))
    assert values(ledger.shown([ENGINE])["e"], MET[0], "met") == {("yes",): 80.0}
    assert ledger.counts().dropped == {}


def test_a_process_that_becomes_anothers_takes_no_counts_along():
    one = ledger()
    a, b = replace(ENGINE, attributes={"service.name": "engine"}), replace(ENGINE, instance="f", host="10.0.0.3")
    give(one, engine(), engine())
    one.shown((a, b))
    moved = (replace(a, attributes={"service.name": "x"}), replace(b, attributes={"service.name": "engine"}))
    one.shown(moved)
    give(one, engine())
    shown = one.shown(moved)
    assert (values(shown, ENDED[0], keep="e"), values(shown, ENDED[0], keep="f")) == ({(): 2.0}, {(): 1.0})
    assert values(shown, "llm_span_senders", "instance", "join") == {("f", "configured"): 1.0}
    assert ("e", "configured") in {(k.label("instance"), k.label("join")) for k in shown["e"].samples}  # 0 now


def test_a_process_that_is_not_seen_for_a_while_stays_its_targets():
    one = ledger()
    seen = replace(ENGINE, host="127.0.0.1", pids=frozenset({41})), replace(ENGINE, instance="f", host="127.0.0.1")
    give(one, engine(), peer="127.0.0.1")
    assert values(one.shown(seen), "llm_span_senders", "instance", "join") == {("e", "process"): 1.0}
    hidden = (replace(seen[0], pids=frozenset()), seen[1])
    assert values(one.shown(hidden), "llm_span_senders", "instance", "join") == {("e", "process"): 1.0}
    weaker = (hidden[0], replace(seen[1], host="10.0.0.3"))  # its address would tell it too
    assert values(one.shown(weaker), "llm_span_senders", "instance", "join") == {("e", "process"): 1.0}
    ruled_out = (replace(hidden[0], attributes={"service.name": "x"}), seen[1])
    assert values(one.shown(ruled_out), "llm_span_senders", "instance") == {("f",): 1.0}
    assert values(one.shown(ruled_out[:1]), "llm_span_senders", "instance") == {}
    assert one.counts().unplaced == {"contradicted": 1}


def test_a_way_that_tells_more_takes_the_place_of_a_weaker_one():
    one = ledger()
    give(one, engine(), peer="127.0.0.1")
    assert values(one.shown((ENGINE,)), "llm_span_senders", "join") == {("only",): 1.0}
    known = (replace(ENGINE, pids=frozenset({41})),)
    assert values(one.shown(known), "llm_span_senders", "join") == {("process",): 1.0}


def test_processes_are_bounded_and_their_counts_stay(monkeypatch):
    monkeypatch.setattr(counting, "MOST_SENDERS", 4)
    clock = Clock()
    one = ledger(clock=clock)
    for n in range(10):
        one.take(Batch((Sent((("service.instance.id", str(n)),), (engine(),)),)), "10.0.0.9")
        one.shown(PLACES)
    assert one.counts().senders == {"only": 4}
    assert values(one.shown(PLACES), ENDED[0]) == {(): 10.0}
    clock.now += counting.SILENT_SECONDS
    one.settle()
    assert one.counts().senders == {}
    assert values(one.shown(PLACES), ENDED[0]) == {(): 10.0}


def test_processes_of_nobody_push_out_none_of_a_target(monkeypatch):
    monkeypatch.setattr(counting, "MOST_SENDERS", 4)
    places = (replace(ENGINE, attributes={"service.name": "ours"}), replace(ENGINE, instance="f", host="10.0.0.3"))
    ours = (("service.name", "ours"),)
    one = ledger()
    one.take(Batch((Sent(ours, (engine(),)),)), "10.0.0.9")
    one.shown(places)
    for n in range(10):
        one.take(Batch((Sent((("service.name", str(n)),), (engine(),)),)), "10.0.0.8")
    one.take(Batch((Sent(ours, (engine(),)),)), "10.0.0.9")
    assert one.counts().taken == {"vllm": 2}  # at once, with no page in between
    assert one.counts().senders == {"configured": 1, "none": 3}


def test_of_a_process_that_is_forgotten_only_its_requests_wait(monkeypatch):
    monkeypatch.setattr(counting, "MOST_SENDERS", 4)
    one = ledger()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for n in range(200):
        said = tuple((f"{n}-{m}", f"{n}-{m}-" + "x" * 1000) for m in range(50))
        one.take(Batch((Sent(said, (engine(),)),)), "10.0.0.8")
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert one.counts().open == 200
    assert grown < 1_500_000  # all that was said is 10 MB


def test_targets_whose_counts_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(counting, "MOST_ACCOUNTS", 2)
    one = ledger()
    for n in range(5):
        give(one, engine())
        one.shown((replace(ENGINE, instance=f"pod-{n}"),))
    assert len(one._counting._accounts) == 2
    give(one, engine())
    assert values(one.shown((replace(ENGINE, instance="pod-4"),)), ENDED[0]) == {(): 1.0}
    assert sum(one.counts().taken.values()) == 6


# -- once -------------------------------------------------------------------------------------------------------------------
def test_a_span_that_is_sent_again_counts_once():
    one, again = ledger(), (engine(), engine(parent="5" * 16), gateway())
    one.shown(PLACES)
    for _ in range(3):
        give(one, *again)
    give(one, replace(again[0], span_id="f" * 16), replace(again[0], trace_id="f" * 32))
    assert one.counts().dropped == {counting.DUPLICATE: 6}
    assert values(one.shown(PLACES), ENDED[0], "vantage") == {("engine",): 4.0, ("gateway",): 1.0}


def test_the_memory_of_spans_is_bounded_and_holds_the_newest():
    memory = Recent(100)
    ids = [f"{n:016x}" for n in range(1050)]
    assert all(memory.first("a" * 32, one) for one in ids)
    assert len(memory) <= 200
    assert not any(memory.first("a" * 32, one) for one in ids[-100:])
    assert memory.first("a" * 32, ids[0])
    assert recent.MOST >= 50_000


def test_every_span_is_in_one_number():
    clock = Clock()
    one = ledger(clock=clock)
    requests = [engine(), engine(parent="5" * 16), gateway(), gateway(ttft=None), client()]
    one.take(replace(sent(*requests, requests[0]), other=7, refused={"ids": 2, "times": 1}), "10.0.0.9")
    for after in (0.0, 5.0, 10.0, 100.0):
        clock.now += after
        one.settle()
        counts = one.counts()
        assert counts.spans == len(requests) + 1 + 7 + 3
        assert counts.spans == sum(counts.taken.values()) + counts.other + sum(counts.dropped.values()) + counts.open
    assert counts.open == 0
    assert counts.dropped == {"ids": 2, "times": 1, counting.DUPLICATE: 1, counting.NO_TARGET: 4}


# -- reload -----------------------------------------------------------------------------------------------------------------
def test_what_was_counted_goes_on_under_new_settings():
    clock = Clock()
    old = ledger(CLASSES, clock=clock)
    old.shown(PLACES)
    again = engine()
    give(old, again, engine(parent="5" * 16))
    new = ledger(CLASSES, clock=clock, previous=old)
    give(old, engine())  # it is not in use yet
    assert values(old.shown(PLACES), ENDED[0]) == {(): 2.0}
    give(new, again)
    clock.now += 10.0
    assert values(new.shown(PLACES), ENDED[0]) == {(): 3.0}
    assert new.counts().dropped == {counting.DUPLICATE: 1}
    give(old, engine())  # somebody still held the old one
    assert values(new.shown(PLACES), ENDED[0]) == values(old.shown(PLACES), ENDED[0]) == {(): 4.0}
    assert new.counts() == old.counts()
    old.settle()


def test_a_ledger_that_is_never_used_changes_nothing():
    old = ledger()
    give(old, engine())
    ledger(CLASSES, previous=old)
    give(old, engine())
    assert values(old.shown(PLACES), ENDED[0]) == {(): 2.0}
    last = ledger(CLASSES, previous=ledger(CLASSES, previous=old))
    assert values(last.shown(PLACES), ENDED[0]) == {(): 2.0}
    other = ledger(CLASSES, previous=old)  # of one that somebody took over from already
    give(other, engine())
    assert values(last.shown(PLACES), ENDED[0]) == {(): 3.0}


def test_what_was_counted_by_another_promise_or_at_other_edges_begins_anew():
    call, batch = gateway(tenant="search"), gateway(route="/v1/batches")
    ones = [engine(trace=one.trace_id, parent=one.span_id) for one in (call, batch)]
    old = ledger(CLASSES)
    give(old, call, batch, *ones, engine())
    old.shown(PLACES)
    stricter = replace_class(CLASSES, "chat", tpot_seconds=0.025)
    shown = ledger(stricter, previous=old).shown(PLACES)["e"]
    assert values(shown, *ENDED) == {("batch", "engine", "ok"): 1.0, ("default", "engine", "ok"): 1.0}
    counts = {name: values(shown, f"llm_span_{name}_seconds_count", "slo_class") for name in ("ttft", "tpot", "e2e")}
    assert counts == {"ttft": {("batch",): 1.0, ("default",): 1.0}, "tpot": {}, "e2e": counts["ttft"]}


def replace_class(settings: Settings, name: str, **more: object) -> Settings:
    classes = tuple(structs.replace(one, **more) if one.name == name else one for one in settings.slo.classes)
    return structs.replace(settings, slo=structs.replace(settings.slo, classes=classes))


# -- threads ----------------------------------------------------------------------------------------------------------------
def test_threads_lose_nothing():
    one = ledger(CLASSES)
    batches = [[sent(*(engine() for _ in range(20))) for _ in range(25)] for _ in range(4)]
    senders = [threading.Thread(target=lambda mine=mine: [one.take(b, "10.0.0.9") for b in mine]) for mine in batches]
    for thread in senders:
        thread.start()
    while any(thread.is_alive() for thread in senders):
        one.shown(PLACES)
        one = ledger(CLASSES, previous=one)
    for thread in senders:
        thread.join()
    assert values(one.shown(PLACES), ENDED[0]) == {(): 2000.0}
    assert one.counts().spans == 2000


def test_an_export_of_many_requests_does_not_hold_the_lock_to_its_end():
    one = ledger()
    held: list[int] = []
    take = one._counting.take

    def counted(resource, requests, peer):
        held.append(len(requests))
        take(resource, requests, peer)

    one._counting.take = counted
    give(one, *(engine() for _ in range(1100)))
    assert held == [512, 512, 76]
    assert one.counts().spans == 1100
