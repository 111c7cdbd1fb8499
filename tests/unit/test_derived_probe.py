"""What probes say: shares and chances of few of them, worked by hand, and what they stand in for."""

from __future__ import annotations

from math import comb

import pytest

from llmvitals.gaps import GapKind
from llmvitals.series import Series, Snapshot, Window
from llmvitals.settings import Settings
from llmvitals.signals.reading import Standing
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.triage.verdict import Outcome
from llmvitals.triage.walk import diagnose
from support.made import START, Server, healthy, read, run, value
from support.situations_hardware import idle
from support.situations_requests import Probes, probed

OLLAMA = (
    b'{"models":[{"name":"m","model":"m","size":6000000000,"digest":"a","size_vram":6000000000,"context_length":8192}]}'
)


def tail(late: int, n: int, p: float = 0.05) -> float:
    return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(late, n + 1))


def after(*ended: tuple[int, str], load=idle) -> Window:
    """One page later so many probes have ended so."""

    def each(probes: Probes, i: int) -> None:
        for n, outcome in ended if i == 1 else ():
            if outcome == "ok":
                probes.well(n)
            else:
                probes.ended(n, outcome)

    return probed(load, each, *(outcome for _, outcome in ended))


def untimed(ttft: tuple[float, ...], *, timeouts: int = 0, tpot: float = 0.02) -> Window:
    """A server without a page of its own (Ollama): only probes say anything. One page before them, then a minute of pages."""
    server = Server()
    probes = Probes(server, "timeout")
    before = dict(probes.values)
    for seconds in ttft:
        probes.well(ttft=seconds, tpot=tpot)
    probes.ended(timeouts, "timeout")
    reader = Ingest(instance="made", kind="ollama")

    def page(t: float, counted: dict[Series, float]) -> Snapshot:
        own = reader.snapshot(RawPage(t, 0.01, 200, OLLAMA, ""))
        return Snapshot(t, {**own.samples, **counted})

    pages = [page(START, before), *(page(START + 10.0 * i, probes.values) for i in range(1, 7))]
    return Window.of(pages)


# -- failures ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ended", "share"),
    [
        (((8, "ok"), (2, "timeout")), 0.2),
        (((5, "ok"), (3, "503"), (1, "429"), (1, "cut")), 0.5),
        (((5, "ok"), (20, "404")), 0.0),  # it was asked wrongly: no fault of the server
        (((5, "ok"), (20, "no-model")), 0.0),
        (((4, "unreachable"),), 1.0),
    ],
)
def test_failures_are_those_that_the_server_is_to_blame_for(ended, share):
    assert value(after(*ended), "probe_failure_ratio") == pytest.approx(share)


def test_probes_that_are_all_asked_wrongly_say_nothing_of_the_server():
    found = read(after((9, "401")), "probe_failure_ratio")
    assert found.gap.kind is GapKind.UNSUPPORTED
    assert "401" in found.gap.why


def test_failures_are_silent_while_nobody_gets_a_first_token():
    assert value(after((6, "500")), "probe_silent_failures") == 6
    assert value(after((6, "500"), load=healthy), "probe_silent_failures") == 0


# -- what stands in for a page's times --------------------------------------------------------------------------------
def test_late_probes_hurt_where_the_page_times_nothing():
    window = untimed((0.1, 0.1, 3.0, 3.0, 3.0))
    found = read(window, "ttft_harm_p")
    assert found.value == pytest.approx(tail(3, 5))
    assert found.standing is Standing.ESTIMATE
    assert "probes" in found.note


def test_a_probe_that_timed_out_had_no_first_token_in_time():
    assert value(untimed((0.1, 0.1, 0.1), timeouts=3), "ttft_harm_p") == pytest.approx(tail(3, 6))


def test_four_probes_say_nothing():
    assert value(untimed((3.0,) * 4), "ttft_harm_p") is None
    assert value(untimed((3.0,) * 5), "ttft_harm_p") is not None


def test_slow_tokens_of_probes_hurt_as_well():
    assert value(untimed((0.1,) * 6, tpot=0.2), "tpot_harm_p") == pytest.approx(tail(6, 6))


def test_probes_do_not_speak_where_the_page_does():
    window = probed(healthy, lambda probes, _: probes.well(ttft=9.0))
    assert value(window, "ttft_harm_p") == 1.0


def test_a_server_without_a_page_is_judged_by_its_probes():
    well = diagnose(untimed((0.1,) * 6), Settings())
    assert well.outcome is Outcome.HEALTHY, well.sentence
    assert "judged from probes" in well.sentence
    slow = diagnose(untimed((3.0,) * 6), Settings())
    assert slow.outcome is Outcome.UNDETERMINED
    assert "users are hurt" in slow.sentence
    assert diagnose(untimed((0.1,) * 4), Settings()).outcome is Outcome.UNDETERMINED


# -- the gap ----------------------------------------------------------------------------------------------------------
def gap(inside: float, outside: float, n: int = 6):
    def each(server: Server, i: int) -> None:
        server.serve(20, ttft=inside)
        server.gauges(running=2)
        if i <= n:
            probes.well(ttft=outside)

    server = Server()
    probes = Probes(server)
    return read(run(8, each, server), "probe_gap_seconds")


def test_the_gap_is_a_lower_bound_from_real_edges():
    """0.8 s lies above 0.5, 0.2 s below 0.25: at least a quarter of a second is between them."""
    found = gap(0.2, 0.8)
    assert found.value == pytest.approx(0.25)
    assert found.standing is Standing.ESTIMATE


def test_there_is_no_negative_gap_and_none_of_few_probes():
    assert gap(2.0, 0.1).value == 0.0
    assert gap(0.2, 0.8, n=4).gap.kind is GapKind.TOO_SHORT


def test_the_traces_of_probes_tell_it_exactly():
    server = Server()
    probes = Probes(server)
    around = {"model": "m", "slo_class": "probe", "parent": "client"}
    for part in ("sum", "count"):
        probes.count(f"llm_span_frontend_seconds_{part}", 0, **around)
    server.page()
    server.serve(20)
    probes.well(8, ttft=0.8)
    probes.count("llm_span_frontend_seconds_sum", 2.4, **around)
    probes.count("llm_span_frontend_seconds_count", 8, **around)
    for _ in range(6):
        server.page()
    found = read(server.window(), "probe_gap_seconds")
    assert found.value == pytest.approx(0.3)
    assert found.standing is Standing.EXACT
