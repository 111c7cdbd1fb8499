"""Every example works as it lies there: settings are taken, configurations pass their checker, outputs shown are real."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from llmvitals import settings as settings_file
from llmvitals.exporters.cycle import Engine
from support.command import argv
from support.prometheus import binary

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
DEPLOY = ROOT / "exporters"
FILES = sorted(p for own in (EXAMPLES.rglob, DEPLOY.glob) for end in ("yaml", "yml") for p in own(f"*.{end}"))
"""Folders of ``exporters/`` have tests of their own: tests/contract/test_{kubernetes,helm,compose,autoscaling}*."""
PAGES = sorted(EXAMPLES.rglob("*.md"))
SHOWN = re.compile(r"^\$ llmvitals (?P<words>.+)\n(?P<output>(?:.*\n)*?)```", re.M)


def kind(path: Path) -> str:
    """What a file is for, by a key that only its kind has."""
    keys = {key for part in yaml.safe_load_all(path.read_text()) for key in part}
    marks = {"scrape_configs": "prometheus", "tls_server_config": "web"}
    return next((found for mark, found in marks.items() if mark in keys), "settings")


KINDS = {path: kind(path) for path in FILES}
SETTINGS = [path for path, found in KINDS.items() if found == "settings"]
PROMETHEUS = [path for path, found in KINDS.items() if found == "prometheus"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_kind_of_file_is_there():
    assert set(KINDS.values()) == {"prometheus", "web", "settings"}
    assert len(SETTINGS) >= 5


@pytest.mark.parametrize("path", SETTINGS, ids=name)
def test_settings_are_taken_by_what_reads_them(path):
    settings = settings_file.load(path)
    assert settings.targets or settings.sources
    assert len(Engine(settings).instances) == len(settings.targets)
    assert {source.kind for source in settings.sources} <= {"exporter", "prometheus"}
    if settings.exporter.web_config:
        assert Path(settings.exporter.web_config).resolve() == DEPLOY / "web-config.yaml"


@pytest.mark.parametrize("path", PROMETHEUS, ids=name)
def test_a_prometheus_configuration_keeps_our_instance_and_finds_our_rules(path):
    config = yaml.safe_load(path.read_text())
    assert all(job["honor_labels"] is True for job in config["scrape_configs"])
    rules = {(path.parent / rule).resolve() for rule in config.get("rule_files", ())}
    if path.is_relative_to(EXAMPLES):
        assert rules == {ROOT / "alerts" / "llmvitals-recording.yaml", ROOT / "alerts" / "llmvitals-alerts.yaml"}


@pytest.mark.prometheus
@pytest.mark.parametrize("path", PROMETHEUS, ids=name)
def test_a_prometheus_configuration_passes_promtool(path):
    done = subprocess.run(
        [binary("promtool"), "check", "config", path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "output"),
    [found.groups() for page in PAGES for found in SHOWN.finditer(page.read_text())],
)
def test_an_output_shown_is_what_the_command_prints(words, output):
    done = subprocess.run(
        argv(*words.split()), cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False
    )
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    shown = output.splitlines()
    assert shown
    assert shown == printed[: len(shown)], "make generate renews it"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_and_files_on_the_pages_exist(page):
    text = page.read_text()
    targets = [page.parent / to for to in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
    targets += [ROOT / to for to in re.findall(r"(?:--settings |--config\.file=)(\S+?\.yaml)", text)]
    assert targets
    assert [to for to in targets if not to.exists()] == []


def test_the_list_names_every_example():
    listed = {(EXAMPLES / to).resolve() for to in re.findall(r"\]\(([^)#]+)\)", (EXAMPLES / "README.md").read_text())}
    assert {path for path in EXAMPLES.rglob("*.*") if path.name != "README.md"} <= listed


def test_the_alert_and_the_rule_it_names_exist():
    text = (EXAMPLES / "README.md").read_text()
    rules = (ROOT / "alerts" / "llmvitals-recording.yaml").read_text() + (
        ROOT / "alerts" / "llmvitals-alerts.yaml"
    ).read_text()
    for word in re.findall(r"`(llm:\S+|LLM\w+)`", text):
        assert re.search(rf"(?:record|alert): {word}$", rules, flags=re.M), word
