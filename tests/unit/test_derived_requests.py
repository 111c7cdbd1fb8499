"""Requests told one by one: goodput, burn and harm by class against counts worked by hand, and how far they may be trusted."""

from __future__ import annotations

from math import comb

import msgspec
import pytest

from llmvitals.gaps import GapKind
from llmvitals.settings import DEFAULT_CLASS, UNKNOWN_CLASS, Settings, Slo, SloClass
from llmvitals.signals.catalogue import compute
from llmvitals.signals.reading import Standing
from support.made import Server, healthy, read, value, without
from support.situations_requests import CHAT_AND_BATCH, PROMISES, Traces, told_and_well, traced, two_classes

CLASSES = {"chat": (0.5, 0.05, 0.9), **PROMISES}


def tail(late: int, n: int, p: float) -> float:
    """P(X >= late), by its definition."""
    return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(late, n + 1))


def once(*told, served: float = 0, promises=PROMISES, vantage="engine", pages=6, took=0.03, gauges=None):
    """All of it happens in the first interval; ``told``: calls on the traces."""

    def each(server: Server, spans: Traces, i: int) -> None:
        if i == 1:
            server.serve(served)
            for tell in told:
                tell(spans)
        else:
            spans.newest()
        server.gauges(**(gauges or {}))

    return traced(each, promises=promises, vantage=vantage, pages=pages, took=took)


# -- counts -----------------------------------------------------------------------------------------------------------
def test_goodput_is_joint_and_exact():
    """100 requests: 8 late, 5 of them slow as well, 4 slow alone, so 12 missed something."""
    window = once(
        lambda t: t.tell(88),
        lambda t: t.tell(3, ttft=3.0),
        lambda t: t.tell(5, ttft=3.0, tpot=0.1),
        lambda t: t.tell(4, tpot=0.1),
        served=100,
    )
    found = read(window, "slo_goodput_ratio")
    assert found.value == pytest.approx(0.88)
    assert found.standing is Standing.EXACT
    assert value(window, "slo_ttft_attainment_ratio") == pytest.approx(0.92)
    assert value(window, "slo_tpot_attainment_ratio") == pytest.approx(0.91)


def test_the_exact_number_lies_inside_the_histograms_interval():
    window = two_classes(chat=0.2, batch=0.3)
    low, high = (value(window, f"goodput_{end}_ratio") for end in ("low", "high"))
    assert low <= value(window, "slo_goodput_ratio") <= high


def test_a_failure_counts_against_goodput_and_against_no_time():
    window = once(lambda t: t.tell(90), lambda t: t.fail(10), served=100)
    assert value(window, "slo_goodput_ratio") == pytest.approx(0.9)
    assert value(window, "slo_ttft_attainment_ratio") == 1.0


def test_failures_without_a_span_come_from_the_page():
    """Ten 5xx on the page, four of which left a span."""

    def each(server: Server, spans: Traces, i: int) -> None:
        if i == 1:
            server.serve(90)
            server.answer(10, "5xx")
            spans.tell(90)
            spans.fail(4)

    assert value(traced(each, pages=6), "slo_goodput_ratio") == pytest.approx(90 / (94 + 6))


def test_what_a_gateway_saw_comes_before_what_the_engine_saw():
    server = Server()
    engine, gateway = Traces(server), Traces(server, vantage="gateway")
    server.page()
    server.serve(40)
    engine.tell(40)
    gateway.tell(30)
    gateway.tell(10, ttft=3.0)
    for _ in range(6):
        server.page()
    assert value(server.window(), "slo_goodput_ratio") == pytest.approx(0.75)
    assert "callers" in read(server.window(), "slo_goodput_ratio").note


# -- classes ----------------------------------------------------------------------------------------------------------
def test_each_class_is_held_to_its_own_promise():
    """Chat: 5 of 50 late against half a second; one in ten may be. The rest waits as long and was promised more."""
    window = once(
        lambda t: t.tell(45, "chat"),
        lambda t: t.tell(5, "chat", ttft=0.8),
        lambda t: t.tell(50, ttft=0.8),
        served=100,
        promises=CLASSES,
    )
    worst, burn = read(window, "slo_worst_goodput_ratio"), read(window, "slo_burn_peak")
    assert (worst.value, burn.value) == (pytest.approx(0.9), pytest.approx(1.0))
    assert worst.note.startswith("class chat,")
    assert burn.note.startswith("class chat,")


