"""The container's memory, connections that nobody closes, start and readiness by the host's word: worked out by hand."""

from __future__ import annotations

import pytest

from llmvitals.gaps import GapKind
from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.signals.reading import Standing
from llmvitals.triage.walk import diagnose
from support.made import Server, healthy, read, run, value, without
from support.recordings import name_of
from support.situations_hardware import GIB, Beside, beside, leaking, not_ready, restarted

SETTINGS = Settings()


def kind(window: Window, signal: str) -> GapKind:
    gap = read(window, signal).gap
    assert gap is not None
    return gap.kind


# -- memory of the container ------------------------------------------------------------------------------------------
def test_memory_of_the_container_counts_at_its_fullest_page_against_its_limit():
    def each(apart: Beside, i: int) -> None:
        apart.set("llm_host_memory_bytes", (30 if i == 4 else 20) * GIB)
        apart.set("llm_host_memory_limit_bytes", 40 * GIB)
        apart.set("llm_host_resident_bytes", 5 * GIB, process="api")
        apart.set("llm_host_resident_bytes", 15 * GIB, process="engine")

    window = beside(healthy, each)
    found = read(window, "host_memory_ratio")
    assert (found.value, found.standing) == (pytest.approx(0.75), Standing.EXACT)
    least = read(without(window, "llm_host_memory_bytes"), "host_memory_ratio")
    assert (least.value, least.standing) == (pytest.approx(0.5), Standing.LOWER)
    assert kind(without(window, "llm_host_memory_limit_bytes"), "host_memory_ratio") is GapKind.UNSUPPORTED


@pytest.mark.parametrize(
    ("reason", "host", "expected"),
    [("oom", None, 1), ("oom", 0.5, 1), ("oom", 0.95, 0), ("error", 0.95, 0), ("error", 0.5, 0)],
)
def test_an_end_for_want_of_memory_is_the_hosts_where_the_container_was_at_its_limit(reason, host, expected):
    assert value(restarted(reason, host=host), "device_oom_restarts") == expected


# -- connections ------------------------------------------------------------------------------------------------------
def test_connections_that_nobody_closes_are_a_share_of_the_descriptors():
    found = read(leaking(0.7, left=0.6), "close_wait_ratio")
    assert found.value == pytest.approx(0.6)
    assert found.standing is Standing.ESTIMATE


def test_a_moment_with_many_of_them_is_no_leak():
    def each(apart: Beside, i: int) -> None:
        apart.server.set("llm_process_max_fds", 1000)
        apart.server.set("llm_process_open_fds", 800)
        apart.set("llm_host_sockets", 20 if i == 12 else 700, state="close_wait")

    assert value(beside(healthy, each), "close_wait_ratio") == pytest.approx(20 / 800)


def test_other_states_are_no_leak():
    def each(apart: Beside, _: int) -> None:
        apart.server.set("llm_process_open_fds", 800)
        apart.set("llm_host_sockets", 700, state="established")

    assert kind(beside(healthy, each), "close_wait_ratio") is GapKind.UNSUPPORTED


# -- start ------------------------------------------------------------------------------------------------------------
def started(**times: float) -> Window:
    """A healthy window whose page does not say when its process started; ages in seconds at its first page."""
    server = Server()
    apart = Beside(server)
    first = server.t + server.step
    for name, age in times.items():
        labels = {"process": "api"} if name == "process" else {}
        family = "llm_host_process_start_time_seconds" if labels else "llm_host_started_time_seconds"
        apart.set(family, first - age, **labels)
    apart.set("llm_host_process_start_time_seconds", first - 9000, process="engine")
    return without(run(8, healthy, server), "llm_process_start_time_seconds")


def test_the_host_says_how_old_a_process_is_and_else_the_cluster_how_old_its_container_is():
    assert value(started(process=60, container=300), "uptime_seconds") == pytest.approx(60)
    assert value(started(container=300), "uptime_seconds") == pytest.approx(300)


def test_the_page_itself_is_asked_first():
    def each(apart: Beside, _: int) -> None:
        apart.set("llm_host_process_start_time_seconds", 5.0, process="api")

    assert value(beside(healthy, each), "uptime_seconds") == pytest.approx(3600, abs=10)


def hosts_restart(moved: float, *, process: str = "api") -> Window:
    """The page shows no start time; the host's moves by so many seconds in the middle."""

    def each(apart: Beside, i: int) -> None:
        apart.set("llm_host_process_start_time_seconds", 1000 + (moved if i > 6 else 0), process=process)

    return without(beside(healthy, each), "llm_process_start_time_seconds")


@pytest.mark.parametrize(("moved", "process", "expected"), [(600, "api", 1), (1.5, "api", 0), (600, "engine", 0)])
def test_a_start_that_the_host_saw_is_a_restart_and_a_boot_time_that_wanders_is_none(moved, process, expected):
    assert value(hosts_restart(moved, process=process), "restarts") == expected


def test_time_to_ready_is_that_of_the_newest_start():
    def each(apart: Beside, i: int) -> None:
        apart.set("llm_host_started_time_seconds", 1000 if i < 8 else 5000)
        apart.set("llm_host_ready_time_seconds", 1100 if i < 9 else 5240)  # on one page it is that of the start before

    assert value(beside(healthy, each), "time_to_ready_seconds") == pytest.approx(240)


# -- readiness --------------------------------------------------------------------------------------------------------
def test_a_pod_that_is_not_ready_counts_on_pages_that_answer():
    assert value(not_ready(0.5), "not_ready_ratio") == pytest.approx(0.5)
    failing = not_ready(1.0, failed=True)
    assert value(failing, "not_ready_ratio") == 1.0
    assert kind(not_ready(young=True), "not_ready_ratio") is GapKind.NO_TRAFFIC


def test_a_few_pages_do_not_say_that_a_pod_is_never_ready():
    window = not_ready()
    assert kind(window.slice(window.start, window.start + 15), "not_ready_ratio") is GapKind.TOO_SHORT


def test_a_server_that_serves_and_is_not_ready_is_named_with_its_share():
    verdict = diagnose(not_ready(), SETTINGS)
    assert name_of(verdict) == "rollout-and-probes"
    assert "pages that answer while the pod is not ready 100 %" in verdict.sentence


# -- nobody is doubted for it -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "signal", ["close_wait_ratio", "host_memory_ratio", "time_to_ready_seconds", "not_ready_ratio", "uptime_seconds"]
)
def test_what_a_joined_host_does_not_show_raises_no_doubt(signal):
    def each(apart: Beside, _: int) -> None:
        apart.set("llm_host_open_fds", 60, process="api")

    found = read(beside(healthy, each), signal)
    assert found.known or (found.gap is not None and found.gap.kind is GapKind.UNSUPPORTED)
