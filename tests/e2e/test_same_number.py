"""One incident at one moment: the number of a panel, of the alert, of the command line, of the app and of the exporter's page.

A simulated server thrashes. Its pages go through a real exporter's cycle, and a Prometheus holds what the exporter's page said
each time, with the rules loaded. The last page is of a moment just past, so that alerts can fire on it.

Where every window ends at a page and is a whole number of scrapes long, all of them say the same number to the last digits but
few: signals extrapolate to their window's edges exactly as Prometheus does, or not at all. Three things are wider: the command
line looks at 90 s where nothing is said (so it is told the exporter's window), a rule that is evaluated between two scrapes has
another window than a page (so it is asked for its own moment), and an annotation is rounded.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from prometheus_client.parser import text_string_to_metric_families

from llmvitals.alerts import names
from llmvitals.alerts.recording import recording_groups
from llmvitals.app.chosen import ask_prometheus
from llmvitals.app.past import ask_past, drawn
from llmvitals.cli import main
from llmvitals.exporters.cycle import Cycle, Engine
from llmvitals.schema import BY_NAME
from llmvitals.series import Series, series
from llmvitals.settings import Settings, Source, Target
from llmvitals.signals.catalogue import BY_ID
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.live import Live
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload
from llmvitals.telemetry.ingest import RawPage
from support import hurried
from support.boards import ONCE, Asked, Drawn, filled
from support.prometheus import PrometheusServer, prometheus_of
from support.waiting import wait_for

pytestmark = pytest.mark.prometheus

NAME, MODEL = "vllm-0", "sim-8b"
SETTINGS = Settings(targets=(Target(url="http://127.0.0.1:8000", name=NAME),))
SCRAPED, LASTS = 15.0, 600.0
WINDOW = f"{SETTINGS.exporter.window_seconds:g}s"
EXACT = 1e-9
"""Relative: the same arithmetic over the same samples, summed in another order."""

ROUNDED = 0.005
"""Relative: an annotation says three or four digits."""

SIGNALS = (
    "ttft_p95_seconds",  # those that Prometheus computes
    "queue_share_ratio",
    "preemptions_per_minute",
    "requests_waiting",
    "kv_usage_high_ratio",  # those that the exporter shows
    "goodput_low_ratio",
    "goodput_high_ratio",
    "seats",
    "wait_ahead_seconds",
    "preemptions_per_completion",
)

CHAT = Stream("chat", rate=1.0, prompt=Lengths(400, 0.4), output=Lengths(120, 0.4), max_tokens=512)
LONG = Stream(
    "long answers",
    start=120.0,
    clients=64,
    ramp=4.0,
    prompt=Lengths(150, 0.1),
    output=Lengths(400, 0.1),
    max_tokens=512,
)


@dataclass(frozen=True)
class Incident:
    """The Prometheus, the exporter's newest cycle, and the moment of its page (unix seconds)."""

    server: PrometheusServer
    cycle: Cycle
    at: float


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Incident]:
    end = float(int(time.time()) - 2)
    config = EngineConfig(blocks=1024, max_num_seqs=64, max_model_len=2048)
    live = Live(Setup(config, Workload((CHAT, LONG)), uptime=3600.0), origin=end - LASTS - 60, coarse=True)
    exporter = Engine(SETTINGS)
    points: dict[Series, list[tuple[int, float]]] = {}
    for t in (end - LASTS + SCRAPED * i for i in range(round(LASTS / SCRAPED) + 1)):
        cycle = exporter.publish(t, exporter.record({NAME: RawPage(t, 0.02, 200, live.page_at(t))}))
        for family in text_string_to_metric_families(cycle.page.decode()):
            for one in family.samples:
                points.setdefault(series(one.name, **one.labels), []).append((round(t * 1000), one.value))
    folder = tmp_path_factory.mktemp("incident")
    rules = hurried.rules(folder, SETTINGS, lambda name, wait: "0s")
    with prometheus_of(folder, points, rules=rules) as server:
        yield Incident(server, cycle, end)


def shown(signal: str) -> tuple[Drawn, Asked]:
    """A panel's query of a signal, replica by replica."""
    return next((d, q) for d in ONCE for q in d.asked if q.query and q.query.signal == signal and q.placed)


def on_panel(incident: Incident, signal: str, window: str = WINDOW, at: float | None = None) -> float:
    """The number that a panel draws at the moment."""
    _, asked = shown(signal)
    expr = filled(asked.expr, window=window, instance=NAME, model=MODEL)
    ((_, value),) = incident.server.query(expr, at=incident.at if at is None else at)
    return value


def on_page(incident: Incident, signal: str) -> float:
    """The number on the exporter's own page."""
    return next(
        one.value
        for family in text_string_to_metric_families(incident.cycle.page.decode())
        for one in family.samples
        if one.name == f"llm_{signal}"
    )


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_panel_shows_what_the_exporters_page_says(incident, signal):
    assert on_panel(incident, signal) == pytest.approx(on_page(incident, signal), rel=EXACT)


