"""The verdict for machines, held against a schema, and for people, held against what must be readable in it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.triage.printed import WORDS, headline, report
from llmvitals.triage.report import document, scope_name, worst
from llmvitals.triage.verdict import Action, Outcome, State, Verdict
from llmvitals.triage.walk import diagnose
from support.made import Server, healthy, run
from support.situations import SITUATIONS, WELL, idle, kv_full, shedding, thrash, unbounded_output

SETTINGS = Settings()
TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": ["number", "null"]}


def _object(**properties: Any) -> dict[str, Any]:
    """An object with all of these keys; more may be there."""
    return {"type": "object", "properties": properties, "required": list(properties)}


FILLED: dict[str, Any] = {"type": "string", "minLength": 10}

EVIDENCE = _object(
    signal={"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
    title=TEXT,
    value=NUMBER,
    unit=TEXT,
    limit={"type": "string", "pattern": "^(<|<=|>|>=) .+"},
    holds={"type": ["boolean", "null"]},
    gap=TEXT,
)
FINDING = _object(
    cause={"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"},
    confidence={"type": "number", "minimum": 0, "maximum": 1},
    evidence={"type": "array", "items": EVIDENCE, "minItems": 1},
    action=_object(text=TEXT, setting=TEXT, value=NUMBER, effect=FILLED, verify=FILLED),
    runbook={"type": "string", "pattern": r"^runbooks/[a-z-]+\.md$"},
)
LEADING = {"oneOf": [{"type": "null"}, FINDING]}
CHECK = _object(
    cause=TEXT,
    state={"enum": ["firing", "clear", "unknown", "not-applicable", "shadowed"]},
    evidence={"type": "array", "items": EVIDENCE},
    reason={"type": "string", "minLength": 1},
)
BLIND = _object(what=TEXT, why=TEXT, series={"type": "string", "pattern": "^llm_"}, remedy=FILLED)
VERDICT = {"enum": ["cause", "shedding", "healthy", "no-traffic", "undetermined"]}
CHANGE = _object(
    signal=TEXT,
    title=TEXT,
    value={"type": "number"},
    bound={"type": "number"},
    unit=TEXT,
    op={"enum": ["<", "<=", ">", ">="]},
    outcome=VERDICT,
    cause=TEXT,
)
BODY = {
    "verdict": VERDICT,
    "sentence": {"type": "string", "minLength": 10},
    "leading": LEADING,
    "contributing": {"type": "array", "items": FINDING},
    "steps": {
        "type": "array",
        "minItems": 8,
        "maxItems": 8,
        "items": _object(
            step={"type": "integer", "minimum": 0, "maximum": 7},
            checks={"type": "array", "items": CHECK, "minItems": 1},
        ),
    },
    "blind": {"type": "array", "items": BLIND},
    "changes": {"type": "array", "items": CHANGE},
    "lookalikes": {"type": "array", "items": _object(cause=TEXT, why=FILLED, evidence=EVIDENCE)},
    "window": _object(start={"type": "number"}, end={"type": "number"}, seconds={"type": "number", "minimum": 0}),
    "scope": {"type": "object"},
}
DOCUMENT = _object(
    **BODY,
    targets={
        "type": "array",
        "minItems": 1,
        "items": _object(name=TEXT, verdict=VERDICT, leading={"type": ["string", "null"]}, detail=_object(**BODY)),
    },
)
# a cause leads with a finding, and nothing else does
DOCUMENT["if"] = {"properties": {"verdict": {"const": "cause"}}}
DOCUMENT["then"] = {"properties": {"leading": FINDING}}
DOCUMENT["else"] = {"properties": {"leading": {"type": "null"}}}
SCHEMA = Draft202012Validator(DOCUMENT)


def told(window: Window, instance: str = "a", model: str = "m") -> Verdict:
    return diagnose(window, SETTINGS, scope={"instance": instance, "model": model})


def failed() -> Window:
    server = Server()
    for _ in range(6):
        server.fail()
    return server.window()


ALL = {
    **{f"{s.cause}: {name}": make for s in SITUATIONS for name, make in s.shown.items()},
    **{f"well: {name}": make for name, make in WELL.items()},
    "idle": idle,
    "all failed": failed,
    "no page": lambda: Window.of([]),
}


# -- for machines -----------------------------------------------------------------------------------------------------
def test_the_schema_is_one():
    Draft202012Validator.check_schema(DOCUMENT)


@pytest.mark.parametrize("name", ALL)
def test_every_verdict_is_a_document_of_the_schema_and_plain_json(name):
    text = json.dumps(document([told(ALL[name]())]), allow_nan=False)
    problems = [f"{'/'.join(map(str, e.absolute_path))}: {e.message}" for e in SCHEMA.iter_errors(json.loads(text))]
    assert problems == []


@pytest.mark.parametrize(
    "broken",
    [
        {"verdict": "fine"},
        {"leading": None},
        {"leading": {"cause": "x"}},
        {"steps": []},
        {"blind": [{"what": "x"}]},
        {"targets": []},
    ],
)
def test_the_schema_refuses_what_is_no_document(broken):
    found = json.loads(json.dumps(document([told(kv_full())])))
    assert not list(SCHEMA.iter_errors(found))
    assert list(SCHEMA.iter_errors({**found, **broken}))


def test_the_worst_scope_comes_first_and_in_full():
    verdicts = [
        told(idle(), "idle"),
        told(run(8, healthy), "well"),
        told(kv_full(), "full"),
        told(shedding(), "shedding"),
        told(thrash(), "thrash"),
        told(failed(), "failed"),
    ]
    found = document(verdicts)
    # causes first, the surest before the others; then what is undetermined
    assert [t["name"] for t in found["targets"]][-3:] == ["shedding", "well", "idle"]
    assert {t["name"] for t in found["targets"][:2]} == {"full", "thrash"}
    sure = [t["detail"]["leading"]["confidence"] for t in found["targets"][:2]]
    assert sure == sorted(sure, reverse=True)
    assert found["verdict"] == "cause"
    assert found["leading"] == found["targets"][0]["detail"]["leading"]
    assert found["targets"][0]["leading"] == found["leading"]["cause"]


def test_order_of_the_outcomes():
    assert [v.outcome for v in worst([told(idle()), told(run(8, healthy)), told(failed()), told(shedding())])][1:] == [
        Outcome.SHEDDING,
        Outcome.HEALTHY,
        Outcome.NO_TRAFFIC,
    ]


def test_mentioned_means_contributing_also_under_healthy():
    found = document([told(WELL["evicted prefixes"]())])
    assert found["verdict"] == "healthy"
    assert found["leading"] is None
    assert [f["cause"] for f in found["contributing"]] == ["prefix-cache-miss"]


# -- for people -------------------------------------------------------------------------------------------------------
def shown(verdict: Verdict, *, steps: bool = True, width: int = 200) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(report(verdict, steps=steps))
    return capture.get()


def test_a_report_holds_cause_action_evidence_and_runbook():
    verdict = told(kv_full())
    text = shown(verdict)
    assert f"CAUSE  kv-cache-saturation  (confidence {100 * verdict.leading.confidence:.3g} %)  a (m)" in text
    assert verdict.sentence in text
    assert "change: Cap admission at the seats the pool has" in text
    assert "[--max-num-seqs 5]" in text
    assert re.search("✔ +KV left beyond what the next request needs", text)
    assert "limit >= 50 %" in text
    assert "runbook: runbooks/kv-cache-saturation.md" in text
    assert "window: 70 s, 15 of 15 pages" in text


def test_a_report_says_what_a_change_brings_what_would_change_it_and_what_it_is_not_in_few_lines():
    verdict = told(kv_full())
    text = shown(verdict, width=400)
    action = verdict.leading.action
    assert f"effect: {action.effect}" in text
    assert f"verify: {action.verify}" in text
    turn = verdict.changes[0]
    assert re.search(rf"would change it: .+ {turn.op} .+, now .+: {turn.cause or turn.outcome}", text)
    assert f"not {verdict.lookalikes[0].cause}: {verdict.lookalikes[0].why}" in text
    assert text.count("would change it:") <= 2
    assert len(re.findall(r"^ +not [a-z-]+: ", text, re.MULTILINE)) <= 2


def test_a_report_on_a_plain_server_says_none_of_it():
    text = shown(told(run(8, healthy)))
    assert not re.search("effect:|verify:|would change it|^ +not ", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("setting", "value", "line"),
    [
        ("--max-num-seqs", 5.0, "Do it.  [--max-num-seqs 5]"),
        ("--enable-prefix-caching", None, "Do it.  [--enable-prefix-caching]"),
        ("replicas", None, "Do it."),
    ],
)
def test_a_flag_is_named_without_a_number_too_and_a_bare_word_is_not(setting, value, line):
    verdict = told(kv_full())
    leading = replace(verdict.leading, action=Action("Do it.", setting, value))
    assert f"change: {line}\n" in re.sub(" +\n", "\n", shown(replace(verdict, leading=leading)))


def test_a_report_walks_all_steps_or_none():
    text = shown(told(kv_full()))
    for step in ("Memory pressure", "Batch configuration", "Demand"):
        assert step in text
        assert step not in shown(told(kv_full()), steps=False)
    assert "✖ kv-cache-saturation" in text
    assert "– retry-storm" in text


def test_a_report_says_what_else_holds_and_what_it_is_blind_to():
    def each(server: Server, i: int) -> None:
        server.serve(20, ttft=8.0, queue=7.9, prompt=100, output=200)
        server.gauges(running=8, waiting=20 * i, kv=0.1)

    verdict = told(run(14, each))
    also = {found.cause: found.confidence for found in verdict.contributing}
    text = shown(verdict)
    assert f"also: unbounded-queue ({100 * also['unbounded-queue']:.3g} %)" in text
    assert "blind to: " in text
    flat = " ".join(text.split())
    assert f"; and {len(verdict.blind) - 6} more (--json and the app list all)" in flat
    # a kind of telemetry that is not there is told as such, with its remedy, and not by one of its many signals
    assert "the GPUs: no GPU is joined: set gpu_url, or run on the engine's machine; " in flat


def test_evidence_says_how_far_a_number_may_be_trusted():
    assert "(lower bound)" in shown(told(unbounded_output()))  # the spread of output lengths is one


def test_a_note_of_a_suspicion_is_shown():
    (situation,) = (s for s in SITUATIONS if s.cause == "prefix-cache-miss")
    assert "A suspicion" in shown(told(situation.shown["evicted"]()))


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (idle, "○ NO TRAFFIC"),
        (lambda: run(8, healthy), "✔ HEALTHY"),
        (shedding, "▲ SHEDDING"),
        (lambda: Window.of([]), "? UNDETERMINED"),
        (kv_full, "✖ CAUSE"),
    ],
)
def test_the_headline_names_the_outcome_with_a_sign_and_a_word(window, words):
    assert headline(told(window())).plain.startswith(words)


def test_every_outcome_has_a_word_and_every_state_a_mark():
    assert set(WORDS) == set(Outcome)
    text = shown(told(thrash()))
    assert all(mark in text for mark in "✖✔–↳")
    assert set(State) >= {State.SHADOWED}


def test_a_scope_is_named_with_its_model_where_it_has_one():
    assert scope_name(told(idle(), "host:8000", "llama")) == "host:8000 (llama)"
    assert scope_name(told(idle(), "host:8000", "")) == "host:8000"
