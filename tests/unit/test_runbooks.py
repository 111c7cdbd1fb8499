"""Runbooks: one page per alert and cause, links that lead somewhere, queries on names that exist, both languages alike."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmvitals import schema
from llmvitals.alerts import model, pages
from llmvitals.alerts.compile import expression
from llmvitals.alerts.firing import rules_of
from llmvitals.alerts.policy import ALERTS
from llmvitals.cli import generate
from llmvitals.exporters.health import DURATION, SUCCESS
from llmvitals.exporters.selfmetrics import NAMES as SELF
from llmvitals.settings import Settings, Slo
from llmvitals.signals import budget, catalogue
from llmvitals.signals.promql_ast import show
from llmvitals.triage.checks import BY_CAUSE, CHECKS
from llmvitals.triage.model import Check
from support.runbooks import PAGES, ROOT, TURKISH, by_hand, generated, queries, queries_in

HEADINGS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
BASLIKLAR = ["Anlamı", "Etkisi", "Teşhis", "Çözüm"]
SOURCES = re.compile(
    r"^`(?P<slug>[a-z-]+)` · Source: (backpressure article|batching mistakes|inference guide), \w", re.M
)
OWN = {
    model.CHECK_STATE,
    model.LEADING,
    model.VERDICT,
    model.HURT,
    model.SETTING,
    model.TARGET_UP,
    budget.JUDGED,
    budget.MISSED,
}
"""Series of the exporter's page that are neither a family nor a signal."""
COUNTERS = {budget.JUDGED, budget.MISSED}
APART = {
    "gpu": schema.Origin.GPU,
    "gpu_links": schema.Origin.GPU,
    "gpu_memory": schema.Origin.GPU,
    "host": schema.Origin.HOST,
    "gateway": schema.Origin.GATEWAY,
    "tenants": schema.Origin.GATEWAY,
}
"""Modules of derived signals that read what no engine shows."""
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
in_turkish = pytest.mark.parametrize("page", TURKISH, ids=lambda p: p.stem)
in_both = pytest.mark.parametrize("page", [*PAGES, *TURKISH], ids=lambda p: f"{p.parent.name}/{p.stem}")


@each_page
def test_a_page_has_its_four_headings_in_order(page: Path) -> None:
    assert re.findall(r"^## (.+)$", page.read_text(), flags=re.M) == HEADINGS


@each_page
def test_no_section_is_empty(page: Path) -> None:
    for section in re.split(r"^## .+$", page.read_text(), flags=re.M)[1:]:
        assert len(section.split()) >= 10


@each_page
def test_a_page_names_its_cause_and_its_source(page: Path) -> None:
    found = SOURCES.search(page.read_text())
    assert found
    assert found["slug"] == page.stem


def test_every_cause_and_every_alert_has_a_page_and_every_page_is_opened_by_one() -> None:
    assert {page.stem for page in PAGES} == {check.cause for check in CHECKS} | {alert.runbook for alert in ALERTS}


def test_what_wakes_somebody_is_there_in_turkish_and_nothing_else_is() -> None:
    assert {page.stem for page in TURKISH} == {alert.runbook for alert in ALERTS if alert.severity is model.PAGE}


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.cause)
def test_page_and_check_name_the_same_source(check: Check) -> None:
    line = (ROOT / f"{check.cause}.md").read_text().splitlines()[2]
    assert check.source in re.split(r"; |Source: | · ", line)


@each_page
def test_a_page_tells_look_alikes_and_how_to_verify_the_fix(page: Path) -> None:
    diagnosis, mitigation = page.read_text().split("## Diagnosis")[1].split("## Mitigation")
    assert "**Looks like:**" in diagnosis
    assert "**Verify:**" in mitigation


@each_page
def test_a_page_names_primary_sources(page: Path) -> None:
    _, _, sources = page.read_text().partition("**Primary sources:**")
    assert re.search(r"\]\(https://[^)\s]+\)", sources)


@each_page
def test_a_page_says_which_number_is_computed_and_where_it_stands(page: Path) -> None:
    told = re.search(r"\*\*Computed number:\*\* (.+?)\n\n", by_hand(page), re.S)
    assert told
    check = BY_CAUSE.get(page.stem)
    if check is not None and check.remedy.value is not None:
        assert f'`llm_triage_setting{{cause="{page.stem}"}}`' in told[1]
    elif check is not None:
        assert told[1].startswith("none")


@in_both
def test_a_page_is_short_enough_for_the_night(page: Path) -> None:
    read = re.sub(r"^!\[.*$", "", by_hand(page), flags=re.M)  # those of a picture are for whoever cannot see it
    assert len(read.split()) <= 400


