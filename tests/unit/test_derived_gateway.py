"""Signals of a gateway: numbers that follow by hand from what passed through it, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from llmvitals.gaps import GapKind
from llmvitals.schema import family_of
from llmvitals.series import Series, Snapshot, Window, series
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import SIGNALS, compute
from llmvitals.signals.derived import gateway, tenants
from llmvitals.signals.reading import Standing
from support.made import healthy, read, run, value, without
from support.situation import PAGES
from support.situations_gateway import (
    ONE_TAKES_IT,
    Gate,
    by_size,
    calls_for_one,
    fronted,
    gateway_queue,
    given_up,
    leaving,
    refusing,
    sessions,
    stopped,
    storm,
    unplanned,
    usual,
)
from support.situations_gateway import tenants as of_tenants

OF_A_GATEWAY = {s.id for s in SIGNALS if s.derive and s.derive.__module__ in {gateway.__name__, tenants.__name__}} - {
    "users_harm_p",
    "large_token_ratio",
}
"""Signals that read a gateway's families and nothing else could give."""


def gone(window: Window, family: str, reason: str = "it has none") -> Window:
    """The same window, whose source says that it has no such family."""
    told = series("llm_family_gap", instance="made", family=family, gap="unsupported", reason=reason)
    return Window.of(replace(s, samples={**s.samples, told: 1.0}) for s in without(window, family).snapshots)


# -- no gateway -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("signal", sorted(OF_A_GATEWAY))
def test_without_a_gateway_nothing_is_missing(signal):
    gap = read(run(8, healthy), signal).gap
    assert gap is not None
    assert gap.kind is GapKind.UNSUPPORTED
    assert gap.why == "no gateway page is joined: name the gateway beside the engine"


def test_without_a_gateway_users_are_as_the_engine_measured():
    readings = compute(run(8, healthy), Settings())
    assert readings["users_harm_p"] == readings["harm_p"]


# -- calls and statuses -----------------------------------------------------------------------------------------------
def test_retries_and_failures_are_shares_of_the_calls():
    window = storm(retries=45, refused=60)  # 60 served and 60 refused, of which 45 had failed before
    assert value(window, "retry_ratio") == pytest.approx(45 / 120)
    assert value(window, "call_failure_ratio") == pytest.approx(0.5)
    assert value(window, "first_calls_per_minute") == pytest.approx(75 * 12)


def test_clients_that_gave_up_count_as_failed_and_wrong_requests_do_not():
    def each(gate: Gate, _: int) -> None:
        gate.pass_on(ok=30, left=15)
        gate.call(15, "a", "400")

    assert value(fronted(healthy, each), "call_failure_ratio") == pytest.approx(15 / 60)


def test_calls_are_lost_by_refusals_and_failures_and_not_by_clients():
    def each(gate: Gate, _: int) -> None:
        gate.pass_on(ok=50, left=20, refused=6)
        for status, n in (("500", 3), ("503", 4), ("error", 2), ("400", 15)):
            gate.call(n, "a", status)

    assert value(fronted(healthy, each), "lost_call_ratio") == pytest.approx((6 + 3 + 4 + 2) / 100)


def test_few_calls_make_no_share():
    def each(gate: Gate, i: int) -> None:
        gate.pass_on(ok=3 if i <= 6 else 0, retries=1, small=(0, 0.1))

    reading = read(fronted(healthy, each), "retry_ratio")  # 18 calls
    assert reading.gap is not None
    assert (reading.gap.kind, reading.gap.why) == (GapKind.TOO_SHORT, "only 18 calls at the gateway in the window")


def test_no_call_is_no_traffic():
    gap = read(fronted(healthy, lambda gate, _: gate.state()), "retry_ratio").gap
    assert gap is not None
    assert gap.kind is GapKind.NO_TRAFFIC


def test_refused_are_429_and_503_but_no_503_for_want_of_a_connection():
    def each(gate: Gate, _: int) -> None:
        gate.pass_on(ok=60)
        gate.call(9, "a", "429")
        gate.call(6, "b", "503")
        gate.call(5, "c", "500")
        gate.add("connect_errors_total", 4)

    window = fronted(healthy, each)
    assert value(window, "refused_calls") == pytest.approx(PAGES * 11)
    assert value(window, "refused_call_ratio") == pytest.approx(11 / 80)


