"""The tables hold together: every name that a check, a signal or a page uses exists, once, and is used."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from llmvitals.alerts.rules import files
from llmvitals.data import folder
from llmvitals.schema import BY_NAME, FAMILIES, Kind
from llmvitals.settings import Settings, Thresholds
from llmvitals.signals.catalogue import BY_ID, SIGNALS
from llmvitals.triage.checks import BY_CAUSE, CHECKS
from llmvitals.triage.judge import bound_of
from llmvitals.triage.model import STEPS, Check, Limit

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = {
    "kv-cache-saturation", "preemption-thrash", "vram-headroom", "prefill-decode-interference", "prefix-cache-miss",
    "head-of-line-blocking", "noisy-tenant", "interconnect-bound", "unbounded-queue", "retry-storm",
    "unbounded-output", "ghost-compute", "uncached-repeats", "fan-out", "runaway-agent", "connection-exhaustion",
    "api-server-bound", "grammar-compilation", "cold-start", "rollout-and-probes", "hardware-event",
    "block-fragmentation", "preemption-mode", "prefix-caching-off", "context-imbalance", "batch-too-small",
    "batch-too-large", "draft-rejected", "prefill-bound", "adapter-slots", "not-serving", "kv-transfer-bound",
    "telemetry-broken", "overloaded-and-shedding",
}  # fmt: skip
EXPORTED_ONLY = {"tpot_median_high_seconds"}
"""Gauges for a dashboard of one's own; no check, panel, rule or page of ours reads them."""
each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.cause)


def limits(check: Check) -> list[Limit]:
    return [limit for rows in check.when for limit in rows] + list(check.confirms)


# -- checks -----------------------------------------------------------------------------------------------------------
def test_every_cause_of_the_catalogue_is_a_check_and_no_other():
    assert [c.cause for c in CHECKS if c.cause not in CATALOGUE] == []
    assert set(BY_CAUSE) == CATALOGUE
    assert len(CHECKS) == len(BY_CAUSE)


def test_the_list_above_is_the_catalogues_own(shared):
    text = (shared / "catalogue.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| *(?:[MG]?\d+b?) ([a-z]+(?:-[a-z]+)*)", text, flags=re.M)
    assert set(rows) | {"overloaded-and-shedding"} == CATALOGUE


@each_check
def test_a_check_has_its_runbook(check):
    assert (folder("runbooks") / f"{check.cause}.md").is_file()


@each_check
def test_every_limit_names_a_signal_and_a_number(check):
    for limit in limits(check):
        assert limit.signal in BY_ID
        assert limit.op in {"<", "<=", ">", ">="}
        assert isinstance(bound_of(limit, Settings()), float)


@each_check
def test_every_name_that_a_check_cites_or_explains_exists(check):
    assert set(check.cites) <= set(BY_ID)
    assert set(check.explains) <= set(BY_CAUSE) - {check.cause}
    assert len(set(check.explains)) == len(check.explains)


@each_check
def test_a_check_lies_in_a_step_and_says_what_to_do(check):
    assert 0 <= check.step < len(STEPS)
    assert check.title[0].isupper()
    assert check.remedy.text.endswith(".")
    assert check.remedy.setting
    assert 0.05 <= check.confidence <= 0.98  # what a judge may say at most
    assert re.match(r"(backpressure article|batching mistakes|inference guide), \w", check.source)


@each_check
def test_a_check_has_conditions_or_says_what_would_show_its_cause(check):
    assert bool(check.when) != bool(check.needs)
    assert bool(check.needs) == bool(check.needs_series)
    if check.when:
        assert all(check.when)
        assert check.cites or not check.leads


def test_a_suspicion_stays_a_suspicion():
    assert BY_CAUSE["prefix-cache-miss"].confidence <= 0.5
    assert BY_CAUSE["head-of-line-blocking"].confidence <= 0.5
    assert BY_CAUSE["prefix-cache-miss"].note
    assert not BY_CAUSE["head-of-line-blocking"].leads


