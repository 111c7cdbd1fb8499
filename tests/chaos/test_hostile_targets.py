"""Targets that misbehave in every way at once, over real sockets, against an exporter process: the page stays whole and
truthful, healthy targets beside them read right, and what was taken for them is given back.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
import streamlit as st
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from streamlit.testing.v1 import AppTest

from llmvitals.cli import main
from llmvitals.data import folder
from llmvitals.triage.verdict import Outcome
from llmvitals.triage.view import OUTCOMES
from support.behaviours import BEHAVIOURS, CHANGES, DOWN, UP, Behaviour
from support.command import llmvitals
from support.hostile import MIB, Hostile
from support.reliability import Part
from support.storm import DEADLINE, Held, Seen, Served
from support.waiting import free_port, wait_for

ALL = (*BEHAVIOURS, *CHANGES)
HEALTHY = ("healthy-0", "healthy-1", "healthy-2")
TOKENS = re.compile(rb"vllm:generation_tokens_total\{[^}]*\} (\S+)")
OPTIONS = {"interval_seconds": 1, "timeout_seconds": 2, "window_seconds": 60}
SLACK = Held(160 * MIB, 8, 8)
"""What may be left over: blocks of the interpreter that held 100,000 series at once and are pinned by a few that live (what comes
next is put there), and the threads and connections of the scrape that is under way at the moment of the look.
"""
each = pytest.mark.parametrize("behaviour", ALL, ids=lambda one: one.name)


def name_of(behaviour: Behaviour) -> str:
    """The instance of a behaviour's target."""
    return behaviour.path.removeprefix("/") or "refuse"


@dataclass(slots=True)
class Storm:
    """The exporter, the hostile server, and what was seen while all misbehaved. ``before``: with healthy targets alone."""

    served: Served
    hostile: Hostile
    fine: dict[str, str]
    before: Held
    quick: Path
    seen: Seen = field(default_factory=Seen)
    verdicts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storm]:
    """An exporter over healthy targets, then over all that misbehave as well, long enough for verdicts."""
    quick = tmp_path_factory.mktemp("quick") / "llmvitals.yaml"
    quick.write_text("exporter: {timeout_seconds: 1}\n")
    with Hostile() as hostile:
        fine = {name: hostile.url(f"/healthy?{name}") for name in HEALTHY}
        closed = f"http://127.0.0.1:{free_port()}"
        bad = {name_of(one): hostile.url(one.path) if one.path else closed for one in ALL}
        with Served(tmp_path_factory.mktemp("storm"), fine, **OPTIONS) as served:
            served.cycles(3)
            found = Storm(served, hostile, fine, served.held(), quick)
            served.reload({**fine, **bad})
            for _ in range(7):
                served.cycles()
                served.scrape(found.seen)
            wait_for(
                lambda: all(v["verdict"] == "healthy" for name in HEALTHY for v in served.verdicts()[name]),
                "the verdicts on what is healthy",
            )
            found.verdicts = served.verdicts()
            yield found


def test_healthy_targets_beside_them_are_read_right_and_found_healthy(storm: Storm) -> None:
    assert set(storm.seen.statuses) == {200}
    for name in HEALTHY:
        shown = [float(found[1]) for page in storm.hostile.shown[f"/healthy?{name}"] if (found := TOKENS.search(page))]
        read = storm.seen.tokens[name]
        assert set(read) <= set(shown)  # the very numbers that it showed,
        assert read == sorted(read)  # in order,
        assert read[-1] > read[0]  # and they move
        assert storm.seen.up[name] == UP
        (verdict,) = storm.verdicts[name]
        assert verdict["verdict"] == "healthy"


def test_the_page_parses_as_openmetrics_too(storm: Storm) -> None:
    page = storm.served.text(accept="application/openmetrics-text;version=1.0.0")
    assert sum(1 for _ in parse_openmetrics(page)) > 50


@each
def test_it_is_told_by_name_and_never_judged_wrongly(storm: Storm, behaviour: Behaviour, reliability: Any) -> None:
    name = name_of(behaviour)
    assert storm.seen.up[name] == behaviour.up
    for verdict in storm.verdicts[name]:
        assert verdict["verdict"] in behaviour.verdicts, verdict["sentence"]
        if verdict["verdict"] == "cause":
            assert verdict["leading"]["cause"] in behaviour.causes
        if behaviour.up == DOWN:
            assert "no page could be read" in verdict["sentence"]
            assert behaviour.explains(verdict["sentence"]), verdict["sentence"]
    if behaviour.gap:
        assert (name, behaviour.gap) in storm.seen.gaps
    part = Part.TARGET if behaviour in BEHAVIOURS else Part.CHANGE
    holds = "down by name or read right, never judged wrongly; the others are read right"
    reliability(part, behaviour.name, holds, behaviour.outcome)


