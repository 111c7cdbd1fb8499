"""Options of ``llmvitals backtest`` that belong to another past are refused: they would change nothing, and nobody would know."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from llmvitals.cli.backtest import command

PASTS = (("--prometheus", "http://127.0.0.1:1"), ("--noise", "1d"), ("--lab",))


@pytest.mark.parametrize(
    ("past", "given"),
    [
        (PASTS[0], ("--causes", "retry-storm")),
        (PASTS[0], ("--seed", "7")),
        (PASTS[0], ("--report", "page.md")),
        (PASTS[1], ("--from", "7d")),
        (PASTS[1], ("--size", "2")),
        (PASTS[2], ("--every", "30s")),
        (PASTS[2], ("--selector", "{a='b'}")),
    ],
)
def test_what_belongs_to_another_past_is_refused(past, given) -> None:
    done = CliRunner().invoke(command, [*past, *given])
    assert done.exit_code == 2
    assert f"{given[0]} belongs to --" in done.output


@pytest.mark.parametrize("pasts", [(), PASTS[0] + PASTS[2], PASTS[1] + PASTS[2]])
def test_it_is_one_past_that_is_replayed(pasts) -> None:
    done = CliRunner().invoke(command, list(pasts))
    assert done.exit_code == 2
    assert "Give one of --prometheus URL, --noise 7d and --lab." in done.output
