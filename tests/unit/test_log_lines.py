"""Lines of the log: whatever a name, an error or another library says, one event is one line that nobody else can write."""

from __future__ import annotations

import logging

import pytest

from llmvitals.exporters.logs import LOGGER, LineFormatter, pair

BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"]
FORGED = "ts=2026-01-01T00:00:00.000Z level=info event=stopped"


def line(name: str, message: str, *arguments: object, error: BaseException | None = None) -> str:
    info = (type(error), error, None) if error is not None else None
    return LineFormatter().format(logging.LogRecord(name, logging.ERROR, "", 0, message, arguments, info))


@pytest.mark.parametrize("end", BREAKS)
def test_a_value_begins_no_line(end):
    told = pair("instance", f"a{end}{FORGED}")
    assert len(told.splitlines()) == 1
    assert told.startswith('instance="a')


@pytest.mark.parametrize("end", BREAKS)
@pytest.mark.parametrize("message", ["event=x", "x"])
def test_another_library_begins_no_line_and_forges_no_event(end, message):
    told = line("urllib3.connectionpool", f"{message}{end}{FORGED}")
    assert len(told.splitlines()) == 1
    assert " msg=" in told
    assert " event=" not in told.partition(" msg=")[0]


def test_an_error_with_its_traceback_is_one_line():
    told = line(LOGGER.name, "event=cycle-failed", error=ValueError(f"a\n{FORGED}"))
    assert len(told.splitlines()) == 1
    assert told.count("event=cycle-failed") == 1


@pytest.mark.parametrize("hidden", ["\x1b[2J\x1b]0;owned\x07", "\x00", "\x7f", "\u202e"])
def test_a_terminal_is_told_nothing(hidden):
    assert pair("instance", f"a{hidden}b").isascii()
    assert all(" " <= c <= "~" for c in pair("instance", f"a{hidden}b"))
