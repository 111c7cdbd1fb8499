"""Every query of every runbook, and every alert's own expression, on a real Prometheus that holds simulated incidents: it returns
data in the incident that should move it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import pytest

from llmvitals.alerts import pages
from llmvitals.alerts.compile import expression
from llmvitals.alerts.firing import rules_of
from llmvitals.alerts.policy import ALERTS, BY_NAME, CAUSES
from llmvitals.alerts.recording import recording_groups
from llmvitals.lab.parallel import cores
from llmvitals.lab.play import ORIGIN
from llmvitals.lab.scenarios import BY_NAME as ROWS
from llmvitals.series import series
from llmvitals.settings import Settings
from llmvitals.signals.promql_ast import show
from support.backfilled import backfilled
from support.plays import FAULTS, told
from support.prometheus import Points, PrometheusServer, joined
from support.runbooks import PAGES, queries

pytestmark = pytest.mark.prometheus

SETTINGS = Settings()
HOUR = 3600.0
SLOWED = "hardware-throttled"
"""A play whose server is watched an hour before as well, when it was as fast as it should be."""
SCENARIOS = (*(row.name for row in FAULTS), "context-imbalance")
BEGIN, END, STEP = ORIGIN - HOUR, ORIGIN + 900.0, 15.0
"""Beyond the last page: what is summed over hours is taken every five minutes."""

SYMPTOMS = frozenset(pages.slugs()) - {row.cause for row in CAUSES}
"""Their pages walk through all causes, so any incident may move a query there."""
LOOK_ALIKES = {
    ("grammar-compilation", "max by (instance) (llm_lora_waiting_adapters)"): "adapter-slots",
}
"""Queries that tell a page's cause from another by showing nothing, and the incident that moves them."""
RAISED_BY = {
    "LLMUsersHurt": "kv-cache-saturation",
    "LLMFirstTokensLate": "kv-cache-saturation",
    "LLMFirstTokensBudget": "kv-cache-saturation",
    "LLMTtftOverTarget": "kv-cache-saturation",
    "LLMTokensSlow": "batch-too-large",
    "LLMTokensBudget": "batch-too-large",
    "LLMAnswersFail": "only-errors",
    "LLMCallsLost": "only-errors",
    "LLMMostRefused": "shedding",
    "LLMAnswersBudget": "only-errors",
    "LLMGoodputLow": "kv-cache-saturation",
    "LLMGoodputBudget": "kv-cache-saturation",
    "LLMThroughputFell": SLOWED,
    "LLMKvHighWhileWaiting": "kv-cache-saturation",
    "LLMGpuIdleWhileWaiting": "kv-transfer-bound",
    "LLMTargetGone": "engine-died",
    "LLMTargetMissing": "engine-died",
    "LLMTriageAbsent": "kv-cache-saturation",  # before its onset, when no verdict is written for these tests
    "LLMRulesAbsent": SLOWED,  # before the rules' first evaluation
    "LLMExporterGone": "exporter-down",
    "LLMExporterStuck": "exporter-stuck",
    "LLMReloadFailed": "exporter-stuck",
    "LLMCollectorFails": "watched",
    "LLMSeriesTwice": "watched-twice",
}
"""The incident that raises each alert but those on causes, which the plays of these do."""


