"""The generated rules: accepted by promtool and amtool, proven by promtool's unit tests, and consistent with the tables."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from llmvitals.alerts.policy import CAUSES, HARMS, WHILE_WAITING, Severity
from llmvitals.alerts.rules import files
from llmvitals.schema import family_of
from llmvitals.settings import Alerts, Settings, Slo
from llmvitals.signals.catalogue import BY_ID, SIGNALS
from llmvitals.triage.checks import CHECKS
from support.prometheus import binary

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATHS = tuple(files())
UNIT_TESTS = sorted(HERE.glob("*_test.yaml"))


def _run(*command: str | Path) -> str:
    done = subprocess.run(
        [binary(str(command[0])), *map(str, command[1:])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _rules(path: str) -> list[dict]:
    return [rule for group in yaml.safe_load(files()[path])["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("rules")
    for path, text in files().items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize("path", PATHS)
def test_committed_files_are_what_the_tables_give(path) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == files()[path]


@pytest.mark.prometheus
@pytest.mark.parametrize("name", ["llmvitals-recording.yaml", "llmvitals-alerts.yaml"])
def test_promtool_accepts_the_rules(written, name) -> None:
    assert "SUCCESS" in _run("promtool", "check", "rules", written / "alerts" / name)


@pytest.mark.prometheus
def test_promtool_accepts_the_groups_of_the_operator_resource(written, tmp_path) -> None:
    resource = yaml.safe_load((written / "alerts/prometheusrule.yaml").read_text(encoding="utf-8"))
    assert (resource["apiVersion"], resource["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump(resource["spec"]), encoding="utf-8")
    both = len(_rules("alerts/llmvitals-recording.yaml")) + len(_rules("alerts/llmvitals-alerts.yaml"))
    assert f"SUCCESS: {both} rules found" in _run("promtool", "check", "rules", spec)


@pytest.mark.prometheus
@pytest.mark.parametrize("path", UNIT_TESTS, ids=lambda p: p.stem)
def test_promtool_unit_tests(path) -> None:
    _run("promtool", "test", "rules", path)


@pytest.mark.prometheus
def test_amtool_accepts_the_example(written) -> None:
    _run("amtool", "check-config", written / "alerts/alertmanager-example.yaml")


def test_every_signal_that_compiles_is_recorded_for_both_ranges() -> None:
    recorded = [rule["record"] for rule in _rules("alerts/llmvitals-recording.yaml")]
    assert len(recorded) == len(set(recorded))
    assert set(recorded) == {f"llm:{s.id}:{w}" for s in SIGNALS if s.expr is not None for w in ("1m", "5m")}


def test_recording_rules_read_canonical_families_only() -> None:
    for rule in _rules("alerts/llmvitals-recording.yaml"):
        read = set(re.findall(r"\bllm_\w+", rule["expr"]))
        assert read, rule
        assert all(family_of(name) is not None for name in read), rule


def test_every_check_that_can_fire_has_one_alert() -> None:
    alerted = [row.cause for row in CAUSES]
    assert sorted(alerted) == sorted(check.cause for check in CHECKS if check.when)


def test_alert_names_labels_and_annotations_are_whole() -> None:
    alerts = _rules("alerts/llmvitals-alerts.yaml")
    names = [rule["alert"] for rule in alerts]
    assert len(names) == len(set(names)) == len(CAUSES) + len(HARMS) + len(WHILE_WAITING) + 4
    known = {check.cause for check in CHECKS}
    for rule in alerts:
        assert rule["labels"]["severity"] in {"page", "ticket"}, rule
        assert rule["labels"].get("cause", "not-serving") in known, rule
        notes = rule["annotations"]
        assert set(notes) == {"summary", "description", "runbook_url"}, rule
        assert re.search(r"\$value|\| value|\d", notes["description"]), f"no number in {rule['alert']}"


def test_alerts_read_only_series_that_exist() -> None:
    """A renamed signal or verdict series would leave an alert that can never fire."""
    recorded = {rule["record"] for rule in _rules("alerts/llmvitals-recording.yaml")}
    told = {f"llm_{signal.id}" for signal in SIGNALS if signal.derive is not None}
    verdicts = {"llm_triage_verdict", "llm_triage_check_state", "llm_triage_leading"}
    for rule in _rules("alerts/llmvitals-alerts.yaml"):
        text = " ".join([rule["expr"], *re.findall(r'printf "([^{]+)', " ".join(rule["annotations"].values()))])
        for name in set(re.findall(r"\bllm[_:][\w:]+", text)):
            assert name in recorded | told | verdicts or family_of(name) is not None, (rule["alert"], name)


def test_runbook_base_and_objective_come_from_the_settings() -> None:
    settings = Settings(alerts=Alerts(runbook_base="https://wiki.example/llm/"), slo=Slo(objective=0.99))
    text = files(settings)["alerts/llmvitals-alerts.yaml"]
    assert "https://wiki.example/llm/preemption-thrash.md" in text
    # 14.4 times an error budget of 1 %
    assert "(llm_ttft_breach_ratio) >= 0.144)" in text


def _silences() -> list[tuple[set[str], set[str]]]:
    rules = yaml.safe_load(files()["alerts/alertmanager-example.yaml"])["inhibit_rules"]

    def causes(matchers: list[str]) -> set[str]:
        found = [re.fullmatch(r'cause=~?"(.+)"', matcher) for matcher in matchers]
        return {cause for match in found if match for cause in match[1].split("|")}

    return [(causes(r["source_matchers"]), causes(r["target_matchers"])) for r in rules]


def test_no_ticket_silences_a_page_and_none_silence_each_other() -> None:
    pages = {row.cause for row in CAUSES if row.severity is Severity.PAGE}
    edges = {(source, target) for sources, targets in _silences() for source in sources for target in targets}
    assert ("preemption-thrash", "kv-cache-saturation") in edges
    assert not {(s, t) for s, t in edges if t in pages and s not in pages}
    assert not {(s, t) for s, t in edges if (t, s) in edges}


def test_evidence_is_made_of_signals() -> None:
    for row in CAUSES:
        assert row.evidence
        assert all(id in BY_ID for id in row.evidence), row
