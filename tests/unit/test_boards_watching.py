"""The board of the watching itself: every alert has its input told, every series of an exporter is shown, gaps are shares."""

from __future__ import annotations

import re

import pytest
import yaml

from llmvitals.alerts.policy import ALERTS
from llmvitals.alerts.rules import files
from llmvitals.dashboards.boards import watching, watching_exporters, watching_rules, watching_targets
from llmvitals.dashboards.boards.alerting import ALERTS as ROW
from llmvitals.dashboards.boards.watching_rules import INPUTS
from llmvitals.dashboards.promql import promql
from llmvitals.exporters import health, selfmetrics
from llmvitals.series import series
from support.prometheus import Points, prometheus_of
from support.two_spans import START, says, track

OF_CAUSES = {alert.name for alert in ALERTS if alert.panel == "llm_triage_check_state"}
RULES = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load(files()["alerts/llmvitals-alerts.yaml"])["groups"]
    for rule in group["rules"]
}
PANELS = [panel for row in watching.BOARD.rows for panel in row.panels]


def test_every_alert_has_its_input_told_once():
    named = [name for read in INPUTS for name in read.alerts]
    assert len(named) == len(set(named))
    assert set(named) | OF_CAUSES == {alert.name for alert in ALERTS}
    assert not set(named) & OF_CAUSES


@pytest.mark.parametrize("read", INPUTS, ids=lambda read: read.series)
def test_what_is_told_as_input_is_what_the_rule_reads(read):
    for name in read.alerts or OF_CAUSES:
        assert re.search(rf"(?<![\w:]){re.escape(read.series)}(?![\w:])", RULES[name]), name


def test_every_series_of_an_exporter_is_shown():
    asked = " ".join(promql(query) for panel in PANELS for query in panel.queries)
    shown = set(re.findall(r"\bllmvitals_\w+", asked))
    assert shown == {*selfmetrics.NAMES, *health.NAMES}


# -- over numbers that are written down ----------------------------------------------------------------------------------

needs_prometheus = pytest.mark.prometheus


def points() -> Points:
    where = {"instance": "a", "engine": "vllm"}
    scope = {"instance": "a", "model": "m"}
    gap = {"family": "llm_request_ttft_seconds", "gap": "missing", "reason": "not on the page"}
    cannot = {"family": "llm_engine_role", "gap": "unsupported", "reason": "it shows only with Dynamo"}
    alert = {"alertname": "LLMTokensSlow", "severity": "page", **scope}
    found = {
        series("llm_target_up", **where): track(1),
        series("llm_target_up", instance="b"): track(lambda at: at < 900),
        series("llm_family_gap", **where, **gap): track(1, 900),  # half of what is chosen
        series("llm_family_gap", **where, **cannot): track(1),
        series("llm_triage_check_state", **scope, cause="cold-start", state="unknown"): track(lambda at: at >= 1050),
        series("llm_triage_check_state", **scope, cause="unbounded-queue", state="unknown"): track(0),
        series("llm_requests_running", **scope): track(1),
        # the same target told of by two exporters, with the same gap and the same undecided check
        **{
            key: track(1)
            for job in ("one", "two")
            for key in (
                series("llm_target_up", instance="twice", job=job),
                series("llm_family_gap", instance="twice", job=job, **gap),
                series(
                    "llm_triage_check_state", instance="twice", model="m", job=job, cause="cold-start", state="unknown"
                ),
            )
        },
        series("ALERTS", **alert, alertstate="firing"): track(1, 900),
        series("ALERTS_FOR_STATE", **alert): track(START + 840, 840),
        series("ALERTS_FOR_STATE", alertname="LLMExporterStuck", severity="ticket", instance="x"): track(START, 1100),
    }
    for group, took in (("llmvitals-signals", 3.0), ("llmvitals-causes", 0.3), ("node", 9.0)):
        own = {"rule_group": f"/etc/rules/some.yaml;{group}", "instance": "prometheus", "job": "prometheus"}
        found[series("prometheus_rule_group_last_duration_seconds", **own)] = track(took)
        found[series("prometheus_rule_group_interval_seconds", **own)] = track(15.0)
        found[series("prometheus_rule_group_last_evaluation_timestamp_seconds", **own)] = track(lambda at: START + at)
    young = {"rule_group": "/etc/rules/some.yaml;llmvitals-budgets", "instance": "prometheus", "job": "prometheus"}
    found[series("prometheus_rule_group_last_evaluation_timestamp_seconds", **young)] = track(0.0)
    return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    with prometheus_of(tmp_path_factory.mktemp("watching"), points()) as server:
        yield server