def _exporters() -> Points:
    """Exporters that are down or hang, and what they show: no play of a server has that."""
    at = range(round(ORIGIN), round(ORIGIN + 300), 15)

    def flat(name: str, value: float, **labels: str) -> tuple:
        return series(name, **labels), [(t * 1000, value) for t in at]

    one = {"job": SETTINGS.alerts.job, "instance": "exporter-stuck"}
    failures = series(
        "prometheus_rule_evaluation_failures_total", instance="prometheus", rule_group="llmvitals-signals"
    )
    return dict(
        [
            flat("up", 0.0, **one | {"instance": "exporter-down"}),
            flat("up", 1.0, **one),
            flat("llmvitals_targets", 2.0, **one),
            flat("llmvitals_cycle_age_seconds", 300.0, **one),
            flat("llmvitals_cycle_duration_seconds", 4.0, **one),
            flat("llmvitals_config_last_reload_successful", 0.0, **one),
            flat("llmvitals_collector_success", 0.0, instance="watched", collector="gpu"),
            flat("llm_target_up", 1.0, instance="watched", job="one"),
            flat("llm_target_up", 1.0, instance="watched-twice", job="one"),
            flat("llm_target_up", 1.0, instance="watched-twice", job="other"),
            (failures, [(t * 1000, float(t - ORIGIN)) for t in at]),
        ]
    )


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    others = [name for name in SCENARIOS if name != SLOWED]
    with ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool:
        slowed = pool.submit(partial(told, before=HOUR), SLOWED)
        plays = pool.map(told, others)
        incidents = backfilled(
            tmp_path_factory.mktemp("incidents"),
            joined([slowed.result(), *plays, _exporters()]),
            recording_groups(SETTINGS),
            start=BEGIN + 60,
            end=END,
        )
    with incidents as server:
        yield server


def moved(prometheus: PrometheusServer, query: str, start: float = BEGIN, end: float = END) -> set[str]:
    """The servers for which a query gives a number at some moment; '' for one that names none."""
    times = {"start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{STEP:.0f}"}
    found = prometheus.get("query_range", query=query, **times)["result"]
    return {
        one["metric"].get("instance", "")
        for one in found
        if any(not math.isnan(float(value)) for _, value in one["values"])
    }


def _moving(page: str, query: str) -> set[str]:
    """The servers of which a page's query must tell one."""
    if (page, query) in LOOK_ALIKES:
        return {LOOK_ALIKES[page, query]}
    return {name for name in SCENARIOS if page in ROWS[name].causes}


ASKED = [(page.stem, query) for page in PAGES for query in queries(page)]


@pytest.mark.parametrize(("page", "query"), ASKED, ids=[f"{page}-{n}" for n, (page, _) in enumerate(ASKED)])
def test_a_query_returns_data_in_the_incident_that_should_move_it(prometheus, page: str, query: str) -> None:
    found = moved(prometheus, query)
    assert found, f"{page}: nothing in any incident moves {query}"
    if page not in SYMPTOMS:
        assert found & {"", *_moving(page, query)}, f"{page}: {query} tells only of {sorted(found)}"


OWN = [(alert, row) for alert in ALERTS for row in rules_of(alert, SETTINGS)]
IDS = [f"{alert.name}-{row.long}" if row else alert.name for alert, row in OWN]


@pytest.mark.parametrize(("alert", "row"), OWN, ids=IDS)
def test_an_alerts_expression_holds_in_the_incident_that_raises_it(prometheus, alert, row) -> None:
    query = show(expression(alert, SETTINGS, row))
    if alert.name == "LLMNobodyWatches":  # absent, by its nature, where nothing was loaded
        assert moved(prometheus, query, ORIGIN - 3 * HOUR, ORIGIN - 2 * HOUR) == {""}
        assert not moved(prometheus, query, ORIGIN + 30, ORIGIN + 60)
        return
    raising = {RAISED_BY[alert.name]} if alert.name in RAISED_BY else _moving(alert.cause, "")
    assert moved(prometheus, query) & raising, f"{alert.name} does not hold in {sorted(raising)}: {query}"


def test_a_target_that_is_well_is_not_gone(prometheus) -> None:
    for name in ("LLMTargetGone", "LLMTargetMissing"):
        gone = moved(prometheus, show(expression(BY_NAME[name], SETTINGS)), ORIGIN + 30, ORIGIN + 115)
        assert "engine-died" in gone
        assert "kv-cache-saturation" not in gone


def test_a_query_of_what_nobody_shows_would_be_found_out(prometheus) -> None:
    assert not moved(prometheus, 'sum by (instance) (rate(llm_requests_finished_total{reason="nothing"}[5m]))')
    assert not moved(prometheus, "0 * llm_requests_running / 0")


def test_every_alert_has_an_incident_and_every_exception_is_one() -> None:
    assert {alert.name for alert in ALERTS} == {*RAISED_BY, *(row.name for row in CAUSES), "LLMNobodyWatches"}
    assert set(LOOK_ALIKES) <= set(ASKED)
