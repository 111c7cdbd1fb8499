"""The boards behind the alerts: every alert has a panel that shows what it asks and leads to its runbook."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from llmvitals.alerts.budgets import BY_ID as BUDGETS
from llmvitals.alerts.budgets import Counted
from llmvitals.alerts.conditions import Burns, parts_of
from llmvitals.alerts.model import PAGE, Alert
from llmvitals.alerts.policy import ALERTS
from llmvitals.alerts.rules import files
from llmvitals.alerts.watching import STUCK_INTERVALS
from llmvitals.dashboards.boards.alerting import RUNBOOKS
from llmvitals.dashboards.model import PLACE
from llmvitals.settings import Alerts, Settings
from llmvitals.signals.catalogue import BY_ID
from support.boards import DATA, ONCE, Drawn, of

ROOT = Path(__file__).resolve().parents[2]
SERVICE = next(data for data in DATA.values() if data["uid"] == "llmvitals-serving")
"""The board that alerts lead to."""

ALERT = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
BURNS = {
    "ttft": "First tokens in time",
    "tpot": "Pace of tokens",
    "answers": "Answers that fail",
    "calls": "Calls that get no answer",
    "goodput": "Whole promise, class by class",
}
ASKED = {part for alert in ALERTS for part in parts_of(alert.when) if isinstance(part, Burns)}


def shows(drawn: Drawn, asked: str) -> bool:
    """Whether a panel asks for a signal (as boards ask for it, or its gauge) or for a series by name."""
    name = asked if BY_ID.get(asked) is None else f"llm_{asked}"
    laid = {query.signal for query in drawn.panel.queries}
    return asked in laid or any(re.search(rf"\b{name}\b", one.expr) for one in drawn.asked)


def leads_to(drawn: Drawn, alert: Alert) -> bool:
    """Whether a panel's links, or a click on a value that is the alert's cause, open the alert's runbook."""
    panel = drawn.data
    page = f"${{runbook_url}}/{alert.runbook}.md"
    if page in {link["url"] for link in panel["links"]}:
        return True
    by_cause = alert.cause == alert.runbook and any("cause" in t["legendFormat"] for t in panel["targets"])
    clicks = {link["url"] for link in panel["fieldConfig"]["defaults"].get("links", [])}
    return by_cause and "${runbook_url}/${__field.labels.cause}.md" in clicks


@ALERT
def test_every_alert_has_a_panel_that_shows_what_it_asks_and_leads_to_its_runbook(alert):
    showing = [drawn for drawn in ONCE if shows(drawn, alert.panel)]
    assert showing, f"no panel shows {alert.panel}"
    assert any(leads_to(drawn, alert) for drawn in showing), (alert.runbook, [drawn.id for drawn in showing])
    assert (ROOT / "runbooks" / f"{alert.runbook}.md").is_file()


@ALERT
def test_a_click_on_an_alert_opens_its_runbook(alert):
    panel = of("Alerts over time").data
    shown = f"{alert.name} vllm-0 tiny"
    of_name = [
        prop["value"][0]["url"]
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"]["id"] == "byRegexp" and re.fullmatch(override["matcher"]["options"], shown)
        for prop in override["properties"]
        if prop["id"] == "links"
    ]
    default = panel["fieldConfig"]["defaults"]["links"][0]["url"].replace("${__field.labels.cause}", alert.cause)
    assert (of_name or [default]) == [f"${{runbook_url}}/{alert.runbook}.md"]


def test_the_board_names_no_alert_that_is_none():
    assert {name for _, names in RUNBOOKS for name in names} <= {alert.name for alert in ALERTS}


def matches(counted: Counted, expr: str) -> bool:
    """Whether an expression reads a counter with just the values of labels that a budget counts."""
    for text in re.findall(rf"{counted.name}{{([^}}]*)}}", expr):
        found = {name: set(value.split("|")) for name, value in re.findall(r'(\w+)=~?"([^"]*)"', text)}
        if all(found.get(label) == set(values) for label, values in counted.matching):
            return True
    return False


@pytest.mark.parametrize("burns", sorted(ASKED, key=repr), ids=lambda one: f"{one.budget}-{one.severity}")
def test_a_burn_is_of_what_the_alert_counts_over_the_alerts_windows(burns):
    budget, rows = BUDGETS[burns.budget], [row for row in Settings().alerts.burns if row.severity == burns.severity]
    panel = of(BURNS[budget.id] if burns.severity == PAGE else "Budgets over hours and days").data
    mine = [t["expr"] for t in panel["targets"] if matches(budget.missed[0], t["expr"])]
    assert {window for expr in mine for window in re.findall(r"\[(\w+)\]", expr)} == {row.long for row in rows}
    assert all(matches(counted, expr) for counted in (*budget.missed, *budget.judged) for expr in mine)
    apart = {label for expr in mine for by in re.findall(r"sum by \(([^)]*)\)", expr) for label in by.split(", ")}
    assert apart == {*budget.scope, *budget.by, *PLACE}
    drawn = {step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]}
    assert drawn - {None} == {row.burn for row in rows}


def test_every_budget_is_asked_of():
    assert {burns.budget for burns in ASKED} == set(BUDGETS)


def test_what_tells_that_rules_are_loaded_is_what_they_record():
    text = (ROOT / "alerts" / "llmvitals-recording.yaml").read_text(encoding="utf-8")
    recorded = {rule["record"] for group in yaml.safe_load(text)["groups"] for rule in group["rules"]}
    asked = {
        name for t in of("Are the rules loaded?").data["targets"] for name in re.findall(r"\bllm:[\w:]+", t["expr"])
    }
    assert asked
    assert asked <= recorded


def test_the_line_of_a_stuck_exporter_is_that_of_its_alert():
    steps = of("Age of the newest cycle").data["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [step["value"] for step in steps] == [None, STUCK_INTERVALS * Settings().exporter.interval_seconds]


def links(key: str, **urls: str) -> list[tuple[str, dict[str, list[str]]]]:
    """Where that link of each alert leads: the address, and its parameters."""
    text = files(Settings(alerts=Alerts(**urls)))["alerts/llmvitals-alerts.yaml"]
    notes = [rule["annotations"] for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    found = [urlsplit(note[key]) for note in notes if key in note]
    return [(f"{url.scheme}://{url.netloc}{url.path}", parse_qs(url.query)) for url in found]


def test_an_alerts_link_to_the_board_sets_variables_that_the_board_has():
    board = f"https://grafana.example/d/{SERVICE['uid']}"
    variables = {f"var-{v['name']}" for v in SERVICE["templating"]["list"]}
    found = links("dashboard_url", dashboard_url=board)
    assert {address for address, _ in found} == {board}
    assert {name for _, query in found for name in query} == {"var-instance", "var-model"} < variables


@pytest.mark.parametrize("app", ["https://triage.example", "https://triage.example/?source=fleet"])
def test_an_alerts_link_to_the_app_names_the_scope_and_keeps_the_source(app):
    found = links("app_url", app_url=app)
    assert {address for address, _ in found} == {"https://triage.example/"}
    wanted = {"source": ["fleet"]} if "source" in app else {}
    for _, query in found:
        assert query == wanted | {
            name: [f"{{{{ $labels.{name} | urlquery }}}}"] for name in query if name not in wanted
        }
    assert {name for _, query in found for name in query} == {"instance", "model", *wanted}