def test_what_the_queue_gave_up_is_refused_and_what_left_it_is_not():
    assert value(given_up(), "refused_calls") == pytest.approx(PAGES * 15)
    assert value(leaving(queued=20), "refused_calls") == 0.0


def test_a_queue_that_a_gateway_does_not_have_gave_nothing_up():
    window = refusing(refused=15)
    family = "llm_gateway_queue_dropped_total"
    assert value(gone(window, family), "refused_calls") == pytest.approx(PAGES * 15)
    gap = read(without(window, family), "refused_calls").gap
    assert gap is not None
    assert (gap.kind, gap.series) == (GapKind.MISSING, family)


def test_an_open_breaker_is_a_share_of_pages():
    def each(gate: Gate, i: int) -> None:
        gate.pass_on()
        gate.state(open=1 if i > 9 else 0)

    assert value(fronted(healthy, each), "breaker_open_ratio") == pytest.approx(5 / 15)


# -- what callers saw -------------------------------------------------------------------------------------------------
def test_a_wait_in_front_of_the_engine_hurts_users_of_an_engine_that_is_well():
    readings = compute(usual(small=(60, 6.0)), Settings())
    assert readings["harm_p"].value == 1.0
    assert readings["call_ttft_harm_p"].value == pytest.approx(0.0, abs=1e-12)
    assert readings["users_harm_p"] == readings["call_ttft_harm_p"]


def test_first_tokens_are_told_apart_by_size():
    readings = compute(by_size(small=(18, 6.0), large=(2, 0.1)), Settings())
    assert readings["small_ttft_harm_p"].value == pytest.approx(0.0, abs=1e-12)
    assert readings["large_call_ratio"].value == pytest.approx(0.1)
    well = compute(by_size(small=(18, 0.1), large=(2, 6.0)), Settings())
    assert well["small_ttft_harm_p"].value == 1.0


def test_breaches_are_counted_at_real_edges():
    """2.2 s lies in the bucket from 1 to 2.5 s: nobody surely broke 2 s."""
    assert value(usual(small=(60, 2.2)), "call_ttft_harm_p") == 1.0


def test_tokens_of_large_prompts_are_what_small_ones_leave():
    window = by_size()  # 18 of 80 tokens in the bucket from 50 to 100, 2 of 4,000
    assert value(window, "large_token_ratio") == pytest.approx(1 - 18 * 75 / (18 * 80 + 2 * 4000))
    assert read(window, "large_token_ratio").standing is Standing.ESTIMATE


# -- the gateway's queue ----------------------------------------------------------------------------------------------
def test_a_queue_that_grows_is_told_from_chance_and_as_time():
    window = gateway_queue(growth=30)  # from 0 to 420, 12 calls served per second
    calls = PAGES * 60
    assert value(window, "calls_wait_ahead_seconds") == pytest.approx(420 / 12)
    assert value(window, "calls_waiting_growth_sigmas") == pytest.approx(420 / (calls + 420) ** 0.5)
    assert (value(window, "calls_waiting_trend_z") or 0) > 3


@pytest.mark.parametrize(("said", "seconds"), [("2xx", 35.0), ("ok", 35.0), ("answered", 35.0), ("error", None)])
def test_calls_of_sources_that_only_know_that_they_are_through_are_served(said, seconds):
    def told(series: Series) -> Series:
        labels = tuple((k, said if k == "status" and v == "200" else v) for k, v in series.labels)
        return Series(series.name, labels)

    window = gateway_queue(growth=30)
    other = Window.of(Snapshot(s.t, {told(k): v for k, v in s.samples.items()}) for s in window.snapshots)
    assert value(other, "calls_wait_ahead_seconds") == (seconds and pytest.approx(seconds))


def test_nobody_waits_in_a_queue_that_is_empty_and_nothing_is_served_from_one_that_stands():
    assert value(usual(), "calls_wait_ahead_seconds") == 0.0

    def each(gate: Gate, _: int) -> None:
        gate.call(10, "a", "503")
        gate.state(waiting=9)

    gap = read(fronted(healthy, each), "calls_wait_ahead_seconds").gap
    assert gap is not None
    assert (gap.kind, gap.why) == (GapKind.STALE, "9 calls wait and none was served")


