"""The whole way once: an exporter's page, a real Prometheus with the rules, a real Alertmanager with the example."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from llmvitals.settings import Settings
from support import hurried
from support.answers import Answer, Asked
from support.prometheus import AlertmanagerServer, PrometheusServer
from support.waiting import wait_for
from support.webhook import Webhook

pytestmark = pytest.mark.prometheus

THRASH, FULL, GONE = "LLMPreemptionThrash", "LLMKvCacheSaturation", "LLMTargetGone"
HURRIED = {"for": "0s", "keep_firing_for": "0s", "group_wait": "1s", "group_interval": "1s"}
Firing = dict[str, tuple[str, ...]]
"""The causes whose checks fire, by instance."""


class Stage(Webhook):
    """One HTTP server that plays the exporter (/metrics) and both receivers."""

    def __init__(self) -> None:
        super().__init__({"/metrics": self._metrics})
        self.page = ""
        self.finished = 0

    def _metrics(self, _: Asked) -> Answer:
        body = f"{self.page}{self._in_use()}".encode()
        return Answer(body, headers={"content-type": "text/plain; version=0.0.4"})

    def _in_use(self) -> str:
        """A server that finishes requests, until it is down: whoever nobody uses pages nobody."""
        down = 'llm_target_up{instance="a:8000"} 0' in self.page
        self.finished += 5
        return "" if down else f'llm_requests_finished_total{{instance="a:8000",model="m"}} {self.finished}\n'


def _page(firing: Firing, down: tuple[str, ...] = ()) -> str:
    lines = []
    for instance, causes in firing.items():
        lines.append(f'llm_target_up{{instance="{instance}"}} {0 if instance in down else 1}')
        lines.append(f'llm_triage_verdict{{instance="{instance}",model="m",verdict="cause"}} 1')
        for cause in ("preemption-thrash", "kv-cache-saturation"):
            labels = f'instance="{instance}",model="m",cause="{cause}",state="firing"'
            lines.append(f"llm_triage_check_state{{{labels}}} {int(cause in causes)}")
    return "\n".join(lines) + "\n"


def _hurried(folder: Path, receivers: str) -> tuple[list[Path], Path]:
    """The generated files with their waiting times cut: those are proven by promtool's unit tests."""

    def cut(name: str, wait: str) -> str:
        return HURRIED.get(name, wait)

    config = hurried.example(Settings(), receivers, cut)
    return hurried.rules(folder, Settings(), cut), hurried.write_example(folder, config)


def _states(alertmanager: AlertmanagerServer) -> dict[tuple[str, str], Any]:
    return {
        (a["labels"]["alertname"], a["labels"].get("instance", "")): a["status"]["state"] for a in alertmanager.alerts()
    }


def test_alerts_arrive_and_causes_silence_their_consequences(tmp_path) -> None:
    quiet = {"a:8000": (), "b:8000": ()}
    with Stage() as stage:
        stage.page = _page(quiet)
        rules, config = _hurried(tmp_path, stage.url)
        with (
            AlertmanagerServer(tmp_path / "am", config) as alertmanager,
            PrometheusServer(
                tmp_path / "prom",
                rules=rules,
                scrape={"llmvitals": stage.url.removeprefix("http://")},
                alertmanager=f"127.0.0.1:{alertmanager.port}",
                flags=("--rules.alert.resend-delay=3s",),
            ) as prometheus,
        ):
            _arrive(stage, alertmanager, prometheus, quiet)
    assert not stage.first("tickets", "firing", FULL, "a:8000")


def _arrive(stage: Stage, alertmanager: AlertmanagerServer, prometheus: PrometheusServer, quiet: Firing) -> None:
    wait_for(lambda: prometheus.query("llm_target_up == 1"), "the first scrape")
    wait_for(lambda: not prometheus.alerts(), "silence while nothing fires")
    # With its wait cut to nothing, "nobody watches" may fire before the first scrape; it is over once both are silent.
    wait_for(lambda: not alertmanager.alerts(), "what fired before the first scrape to be over")
    began = time.time()

    stage.page = _page({"a:8000": ("preemption-thrash", "kv-cache-saturation"), "b:8000": ("kv-cache-saturation",)})
    wait_for(lambda: stage.first("tickets", "firing", THRASH, "a:8000"), "the ticket for a")
    wait_for(lambda: stage.first("tickets", "firing", FULL, "b:8000"), "the ticket for b")
    wait_for(lambda: _states(alertmanager).get((FULL, "a:8000")) == "suppressed", "the consequence to be silenced")
    assert _states(alertmanager)[FULL, "b:8000"] == "active"
    assert not stage.rung("pager", since=began)

    stage.page = _page({"a:8000": ("preemption-thrash",), "b:8000": ()}, down=("a:8000",))
    wait_for(lambda: stage.first("pager", "firing", GONE, "a:8000"), "the page for a")
    wait_for(lambda: _states(alertmanager).get((THRASH, "a:8000")) == "suppressed", "the gone target's silence")
    wait_for(lambda: stage.first("tickets", "resolved", FULL, "b:8000"), "b to be resolved")

    stage.page = _page(quiet)
    wait_for(lambda: stage.first("pager", "resolved", GONE, "a:8000"), "a to be resolved")
