"""The generated parts of docs/alerts.md."""

from __future__ import annotations

import msgspec
import pytest

from llmvitals.alerts.conditions import Burns, Compared, Either, Every, Fell, Fires, Gone, Steady, Unless
from llmvitals.alerts.policy import ALERTS
from llmvitals.backtest.report import ENGINES, POLICY, parts
from llmvitals.backtest.words import words
from llmvitals.settings import Burn, Settings


def rows(block: str) -> dict[str, list[str]]:
    """The cells of each row by its first one."""
    lines = [line.strip("| ").split(" | ") for line in block.strip().splitlines()[2:]]
    return {line[0].strip("`"): line for line in lines}


def test_every_alert_stands_in_the_policy_with_its_runbook() -> None:
    told = rows(parts()[POLICY])
    assert list(told) == [alert.name for alert in ALERTS]
    for alert in ALERTS:
        assert told[alert.name][1] == alert.severity
        assert f"(../runbooks/{alert.runbook}.md)" in told[alert.name][5]


def test_who_is_silenced_by_whom_is_told() -> None:
    told = rows(parts()[POLICY])
    assert told["LLMTargetGone"][-1] == "`LLMNobodyWatches`"
    assert "any page on its server" in told["LLMBatchTooSmall"][-1]
    assert "`LLMUsersHurt`" in told["LLMFirstTokensLate"][-1]
    assert "`LLMUsersHurt`" not in told["LLMUsersHurt"][-1]


def test_the_burn_windows_are_those_of_the_settings() -> None:
    settings = Settings()
    rows_ = (Burn(severity="page", burn=9.0, long="2h", short="7m", wait="3m"),)
    other = msgspec.structs.replace(settings, alerts=msgspec.structs.replace(settings.alerts, burns=rows_))
    told = rows(parts(other)[POLICY])["LLMFirstTokensLate"]
    assert "9 times as fast as it may over 2h and over 7m" in told[2]
    assert told[3] == "3m"


def test_each_engine_says_which_budgets_it_can_be_judged_by_and_why_not() -> None:
    told = rows(parts()[ENGINES])
    assert [cell.startswith("yes") for cell in told["vLLM"][1:]] == [True, True, True]
    assert [cell.startswith("no: ") and len(cell) > 10 for cell in told["TGI"][1:]] == [True, True, True]
    assert [cell.split(",")[0].split(":")[0] for cell in told["TensorRT-LLM (trtllm-serve)"][1:]] == [
        "yes",
        "yes",
        "no",
    ]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (Fires("fan-out"), "the check of `fan-out` fires, and the verdict is not healthy"),
        (Compared("requests_waiting", ">", 0), "`requests_waiting` is over 0"),
        (
            Compared("ttft_p95_seconds", ">=", "slo.ttft_seconds", 2),
            "`ttft_p95_seconds` is at least 4 (`slo.ttft_seconds`)",
        ),
        (Fell("arrival_rate", 0.7, "1h"), "`arrival_rate` is under 0.7 times what it was 1h ago"),
        (
            Every((Steady("arrival_rate", 0.2, "1h"), Gone())),
            "`arrival_rate` is within 20% of what it was 1h ago, and the target gives no readable page",
        ),
        (
            Unless(Either((Fires("fan-out"), Fires("cold-start"))), Burns("tpot", "ticket")),
            "the check of `fan-out` fires, and the verdict is not healthy; or the check of `cold-start` fires, and the verdict is "
            "not healthy, unless the budget of pace of tokens burns 2 times as fast as it may over 6h and over 30m, or 1 times as "
            "fast as it may over 3d and over 6h",
        ),
    ],
)
def test_conditions_are_told_in_words(condition, wanted) -> None:
    assert words(condition, Settings()) == wanted