# -- what is asked for ------------------------------------------------------------------------------------------------
def test_fan_out_is_calls_less_retries_over_requests_and_plan():
    window = calls_for_one(users=12, retries=12, plan=2)  # 48 first calls for 12 requests
    assert value(window, "calls_per_user_request") == pytest.approx(4.0)
    assert value(window, "fan_out_excess") == pytest.approx(2.0)
    assert value(window, "planned_calls") == 2.0


def test_without_a_plan_an_agents_most_stands_in():
    reading = read(unplanned(users=2), "fan_out_excess")  # 30 calls for each
    assert (reading.value, reading.standing) == (pytest.approx(30 / 15), Standing.ESTIMATE)


def test_a_plan_that_should_be_there_is_missed():
    gap = read(without(calls_for_one(), "llm_gateway_planned_calls"), "fan_out_excess").gap
    assert gap is not None
    assert gap.kind is GapKind.MISSING


def test_a_session_is_measured_against_the_median_and_against_all():
    window = sessions(peak=200, median=4, repeats=30)  # 720 calls a minute
    assert value(window, "session_calls_excess") == 50.0
    assert value(window, "session_call_ratio") == pytest.approx(200 / 720)
    assert value(window, "session_repeats_peak") == 30.0
    assert value(window, "session_call_limit") == 20.0


def test_a_median_session_of_no_call_counts_as_one():
    assert value(sessions(peak=25, median=0), "session_calls_excess") == 25.0
    assert value(sessions(peak=25, median=0), "session_call_limit") == 10.0


def test_repeats_count_where_no_cache_answered_and_no_retry_explains_them():
    window = usual(repeats=30, hits=6, retries=4)
    assert value(window, "uncached_repeat_ratio") == pytest.approx(20 / 56)
    assert value(window, "response_cache_hit_ratio") == pytest.approx(0.2)


def test_shared_prefixes_are_a_share_of_the_prompt_tokens():
    assert value(usual(shared=0.35), "shared_prefix_ratio") == pytest.approx(0.35)


# -- who leaves -------------------------------------------------------------------------------------------------------
def test_ghosts_are_those_who_left_less_those_whom_the_engine_stopped():
    assert value(leaving(left=20), "ghost_calls") == pytest.approx(PAGES * 20)
    assert value(leaving(left=20), "ghost_call_ratio") == pytest.approx(20 / 60)
    assert value(leaving(stopped(14), left=20), "ghost_calls") == pytest.approx(PAGES * 6)
    assert value(leaving(left=20, queued=5), "ghost_calls") == pytest.approx(PAGES * 15)


def test_ghosts_are_unknown_where_the_engines_aborts_are():
    gap = read(without(leaving(), "llm_request_n_param"), "ghost_calls").gap
    assert gap is not None
    assert gap.series == "llm_request_n_param"


# -- tenants ----------------------------------------------------------------------------------------------------------
def test_a_tenant_is_measured_by_what_the_others_take_per_weight():
    window = of_tenants(tokens=ONE_TAKES_IT)  # 40,000 against 5,000 and 5,000
    assert value(window, "tenant_excess") == pytest.approx(8.0)
    assert value(window, "tenant_surplus_ratio") == pytest.approx(35 / 50)
    assert value(window, "tenant_share_ratio") == pytest.approx(0.8)
    assert value(window, "fair_tokens_per_minute") == pytest.approx(50_000 / 3 * 12)
    assert read(window, "tenant_excess").note == "tenant a"


def test_weights_move_what_is_fair():
    window = of_tenants(tokens=ONE_TAKES_IT, weights={"a": 4, "b": 1, "c": 1})
    assert value(window, "tenant_excess") == pytest.approx(40_000 / (4 * 10_000 / 2))
    assert value(window, "tenant_surplus_ratio") == pytest.approx(20 / 50)
    assert value(window, "fair_tokens_per_minute") == pytest.approx(50_000 * 4 / 6 * 12)


