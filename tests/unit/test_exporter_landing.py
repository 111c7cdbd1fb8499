"""The exporter's page for people: outcome and sentence of each scope, the outcome's word once."""

from __future__ import annotations

import pytest

from llmvitals.exporters.cycle import Cycle
from llmvitals.exporters.judge import Scoped
from llmvitals.exporters.landing import landing
from llmvitals.triage.verdict import Outcome, Verdict


def page(outcome: Outcome, sentence: str) -> str:
    scopes = (Scoped("a", "m", {}, Verdict(outcome, sentence, None, (), (), ())),)
    return landing(Cycle(0.0, 1.0, 1.0, 60.0, (), scopes, (), {}, (), 0), age=1.0)


@pytest.mark.parametrize(
    ("outcome", "sentence", "cell"),
    [
        (Outcome.UNDETERMINED, "Undetermined: watch longer.", "Undetermined: watch longer."),
        (Outcome.UNDETERMINED, "b: watch longer.", "undetermined: b: watch longer."),
        (Outcome.NO_TRAFFIC, "No traffic: no request came.", "No traffic: no request came."),
        (Outcome.CAUSE, "The pool is full.", "cause: The pool is full."),
    ],
)
def test_the_outcome_is_named_once(outcome: Outcome, sentence: str, cell: str) -> None:
    assert f"<td>{cell}</td>" in page(outcome, sentence)
