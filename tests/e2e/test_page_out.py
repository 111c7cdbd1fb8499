"""The whole way, with nothing made up but the load: an engine that breaks, the exporter, a Prometheus and an Alertmanager with
the generated files, and who is woken by what.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
import yaml

from llmvitals.settings import Alerts, Burn, Exporter, Kubernetes, Node, Settings, Target, Thresholds
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload
from support import hurried
from support.page_out import Command, Crowded, cut
from support.prometheus import AlertmanagerServer, PrometheusServer, fetch
from support.waiting import free_port, wait_for
from support.webhook import Told, Webhook

pytestmark = pytest.mark.prometheus

RUNBOOKS = Path(__file__).parents[2] / "runbooks"
HURT, THRASH, GONE, NOBODY = (
    "LLMUsersHurt",
    "LLMPreemptionThrash",
    "LLMTargetGone",
    "LLMNobodyWatches",
)
A, B, MODEL, PLACE, CROWD = "chat-a", "chat-b", "model-a", "chat", 64
PATIENCE = 60.0
"""Seconds in which what takes about 20 on an idle machine must have happened."""

BLOCK, BLOCKS, PROMPT, OUTPUT = 16, 1024, 150, 400
SEATS = BLOCKS // -(-(PROMPT + OUTPUT) // BLOCK)
"""Every request is of one size, so that the pool holds this many of them at their longest, whoever counts."""


def _engine() -> Setup:
    """Seats for more than twice as many requests as its pool holds, and traffic that takes a third of it."""
    usual = Stream("usual", rate=1.5, prompt=Lengths(PROMPT), output=Lengths(OUTPUT), max_tokens=OUTPUT)
    engine = EngineConfig(model=MODEL, block_tokens=BLOCK, blocks=BLOCKS, max_num_seqs=64, max_model_len=2048)
    return Setup(engine, Workload((usual,)))


def _settings(targets: tuple[Target, ...]) -> Settings:
    """Short cycles and windows; a machine that is busy with tests answers late without being an engine that does."""
    return Settings(
        targets=targets,
        exporter=Exporter(interval_seconds=1.0, window_seconds=20.0),
        thresholds=Thresholds(min_seconds=8.0, page_answer_seconds=2.0),
        node=Node(nvml="off", processes="off", kubernetes=Kubernetes(enabled="off")),
        alerts=Alerts(
            app_url="http://app.invalid/",
            burns=(
                Burn(severity="page", burn=6.0, long="20s", short="10s"),
                Burn(severity="ticket", burn=2.0, long="40s", short="20s"),
            ),
        ),
    )


@dataclass(slots=True)
class Stage:
    """All that runs. ``stack``: what ends with the test; ``port``: the engine's."""

    stack: ExitStack
    port: int
    engine: Crowded
    exporter: Command
    prometheus: PrometheusServer
    alertmanager: AlertmanagerServer
    receivers: Webhook

    def state(self, name: str, instance: str) -> str:
        """What the Alertmanager does with an alert: active, or suppressed; '' where it holds none."""
        found = (one for one in self.alertmanager.alerts() if one["labels"]["alertname"] == name)
        return next((str(one["status"]["state"]) for one in found if one["labels"].get("instance") == instance), "")

    def restart(self) -> None:
        """A new process of the engine, at the same address."""
        self.engine = self.stack.enter_context(Crowded(_engine(), self.port))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Everything up, and nothing wrong."""
    with ExitStack() as stack:
        receivers = stack.enter_context(Webhook())
        beside = stack.enter_context(Command(tmp_path / "b", "/health", "simulate", "healthy", "--serve", "{address}"))
        port = free_port()
        engine = stack.enter_context(Crowded(_engine(), port))
        targets = (
            Target(url=engine.page_url, name=A, labels={"namespace": PLACE}),
            Target(url=f"{beside.url}/metrics", name=B, labels={"namespace": PLACE}),
        )
        settings = _settings(targets)
        path = tmp_path / "llmvitals.yaml"
        path.write_text(yaml.safe_dump(msgspec.to_builtins(settings)), encoding="utf-8")
        exporter = stack.enter_context(
            Command(tmp_path / "exporter", "/readyz", "serve", "--settings", path, "--listen", "{address}")
        )
        rules = hurried.rules(tmp_path, settings, cut)
        config = hurried.write_example(tmp_path, hurried.example(settings, receivers.url, cut))
        alertmanager = stack.enter_context(AlertmanagerServer(tmp_path / "am", config))
        prometheus = stack.enter_context(
            PrometheusServer(
                tmp_path / "prom",
                rules=rules,
                scrape={"llmvitals": exporter.address},
                alertmanager=f"127.0.0.1:{alertmanager.port}",
                flags=("--rules.alert.resend-delay=2s",),
            )
        )
        yield Stage(stack, port, engine, exporter, prometheus, alertmanager, receivers)


def test_who_is_woken_by_what(stage: Stage) -> None:
    prometheus = stage.prometheus
    healthy = 'llm_triage_verdict{verdict="healthy"} == 1'
    wait_for(lambda: len(prometheus.query(healthy)) == 2, "two servers that are found healthy")
    assert stage.receivers.told == []

    _overload(stage)
    _recovery(stage)
    _death(stage)
    assert prometheus.query(f'max_over_time(ALERTS{{instance="{B}",alertstate="firing"}}[10m])') == []
    _blindness(stage)
    assert B not in {one.instance for one in stage.receivers.told}


def _overload(stage: Stage) -> None:
    """One page, with what leads and what to set against it; what explains it stays quiet."""
    fault = time.time()
    stage.engine.crowd(CROWD, prompt=PROMPT, output=OUTPUT)
    page = _arrives(stage, "firing", HURT, A)
    assert page.t - fault < PATIENCE
    assert page.group == {"namespace": PLACE, "model": MODEL}
    assert page.annotations["summary"].endswith(f": {A} / {MODEL}")
    assert (_runbook(page, "runbook_url"), _runbook(page, "cause_runbook_url")) == ("users-hurt", "preemption-thrash")
    assert re.search(r"The triage names preemption-thrash, [\d.]+% sure\.", page.annotations["description"])
    assert f"Set --max-num-seqs to {SEATS}." in page.annotations["description"]
    assert _advice(stage.exporter, A) == ("preemption-thrash", "--max-num-seqs", SEATS)
    assert parse_qs(urlsplit(page.annotations["app_url"]).query) == {"instance": [A], "model": [MODEL]}

    wait_for(lambda: stage.state(THRASH, A) == "suppressed", "the ticket on its cause to be silenced", PATIENCE)
    assert stage.receivers.rung("pager") == [(HURT, A)]
    assert stage.receivers.rung("tickets") == []


def _recovery(stage: Stage) -> None:
    stage.engine.disperse()
    _arrives(stage, "resolved", HURT, A)
    assert stage.receivers.rung("pager") == [(HURT, A)]


def _death(stage: Stage) -> None:
    """Nobody answers any more, then somebody does."""
    dead = time.time()
    stage.engine.kill()
    page = _arrives(stage, "firing", GONE, A)
    assert page.t - dead < PATIENCE
    assert _runbook(page, "runbook_url") == "target-gone"
    assert "The triage names not-serving" in page.annotations["description"]
    assert set(stage.receivers.rung("pager", dead)) == {(GONE, A)}  # that no token comes is no page of its own

    stage.restart()
    _arrives(stage, "resolved", GONE, A)
    wait_for(lambda: not stage.prometheus.query('ALERTS{severity="page"}'), "an end of all pages", PATIENCE)


def _blindness(stage: Stage) -> None:
    """Without an exporter every target looks gone. That is told of none of them."""
    blind = time.time()
    stage.exporter.close()
    page = _arrives(stage, "firing", NOBODY, "")
    assert page.t - blind < PATIENCE
    assert _runbook(page, "runbook_url") == "nobody-watches"
    for target in (A, B):
        wait_for(
            lambda target=target: stage.state(GONE, target) == "suppressed",
            f"that {target} looks gone to be silenced",
            PATIENCE,
        )
    assert stage.receivers.rung("pager", blind) == [(NOBODY, "")]


def _arrives(stage: Stage, status: str, name: str, instance: str) -> Told:
    """The first such notification at the pager, once it has come."""
    return wait_for(
        lambda: stage.receivers.first("pager", status, name, instance), f"{status} {name} at the pager", PATIENCE
    )


def _runbook(page: Told, key: str) -> str:
    """The name of the runbook that an annotation leads to; fails where there is none."""
    found = RUNBOOKS / Path(urlsplit(page.annotations[key]).path).name
    assert found.is_file()
    return found.stem


def _advice(exporter: Command, instance: str) -> tuple[str, str, float]:
    """The cause that leads, the setting and its number, as the exporter's own answer has them."""
    leading = json.loads(fetch(f"{exporter.url}/triage?instance={instance}") or b"{}")["leading"]
    return leading["cause"], leading["action"]["setting"], leading["action"]["value"]
