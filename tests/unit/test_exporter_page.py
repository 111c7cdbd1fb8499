"""The page's text: what goes in comes out of the client library's own parsers, and gaps are never numbers."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.judge import Scoped, families
from llmvitals.exporters.page import Block, canonical, openmetrics, recording, text
from llmvitals.gaps import Gap, GapKind
from llmvitals.schema import BY_NAME, Kind
from llmvitals.series import Snapshot, series
from llmvitals.settings import Settings
from llmvitals.signals.algebra import Gauge
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.signals.reading import Reading, Standing
from llmvitals.triage.verdict import Action, CheckResult, Finding, Outcome, State, Step, Verdict
from support.prometheus import binary


def samples(body: bytes, parse=parse_text) -> dict[tuple[str, frozenset], float]:
    """Every sample of a page by name and labels."""
    return {(s.name, frozenset(s.labels.items())): s.value for family in parse(body.decode()) for s in family.samples}


def key(name: str, **labels: str) -> tuple[str, frozenset]:
    return name, frozenset(labels.items())


HOSTILE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=12)


@given(model=HOSTILE, reason=HOSTILE, value=st.floats(allow_nan=False))
def test_any_label_value_comes_back_from_the_librarys_parsers(model, reason, value):
    snapshot = Snapshot(1.0, {series("llm_requests_finished_total", instance="a", model=model, reason=reason): value})
    blocks = canonical([snapshot])
    wanted = {key("llm_requests_finished_total", instance="a", model=model, reason=reason): value}
    assert samples(text(blocks)) == wanted
    if value >= 0:  # OpenMetrics refuses negative counters
        assert samples(openmetrics(blocks) + b"# EOF\n", parse_openmetrics) == wanted


def test_a_histogram_is_in_order_and_keeps_its_own_edges():
    name = "llm_request_ttft_seconds"
    snapshot = Snapshot(
        1.0,
        {
            series(f"{name}_count", instance="a", model="m"): 3.0,
            series(f"{name}_bucket", instance="a", model="m", le="+Inf"): 3.0,
            series(f"{name}_bucket", instance="a", model="m", le="10.0"): 2.0,
            series(f"{name}_bucket", instance="a", model="m", le="2.0"): 1.0,
            series(f"{name}_sum", instance="a", model="m"): 20.5,
        },
    )
    assert text(canonical([snapshot])).decode().splitlines() == [
        f"# HELP {name} {BY_NAME[name].help}",
        f"# TYPE {name} histogram",
        f'{name}_bucket{{instance="a",le="2.0",model="m"}} 1.0',
        f'{name}_bucket{{instance="a",le="10.0",model="m"}} 2.0',
        f'{name}_bucket{{instance="a",le="+Inf",model="m"}} 3.0',
        f'{name}_sum{{instance="a",model="m"}} 20.5',
        f'{name}_count{{instance="a",model="m"}} 3.0',
    ]


def test_families_of_several_targets_stand_in_one_block_and_unknown_names_stay_out():
    a = Snapshot(1.0, {series("llm_requests_running", instance="a"): 1.0, series("llm_no_such", instance="a"): 5.0})
    b = Snapshot(2.0, {series("llm_requests_running", instance="b"): 2.0})
    (block,) = canonical([b, a])
    assert block.lines == 'llm_requests_running{instance="a"} 1.0\nllm_requests_running{instance="b"} 2.0\n'


def test_openmetrics_names_a_counter_without_its_suffix_in_the_header_only():
    blocks = (Block("llm_preemptions_total", "counter", "Evictions.", "llm_preemptions_total 4.0\n"),)
    assert openmetrics(blocks).decode().splitlines() == [
        "# HELP llm_preemptions Evictions.",
        "# TYPE llm_preemptions counter",
        "llm_preemptions_total 4.0",
    ]


def test_a_recording_holds_every_moment_once_with_its_stamp():
    moments = [Snapshot(t, {series("llm_requests_running", instance="a"): t}) for t in (10.0, 12.5)]
    parsed = [
        (s.value, round(float(s.timestamp), 2))
        for f in parse_openmetrics(recording(moments).decode())
        for s in f.samples
    ]
    assert parsed == [(10.0, 10.0), (12.5, 12.5)]


def verdict(outcome: Outcome, leading: Finding | None = None) -> Verdict:
    check = CheckResult("preemption-thrash", State.SHADOWED, (), "")
    return Verdict(outcome, "Said.", leading, (), (Step(1, "Memory", (check,)),), ())


def scoped(verdict: Verdict | None, **readings: Reading) -> Scoped:
    return Scoped("a", "m", readings, verdict)


def test_a_gap_is_a_series_with_its_reason_and_no_gauge():
    gone = Reading(None, Gap(GapKind.NO_TRAFFIC, "nothing finished"))
    page = samples(text(families([scoped(None, ttft_p95_seconds=gone)], 60.0)))
    assert page == {key("llm_signal_gap", instance="a", model="m", signal="ttft_p95_seconds", gap="no-traffic"): 1.0}


def test_a_number_carries_its_window_and_says_when_it_is_not_exact():
    page = samples(text(families([scoped(None, ttft_p95_seconds=Reading(1.5, standing=Standing.LOWER))], 90.0)))
    assert page == {
        key("llm_ttft_p95_seconds", instance="a", model="m", window="90s"): 1.5,
        key("llm_signal_standing", instance="a", model="m", signal="ttft_p95_seconds", standing="lower bound"): 1.0,
    }


def test_the_verdict_series_name_all_outcomes_and_all_states():
    leading = Finding("preemption-thrash", 0.9, (), Action("Less."), "runbooks/preemption-thrash.md")
    page = samples(text(families([scoped(verdict(Outcome.CAUSE, leading))], 60.0)))
    at = {"instance": "a", "model": "m"}
    assert {k for k in page if k[0] == "llm_triage_verdict"} == {
        key("llm_triage_verdict", **at, verdict=word)
        for word in ("cause", "shedding", "healthy", "no-traffic", "undetermined")
    }
    assert page[key("llm_triage_verdict", **at, verdict="cause")] == 1.0
    assert page[key("llm_triage_verdict", **at, verdict="healthy")] == 0.0
    states = {k: v for k, v in page.items() if k[0] == "llm_triage_check_state"}
    assert len(states) == 5
    assert sum(states.values()) == 1.0
    assert states[key("llm_triage_check_state", **at, cause="preemption-thrash", state="shadowed")] == 1.0
    assert page[key("llm_triage_leading", **at, cause="preemption-thrash")] == 0.9


def test_nothing_leads_under_healthy_and_a_failed_walk_has_no_verdict():
    healthy = samples(text(families([scoped(verdict(Outcome.HEALTHY))], 60.0)))
    assert not [k for k in healthy if k[0] == "llm_triage_leading"]
    assert samples(text(families([scoped(None)], 60.0))) == {}


def test_no_family_stands_on_the_page_twice():
    told = scoped(verdict(Outcome.HEALTHY), **{s.id: Reading(1.0) for s in SIGNALS})
    names = [block.name for block in families([told], 60.0)]
    assert len(names) == len(set(names))
    assert set(BY_NAME).isdisjoint(names)


def test_a_signal_with_a_familys_name_is_that_familys_newest_value():
    """Only then may the gauge be left out."""
    same = [s for s in SIGNALS if f"llm_{s.id}" in BY_NAME]
    assert same
    for signal in same:
        assert BY_NAME[f"llm_{signal.id}"].kind is Kind.GAUGE
        assert signal.expr is None or (isinstance(signal.expr, Gauge) and signal.expr.name == f"llm_{signal.id}")


@pytest.mark.prometheus
def test_every_name_and_help_passes_promtools_lint():
    """All canonical families and all gauges at once, whatever a single target would show of them."""
    suffixes = {"histogram": ("_sum", "_count")}
    lines = {}
    for family in BY_NAME.values():
        names = [family.name + s for s in suffixes.get(family.kind.value, ("",))]
        lines |= {series(name, instance="a"): 1.0 for name in names}
        if family.kind.value == "histogram":
            lines[series(f"{family.name}_bucket", instance="a", le="+Inf")] = 1.0
    told = scoped(verdict(Outcome.HEALTHY), **{s.id: Reading(1.0) for s in SIGNALS})
    cycle = Engine(Settings()).publish(1.0)
    page = text((*canonical([Snapshot(1.0, lines)]), *families([told], 60.0), *cycle.blocks))
    run = subprocess.run(
        [binary("promtool"), "check", "metrics"], input=page, capture_output=True, timeout=60, check=False
    )
    assert run.stderr.decode().splitlines() == []
    assert run.returncode == 0