def test_burn_is_what_missed_over_what_may():
    assert value(once(lambda t: t.tell(80), lambda t: t.tell(20, ttft=3.0), served=100), "slo_burn_peak") == (
        pytest.approx(0.2 / 0.05)
    )


def test_a_class_of_few_is_not_the_worst():
    window = once(lambda t: t.tell(100), lambda t: t.tell(9, "chat", ttft=3.0), served=109, promises=CLASSES)
    assert value(window, "slo_worst_goodput_ratio") == 1.0
    alone = once(lambda t: t.tell(9, ttft=3.0), served=9)
    assert read(alone, "slo_worst_goodput_ratio").gap.kind is GapKind.TOO_SHORT


def test_failures_whose_class_nobody_knows_bound_what_each_class_got():
    def each(server: Server, spans: Traces, i: int) -> None:
        if i == 1:
            server.serve(100)
            server.answer(10, "5xx")
            spans.tell(50, "chat")
            spans.tell(50)

    window = traced(each, promises=CLASSES, pages=6)
    assert value(window, "slo_goodput_ratio") == pytest.approx(100 / 110)
    assert read(window, "slo_worst_goodput_ratio").standing is Standing.UPPER
    assert read(window, "slo_burn_peak").standing is Standing.LOWER


def test_requests_that_no_promise_is_known_of_make_an_estimate_and_no_class():
    def lost(t: Traces) -> None:
        t.add("llm_slo_requests_total", 10, UNKNOWN_CLASS, met="unknown")
        t.add("llm_slo_requests_total", 20, UNKNOWN_CLASS, met="no")
        t.add("llm_slo_missed_total", 20, UNKNOWN_CLASS, objective="failed")
        t.add("llm_span_requests_total", 10, UNKNOWN_CLASS, ended="ok")

    window = once(lambda t: t.tell(90), lost, served=100)
    assert read(window, "slo_goodput_ratio").standing is Standing.ESTIMATE
    assert value(window, "slo_worst_goodput_ratio") == 1.0


def test_objectives_come_from_the_page_that_counted():
    window = once(
        lambda t: t.tell(80), lambda t: t.tell(20, ttft=3.0), served=100, promises={DEFAULT_CLASS: (2.0, 0.05, 0.8)}
    )
    assert value(window, "slo_burn_peak") == pytest.approx(1.0)


# -- whether all were told --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("told", "covered", "standing"),
    [(100, 1.0, Standing.EXACT), (98, 0.98, Standing.EXACT), (97, 0.97, Standing.ESTIMATE)],
)
def test_coverage_is_spans_over_finished_requests(told, covered, standing):
    window = once(lambda t: t.tell(told), served=100)
    assert value(window, "span_coverage_ratio") == pytest.approx(covered)
    found = read(window, "slo_goodput_ratio")
    assert found.standing is standing
    assert ("97 of 100" in found.note) == (told == 97)


@pytest.mark.parametrize(
    ("kept", "least", "most", "standing"), [(1.0, 0.98, 1.0, Standing.EXACT), (0.6, 0.55, 0.75, Standing.ESTIMATE)]
)
def test_spans_that_come_an_export_later_are_not_missing(kept, least, most, standing):
    """The load doubles within the window, and what ended in one interval is told in the next: the sums of the window differ."""
    rates = [20.0] * 6 + [40.0] * 6

    def each(server: Server, spans: Traces, i: int) -> None:
        server.serve(rates[i - 1])
        if i > 1:
            spans.tell(kept * rates[i - 2])
            spans.set("llm_span_last_end_seconds", server.t, vantage="engine")

    window = traced(each, pages=len(rates))
    finished, told = sum(rates), kept * sum(rates[:-1])
    assert told / finished < 0.95  # what a sum over the window would call a loss
    assert least <= value(window, "span_coverage_ratio") <= most
    assert read(window, "slo_goodput_ratio").standing is standing


def test_requests_given_up_have_no_span_and_are_not_waited_for():
    def each(server: Server, spans: Traces, i: int) -> None:
        if i == 1:
            server.serve(50)
            server.count("llm_requests_finished_total", 50, reason="abort")
            spans.tell(50)

    assert value(traced(each, pages=6), "span_coverage_ratio") == 1.0