def test_a_tenant_without_a_weight_counts_as_the_mean_of_the_others():
    some = of_tenants(tokens=ONE_TAKES_IT, weights={"b": 3, "c": 1})
    assert value(some, "tenant_excess") == pytest.approx(40_000 / (2 * 10_000 / 4))


def test_others_that_get_nothing_are_still_tenants():
    assert value(of_tenants(tokens={"a": 40_000, "b": 0, "c": 0}), "tenant_surplus_ratio") == pytest.approx(1.0)


def test_others_are_those_beside_the_largest():
    def each(gate: Gate, _: int) -> None:
        gate.pass_on(tokens=ONE_TAKES_IT)
        gate.call(8, "b", "503")
        gate.call(30, "a", "429")
        gate.observe("queue_seconds", 6.0, 30, tenant="a")

    window = fronted(healthy, each)
    assert value(window, "others_refused_ratio") == pytest.approx(8 / 48)
    assert value(window, "others_queue_harm_p") == 1.0  # only the largest waits


@pytest.mark.parametrize(
    ("calls", "why"),
    [(0.0, "no traffic of a second tenant in the window"), (9 / PAGES, "no 10 calls of other tenants in the window")],
)
def test_one_tenant_is_never_noisy(calls, why):
    def each(gate: Gate, _: int) -> None:
        gate.call(60)
        gate.add("tokens_total", 10_000, tenant="a")
        gate.call(calls, "b")

    gap = read(fronted(healthy, each), "tenant_excess").gap
    assert gap is not None
    assert (gap.kind, gap.why) == (GapKind.NO_TRAFFIC, why)


def test_calls_without_a_name_are_no_tenants():
    def each(gate: Gate, _: int) -> None:
        gate.call(30, "")
        gate.call(30, "b")
        gate.add("tokens_total", 90_000, tenant="")
        gate.add("tokens_total", 10_000, tenant="b")

    window = fronted(healthy, each)
    assert read(window, "tenant_share_ratio").note == "tenant b"
    assert value(window, "tenant_share_ratio") == pytest.approx(0.1)


# -- what real gateways do not say --------------------------------------------------------------------------------------
def unsized(window: Window) -> Window:
    """The same window from a gateway that does not know how long prompts are."""

    def merged(samples: Mapping[Series, float]) -> dict[Series, float]:
        found: dict[Series, float] = {}
        for key, number in samples.items():
            kept = Series(key.name, tuple(label for label in key.labels if label[0] != "size"))
            found[kept] = found.get(kept, 0.0) + number
        return found

    return Window.of(replace(s, samples=merged(s.samples)) for s in window.snapshots)


def test_first_tokens_without_sizes_are_still_first_tokens():
    sized = by_size(small=(18, 6.0), large=(2, 0.1))
    window = unsized(sized)
    assert value(window, "call_ttft_harm_p") == value(sized, "call_ttft_harm_p")
    assert value(window, "call_ttft_harm_p") == pytest.approx(0.0, abs=1e-12)
    for signal in ("small_ttft_harm_p", "large_call_ratio"):
        gap = read(window, signal).gap
        assert gap is not None
        assert gap.kind is GapKind.UNSUPPORTED
        assert "small prompts" in gap.why


def test_a_status_that_is_born_inside_the_window_counts_whole():
    """Clients' libraries show a status from its first answer on: what it is then had all happened since the page before."""

    def each(gate: Gate, i: int) -> None:
        gate.pass_on(ok=60, refused_of="")  # no tenant has a series of refusals from the start
        if i >= 6:
            gate.call(40, "a", "429")

    window = fronted(healthy, each)
    born = [s for s in window.snapshots if any(k.label("status") == "429" for k in s.samples)]
    assert 0 < len(born) < len(window.snapshots)
    grown = len(born) * 40
    assert value(window, "refused_calls") == pytest.approx(grown)
    assert value(window, "call_failure_ratio") == pytest.approx(grown / (grown + PAGES * 60))


def test_refusals_may_hide_in_a_class_and_are_then_not_0():
    def each(gate: Gate, _: int) -> None:
        gate.call(40, "a", "2xx")
        gate.call(20, "a", "error")
        gate.call(10, "a", "4xx")

    window = fronted(healthy, each)
    for signal in ("refused_calls", "refused_call_ratio"):
        gap = read(window, signal).gap
        assert gap is not None
        assert (gap.kind, gap.why) == (
            GapKind.UNSUPPORTED,
            f"{PAGES * 30} calls without an exact status may have been refused",
        )
    assert value(window, "call_failure_ratio") == pytest.approx(20 / 70)


