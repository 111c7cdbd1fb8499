"""Small charts: display units, where the limit lies, which side breaches it, and gaps that stay gaps."""

from dataclasses import replace

import pytest

from llmvitals.settings import Settings, Slo
from llmvitals.triage.chart import leading_charts, vital_charts
from llmvitals.triage.history import Trace, traced, wanted
from llmvitals.triage.verdict import Action, Evidence, Finding, Outcome, Verdict

AGE = Evidence("queue_age_seconds", "Age", 0.4, "seconds", "> 0.25", True, bound=0.25)
FREE = Evidence("kv_free_low_ratio", "Free", 0.02, "ratio", "<= 0.05", True, bound=0.05)
ABSENT = Evidence("gpu_sm_active_ratio", "GPU", None, "ratio", "< 0.6", None, gap="missing", bound=0.6)


def verdict(*evidence):
    leading = Finding("x", 0.9, evidence, Action(""), "") if evidence else None
    return Verdict(Outcome.CAUSE, "", leading, (), (), (), {"start": 0.0, "end": 60.0})


def test_points_and_limit_share_one_display_unit():
    (chart,) = leading_charts(verdict(AGE), {"queue_age_seconds": Trace((10.0, 20.0), (0.1, 0.4))})
    assert chart.unit == "ms"
    assert chart.points == ((10_000.0, 100.0), (20_000.0, 400.0))
    assert (chart.bound, chart.bound_text) == (250.0, "limit 250 ms")


@pytest.mark.parametrize(("evidence", "end"), [(AGE, "high"), (FREE, "low")])
def test_the_side_that_breaches_is_the_one_on_which_the_condition_holds(evidence, end):
    (chart,) = leading_charts(verdict(evidence), {})
    assert chart.breach_end == getattr(chart, end)
    assert chart.low <= chart.bound < chart.high


def test_a_gap_in_a_line_stays_a_gap():
    (chart,) = leading_charts(verdict(AGE), {"queue_age_seconds": Trace((1.0, 2.0, 3.0), (0.3, None, 0.4))})
    assert [v for _, v in chart.points] == [300.0, None, 400.0]


def test_without_a_line_the_newest_number_stands_at_the_end_of_the_window():
    (chart,) = leading_charts(verdict(AGE), {"queue_age_seconds": Trace((1.0,), (None,))})
    assert chart.points == ((60_000.0, 400.0),)
    assert not chart.moves


def test_without_any_number_nothing_is_drawn():
    (chart,) = leading_charts(verdict(ABSENT), {})
    assert chart.points == ()
    assert chart.row.value == "no data"


def test_a_share_is_seen_against_the_whole():
    (chart,) = leading_charts(verdict(FREE), {})
    assert (chart.low, chart.high) == (0.0, 100.0)


def test_one_chart_per_signal():
    assert len(leading_charts(verdict(AGE, AGE, FREE), {})) == 2


def traces(values):
    return traced([(t, values) for t in (1.0, 2.0)], wanted(()), Settings(slo=Slo(ttft_seconds=1.0)))


def test_a_promise_is_judged_by_the_source_s_own_slo():
    charts = {c.row.signal: c for c in vital_charts(verdict(), traces({"ttft_p95_seconds": 1.5}))}
    assert charts["ttft_p95_seconds"].row.badge.word == "Over the limit"
    assert charts["ttft_p95_seconds"].bound == 1.0
    assert charts["tpot_p95_seconds"].row.badge.word == "No data"


def test_a_line_for_the_eye_judges_nothing():
    charts = {c.row.signal: c for c in vital_charts(verdict(), traces({"kv_usage_ratio": 0.99}))}
    assert charts["kv_usage_ratio"].row.badge.word == ""
    assert charts["kv_usage_ratio"].bound == 90.0
    assert charts["kv_usage_ratio"].breach_end is None


def test_a_vital_sign_is_no_more_than_its_number_is():
    lines = traces({"ttft_p95_seconds": 10.0})
    lines["ttft_p95_seconds"] = replace(lines["ttft_p95_seconds"], standing="lower bound")
    lines["tpot_p95_seconds"] = Trace((1.0,), (None,), why="no-traffic: nothing came")
    charts = {c.row.signal: c for c in vital_charts(verdict(), lines)}
    assert charts["ttft_p95_seconds"].row.note == "lower bound"
    assert charts["tpot_p95_seconds"].row.note == "no-traffic: nothing came"


def test_a_vital_sign_that_speaks_for_the_cause_is_not_shown_twice():
    waiting = Evidence("requests_waiting", "Waiting", 3.0, "", "> 0", True, bound=0.0)
    shown = {c.row.signal for c in vital_charts(verdict(waiting), traces({"requests_waiting": 3.0}))}
    assert "requests_waiting" not in shown
    assert "requests_running" in shown