def test_traces_that_stopped_are_a_gap_not_a_number():
    """40 s without a span while the engine goes on."""

    def each(server: Server, spans: Traces, i: int) -> None:
        healthy(server, i)
        if i <= 4:
            spans.tell(50)

    window = traced(each)
    for signal in ("slo_goodput_ratio", "slo_burn_peak", "span_coverage_ratio", "slo_harm_p"):
        found = read(window, signal)
        assert found.gap is not None, signal
        assert found.gap.kind is GapKind.STALE, signal


def test_traces_that_never_came_are_said_to_be_missing_only_where_requests_ended():
    silent = traced(lambda server, _, i: healthy(server, i))
    assert read(silent, "slo_goodput_ratio").gap.kind is GapKind.STALE
    idle = traced(lambda server, _, __: server.gauges())
    assert read(idle, "slo_goodput_ratio").gap.kind is GapKind.NO_TRAFFIC


def test_a_gateways_calls_are_held_against_its_page():
    server = Server()
    spans = Traces(server, vantage="gateway")
    page = {"model": "m", "gateway": "g", "status": "200"}
    spans.count("llm_gateway_requests_total", 0, **page)
    server.page()
    server.serve(500)  # of several engines, say
    spans.count("llm_gateway_requests_total", 100, **page)
    spans.tell(60)
    for _ in range(6):
        server.page()
    assert value(server.window(), "span_coverage_ratio") == pytest.approx(0.6)


def test_a_gateway_without_a_page_that_calls_more_than_this_engine_cannot_be_held_against_it():
    window = once(lambda t: t.tell(120), served=100, vantage="gateway")
    assert read(window, "span_coverage_ratio").gap.kind is GapKind.UNSUPPORTED
    assert read(window, "slo_goodput_ratio").standing is Standing.ESTIMATE
    assert value(once(lambda t: t.tell(109), served=100, vantage="gateway"), "span_coverage_ratio") == 1.0


def test_a_stalled_front_end_makes_what_the_engine_saw_an_upper_bound():
    slow = once(lambda t: t.tell(100), served=100, took=1.5)
    assert read(slow, "slo_goodput_ratio").standing is Standing.UPPER
    seen = once(lambda t: t.tell(100), served=100, took=1.5, vantage="gateway")
    assert read(seen, "slo_goodput_ratio").standing is Standing.EXACT


# -- who is hurt ------------------------------------------------------------------------------------------------------
def test_harm_is_a_binomial_tail_of_exact_misses():
    window = once(lambda t: t.tell(90), lambda t: t.tell(10, ttft=3.0), served=100)
    assert value(window, "slo_harm_p") == pytest.approx(tail(10, 100, 0.05))


def test_one_class_of_many_is_held_to_less_chance():
    window = once(
        lambda t: t.tell(50), lambda t: t.tell(44, "chat"), lambda t: t.tell(6, "chat", ttft=1.0), served=100,
        promises=CHAT_AND_BATCH,
    )  # fmt: skip
    assert value(window, "slo_harm_p") == pytest.approx(2 * tail(6, 50, 0.05))


def test_a_strict_class_that_is_hurt_counts_as_hurt():
    """0.7 s breaks half a second, which no edge of the page's histogram and no default of 2 s shows."""
    window = two_classes(chat=0.7, batch=0.3)
    bare = without(window, "llm_slo_requests_total", "llm_slo_missed_total", "llm_span_requests_total")
    assert value(bare, "ttft_harm_p") == 1.0
    assert value(window, "ttft_harm_p") < 1e-6
    assert value(window, "harm_p") < 1e-6


def test_who_was_promised_less_is_not_hurt_by_a_threshold_for_all():
    window = two_classes(batch=6.0)
    bare = without(window, "llm_slo_requests_total", "llm_slo_missed_total", "llm_span_requests_total")
    assert value(bare, "ttft_harm_p") < 1e-6
    assert value(window, "ttft_harm_p") == 1.0


def test_a_sample_of_the_requests_neither_hurts_nor_clears_anybody():
    window = two_classes(batch=6.0, told=0.5)
    assert value(window, "ttft_harm_p") < 1e-6
    assert read(window, "slo_harm_p").gap.kind is GapKind.UNSUPPORTED
    assert value(two_classes(chat=0.7, batch=0.3, told=0.5), "ttft_harm_p") == 1.0


def test_requests_that_are_overdue_for_every_class_still_hurt():
    """Nothing that ended was late, but sixty have waited for longer than 30 s."""

    def each(server: Server, spans: Traces, i: int) -> None:
        if i == 1:
            server.serve(50)
            spans.tell(50, "batch", ttft=6.0)
        else:
            spans.newest()
        server.gauges(running=0, waiting=60)

    window = traced(each, promises=CHAT_AND_BATCH)
    assert value(window, "slo_harm_p") == 1.0
    assert value(window, "ttft_harm_p") < 1e-6