def test_nobody_explains_what_explains_it():
    for check in CHECKS:
        for other in check.explains:
            assert check.cause not in BY_CAUSE[other].explains, (check.cause, other)


def test_what_needs_another_source_names_series_that_the_schema_knows_or_reserves():
    reserved = ("llm_gateway_", "llm_host_", "llm_gpu_")
    for check in CHECKS:
        if check.needs_series:
            assert check.needs_series in BY_NAME or check.needs_series.startswith(reserved), check.cause


@pytest.mark.parametrize("step", range(len(STEPS)))
def test_no_step_is_empty(step):
    assert [c for c in CHECKS if c.step == step]


# -- signals ----------------------------------------------------------------------------------------------------------
def test_ids_are_unique_and_in_snake_case():
    assert len(BY_ID) == len(SIGNALS)
    for signal in SIGNALS:
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", signal.id), signal.id


def test_no_gauge_of_a_signal_has_the_name_of_another_kind_of_family():
    """A gauge of the same name is the same number; under a counter's or a histogram's name it would break the page."""
    exposed = {f.name for f in FAMILIES if f.kind is not Kind.GAUGE}
    for f in FAMILIES:
        if f.kind is Kind.HISTOGRAM:
            exposed |= {f"{f.name}_bucket", f"{f.name}_sum", f"{f.name}_count"}
    assert {f"llm_{s.id}" for s in SIGNALS} & exposed == set()


def test_a_signal_is_computed_in_one_way():
    for signal in SIGNALS:
        assert (signal.expr is None) != (signal.derive is None), signal.id
        assert not signal.title[0].islower(), signal.id
        assert len(signal.help) >= len("KV usage"), signal.id


def test_a_ratio_ends_in_ratio_and_a_time_in_seconds():
    for signal in SIGNALS:
        if signal.unit == "seconds":
            assert signal.id.endswith("_seconds"), signal.id
        if signal.id.endswith("_ratio"):
            assert signal.unit in {"ratio", ""}, signal.id
        if signal.unit == "probability":
            assert signal.id.endswith("_p"), signal.id


def test_every_signal_is_used_by_a_check_a_panel_a_rule_or_an_advice():
    used = {limit.signal for check in CHECKS for limit in limits(check)} | {i for c in CHECKS for i in c.cites}
    text = "\n".join(
        p.read_text(encoding="utf-8")
        for p in (
            *sorted((ROOT / "src/llmvitals/dashboards/boards").rglob("*.py")),
            ROOT / "src/llmvitals/alerts/policy.py",
            ROOT / "src/llmvitals/triage/checks.py",
            ROOT / "src/llmvitals/triage/walk.py",
            *sorted((ROOT / "app").rglob("*.py")),
            *sorted((ROOT / "runbooks").glob("*.md")),
        )
    )
    rules = "\n".join(files().values())
    idle = {s.id for s in SIGNALS if s.id not in used and s.id not in text and f"llm:{s.id}:" not in rules}
    assert idle == EXPORTED_ONLY


# -- settings ---------------------------------------------------------------------------------------------------------
def test_every_threshold_is_used_by_a_check_a_signal_a_panel_or_an_alert():
    source = "\n".join(
        p.read_text(encoding="utf-8")
        for p in sorted((ROOT / "src" / "llmvitals").rglob("*.py"))
        if p.name != "settings.py"
    )
    for field in msgspec.structs.fields(Thresholds):
        assert re.search(rf"thresholds\.{field.name}\b|t\.{field.name}\b", source), field.name


def test_a_check_follows_the_settings():
    limit = next(x for x in limits(BY_CAUSE["preemption-thrash"]) if x.signal == "preemptions_per_minute")
    moved = msgspec.structs.replace(Settings(), thresholds=Thresholds(preemptions_per_minute=30.0))
    assert (bound_of(limit, Settings()), bound_of(limit, moved)) == (5.0, 30.0)
