"""What is amiss with the machine's readers stands in the log once, with its remedy, and once more when it is over."""

from __future__ import annotations

import logging

from llmvitals.exporters.readers import Troubles
from llmvitals.sources.node import Outcome, Seen


def test_a_reader_that_fails_is_told_once_and_again_when_it_works(caplog):
    caplog.set_level(logging.INFO)
    troubles = Troubles()

    def turn(*outcomes: Outcome) -> str:
        caplog.clear()
        troubles.note(Seen(0.0, "n1", outcomes=outcomes))
        return caplog.text

    assert turn(Outcome("pods", True, 0.1)) == ""
    first = turn(Outcome("pods", False, 0.0, "403: grant list"), Outcome("nvml", True, 0.1))
    assert "reader-failed" in first
    assert "reader=pods" in first
    assert "grant list" in first
    assert turn(Outcome("pods", False, 0.0, "patience for another 3 s")) == ""
    assert "reader-works" in turn(Outcome("pods", True, 0.1))
    assert turn(Outcome("pods", True, 0.1)) == ""