def test_where_all_was_served_a_class_hides_no_refusal():
    assert value(fronted(healthy, lambda gate, _: gate.call(60, "a", "2xx")), "refused_calls") == 0.0


def test_a_gateways_own_retries_are_calls_beside_those_that_came():
    def each(gate: Gate, _: int) -> None:
        gate.call(60, "a")
        gate.add("user_requests_total", 30)
        gate.add("exact_repeats_total", 15)
        gate.add("retries_total", 15, tenant="a")
        gate.state()

    def its_own(key: Series) -> Series:
        retries = key.name == "llm_gateway_retries_total"
        return Series(key.name, tuple(sorted((*key.labels, ("by", "gateway"))))) if retries else key

    sent = fronted(healthy, each)  # 60 calls came, 75 were sent on
    window = Window.of(replace(s, samples={its_own(k): v for k, v in s.samples.items()}) for s in sent.snapshots)
    gap = read(window, "retry_ratio").gap
    assert gap is not None
    assert gap.kind is GapKind.UNSUPPORTED  # of its clients' retries nothing is said
    assert value(window, "first_calls_per_minute") == pytest.approx(60 * 12)
    assert value(window, "calls_per_user_request") == pytest.approx(2.0)
    assert value(window, "uncached_repeat_ratio") == pytest.approx(15 / 60)


def test_clients_retries_are_told_from_those_of_the_gateway_itself():
    def each(gate: Gate, _: int) -> None:
        gate.call(60, "a")
        gate.add("retries_total", 12, tenant="a")
        gate.add("retries_total", 30, by="gateway")
        gate.state()

    assert value(fronted(healthy, each), "retry_ratio") == pytest.approx(12 / 60)


# -- a family that is not there ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("family", "signal"),
    [
        ("llm_gateway_requests_total", "call_failure_ratio"),
        ("llm_gateway_requests_total", "lost_call_ratio"),
        ("llm_gateway_retries_total", "retry_ratio"),
        ("llm_gateway_breaker_open", "breaker_open_ratio"),
        ("llm_gateway_connect_errors_total", "refused_calls"),
        ("llm_gateway_ttft_seconds", "small_ttft_harm_p"),
        ("llm_gateway_queue_waiting", "calls_wait_ahead_seconds"),
        ("llm_gateway_user_requests_total", "calls_per_user_request"),
        ("llm_gateway_calls_total", "calls_per_user_request"),
        ("llm_gateway_session_calls_median", "session_calls_excess"),
        ("llm_gateway_session_calls_peak", "session_call_ratio"),
        ("llm_gateway_session_repeats_peak", "session_repeats_peak"),
        ("llm_gateway_exact_repeats_total", "uncached_repeat_ratio"),
        ("llm_gateway_cache_hits_total", "uncached_repeat_ratio"),
        ("llm_gateway_prompt_tokens_total", "shared_prefix_ratio"),
        ("llm_gateway_shared_prefix_tokens_total", "shared_prefix_ratio"),
        ("llm_gateway_disconnects_total", "ghost_calls"),
        ("llm_gateway_tokens_total", "tenant_excess"),
        ("llm_gateway_queue_seconds", "others_queue_harm_p"),
    ],
)
def test_a_family_that_a_joined_gateway_lacks_is_missing_and_never_0(family, signal):
    gap = read(without(usual(), family), signal).gap
    assert gap is not None
    assert (gap.kind, gap.series) == (GapKind.MISSING, family)


def test_every_family_of_the_made_gateway_is_canonical_and_there_from_the_start():
    first, *_, last = usual().snapshots
    names = {k.name for k in last.samples if k.name.startswith("llm_gateway_")}
    assert names <= {k.name for k in first.samples}
    for key in last.samples:
        found = family_of(key.name)
        assert found is not None
        assert key.name not in names or set(dict(key.labels)) - {"le", "instance", "model"} <= set(found.labels)
