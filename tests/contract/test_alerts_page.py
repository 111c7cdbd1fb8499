"""docs/alerts.md holds what the tables say, and numbers that were measured with these alerts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llmvitals.alerts.holds import replayable
from llmvitals.alerts.policy import ALERTS
from llmvitals.backtest.report import LAB, NOISE, parts
from llmvitals.cli.generate import END, begin
from llmvitals.lab.report import marks

PAGE = Path(__file__).parents[2] / "docs" / "alerts.md"


def between(first: str, last: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(first) == 1
    return text.partition(first)[2].partition(last)[0]


@pytest.mark.parametrize("part", list(parts()))
def test_what_follows_from_the_code_is_what_the_code_makes(part) -> None:
    assert between(begin(part), END).strip() == parts()[part].strip()


@pytest.mark.parametrize(("part", "command"), [(LAB, "--lab"), (NOISE, "--noise 7d")])
def test_what_was_measured_says_how_to_measure_it_again(part, command) -> None:
    first = between(*marks(part)).strip().splitlines()[0]
    assert re.fullmatch(rf"`llmvitals backtest {command} .*--seed \d+.*`", first), first


def test_every_alert_that_can_be_replayed_was_measured() -> None:
    told = set(re.findall(r"^\| `(LLM\w+)` \|", between(*marks(LAB)), flags=re.M))
    assert told >= {alert.name for alert in ALERTS if replayable(alert.when)}


def test_no_page_in_seven_healthy_days() -> None:
    assert "| pages | 0 |" in between(*marks(NOISE))