@needs_prometheus
def test_an_alert_without_anything_to_read_is_told(prometheus):
    (rows,) = says(prometheus, watching_rules.DEAD).values()
    counts = {reads: value for (_, reads), value in rows.items()}
    assert len(counts) == len(INPUTS)
    assert {reads for reads, value in counts.items() if value} == {
        "llm_target_up",
        "llm_triage_check_state",
        "llm_requests_running",
    }
    assert counts["llm_target_up"] == 4
    assert ("LLMRulesAbsent", "llm_requests_running") in rows


@needs_prometheus
def test_where_nothing_is_told_of_no_alert_is_called_dead(prometheus):
    assert says(prometheus, watching_rules.DEAD, instance="nobody") == {"series": {}}


@needs_prometheus
def test_gaps_are_told_with_their_reason_as_shares_of_the_time(prometheus):
    (lacks,) = says(prometheus, watching_targets.LACKS, instance="a|b").values()
    key = ("a", "llm_request_ttft_seconds", "missing", "not on the page")
    assert lacks == {key: pytest.approx(0.5, abs=0.03)}
    (cannot,) = says(prometheus, watching_targets.CANNOT).values()
    assert cannot == {("a", "llm_engine_role", "it shows only with Dynamo"): 1}


@needs_prometheus
def test_each_target_has_one_line_and_what_it_does_not_show_is_no_number(prometheus):
    found = says(prometheus, watching_targets.SEEN, instance="a|b")
    assert found["answers"] == {("a",): 1, ("b",): 0}
    assert found["families missing"] == {("a",): 1, ("b",): 0}
    assert found["checks without input"] == {("a",): 1}
    assert found["HTTP status"] == {}
    assert found["told of, times"] == {("a",): 1, ("b",): 1}


@needs_prometheus
def test_a_target_that_two_exporters_tell_of_is_one_target(prometheus):
    found = says(prometheus, watching_targets.SEEN, instance="twice")
    assert found["told of, times"] == {("twice",): 2}
    assert found["families missing"] == {("twice",): 1}
    assert found["checks without input"] == {("twice",): 1}
    targets = says(prometheus, watching_exporters.TARGETS)
    assert (targets["answer"], targets["do not answer"]) == ({(): 2}, {(): 1})


@needs_prometheus
def test_checks_are_undecided_for_a_share_of_the_time_and_decided_ones_are_not_listed(prometheus):
    (rows,) = says(prometheus, watching_targets.WITHOUT, instance="a|b").values()
    assert rows == {("a", "m", "cold-start"): pytest.approx(0.25, abs=0.03)}


@needs_prometheus
def test_only_our_rule_groups_are_shown_and_by_their_own_names(prometheus):
    found = says(prometheus, watching_rules.EVALUATED)
    assert found[""] == {("llmvitals-signals",): pytest.approx(0.2), ("llmvitals-causes",): pytest.approx(0.02)}
    assert found["last, ago"].keys() == found[""].keys()


@needs_prometheus
def test_a_group_that_was_not_evaluated_yet_is_not_said_to_be_fifty_years_behind(prometheus):
    assert ("llmvitals-budgets",) not in says(prometheus, watching_rules.EVALUATED)["last, ago"]


@needs_prometheus
def test_what_fires_is_told_with_how_long_its_condition_holds_and_what_waits_is_not(prometheus):
    (rows,) = says(prometheus, ROW.panels[-1]).values()
    assert rows == {("LLMTokensSlow", "page", "a", "m", "none"): 360}
