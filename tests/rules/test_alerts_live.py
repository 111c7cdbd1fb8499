"""The whole way once: an exporter's page, a real Prometheus with the rules, a real Alertmanager with the example."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmvitals.alerts.alertmanager import EXAMPLE_URL
from llmvitals.alerts.rules import files
from support.prometheus import AlertmanagerServer, PrometheusServer, wait_for

pytestmark = pytest.mark.prometheus

THRASH, FULL, GONE = "LLMPreemptionThrash", "LLMKvCacheSaturation", "LLMTargetGone"


class Stage:
    """One HTTP server that plays the exporter (GET /metrics) and both receivers (POST /pager, /tickets)."""

    def __init__(self) -> None:
        self.page = ""
        self.finished = 0
        self.delivered: dict[str, set[tuple[str, str, str]]] = {"/pager": set(), "/tickets": set()}
        stage = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(f"{stage.page}{stage.in_use()}".encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for alert in body["alerts"]:
                    labels = alert["labels"]
                    stage.delivered[self.path].add((alert["status"], labels["alertname"], labels["instance"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Be quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def in_use(self) -> str:
        """A server that finishes requests, until it is down: whoever nobody uses pages nobody."""
        down = 'llm_target_up{instance="a:8000"} 0' in self.page
        self.finished += 5
        return "" if down else f'llm_requests_finished_total{{instance="a:8000",model="m"}} {self.finished}\n'

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _page(firing: dict[str, tuple[str, ...]], down: tuple[str, ...] = ()) -> str:
    lines = []
    for instance, causes in firing.items():
        lines.append(f'llm_target_up{{instance="{instance}"}} {0 if instance in down else 1}')
        lines.append(f'llm_triage_verdict{{instance="{instance}",model="m",verdict="cause"}} 1')
        for cause in ("preemption-thrash", "kv-cache-saturation"):
            labels = f'instance="{instance}",model="m",cause="{cause}",state="firing"'
            lines.append(f"llm_triage_check_state{{{labels}}} {int(cause in causes)}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.close()


def _hurried(folder: Path, stage: Stage) -> tuple[list[Path], Path]:
    """The generated files with their waiting times cut: those are proven by promtool's unit tests."""
    written = []
    for path in ("alerts/llmvitals-recording.yaml", "alerts/llmvitals-alerts.yaml"):
        data = yaml.safe_load(files()[path])
        for rule in (rule for group in data["groups"] for rule in group["rules"] if "alert" in rule):
            rule["for"] = "0s"
            rule.pop("keep_firing_for", None)
        written.append(folder / Path(path).name)
        written[-1].write_text(yaml.safe_dump(data), encoding="utf-8")
    config = yaml.safe_load(files()["alerts/alertmanager-example.yaml"].replace(EXAMPLE_URL, f"http://{stage.address}"))
    for route in (config["route"], *config["route"]["routes"]):
        route |= {"group_wait": "1s", "group_interval": "1s"}
    written.append(folder / "alertmanager.yml")
    written[-1].write_text(yaml.safe_dump(config), encoding="utf-8")
    return written[:2], written[2]


def _states(alertmanager: AlertmanagerServer) -> dict[tuple[str, str], Any]:
    return {
        (a["labels"]["alertname"], a["labels"].get("instance", "")): a["status"]["state"] for a in alertmanager.alerts()
    }


def test_alerts_arrive_and_causes_silence_their_consequences(tmp_path, stage) -> None:
    rules, config = _hurried(tmp_path, stage)
    quiet = {"a:8000": (), "b:8000": ()}
    stage.page = _page(quiet)
    with (
        AlertmanagerServer(tmp_path / "am", config) as alertmanager,
        PrometheusServer(
            tmp_path / "prom",
            rules=rules,
            scrape={"llmvitals": stage.address},
            alertmanager=f"127.0.0.1:{alertmanager.port}",
            flags=("--rules.alert.resend-delay=3s",),
        ) as prometheus,
    ):
        wait_for(lambda: prometheus.query("llm_target_up == 1"), "the first scrape")
        wait_for(lambda: not prometheus.alerts(), "silence while nothing fires")

        stage.page = _page({"a:8000": ("preemption-thrash", "kv-cache-saturation"), "b:8000": ("kv-cache-saturation",)})
        wait_for(lambda: ("firing", THRASH, "a:8000") in stage.delivered["/tickets"], "the ticket for a")
        wait_for(lambda: ("firing", FULL, "b:8000") in stage.delivered["/tickets"], "the ticket for b")
        wait_for(lambda: _states(alertmanager).get((FULL, "a:8000")) == "suppressed", "the consequence to be silenced")
        assert _states(alertmanager)[FULL, "b:8000"] == "active"
        assert not stage.delivered["/pager"]

        stage.page = _page({"a:8000": ("preemption-thrash",), "b:8000": ()}, down=("a:8000",))
        wait_for(lambda: ("firing", GONE, "a:8000") in stage.delivered["/pager"], "the page for a")
        wait_for(lambda: _states(alertmanager).get((THRASH, "a:8000")) == "suppressed", "the gone target's silence")
        wait_for(lambda: ("resolved", FULL, "b:8000") in stage.delivered["/tickets"], "b to be resolved")

        stage.page = _page(quiet)
        wait_for(lambda: ("resolved", GONE, "a:8000") in stage.delivered["/pager"], "a to be resolved")
    assert ("firing", FULL, "a:8000") not in stage.delivered["/tickets"]