# -- who asks that exporter -----------------------------------------------------------------------------------------
def test_a_triage_that_asks_the_exporter_gives_the_same_verdicts(storm: Storm, reliability: Any) -> None:
    ran = llmvitals("triage", storm.served.url, "--json")
    assert ran.code in {0, 1, 2}, ran.err
    told = {(one["detail"]["scope"]["instance"], one["detail"]["verdict"]) for one in ran.json["targets"]}
    assert {(name, "healthy") for name in HEALTHY} <= told
    assert {(name_of(one), "undetermined") for one in ALL if one.up == DOWN} <= told
    people = llmvitals("triage", storm.served.url)
    assert people.code == ran.code
    assert "Traceback" not in people.err + people.out
    reliability(
        Part.SOURCE,
        "an exporter over all of them is asked for a triage",
        "the same verdicts, as JSON and for people",
        "given, worst first",
    )


@pytest.fixture
def page(tmp_path, monkeypatch, storm):
    """Run a page of the app over that exporter; gives the run and all that it wrote."""
    monkeypatch.syspath_prepend(str(folder("app")))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # Streamlit puts the page in its place
    path = tmp_path / "app.yaml"
    path.write_text(yaml.safe_dump({"sources": [{"name": "storm", "url": storm.served.url}]}))
    monkeypatch.setenv("LLMVITALS_SETTINGS", str(path))
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py"])

    def run(script: str, **query: str) -> str:
        app = AppTest.from_file(str(folder("app") / f"{script}.py"), default_timeout=60)
        for key, value in query.items():
            app.query_params[key] = value
        st.cache_data.clear()
        app.run()
        assert not app.exception, [one.message for one in app.exception]
        return "\n".join(block.proto.body for block in app.get("html"))

    yield run
    for name in list(sys.modules):
        module = sys.modules[name]
        if str(getattr(module, "__file__", "") or "").startswith(str(folder("app"))):
            del sys.modules[name]


SHOWN = ("hang", "bomb", "http-0.9", "to-metadata", "series", "nan", "half-histogram", "utf-8", "vanishing", "models")


def test_the_triage_page_tells_each_by_its_verdict(page, storm: Storm, reliability: Any) -> None:
    for name in (*SHOWN, *HEALTHY[:1]):
        verdict = storm.served.verdicts()[name][0]
        told = page("triage_page", instance=name, model=verdict["scope"]["model"])
        assert f'data-verdict="{OUTCOMES[Outcome(verdict["verdict"])].word}"' in told, name
    reliability(
        Part.SOURCE,
        "the app's triage page over an exporter of all of them",
        "the exporter's verdict for each, and no error",
        f"{len(SHOWN)} of them and a healthy one shown as they are",
    )


@pytest.mark.parametrize("script", ["fleet_page", "quadrant_page", "matrix_page", "capacity_page", "runbooks_page"])
def test_other_pages_stand_over_that_exporter(page, script: str, reliability: Any) -> None:
    assert page(script)
    reliability(
        Part.SOURCE,
        f"the app's {script.removesuffix('_page')} page over an exporter of all of them",
        "it shows what can be shown",
        "shown",
    )


# -- a triage without an exporter -----------------------------------------------------------------------------------
QUICK = tuple(
    one for one in BEHAVIOURS if one.path != "/series"
)  # read afresh it takes seconds; the exporter's is remembered


@pytest.mark.parametrize("behaviour", QUICK, ids=lambda one: one.name)
def test_a_live_triage_says_in_one_line_what_is_wrong(storm: Storm, behaviour: Behaviour, capsys) -> None:
    url = storm.hostile.url(behaviour.path) if behaviour.path else f"http://127.0.0.1:{free_port()}"
    with pytest.raises(SystemExit) as ended:
        main(["triage", url, "--for", "1s", "--interval", "0.5s", "--settings", str(storm.quick), "--json"])
    out, err = capsys.readouterr()
    assert "unexpected" not in err
    if behaviour.up == DOWN:
        assert ended.value.code == 3
        assert out == ""
        assert behaviour.explains(err), err
        assert err.startswith(url)
    else:
        assert ended.value.code == 2  # too short a look for a verdict
        assert all(one["detail"]["verdict"] == "undetermined" for one in json.loads(out)["targets"])


def test_no_redirect_leaves_the_host(storm: Storm) -> None:
    assert storm.hostile.asked["/redirect"] > 0
    assert storm.hostile.asked["/stolen"] == 0


def test_what_was_taken_for_them_is_given_back(storm: Storm, reliability: Any) -> None:
    served = storm.served
    served.reload(storm.fine)
    served.cycles(3)

    def calm() -> bool:
        now, before = served.held(), storm.before
        return now.threads <= before.threads + SLACK.threads and now.files <= before.files + SLACK.files

    wait_for(calm, "the end of what was held for them")
    assert served.held().rss <= storm.before.rss + SLACK.rss
    assert requests.get(f"{served.url}/healthz", timeout=DEADLINE).status_code == 200
    assert served.stop() == 0
    assert served.events("cycle-failed") == []
    assert "Traceback" not in served.log.read_text()
    reliability(
        Part.TARGET,
        "all of these at once, then none of them",
        "every scrape is answered; healthy targets beside them are healthy; memory, threads and open files are given back",
        f"{len(ALL)} at once; threads and files as before, memory within {SLACK.rss // MIB} MiB",
    )