def told(document: object) -> Iterator[tuple[str, float]]:
    """Every signal with its number that a triage's document holds."""
    if isinstance(document, Mapping):
        if isinstance(document.get("value"), int | float) and "signal" in document:
            yield str(document["signal"]), float(document["value"])
        for inside in document.values():
            yield from told(inside)
    elif isinstance(document, list):
        for inside in document:
            yield from told(inside)


def test_the_command_line_says_the_same(incident, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["triage", "--prometheus", incident.server.url, "--at", f"{incident.at:.0f}", "--for", WINDOW, "--json"])
    assert ended.value.code == 1, "a cause leads"
    ((one),) = json.loads(capsys.readouterr().out)["targets"]
    assert one["detail"]["leading"]["cause"] == "preemption-thrash"
    found = dict(told(one))
    both = {"preemptions_per_minute", "preemptions_per_completion", "queue_share_ratio", "wait_ahead_seconds"}
    assert both <= found.keys() & set(SIGNALS)
    for signal in found.keys() & set(SIGNALS):
        assert found[signal] == pytest.approx(on_panel(incident, signal), rel=EXACT), signal


def test_the_app_says_the_same(incident):
    source = Source(name="prometheus", url=incident.server.url, kind="prometheus")
    answer = ask_prometheus(source, {"instance": NAME, "model": MODEL}, incident.at, SETTINGS)
    assert answer.verdict.leading is not None
    assert answer.verdict.leading.cause == "preemption-thrash"
    past = ask_past(source, (NAME, MODEL), drawn(answer.verdict), incident.at, SETTINGS)
    found = {signal: trace.values[-1] for signal, trace in past.traces.items()}
    found |= {one.signal: one.value for one in answer.verdict.leading.evidence}
    both = found.keys() & set(SIGNALS)
    assert {"ttft_p95_seconds", "preemptions_per_minute", "preemptions_per_completion"} <= both
    for signal in both:
        assert found[signal] == pytest.approx(on_panel(incident, signal), rel=EXACT), signal


RECORDED = tuple(id for id in SIGNALS if BY_ID[id].expr is not None)


@pytest.mark.parametrize("signal", RECORDED)
def test_what_alerts_read_is_what_a_panel_draws_over_their_window(incident, signal):
    """Alerts look at 5 minutes where a panel looks at four scrapes: over the same window it is the same number."""
    (rule,) = (
        rule
        for group in recording_groups(SETTINGS)
        for rule in group["rules"]
        if rule["record"] == names.recorded(BY_ID[signal])
    )
    ((_, value),) = incident.server.query(rule["expr"], at=incident.at)
    assert value == pytest.approx(on_panel(incident, signal, names.WINDOW), rel=EXACT)


ALERTS = {
    "LLMPreemptionThrash": ("preemptions_per_minute", "preemptions_per_completion"),
    "LLMUsersHurt": ("ttft_p95_seconds", "requests_waiting"),
    "LLMFirstTokensLate": ("ttft_p95_seconds", "wait_ahead_seconds"),
}
"""What the alerts of such an incident tell in numbers."""


@pytest.fixture(scope="module")
def described(incident) -> dict[str, str]:
    """What each alert that fires says, by its name, once it was evaluated after all that it reads was recorded: the first time it
    may come before, and then says what it can without.
    """

    def firing() -> dict[str, str]:
        return {one["labels"]["alertname"]: one["annotations"]["description"] for one in incident.server.alerts()}

    def evaluated() -> dict[str, str]:
        groups = incident.server.get("rules")["groups"]
        return {
            one["name"]: one["lastEvaluation"] for one in groups if ALERTS.keys() & {r["name"] for r in one["rules"]}
        }

    def recorded() -> bool:
        return all(incident.server.query(names.recorded(BY_ID[signal])) for signal in RECORDED)

    wait_for(recorded, "the signals of the incident")
    before = evaluated()
    wait_for(lambda: all(at != before[name] for name, at in evaluated().items()), "another evaluation of each alert")
    wait_for(lambda: firing().keys() >= ALERTS.keys(), "the alerts of the incident")
    return firing()


@pytest.mark.parametrize(("alert", "signal"), [(name, signal) for name, told in ALERTS.items() for signal in told])
def test_an_alert_tells_the_number_that_a_panel_draws(incident, described, alert, signal):
    text = described[alert]
    found = re.search(rf"{re.escape(BY_ID[signal].title)}: (?P<number>[-+.e0-9]+) ?(?P<unit>\w*)", text)
    assert found, text
    number = float(found["number"]) * {"ms": 1e-3}.get(found["unit"], 1.0)
    if f"llm_{signal}" in BY_NAME or BY_ID[signal].expr is None:
        assert number == pytest.approx(on_page(incident, signal), rel=ROUNDED)
        return
    # A rule is evaluated when it is its turn: its window ends there, so the panel is asked for some moment of these few seconds.
    moments = [incident.at + step / 2 for step in range(round(2 * (time.time() - incident.at)) + 1)]
    drawn = [on_panel(incident, signal, names.WINDOW, at) for at in moments]
    assert min(drawn) * (1 - ROUNDED) <= number <= max(drawn) * (1 + ROUNDED), text
