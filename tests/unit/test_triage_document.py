"""The JSON of a triage is read back as it was written; anything else is one clear line."""

import json

import pytest

from llmvitals.errors import PageError
from llmvitals.series import Snapshot, Window, series
from llmvitals.settings import Settings
from llmvitals.triage.document import decode
from llmvitals.triage.report import document
from llmvitals.triage.walk import diagnose

SCOPE = {"instance": "a", "model": "m"}


def window():
    up = series("llm_target_up", instance="a", model="m")
    running = series("llm_requests_running", instance="a", model="m")
    return Window.of(Snapshot(float(t), {up: 1.0, running: 2.0}) for t in range(0, 65, 5))


def test_a_document_gives_the_verdict_it_was_made_of():
    verdict = diagnose(window(), Settings(), scope=SCOPE)
    assert decode(json.loads(json.dumps(document([verdict]))), place="here") == verdict


def test_keys_of_a_newer_exporter_are_ignored_and_titles_may_be_missing():
    evidence = {"signal": "kv_usage", "value": 1.0, "unit": "", "limit": "", "holds": True, "gap": "", "new": 1}
    step = {"step": 3, "checks": [{"cause": "c", "state": "clear", "evidence": [evidence], "reason": ""}]}
    read = decode({"verdict": "healthy", "steps": [step], "more": {}}, place="here")
    assert read.steps[0].title == "Step 3"
    assert read.steps[0].checks[0].evidence[0].title == "kv usage"


@pytest.mark.parametrize(
    "found", [None, [], "ok", {}, {"status": "success"}, {"verdict": "fine"}, {"verdict": "cause", "steps": 3}]
)
def test_anything_else_names_thing_place_and_remedy(found):
    with pytest.raises(PageError, match=r"http://x/triage: .*document.*\. \w+"):
        decode(found, place="http://x/triage")
