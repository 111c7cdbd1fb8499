"""The generated rules: accepted by promtool and amtool, proven by promtool's unit tests, and consistent with the tables."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from llmvitals.alerts import names
from llmvitals.alerts.budgets import BUDGETS
from llmvitals.alerts.compile import expression, labels_of
from llmvitals.alerts.conditions import Burns, Written, parts_of
from llmvitals.alerts.firing import rules_of
from llmvitals.alerts.limits import limit
from llmvitals.alerts.model import PAGE, TELEMETRY_GROUP
from llmvitals.alerts.policy import ALERTS, BY_NAME, CAUSES
from llmvitals.alerts.rules import files
from llmvitals.alerts.silences import SILENCES
from llmvitals.exporters import health, judge, promises, selfmetrics
from llmvitals.schema import family_of
from llmvitals.settings import Alerts, Burn, Settings, Slo, seconds_of
from llmvitals.signals.catalogue import BY_ID, SIGNALS
from llmvitals.signals.promql import lower
from llmvitals.signals.promql_ast import Aggregate, Call, Infix, Node, Number
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.verdict import Outcome, State
from support.prometheus import binary

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATHS = tuple(files())
RECORDING, ALERTING, COMPAT, RESOURCE, EXAMPLE = (
    f"alerts/{name}.yaml"
    for name in (
        "llmvitals-recording",
        "llmvitals-alerts",
        "llmvitals-alerts-compat",
        "prometheusrule",
        "alertmanager-example",
    )
)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
UNIT_TESTS = sorted(HERE.glob("*_test.yaml"))

OPERATOR_BYTES = 512 * 1024
"""The Prometheus operator puts rule files into ConfigMaps of half a MiB, and refuses one that does not fit."""

OPERATORS = {
    *("sum", "max", "min", "avg", "count", "quantile", "absent", "abs", "clamp_max", "histogram_quantile", "vector"),
    *("increase", "rate", "deriv"),
    *(f"{what}_over_time" for what in ("max", "avg", "sum", "min", "last")),
}
"""Functions that Prometheus 2.42, Prometheus 3 and MetricsQL all have."""

GUARDS = (
    r'llm_triage_check_state\{cause="[a-z-]+",state="firing"\}\) == 1\) unless',  # no check fires without traffic
    r"llm_triage_hurt\) == 1",
    r"llm:\w+_judged:\w+ >= 20",
    r"increase\(llm_requests_finished_total\[\w+\]\)\) >= 20",
    r"llm:requests_waiting:5m > 0",
    r"\(llm_refused_calls\) >= 10.*\(llm_rejected_requests\) >= 10",
)
"""What keeps an alert on servers quiet where nothing happens."""


def _run(*command: str | Path) -> str:
    done = subprocess.run(
        [binary(str(command[0])), *map(str, command[1:])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _rules(path: str, settings: Settings | None = None) -> list[dict[str, Any]]:
    return _read_rules((files(settings) if settings else _default())[path])


_default = cache(files)


@cache
def _read_rules(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.load(text, Loader=LOADER)["groups"] for rule in group["rules"]]


def _burning(*rows: Burn, **other: Any) -> Settings:
    return Settings(alerts=Alerts(burns=rows, **other))


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


# -- accepted by those who read them ----------------------------------------------------------------------------------
@pytest.mark.prometheus
@pytest.mark.parametrize("path", [RECORDING, ALERTING, COMPAT])
def test_promtool_accepts_the_rules(written, path) -> None:
    assert f"SUCCESS: {len(_rules(path))} rules found" in _run("promtool", "check", "rules", written / path)


@pytest.mark.prometheus
def test_promtool_accepts_the_groups_of_the_operator_resource(written, tmp_path) -> None:
    resource = yaml.safe_load((written / RESOURCE).read_text(encoding="utf-8"))
    assert (resource["apiVersion"], resource["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump(resource["spec"]), encoding="utf-8")
    both = len(_rules(RECORDING)) + len(_rules(ALERTING))
    assert f"SUCCESS: {both} rules found" in _run("promtool", "check", "rules", spec)


def test_the_operator_takes_the_resource_whole() -> None:
    assert len(files()[RESOURCE].encode()) < OPERATOR_BYTES / 2  # twice as many alerts would still fit


@pytest.mark.prometheus
@pytest.mark.parametrize("path", UNIT_TESTS, ids=lambda p: p.stem)
def test_promtool_unit_tests(path) -> None:
    _run("promtool", "test", "rules", path)


@pytest.mark.prometheus
def test_amtool_accepts_the_example(written) -> None:
    _run("amtool", "check-config", written / EXAMPLE)


def test_no_function_is_used_that_only_some_have() -> None:
    rules = [*_rules(RECORDING), *_rules(ALERTING)]
    used = {name for rule in rules for name in re.findall(r"\b([a-z_]+)\(", _bare(rule["expr"]))}
    assert used - {"by", "on", "group_left"} <= OPERATORS
    assert "sum_over_time" in used


def _bare(expr: str) -> str:
    """The expression without strings, in which anything may stand, and with ``by (`` as no call."""
    return re.sub(r"\b(by|on|group_left|and|or|unless) \(", "(", re.sub(r'"[^"]*"', '""', expr))


# -- recording rules --------------------------------------------------------------------------------------------------
def test_every_signal_that_compiles_is_recorded_once_and_so_is_every_window_of_every_budget() -> None:
    recorded = [rule["record"] for rule in _rules(RECORDING)]
    windows = {w for row in Alerts().burns for w in (row.long, row.short)}
    assert windows == {"1m", "5m", "30m", "1h", "6h", "3d"}
    signals = {f"llm:{s.id}:5m" for s in SIGNALS if s.expr is not None}
    counts = {f"llm:{b.id}_{what}:{w}" for b in BUDGETS for what in ("missed", "judged") for w in windows}
    assert len(recorded) == len(set(recorded))
    assert set(recorded) == signals | counts | {names.USED}


def test_recording_rules_read_the_page_and_beyond_an_hour_what_was_recorded() -> None:
    seen = set()
    for rule in _rules(RECORDING):
        ranges = [seconds_of(found) for found in re.findall(r"\[(\w+)", rule["expr"])]
        if max(ranges, default=0.0) > 3600:
            seen.add(rule["record"])
            assert re.fullmatch(r"sum_over_time\(llm:\w+:5m\[\w+:5m\]\)", rule["expr"]), rule
        else:
            read = set(re.findall(r"\bllm_\w+", rule["expr"]))
            assert read, rule
            assert all(family_of(name) is not None or name in promises.NAMES for name in read), rule
    assert {name.rpartition(":")[2] for name in seen} == {"6h", "3d"}


def test_no_bucket_and_no_rank_survives() -> None:
    for rule in _rules(RECORDING):
        kept = re.sub(r"histogram_quantile\([\d.]+, sum by \(([\w, ]+), le\)", r"quantile of sum by (\1)", rule["expr"])
        for labels in re.findall(r"by \(([\w, ]*)\)", kept):
            assert not {"le", "rank", "engine", "edge", "gpu"} & set(labels.split(", ")), rule


def test_what_is_summed_over_hours_is_recorded_though_no_row_asks_for_it() -> None:
    settings = _burning(Burn(severity="ticket", burn=1.0, long="6h", short="30m"))
    recorded = {rule["record"] for rule in _rules(RECORDING, settings)}
    assert {"llm:ttft_missed:5m", "llm:ttft_missed:30m", "llm:ttft_missed:6h"} <= recorded
    assert "llm:ttft_missed:1h" not in recorded


def test_without_burns_there_are_neither_counts_nor_alerts_on_budgets() -> None:
    assert not [rule for rule in _rules(RECORDING, _burning()) if "_missed:" in rule["record"]]
    assert not [rule for rule in _rules(ALERTING, _burning()) if "_missed:" in rule["expr"]]


def test_a_quantile_of_nothing_is_not_recorded() -> None:
    for rule in _rules(RECORDING):
        assert ("histogram_quantile" in rule["expr"]) == rule["expr"].endswith(" >= 0"), rule


# -- alerts -----------------------------------------------------------------------------------------------------------
def test_there_are_alerts_enough_and_each_rule_is_told_apart() -> None:
    rules = _rules(ALERTING)
    assert len({rule["alert"] for rule in rules}) >= 20
    assert {rule["alert"] for rule in rules} == {alert.name for alert in ALERTS}
    identities = [(rule["alert"], rule["labels"].get("window")) for rule in rules]
    assert len(identities) == len(set(identities))


def test_every_check_that_can_fire_has_one_alert() -> None:
    alerted = [alert.cause for alert in CAUSES]
    assert sorted(alerted) == sorted(check.cause for check in CHECKS if check.when)


def test_labels_and_annotations_are_whole() -> None:
    causes = {check.cause for check in CHECKS}
    for rule in _rules(ALERTING):
        alert, notes = BY_NAME[rule["alert"]], rule["annotations"]
        assert rule["labels"]["severity"] == alert.severity.value
        assert rule["labels"].get("cause", "not-serving") in causes, rule
        symptom = alert.severity is PAGE and alert.group == "llmvitals-symptoms"
        assert set(notes) == {"summary", "description", "runbook_url"} | ({"cause_runbook_url"} if symptom else set())
        assert re.search(r"\$value|\| value|\.Value", notes["description"]), f"no number in {rule['alert']}"
        assert "  " not in notes["description"]


def test_every_runbook_is_a_page_that_exists() -> None:
    for rule in _rules(ALERTING):
        slug = re.fullmatch(r"https://[\w./-]+/([a-z-]+)\.md", rule["annotations"]["runbook_url"])
        assert slug, rule["alert"]
        assert (ROOT / "runbooks" / f"{slug[1]}.md").is_file(), slug[1]


def test_pages_name_the_leading_cause_and_what_to_set_and_its_page() -> None:
    for alert in ALERTS:
        if alert.severity is PAGE and alert.group != TELEMETRY_GROUP:
            for rule in (rule for rule in _rules(ALERTING) if rule["alert"] == alert.name):
                told = rule["annotations"]["description"]
                assert told.index("llm_triage_leading{") < told.index("llm_triage_setting{"), alert.name
                if "cause_runbook_url" in rule["annotations"]:
                    url = rule["annotations"]["cause_runbook_url"]
                    assert "llm_triage_leading{" in url
                    assert f"{{{{ else }}}}{alert.runbook}{{{{ end }}}}.md" in url  # where no cause leads


def test_causes_tell_what_to_set_against_themselves() -> None:
    for rule in _rules(ALERTING):
        if rule["alert"] in {alert.name for alert in CAUSES if alert.severity is not PAGE}:
            assert f'"{rule["labels"]["cause"]}" | query' in rule["annotations"]["description"]


def _read(rule: dict[str, Any]) -> set[str]:
    """The series that a rule or its texts read."""
    asked = re.findall(r'(?:printf|query) "(.+?[^\\])"', " ".join(rule.get("annotations", {}).values()))
    text = re.sub(r'"[^"]*"', "", " ".join([rule["expr"], *asked]))
    return set(re.findall(r"\b(?:llm|llmvitals)[_:][\w:]+|\bup\b|\bALERTS\w*", text))


def test_every_series_that_is_read_exists() -> None:
    """A renamed signal or verdict series would leave an alert that can never fire."""
    recorded = {rule["record"] for rule in _rules(RECORDING)}
    shown = {group.name for group in judge.groups((), 60.0)} | {group.name for group in promises.groups((), Settings())}
    own = {"up", *selfmetrics.NAMES, *health.NAMES}
    for rule in _rules(ALERTING):
        read = _read(rule)
        assert read, rule["alert"]
        unknown = {name for name in read - recorded - shown - own if family_of(name) is None}
        assert not unknown, (rule["alert"], unknown)
    everything = set().union(*map(_read, _rules(ALERTING)))
    assert {"llm_triage_hurt", "llm:ttft_missed:1m", "llmvitals_cycle_age_seconds", "up"} <= everything


def test_every_value_of_a_verdict_series_that_is_asked_for_can_be_there() -> None:
    known = {
        "cause": {check.cause for check in CHECKS},
        "state": {state.value for state in State},
        "verdict": {outcome.value for outcome in Outcome},
    }
    for rule in _rules(ALERTING):
        for label, value in re.findall(r'(\w+)=~?"([^"]+)"', rule["expr"]):
            if label in known:
                assert set(value.split("|")) <= known[label], (rule["alert"], label, value)


def test_nothing_looks_at_gpu_percent_or_at_memory_that_engines_reserve() -> None:
    forbidden = re.compile(r"gpu_busy|gpu_engine_active|gpu_memory_(used|reserved)|memory_utilization")
    for rule in _rules(ALERTING):
        assert not forbidden.search(rule["expr"]), rule["alert"]


def test_every_alert_on_a_server_needs_traffic_or_a_verdict_on_it() -> None:
    for rule in _rules(ALERTING):
        if BY_NAME[rule["alert"]].group != TELEMETRY_GROUP:
            assert any(re.search(guard, rule["expr"]) for guard in GUARDS), (rule["alert"], rule["expr"])


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case Call(_, arguments):
            below = arguments
        case Aggregate(_, _, argument):
            below = (argument,)
        case Infix(_, left, right):
            below = (left, right)
        case _:
            below = ()
    for one in below:
        yield from _nodes(one)


def _every_expression() -> Iterator[tuple[str, Node]]:
    settings = Settings()
    for alert in ALERTS:
        for row in rules_of(alert, settings):
            yield alert.name, expression(alert, settings, row)
        yield alert.name, expression(alert, settings)
    for signal in SIGNALS:
        if signal.expr is not None:
            yield signal.id, lower(signal.expr, window="5m")


def test_nothing_is_divided_by_what_may_be_0() -> None:
    divisions = 0
    for name, whole in _every_expression():
        for node in _nodes(whole):
            if isinstance(node, Infix) and node.op == "/":
                divisions += 1
                assert isinstance(node.right, Infix | Number), name
                assert isinstance(node.right, Number) or (node.right.op, node.right.right) == (">", Number(0)), name
    assert divisions > 50


def test_the_labels_of_an_alert_are_those_of_its_expression() -> None:
    for alert in ALERTS:
        if not isinstance(alert.when, Written):
            assert labels_of(alert.when) == alert.by, alert.name


def test_series_of_different_labels_are_joined_by_name() -> None:
    """HTTP and GPU series name no model: a plain ``and`` with what does would never match."""
    for rule in _rules(ALERTING):
        for op, on in re.findall(r"\) (and|unless)( on)?", rule["expr"]):
            if not on:
                assert op == "and"
                assert "_judged:" in rule["expr"], rule["alert"]  # both sides are of one budget


def test_both_variants_say_the_same_but_for_what_old_ones_do_not_know() -> None:
    modern, compat = _rules(ALERTING), _rules(COMPAT)
    assert [{k: v for k, v in rule.items() if k != "keep_firing_for"} for rule in modern] == compat
    kept = {rule["alert"] for rule in modern if "keep_firing_for" in rule}
    assert kept == {alert.name for alert in ALERTS if alert.keep}
    assert kept
    assert not [rule for rule in compat if "keep_firing_for" in rule]


def test_evidence_is_made_of_signals() -> None:
    assert all(alert.evidence for alert in CAUSES)
    assert {id for alert in ALERTS for id in alert.evidence} <= set(BY_ID)


# -- what the settings change -----------------------------------------------------------------------------------------
def _texts(**alerts: Any) -> str:
    return files(Settings(alerts=Alerts(**alerts)))[ALERTING]


def test_links_come_from_the_settings() -> None:
    text = _texts(
        runbook_base="https://wiki.example/llm/",
        dashboard_url="https://grafana.example/d/llmvitals?orgId=2",
        app_url="https://triage.example/",
    )
    assert "https://wiki.example/llm/preemption-thrash.md" in text
    scope = "={{ $labels.instance | urlquery }}&{}model={{ $labels.model | urlquery }}"
    assert f"d/llmvitals?orgId=2&var-instance{scope.replace('{}', 'var-')}" in text
    assert f"https://triage.example/?instance{scope.replace('{}', '')}" in text
    assert "dashboard_url" not in files()[ALERTING]
    assert "app_url" not in files()[ALERTING]


def test_alerts_on_the_watching_lead_to_the_board_but_to_no_server() -> None:
    linked = Settings(alerts=Alerts(dashboard_url="https://g.example/d/x", app_url="https://t.example"))
    notes = {rule["alert"]: rule["annotations"] for rule in _rules(ALERTING, linked)}
    for name in ("LLMNobodyWatches", "LLMExporterGone", "LLMExporterStuck"):
        assert notes[name]["dashboard_url"] == "https://g.example/d/x"
        assert "app_url" not in notes[name]


@pytest.mark.parametrize(
    ("burn", "objective", "expected"), [(6.0, 0.95, 0.3), (14.4, 0.99, 0.144), (3.0, 0.6, 1.0), (1.0, 0.999, 0.001)]
)
def test_the_share_that_burns_so_fast(burn, objective, expected) -> None:
    assert limit(burn, objective) == expected


def test_objective_burns_and_floor_come_from_the_settings() -> None:
    rows = (Burn(severity="page", burn=14.4, long="1h", short="5m", wait="2m"),)
    settings = Settings(alerts=Alerts(burns=rows, least_requests=7), slo=Slo(objective=0.99))
    (rule,) = [rule for rule in _rules(ALERTING, settings) if rule["alert"] == "LLMFirstTokensLate"]
    assert rule["expr"] == (
        "((((llm:ttft_missed:1h / (llm:ttft_judged:1h > 0)) >= 0.144) and "
        "((llm:ttft_missed:5m / (llm:ttft_judged:5m > 0)) >= 0.144)) and (llm:ttft_judged:1h >= 7)) "
        "unless on (instance, model, cluster) (max by (instance, model, cluster, namespace) (llm_uptime_seconds) < 60)"
    )
    assert (rule["for"], rule["labels"]["window"]) == ("2m", "1h")
    assert "; 1% may." in rule["annotations"]["description"]


def test_each_row_of_the_burns_is_a_rule_with_its_own_wait() -> None:
    for alert in ALERTS:
        severities = {part.severity for part in parts_of(alert.when) if isinstance(part, Burns)}
        if severities:
            rows = [row for row in Alerts().burns if row.severity in severities]
            rules = [rule for rule in _rules(ALERTING) if rule["alert"] == alert.name]
            assert [(rule["labels"]["window"], rule["for"]) for rule in rules] == [(r.long, r.wait) for r in rows]


def test_rows_whose_rules_nobody_could_tell_apart_are_refused() -> None:
    one, other = (Burn(severity="page", burn=burn, long=long, short="5m") for burn, long in ((6.0, "1h"), (3.0, "60m")))
    with pytest.raises(ValueError, match="two burns of severity page are over 1h"):
        Alerts(burns=(one, other))
    Alerts(burns=(one, Burn(severity="ticket", burn=1.0, long="1h", short="5m")))


def test_labels_to_group_by_are_kept_by_every_rule_and_each_once() -> None:
    settings = Settings(alerts=Alerts(group_by=("team", "model", "namespace", "instance", "team")))
    for rule in [*_rules(RECORDING, settings), *_rules(ALERTING, settings)]:
        for labels in re.findall(r"by \(([\w, ]+)\)", rule["expr"]):  # what is asked of all together keeps none
            parts = labels.split(", ")
            assert len(parts) == len(set(parts)), rule
            assert "team" in parts, rule
        for labels in re.findall(r"on \(([\w, ]+)\)", rule["expr"]):
            if not labels.startswith("model"):  # who else serves a model counts in its own place alone
                assert "team" in labels.split(", "), rule
                assert "namespace" not in labels.split(", "), rule


def test_without_labels_to_group_by_nothing_else_is_kept() -> None:
    text = "\n".join(files(Settings(alerts=Alerts(group_by=()))).values())
    assert "cluster" not in text
    assert "sum by (instance, model) (" in text


def test_labels_that_alerts_alone_have_group_notifications_and_no_rule() -> None:
    """Kept, ``status`` would make a share of 1 of any error, and no ``cause`` would meet the verdict that excuses it."""
    odd = Settings(alerts=Alerts(group_by=("cluster", "namespace", "model", "cause", "status", "verdict", "model")))
    plain = Settings()
    for path in (RECORDING, ALERTING):
        assert files(odd)[path] == files(plain)[path]
    assert _example(odd)["route"]["group_by"] == ["cluster", "namespace", "model", "cause", "status", "verdict"]


def test_places_are_kept_and_no_series_is_joined_by_them() -> None:
    settings = Settings(alerts=Alerts(group_by=("cluster", "namespace")))
    assert names.kept(settings, ("instance",)) == ("instance", "cluster", "namespace")
    assert names.joined(settings, ("instance",)) == ("instance", "cluster")


# -- who is silenced by whom ------------------------------------------------------------------------------------------
def _example(settings: Settings | None = None) -> dict[str, Any]:
    return yaml.safe_load(files(settings)[EXAMPLE])


def _alerts_of(matchers: list[str]) -> set[str]:
    (found,) = [re.fullmatch(r'alertname=~?"(.+)"', matcher) for matcher in matchers]
    assert found
    return set(found[1].split("|"))


def _edges() -> set[tuple[str, str]]:
    return {
        (source, target)
        for rule in _example()["inhibit_rules"]
        for source in _alerts_of(rule["source_matchers"])
        for target in _alerts_of(rule["target_matchers"])
    }


def test_the_example_has_the_table_of_silences() -> None:
    assert _edges() == {(a, b) for silence in SILENCES for a in silence.of for b in silence.silenced}
    assert ("LLMPreemptionThrash", "LLMKvCacheSaturation") in _edges()
    assert {name for edge in _edges() for name in edge} <= set(BY_NAME)


def test_no_ticket_silences_a_page() -> None:
    assert not {(s, t) for s, t in _edges() if BY_NAME[t].severity is PAGE and BY_NAME[s].severity is not PAGE}


def test_none_silence_each_other_not_even_round_a_corner() -> None:
    """A ring of silences would leave nobody told."""
    edges = _edges()
    silenced = {name: {t for s, t in edges if s == name} for name in BY_NAME}
    for name in BY_NAME:
        reached, todo = set(), [name]
        while todo:
            for other in silenced[todo.pop()] - reached:
                reached.add(other)
                todo.append(other)
        assert name not in reached, name


def test_notifications_are_grouped_as_the_settings_say_and_no_cluster_silences_another() -> None:
    assert _example()["route"]["group_by"] == ["cluster", "namespace", "model"]
    other = _example(Settings(alerts=Alerts(group_by=("team",))))
    assert other["route"]["group_by"] == ["team"]
    assert all("team" in rule["equal"] for rule in other["inhibit_rules"])
    assert all("namespace" not in rule["equal"] for rule in _example()["inhibit_rules"])


def test_pages_and_tickets_go_to_different_people() -> None:
    route = _example()["route"]
    assert route["receiver"] == "tickets"
    assert [(r["receiver"], r["matchers"]) for r in route["routes"]] == [("pager", ['severity="page"'])]


# -- label values are data --------------------------------------------------------------------------------------------
HOSTILE = 'a"} or vector(42) or x{y="{{ 7 }}'


@pytest.mark.prometheus
def test_a_hostile_name_of_a_model_stays_a_name(written, tmp_path) -> None:
    name = HOSTILE.replace("\\", "\\\\").replace('"', '\\"')
    scope = f'{{instance="a:8000",model="{name}"'
    case = {
        "rule_files": [str(written / RECORDING), str(written / ALERTING)],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [
                    {"series": f'llm_requests_waiting{scope},rank="0"}}', "values": "3x80"},
                    {"series": f'llm_kv_usage_ratio{scope},rank="0"}}', "values": "0.97x80"},
                ],
                "alert_rule_test": [
                    {
                        "eval_time": "16m",
                        "alertname": "LLMKvHighWhileWaiting",
                        "exp_alerts": [
                            {
                                "exp_labels": {"severity": "ticket", "instance": "a:8000", "model": HOSTILE},
                                "exp_annotations": {
                                    "summary": "KV usage is above its line while requests wait: a:8000 / " + HOSTILE,
                                    "description": "KV usage, highest seen: 97%; Requests waiting: 3.",
                                    "runbook_url": f"{Alerts().runbook_base}/kv-cache-saturation.md",
                                },
                            }
                        ],
                    }
                ],
            }
        ],
    }
    path = tmp_path / "hostile_test.yaml"
    path.write_text(yaml.safe_dump(case), encoding="utf-8")
    _run("promtool", "test", "rules", path)


def test_the_same_settings_give_the_same_text() -> None:
    moved = msgspec.structs.replace(Settings(), slo=Slo(objective=0.9))
    assert files(moved) == files(moved)
    assert files(moved) != files()
