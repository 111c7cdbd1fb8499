"""Every alert has its cases in the unit tests beside this file: it fires with its texts, not early, not on what looks like
it, and resolves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmvitals.alerts.policy import ALERTS, BY_NAME

HERE = Path(__file__).parent
RULES = HERE.parents[1] / "alerts" / "llmvitals-alerts.yaml"
LOOK_ALIKE = "look-alike: "
NAMES = tuple(alert.name for alert in ALERTS)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TEMPLATE = re.compile(r"\{\{ else \}\}.*?\{\{ end \}\}|\{\{.*?\}\}")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def seconds(duration: str | int) -> float:
    """``1h4m30s`` in seconds."""
    return sum(float(count) * _UNITS[unit] for count, unit in re.findall(r"(\d+)(ms|[smhd])", str(duration)))


@dataclass(frozen=True)
class Case:
    """One test of promtool's. ``told``: alert name to what is expected of it, by moment in seconds."""

    file: str
    name: str
    rules: tuple[str, ...]
    every: float
    inputs: dict[str, str]
    expressions: list[dict[str, Any]]
    told: dict[str, dict[float, list[dict[str, Any]]]] = field(default_factory=dict)


def _cases() -> Iterator[Case]:
    for path in sorted(HERE.glob("*_test.yaml")):
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        for test in data["tests"]:
            inputs = {row["series"]: str(row["values"]) for row in test["input_series"]}
            every = seconds(data["evaluation_interval"])
            loaded = tuple(data["rule_files"])
            case = Case(path.name, test["name"], loaded, every, inputs, test.get("promql_expr_test", []))
            for row in test.get("alert_rule_test", []):
                case.told.setdefault(row["alertname"], {})[seconds(row["eval_time"])] = row.get("exp_alerts") or []
            yield case


@cache
def cases() -> tuple[Case, ...]:
    """All of them."""
    return tuple(_cases())


@cache
def rules() -> dict[str, list[dict[str, Any]]]:
    """The generated rules of each alert; one on a budget has several."""
    found: dict[str, list[dict[str, Any]]] = {}
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            found.setdefault(rule["alert"], []).append(rule)
    return found


def firings(name: str) -> list[tuple[Case, float]]:
    """The cases in which the alert fires, with the first moment at which it does."""
    return [
        (case, min(at for at, alerts in case.told[name].items() if alerts))
        for case in cases()
        if any(case.told.get(name, {}).values())
    ]


def silent(case: Case, name: str) -> set[float]:
    """The moments at which the alert is expected not to fire."""
    return {at for at, alerts in case.told.get(name, {}).items() if not alerts}


def never(case: Case, name: str) -> float:
    """Up to which moment the case holds that the alert never fired; 0 where it does not."""
    held = [
        seconds(row["eval_time"])
        for row in case.expressions
        if not row["exp_samples"] and row["expr"].startswith("max_over_time(ALERTS{") and f'="{name}"' in row["expr"]
    ]
    return max(held, default=0.0)


def test_the_cases_are_of_alerts_that_are_generated() -> None:
    assert set(rules()) == set(NAMES)
    assert {name for case in cases() for name in case.told} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_fires_with_its_texts_and_a_number(name) -> None:
    told = [alert for case, at in firings(name) for alert in case.told[name][at]]
    for alert in told:
        notes = alert["exp_annotations"]
        assert alert["exp_labels"]["severity"] == BY_NAME[name].severity
        assert notes["runbook_url"].endswith(f"/{BY_NAME[name].runbook}.md"), notes
        assert BY_NAME[name].title in notes["summary"], notes
    assert any(live_numbers(name, alert["exp_annotations"]["description"]) for alert in told), told


def live_numbers(name: str, text: str) -> bool:
    """Whether the text holds more numbers than the rule's template does without what it looks up."""
    return any(
        len(_NUMBER.findall(text)) > len(_NUMBER.findall(_TEMPLATE.sub("", rule["annotations"]["description"])))
        for rule in rules()[name]
    )


@pytest.mark.parametrize("name", NAMES)
def test_it_does_not_fire_one_evaluation_early(name) -> None:
    assert any(at - case.every in silent(case, name) for case, at in firings(name)), name


@pytest.mark.parametrize("name", NAMES)
def test_it_resolves(name) -> None:
    assert any(max(silent(case, name), default=0.0) > at for case, at in firings(name)), name


@pytest.mark.parametrize("name", [alert.name for alert in ALERTS if alert.keep])
def test_what_flaps_is_told_as_one_incident(name) -> None:
    """One evaluation before the rule lets go of it the alert still fires, and then no more."""
    keep = f'count(ALERTS{{alertname="{name}",alertstate="firing"}})'
    assert {rule["keep_firing_for"] for rule in rules()[name]} == {BY_NAME[name].keep}
    for case, _ in firings(name):
        held = {seconds(row["eval_time"]) for row in case.expressions if row["expr"] == keep and row["exp_samples"]}
        if {at + case.every for at in held} & silent(case, name):
            return
    pytest.fail(f"no case holds how long {name} is kept")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_silent_on_what_looks_like_it(name) -> None:
    """The look-alike has most of the input of a case in which the alert fires, and is watched for at least as long."""
    likes = [
        case
        for case in cases()
        if case.name.startswith(LOOK_ALIKE) and case.name.removeprefix(LOOK_ALIKE).split(",")[0] == name
    ]
    assert likes, name
    for like in likes:
        assert not any(like.told[name].values()), like.name
        assert max(silent(like, name)) >= min(at for _, at in firings(name)), like.name
        assert never(like, name) >= max(silent(like, name)), like.name
    assert any(nearly(like, case) for like in likes for case, _ in firings(name)), name


def nearly(like: Case, case: Case) -> bool:
    """Whether a look-alike's input is that of the case but for at most four series, and what it adds; or other rules are
    loaded.
    """
    differ = (like.rules, like.inputs) != (case.rules, case.inputs)
    return differ and sum(like.inputs.get(series) != values for series, values in case.inputs.items()) <= 4


@pytest.mark.parametrize("path", sorted(HERE.glob("*_test.yaml")), ids=lambda path: path.stem)
def test_a_file_says_in_which_order_groups_are_evaluated(path) -> None:
    """Without an order promtool's own is by chance, and an alert may read numbers that are one evaluation old."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    known = [
        group["name"]
        for rules in data["rule_files"]
        for group in yaml.safe_load((HERE / rules).read_text(encoding="utf-8"))["groups"]
    ]
    order = data["group_eval_order"]
    assert order == known[: len(order)]
    assert {BY_NAME[name].group for case in cases() if case.file == path.name for name in case.told} <= set(order)
