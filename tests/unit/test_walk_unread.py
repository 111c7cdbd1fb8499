"""A server whose page cannot be read any more: the verdict on it says why."""

from __future__ import annotations

import pytest

from llmvitals.series import Snapshot, Window
from llmvitals.settings import Settings
from llmvitals.sources.assemble import Feed, observed
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.walk import diagnose

GOOD = b'vllm:num_requests_running{engine="0",model_name="m"} 3\n'


def pages(*, dead_from: int, last: RawPage | None = None) -> tuple[Snapshot, ...]:
    made = [RawPage(5.0 * i, 0.1, 200, GOOD) for i in range(dead_from)]
    made += [RawPage(5.0 * i, 0.1, None, None, "refused the connection") for i in range(dead_from, 14)]
    (seen,) = observed([Feed("chat-1", "auto", [*made, last] if last else made)])
    return seen.snapshots


def sentence(snapshots: tuple[Snapshot, ...]) -> str:
    return diagnose(Window.of(snapshots), Settings(), scope={"instance": "chat-1", "model": ""}).sentence


@pytest.mark.parametrize("dead_from", [0, 8], ids=["never answered", "died"])
def test_a_dead_replica_says_why_its_page_could_not_be_read(dead_from: int) -> None:
    told = sentence(pages(dead_from=dead_from))
    assert told.endswith(" Its last page could not be read: refused the connection.")
    assert "host and port" not in told  # the remedy is not the verdict's


def test_what_answered_instead_is_said_too() -> None:
    told = sentence(pages(dead_from=8, last=RawPage(75.0, 0.1, 503, b"busy")))
    assert told.endswith(" Its last page could not be read: answered 503: the server failed.")


def test_a_server_that_answers_again_has_nothing_to_explain() -> None:
    assert "could not be read" not in sentence(pages(dead_from=14))
    assert "Its last page" not in sentence(pages(dead_from=8, last=RawPage(75.0, 0.1, 200, GOOD)))
