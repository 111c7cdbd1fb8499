"""What each class of requests got: in the verdict, its document, the report and the page of the app."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module

import pytest
from rich.console import Console

from llmvitals.data import folder
from llmvitals.settings import Settings
from llmvitals.signals.context import Context
from llmvitals.triage.classes import classes
from llmvitals.triage.document import decode
from llmvitals.triage.printed import report
from llmvitals.triage.report import document
from llmvitals.triage.verdict import ClassShare
from llmvitals.triage.view import Tone, class_row, present
from llmvitals.triage.walk import diagnose
from support.made import Server, healthy, run, without
from support.situations_requests import CHAT_AND_BATCH, Traces, told_and_well, traced, two_classes

SETTINGS = Settings()


def shown(verdict: object) -> str:
    console = Console(width=140, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(report(verdict, steps=False))  # type: ignore[arg-type]
    return captured.get()


def test_each_class_stands_with_what_it_got_the_fastest_burn_first():
    """Half of 140 chats are late against half a second; all of batch is in time, and 14 of it have slow tokens."""

    def each(server: Server, spans: Traces, _: int) -> None:
        server.serve(20)
        spans.tell(5, "chat")
        spans.tell(5, "chat", ttft=0.8)
        spans.tell(9, "batch", ttft=6.0)
        spans.tell(1, "batch", ttft=6.0, tpot=0.8)

    verdict = diagnose(traced(each, promises=CHAT_AND_BATCH), SETTINGS)
    chat, batch = verdict.classes
    assert (chat.name, chat.requests, chat.objective, chat.vantage, chat.standing) == (
        "chat", 140, 0.95, "engine", "exact",
    )  # fmt: skip
    assert (chat.goodput, chat.ttft_attainment, chat.tpot_attainment) == (0.5, 0.5, 1.0)
    assert chat.burn == pytest.approx(10.0)
    assert (batch.name, batch.goodput, batch.tpot_attainment) == ("batch", 0.9, 0.9)
    assert batch.burn == pytest.approx(1.0)


def test_without_traces_there_are_no_classes():
    assert classes(Context(run(8, healthy), SETTINGS)) == ()
    assert "objective" not in shown(diagnose(run(8, healthy), SETTINGS))


def test_traces_that_stopped_tell_of_no_class():
    def each(server: Server, spans: Traces, i: int) -> None:
        healthy(server, i)
        if i <= 4:
            spans.tell(50)

    assert classes(Context(traced(each), SETTINGS)) == ()


def test_a_sample_is_marked_as_one():
    (one, _) = diagnose(two_classes(told=0.5), SETTINGS).classes
    assert one.standing == "estimate"
    assert class_row(one).seen == "engine, estimate"


def test_a_time_that_nobody_took_is_none_and_a_dash():
    window = without(told_and_well(), "llm_slo_missed_total")
    (one,) = classes(Context(window, SETTINGS))
    assert (one.ttft_attainment, one.tpot_attainment) == (None, None)
    assert (class_row(one).ttft, class_row(one).tpot) == ("–", "–")


def test_the_document_holds_them_and_reads_back():
    verdict = diagnose(two_classes(), SETTINGS, scope={"instance": "made", "model": "m"})
    body = json.loads(json.dumps(document([verdict])))
    assert {c["name"] for c in body["classes"]} == {"chat", "batch"}
    assert set(body["classes"][0]) == {
        "name", "requests", "goodput", "ttft_attainment", "tpot_attainment", "objective", "burn", "vantage", "standing",
    }  # fmt: skip
    assert body["targets"][0]["detail"]["classes"] == body["classes"]
    assert decode(body, place="x").classes == verdict.classes
    del body["classes"]  # of an exporter that is older
    assert decode(body, place="x").classes == ()


def test_the_report_and_the_page_show_a_class_that_misses_beside_its_objective():
    verdict = diagnose(two_classes(chat=0.7, batch=0.3, late=5), SETTINGS)
    text = shown(verdict)
    (line,) = (x for x in text.splitlines() if x.split()[:1] == ["chat"])
    assert line.split()[1:5] == ["140", "50", "%", "95"]
    rows = present(verdict).classes
    assert [(r.name, r.badge.word, r.badge.tone) for r in rows] == [
        ("chat", "Missed", Tone.BAD),
        ("batch", "Kept", Tone.GOOD),
    ]


def test_a_class_just_at_its_objective_keeps_it():
    row = class_row(ClassShare("x", 100.0, 0.95, 1.0, 1.0, 0.95, 1.0, "gateway", "exact"))
    assert (row.badge.word, row.budget, row.seen) == ("Kept", "1×", "gateway")


def test_every_number_of_the_page_carries_its_columns_name_since_a_phone_shows_no_heads(monkeypatch):
    monkeypatch.syspath_prepend(str(folder("app")))
    try:
        html = import_module("parts").classes(
            [class_row(ClassShare("x", 7.0, 0.9, 0.8, 1.0, 0.95, 2.0, "engine", "exact"))]
        )
    finally:
        sys.modules.pop("parts", None)
    cells = re.findall(r'<td(?: data-head="([^"]+)")?>(?:<b>)?([^<]*)', html)
    named = {head: text for head, text in cells if head}
    assert named == {
        "Requests": "7",
        "Goodput": "90 %",
        "First token in time": "80 %",
        "Pace in time": "100 %",
        "Budget burns": "2×",
        "Seen by": "engine",
    }
    heads = re.findall(r"<th>([^<]*)</th>", html)
    assert len(heads) == len(cells)
    assert [head for head in heads if head in named] == list(named)
