"""The pages about signals say which kind each is of, as the recording rules and the catalogue have it."""

from __future__ import annotations

import re
from pathlib import Path

from llmvitals.cli import generate
from llmvitals.signals.catalogue import BY_ID

ROOT = Path(__file__).resolve().parents[2]
RULES = (ROOT / "alerts" / "llmvitals-recording.yaml").read_text()
RECORDED = {name for name in re.findall(r"record: llm:(\w+):5m$", RULES, flags=re.M) if name in BY_ID}  # not budgets


def table() -> dict[str, list[str]]:
    """Signal to the other cells of its row."""
    lines = (ROOT / "docs" / "signals.md").read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_every_signal_has_its_row_and_the_kind_that_the_rules_show():
    assert table().keys() == BY_ID.keys()
    assert {name for name, cells in table().items() if cells[-2] == "compiles to PromQL"} == RECORDED
    assert {cells[-2] for cells in table().values()} == {"compiles to PromQL", "computed over the window"}


def test_units_and_standings_are_on_the_page():
    ends = {name: (cells[-3].strip("| "), cells[-1]) for name, cells in table().items()}
    assert ends["ttft_p95_seconds"] == ("seconds", "estimate")
    assert ends["queue_age_seconds"] == ("seconds", "lower bound")
    assert ends["goodput_high_ratio"] == ("ratio", "upper bound")
    assert ends["ttft_mean_seconds"] == ("seconds", "exact")


def test_the_design_lists_all_that_have_no_rule_and_no_other():
    text = (ROOT / "docs" / "design.md").read_text()
    part = text.partition(generate.begin("signals"))[2].partition(generate.END)[0]
    assert set(re.findall(r"`(\w+)`", part)) == BY_ID.keys() - RECORDED
    assert f"{len(BY_ID)} signals: {len(RECORDED)} of the kind" in part
    assert "(signals.md)" in text