def test_late_work_that_the_engines_own_page_cannot_time_is_seen_by_the_gateways_traces():
    window = once(lambda t: t.tell(80), lambda t: t.tell(20, ttft=3.0), served=100, vantage="gateway")
    assert value(window, "harm_p") == 1.0
    assert value(window, "call_ttft_harm_p") == pytest.approx(tail(20, 100, 0.05))
    assert value(window, "users_harm_p") == pytest.approx(tail(20, 100, 0.05))


def test_a_whole_answer_that_was_promised_may_be_what_hurts():
    def each(server: Server, spans: Traces, i: int) -> None:
        if i == 1:
            server.serve(100)
            spans.tell(80)
            spans.tell(20, e2e=90.0)
        else:
            spans.newest()

    window = traced(each, whole=60.0, pages=6)
    assert value(window, "ttft_harm_p") == 1.0
    assert value(window, "harm_p") == pytest.approx(tail(20, 100, 0.05))


# -- by size, around the engine ---------------------------------------------------------------------------------------
def test_sizes_come_from_traces_where_no_gateway_tells_them():
    window = once(
        lambda t: t.tell(70), lambda t: t.tell(10, ttft=3.0), lambda t: t.tell(20, ttft=5.5, size="large"), served=100
    )
    assert value(window, "large_call_ratio") == pytest.approx(0.2)
    assert value(window, "small_ttft_harm_p") == pytest.approx(tail(10, 80, 0.05))


def test_small_prompts_are_held_to_their_own_class():
    """Ten of them took 3 s, which batch was promised."""
    window = once(lambda t: t.tell(70), lambda t: t.tell(10, "batch", ttft=3.0), served=80, promises=CHAT_AND_BATCH)
    assert value(window, "small_ttft_harm_p") == 1.0


def test_a_sample_tells_no_sizes():
    window = once(lambda t: t.tell(70), lambda t: t.tell(10, ttft=3.0), served=160)
    assert value(window, "small_ttft_harm_p") is None


def test_what_is_around_the_engine_is_a_mean_of_requests_and_a_share_of_the_way():
    window = once(
        lambda t: t.tell(10, queue=0.3, prefill=0.1), lambda t: t.around(5, 0.4), lambda t: t.around(5, 0.8), served=10
    )
    assert value(window, "span_frontend_mean_seconds") == pytest.approx(0.6)
    assert value(window, "span_frontend_share_ratio") == pytest.approx(0.6 / (0.6 + 0.3 + 0.1))
    assert value(window, "span_queue_share_ratio") == pytest.approx(0.3 / 1.4)


# -- none -------------------------------------------------------------------------------------------------------------
def test_without_traces_every_signal_says_that_none_are_received():
    server = Server()
    for i in range(6):
        healthy(server, i)
        server.page()
    for name, found in compute(server.window(), Settings()).items():
        if name.startswith(("slo_", "span_")):
            assert found.gap is not None, name
            assert found.gap.kind is GapKind.UNSUPPORTED, name
            assert "spans" in found.gap.why, name


def test_what_traces_do_not_tell_is_not_missing_from_a_page():
    found = read(told_and_well("gateway"), "span_queue_mean_seconds")
    assert found.gap.kind is GapKind.UNSUPPORTED


# -- one promise for a whole model ------------------------------------------------------------------------------------
STRICT = SloClass(name="strict", models=("m",), ttft_seconds=0.5, objective=0.9)


@pytest.mark.parametrize(
    ("one", "harm"),
    [
        (STRICT, tail(20, 100, 0.1)),
        (msgspec.structs.replace(STRICT, models=("other",)), 1.0),
        (msgspec.structs.replace(STRICT, tenants=("a",)), 1.0),  # a page tells no tenants: it takes only some
    ],
    ids=["takes the model", "takes another", "takes some of it"],
)
def test_a_model_is_held_to_the_class_that_takes_all_of_it(one, harm):
    server = Server()
    server.page()
    server.serve(80)
    server.serve(20, ttft=1.5)
    for _ in range(6):
        server.page()
    settings = msgspec.structs.replace(Settings(), slo=Slo(classes=(one,)))
    assert value(server.window(), "ttft_harm_p", settings) == pytest.approx(harm)
