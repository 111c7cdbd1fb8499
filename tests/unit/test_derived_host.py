"""Signals of the host and of connections: numbers worked out by hand, and what they say where something is not shown."""

from __future__ import annotations

import pytest

from llmvitals.gaps import GapKind
from llmvitals.series import Window
from llmvitals.signals.reading import Standing
from support.made import healthy, read, run, value, without
from support.situation import PAGES
from support.situations_hardware import Beside, api_process, beside, many_files, many_ports, proxy, restarted


def kind(window: Window, signal: str) -> GapKind:
    gap = read(window, signal).gap
    assert gap is not None
    return gap.kind


# -- what runs out ----------------------------------------------------------------------------------------------------
def test_descriptors_count_at_their_highest_share_of_any_process():
    def each(apart: Beside, i: int) -> None:
        for process, used in (("api", 100), ("engine", 900 if i == 3 else 200)):
            apart.set("llm_host_open_fds", used, process=process)
            apart.set("llm_host_max_fds", 1000, process=process)

    assert value(beside(healthy, each), "fd_usage_ratio") == pytest.approx(0.9)


def test_descriptors_of_the_page_alone_do():
    assert value(many_files(0.5), "fd_usage_ratio") == pytest.approx(0.5)


def test_ports_in_time_wait_are_the_least_that_is_used():
    assert read(many_ports(0.6), "port_usage_ratio").standing is Standing.EXACT
    found = read(many_ports(0.6, said=False), "port_usage_ratio")
    assert found.value == pytest.approx(0.6)
    assert found.standing is Standing.LOWER


def test_connections_are_held_against_the_limit_of_the_same_gateway():
    def each(apart: Beside, _: int) -> None:
        for gateway, used, limit in (("a", 90, 100), ("b", 500, 10_000)):
            apart.set("llm_gateway_connections", used, gateway=gateway)
            apart.set("llm_gateway_connection_limit", limit, gateway=gateway)

    assert value(beside(healthy, each), "gateway_connection_ratio") == pytest.approx(0.9)


def test_what_could_not_connect_or_was_cut_is_counted_against_the_calls():
    window = proxy(refused=5, cut=10)
    assert value(window, "connect_errors") == 5 * PAGES
    assert value(window, "connect_error_ratio") == pytest.approx(0.1)
    assert value(window, "streams_cut") == 10 * PAGES
    assert value(window, "streams_cut_ratio") == pytest.approx(0.2)


def test_a_count_that_is_born_in_the_window_counts_from_0():
    def each(apart: Beside, i: int) -> None:
        apart.count("llm_gateway_requests_total", 50, gateway="g", tenant="t", status="2xx")
        if i >= 5:
            apart.count("llm_gateway_streams_cut_total", 3 if i == 5 else 0, gateway="g", reason="timeout")

    assert value(beside(healthy, each), "streams_cut") == 3


# -- CPU --------------------------------------------------------------------------------------------------------------
def test_the_busiest_thread_is_held_against_one_core_and_the_process_against_its_limit():
    assert value(api_process(thread=0.7), "api_cpu_full_ratio") == pytest.approx(0.7)

    def quota(apart: Beside, _: int) -> None:
        apart.set("llm_host_busiest_thread_cores", 0.4, process="api")
        apart.set("llm_host_cpu_cores", 0.48, process="api")
        apart.set("llm_host_cpu_limit_cores", 0.5, process="api")
        apart.set("llm_host_busiest_thread_cores", 1.0, process="engine")

    assert value(beside(healthy, quota), "api_cpu_full_ratio") == pytest.approx(0.96)


def test_a_limit_of_several_cores_does_not_say_what_one_thread_does():
    assert kind(without(api_process(), "llm_host_busiest_thread_cores"), "api_cpu_full_ratio") is GapKind.MISSING


def test_time_held_by_a_quota_is_a_share_of_the_window():
    assert value(api_process(held=0.4), "api_throttled_ratio") == pytest.approx(0.4)


# -- restarts ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("reason", "oom", "planned", "not_crashed"),
    [("oom", 1, 0, 0), ("error", 0, 0, 0), ("probe", 0, 1, 1), ("", None, None, 1)],
)
def test_restarts_are_told_apart_by_what_ended_the_container(reason, oom, planned, not_crashed):
    window = restarted(reason)
    assert value(window, "restarts") == 1
    assert value(window, "oom_restarts") == oom
    assert value(window, "planned_restarts") == planned
    assert value(window, "restarts_not_crashed") == not_crashed


def test_a_restart_that_a_joined_host_does_not_explain_is_missing_its_reason():
    window = without(restarted("oom"), "llm_host_restarts_total")
    assert kind(window, "oom_restarts") is GapKind.MISSING
    assert kind(window, "restarts_not_crashed") is GapKind.MISSING


def test_where_nothing_restarted_nothing_had_to_be_counted():
    window = api_process()
    assert kind(window, "oom_restarts") is GapKind.NO_TRAFFIC
    assert value(window, "restarts_not_crashed") == 0


# -- not there --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("signal", "why"),
    [
        ("oom_restarts", "no host telemetry is joined"),
        ("planned_restarts", "no host telemetry is joined"),
        ("api_cpu_full_ratio", "no host telemetry is joined"),
        ("api_throttled_ratio", "no host telemetry is joined"),
        ("connect_errors", "no gateway page is joined"),
        ("connect_error_ratio", "no gateway page is joined"),
        ("streams_cut", "no gateway page is joined"),
        ("streams_cut_ratio", "no gateway page is joined"),
    ],
)
def test_telemetry_that_nobody_joined_is_unsupported(signal, why):
    gap = read(run(6, healthy), signal).gap
    assert gap is not None
    assert gap.kind is GapKind.UNSUPPORTED
    assert gap.why.startswith(f"{why}: ")  # and what to do about it


@pytest.mark.parametrize("signal", ["fd_usage_ratio", "port_usage_ratio", "gateway_connection_ratio"])
def test_a_resource_without_its_limit_raises_no_doubt(signal):
    assert kind(run(6, healthy), signal) is GapKind.UNSUPPORTED