@pytest.mark.parametrize("page", [*PAGES, *TURKISH, ROOT / "README.md"], ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_links_lead_to_pages_that_exist(page: Path) -> None:
    links = [to for to in re.findall(r"\]\(([^)]+)\)", page.read_text()) if not to.startswith("https://")]
    assert [to for to in links if not (page.parent / to).exists()] == []


@in_both
def test_links_to_others_are_whole(page: Path) -> None:
    for address in re.findall(r"\]\((\w+:[^)]*)\)", page.read_text()):
        assert re.fullmatch(r"https://[a-z0-9.-]+\.[a-z]+/[\w./#-]*(\?[\w=]+)?", address), address


@each_page
def test_the_generated_part_has_the_expression_of_every_alert_that_opens_the_page(page: Path) -> None:
    settings = Settings()
    opening = [alert for alert in ALERTS if alert.runbook == page.stem]
    asked = [show(expression(a, settings, row)) for a in opening for row in rules_of(a, settings)]
    assert queries_in(generated(page)) == asked
    assert re.findall(r"`(LLM\w+)`", generated(page)) == [a.name for a in opening for _ in rules_of(a, settings)]


@in_both
def test_the_generated_part_is_what_the_settings_give(page: Path) -> None:
    path = page.relative_to(ROOT.parent).as_posix()
    assert generated(page) == pages.blocks(Settings())[path][pages.PART]


def test_generate_renews_the_pages_that_are_there_and_names_one_without_its_marks(tmp_path) -> None:
    page = tmp_path / "runbooks/users-hurt.md"
    page.parent.mkdir()
    page.write_text(
        "before\n<!-- generated by llmvitals generate: alert -->\nold\n<!-- end of generated part -->\nafter\n"
    )
    done = CliRunner().invoke(generate.command, ["-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert queries_in(text) == queries_in(generated(ROOT / "users-hurt.md"))
    assert not (tmp_path / "runbooks/tokens-slow.md").exists()
    page.write_text("no marks\n")
    assert "users-hurt.md" in str(CliRunner().invoke(generate.command, ["-o", str(tmp_path)]).exception)


def test_the_generated_part_follows_the_settings() -> None:
    block = pages.blocks(Settings(slo=Slo(objective=0.99)))["runbooks/first-tokens-late.md"]["alert"]
    assert ">= 0.06" in block  # six times a budget of 1 %


@in_turkish
def test_a_turkish_page_has_its_four_headings_and_says_what_the_english_one_does(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, flags=re.M) == BASLIKLAR
    teshis, cozum = text.split("## Teşhis")[1].split("## Çözüm")
    assert "**Benzeri:**" in teshis
    assert all(part in cozum for part in ("**Hesaplanan sayı:**", "**Doğrulama:**", "**Birincil kaynaklar:**"))
    assert text.splitlines()[2].startswith(f"`{page.stem}` · Kaynak: ")


@in_turkish
def test_both_languages_ask_the_same_and_link_to_each_other(page: Path) -> None:
    english = ROOT / page.name
    assert queries(page) == queries(english)
    assert queries_in(generated(page)) == queries_in(generated(english))
    assert f"[Türkçe](tr/{page.name})" in english.read_text(encoding="utf-8").splitlines()[2]
    assert f"[English](../{page.name})" in page.read_text(encoding="utf-8").splitlines()[2]


@each_page
def test_every_metric_of_a_query_exists(page: Path) -> None:
    gauges = {f"llm_{signal.id}" for signal in catalogue.SIGNALS}
    names = {name for query in queries(page) for name in re.findall(r"\bllm_\w+", query)}
    assert names, "no query"
    assert {n for n in names if schema.family_of(n) is None and n not in gauges | OWN} == set()


@each_page
def test_every_metric_of_the_exporter_itself_in_a_query_exists(page: Path) -> None:
    names = {name for query in queries(page) for name in re.findall(r"\bllmvitals_\w+", query)}
    assert names <= {*SELF, SUCCESS, DURATION}


def origin(name: str) -> schema.Origin:
    """The kind of telemetry that shows a family, or that a gauge of the exporter is computed from."""
    signal = catalogue.BY_ID.get(name.removeprefix("llm_"))
    if schema.family_of(name) is None and signal is not None and signal.derive is not None:
        return APART.get(signal.derive.__module__.rpartition(".")[2], schema.Origin.ENGINE)
    return schema.origin_of(name)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.cause)
def test_a_page_asks_every_kind_of_telemetry_without_which_its_cause_cannot_be_named(check: Check) -> None:
    text = ROOT / f"{check.cause}.md"
    asked = {origin(name) for query in queries(text) for name in re.findall(r"\bllm_\w+", query)}
    needed = set.intersection(*({origin(f"llm_{limit.signal}") for limit in rows} for rows in check.when))
    assert needed <= asked


@each_page
def test_counters_are_read_as_rates_and_gauges_are_not(page: Path) -> None:
    for query in queries(page):
        for function, name in re.findall(r"\b(rate|increase|deriv)\((llm_\w+)", query):
            family = schema.family_of(name)
            gauge = name not in COUNTERS and (family is None or family.kind is schema.Kind.GAUGE)
            assert gauge == (function == "deriv"), query


@pytest.mark.prometheus
def test_promtool_accepts_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": "runbook:query", "labels": {"page": page.stem, "number": str(number)}, "expr": query}
        for page in PAGES
        for number, query in enumerate([*queries(page), *queries_in(generated(page))])
    ]
    file = tmp_path / "runbooks.yaml"
    file.write_text(json.dumps({"groups": [{"name": "runbooks", "rules": rules}]}))  # JSON is YAML
    result = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(rules)} rules found" in result.stdout
