"""A real Prometheus scrapes the exporter: everything arrives, under its own labels, in both forms of the page."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
import yaml

from llmvitals.exporters import health, judge, promises, selfmetrics
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.schema import family_of
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Target
from llmvitals.signals.catalogue import SIGNALS
from support.hostile import Hostile
from support.prometheus import PrometheusServer, binary, wait_for

DEPLOY = Path(__file__).parents[2] / "exporters"
OWN = {*selfmetrics.NAMES, *health.NAMES}
DERIVED = {f"llm_{s.id}" for s in SIGNALS} | {
    judge.GAP,
    judge.STANDING,
    judge.VERDICT,
    judge.CHECK_STATE,
    judge.LEADING,
    judge.HURT,
    judge.SETTING,
    judge.BINDING,
    *promises.NAMES,
}


@pytest.fixture
def exporter():
    with Hostile() as hostile:
        limits = Limits(listen="127.0.0.1:0", interval_seconds=0.25, timeout_seconds=2.0)
        targets = (Target(url=hostile.url("/fine"), name="alive"), Target(url=hostile.url("/500"), name="dead"))
        with Exporter(Settings(targets=targets, exporter=limits)) as running:
            wait_for(lambda: running.newest, "the first cycle")
            yield running


@pytest.mark.prometheus
def test_prometheus_takes_the_whole_page_with_the_exporters_own_instance_labels(exporter, tmp_path):
    address = urlsplit(exporter.url).netloc
    with PrometheusServer(tmp_path, scrape={"llmvitals": address}) as prometheus:
        wait_for(lambda: prometheus.query('llm_target_up{instance="alive"} == 1'), "the first samples")
        assert [value for _, value in prometheus.query('up{job="llmvitals"}')] == [1.0]
        assert [value for _, value in prometheus.query('llm_target_up{instance="dead"}')] == [0.0]
        assert prometheus.query('{__name__=~"llm.+",exported_instance!=""}') == []
        names = set(prometheus.get("label/__name__/values"))
        ours = {name for name in names if name.startswith(("llm_", "llmvitals_"))}
        unknown = {n for n in ours if family_of(n) is None and n not in DERIVED | OWN}
        assert unknown == set()
        assert {"llm_requests_running", "llm_triage_verdict", "llm_request_ttft_seconds_bucket"} <= ours
        # nothing of the page was refused: no duplicates, no sample out of order
        assert [v for _, v in prometheus.query("sum(prometheus_target_scrapes_sample_duplicate_timestamp_total)")] in (
            [],
            [0.0],
        )
        wait_for(
            lambda: prometheus.query('rate(llm_generation_tokens_total{instance="alive"}[10s]) > 0'),
            "a rate over scrapes",
        )
        verdicts = {labels["verdict"]: v for labels, v in prometheus.query('llm_triage_verdict{instance="alive"}')}
        assert len(verdicts) == 5
        assert sum(verdicts.values()) == 1.0


@pytest.mark.prometheus
def test_the_served_page_passes_promtool(exporter):
    page = requests.get(exporter.url + "/metrics", timeout=10).content
    run = subprocess.run(
        [binary("promtool"), "check", "metrics"], input=page, capture_output=True, timeout=60, check=False
    )
    assert (run.stderr.decode().splitlines(), run.returncode) == ([], 0)


@pytest.mark.prometheus
def test_the_example_scrape_configuration_is_valid_and_honours_our_labels(tmp_path):
    example = yaml.safe_load((DEPLOY / "prometheus-scrape.yaml").read_text())
    assert all(job["honor_labels"] is True for job in example["scrape_configs"])
    run = subprocess.run(
        [binary("promtool"), "check", "config", str(DEPLOY / "prometheus-scrape.yaml")],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
