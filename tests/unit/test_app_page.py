"""The page's script in Streamlit's own test harness: every state, without a browser."""

import json
import re
import sys
import time

import pytest
import streamlit as st
import yaml
from streamlit.testing.v1 import AppTest

from llmvitals.app import ask as asking
from llmvitals.app.answer import Answer
from llmvitals.data import folder
from llmvitals.triage.document import decode
from support.fake_exporter import SENTENCES, FakeExporter, document, history, replica, replicas


@pytest.fixture
def exporter():
    """A loopback exporter with made documents."""
    fake = FakeExporter()
    yield fake
    fake.close()


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Run the page on settings; gives the run and all HTML that it wrote."""
    monkeypatch.syspath_prepend(str(folder("app")))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # Streamlit puts the page in its place

    def run(settings, script="triage_page", **query):
        path = tmp_path / "settings.yaml"
        path.write_text(settings if isinstance(settings, str) else yaml.safe_dump(settings))
        monkeypatch.setenv("LLMVITALS_SETTINGS", str(path))
        monkeypatch.setattr(sys, "argv", ["streamlit_app.py"])
        app = AppTest.from_file(str(folder("app") / f"{script}.py"), default_timeout=30)
        for key, value in query.items():
            app.query_params[key] = value
        st.cache_data.clear()
        app.run()
        assert not app.exception
        return app, "\n".join(block.proto.body for block in app.get("html"))

    yield run
    for name in ("parts", "charts", "picked", "words", "triage_parts", "triage_more"):
        sys.modules.pop(name, None)


def sources(*urls):
    """Settings with these exporters, named s0, s1, ..."""
    return {"sources": [{"name": f"s{i}", "url": url} for i, url in enumerate(urls)]}


@pytest.mark.parametrize("verdict", list(SENTENCES))
def test_every_verdict_is_shown_with_its_sentence(page, exporter, verdict):
    exporter.verdict = verdict
    _, html = page(sources(exporter.url))
    assert SENTENCES[verdict] in html
    assert ("What to change" in html) == (verdict == "cause")
    assert [html.count(f'data-step="{n}"') for n in range(8)] == [1] * 8


def test_without_a_source_it_says_so(page):
    _, html = page({})
    assert "No source configured" in html
    assert "data-verdict" not in html


def test_settings_that_are_not_valid_are_one_clear_line(page):
    _, html = page("sourcs: []\n")
    assert "unknown key &#x27;sourcs&#x27;" in html
    assert "Did you mean &#x27;sources&#x27;?" in html


def test_an_unreachable_source_is_one_clear_line(page, exporter):
    exporter.close()
    _, html = page(sources(exporter.url))
    assert "Source unreachable" in html
    assert "cannot be reached" in html
    assert "data-verdict" not in html


def test_a_link_chooses_source_and_scope(page, exporter):
    app, html = page(sources("http://127.0.0.1:9", exporter.url), source="s1", instance="vllm-1", model="llama-3-8b")
    assert app.selectbox[0].value == "s1"
    assert SENTENCES["healthy"] in html


def test_a_scope_that_is_not_there_is_said_and_another_can_be_chosen(page, exporter):
    app, html = page(sources(exporter.url), instance="vllm-9", model="llama-3-8b")
    assert "Unknown scope" in html
    assert "knows no target vllm-9 · llama-3-8b" in html
    assert "unreachable" not in html
    assert "data-verdict" not in html
    (chooser,) = [box for box in app.selectbox if box.label == "Scope"]
    assert chooser.options[-1] == "not known · vllm-9 · llama-3-8b"
    assert len(chooser.options) == 3
    app = chooser.select_index(1).run()
    assert SENTENCES["healthy"] in "\n".join(block.proto.body for block in app.get("html"))


def test_an_unknown_source_in_a_link_is_said(page, exporter):
    _, html = page(sources(exporter.url), source="gone")
    assert "There is no source &#x27;gone&#x27;" in html
    assert SENTENCES["cause"] in html


def test_the_page_listens_on_every_interface_so_no_url_may_be_typed_in(page, exporter):
    app, _ = page(sources(exporter.url))
    assert not [field for field in app.text_input if field.label == "URL"]


def test_words_from_outside_are_never_markup(page, exporter):
    made = json.loads(json.dumps(document()).replace("126 preemptions", "<img src=x onerror=alert(1)>"))
    exporter.answers["/triage"] = made
    _, html = page(sources(exporter.url))
    assert "<img src=x" not in html
    assert "&lt;img src=x" in html


def test_the_steps_are_in_order_and_nothing_without_data_is_green(page, exporter):
    exporter.verdict = "no-traffic"
    _, html = page(sources(exporter.url))
    places = [html.index(f'data-step="{n}"') for n in range(8)]
    assert places == sorted(places)
    assert "lv-tag lv-good" not in "".join(html[places[0] :].splitlines())


def opened(app):
    """Titles and texts of what is folded."""
    return {one.label: [text.value for text in one.markdown] for one in app.expander}


def test_while_users_are_hurt_the_page_for_that_stands_beside_the_causes(page, exporter):
    app, _ = page(sources(exporter.url))
    shown = opened(app)
    runbooks = [label for label in shown if label.startswith("Runbook:")]
    assert runbooks == ["Runbook: Preemption thrash", "Runbook: Users do not get what was promised"]
    assert "## Meaning" in shown["Runbook: Users do not get what was promised"][0]


def test_while_nobody_is_hurt_it_is_not_there(page, exporter):
    exporter.verdict = "healthy"
    app, _ = page(sources(exporter.url))
    assert not [label for label in opened(app) if label.startswith("Runbook:")]
    assert not app.toggle


def test_hurt_without_a_cause_has_its_runbook_too(page, exporter):
    exporter.verdict = "undetermined"
    exporter.answers["/triage"] = (200, json.dumps(hurt(document("undetermined"))).encode())
    app, _ = page(sources(exporter.url))
    assert [label for label in opened(app) if label.startswith("Runbook:")] == [
        "Runbook: Users do not get what was promised"
    ]


def hurt(told):
    """A document whose first target's users are hurt."""
    for one in (told, told["targets"][0]["detail"]):
        one["hurt"] = True
    return told


def test_runbooks_are_turkish_where_the_address_says_so_and_there_is_one(page, exporter):
    app, _ = page(sources(exporter.url), lang="tr")
    told = ["\n".join(texts) for texts in opened(app).values()]
    assert [text for text in told if "## Anlamı" in text]
    assert [text for text in told if "## Meaning" in text and "preemption-thrash" in text], "one that is only English"


def test_a_link_opens_a_runbook_in_its_language(page):
    app, _ = page({}, "runbooks_page", page="first-tokens-late", lang="tr")
    assert app.title[0].value == "İlk token’lar geç geliyor"
    assert "## Etkisi" in app.markdown[0].value
    app, _ = page({}, "runbooks_page", page="batch-too-small", lang="tr")
    assert app.title[0].value == "The batch is too small"
    assert not app.toggle


def test_a_runbook_that_is_none_is_said_and_another_can_be_chosen(page):
    app, html = page({}, "runbooks_page", page="../README")
    assert "&#x27;../README&#x27; has no page" in html
    app.selectbox[0].set_value("cold-start").run()
    assert app.query_params["page"] in ("cold-start", ["cold-start"])
    assert "## Mitigation" in app.markdown[0].value


def test_what_would_change_it_and_what_it_is_not_are_said(page, exporter):
    _, html = page(sources(exporter.url))
    (line,) = re.findall(r"<div class=\"lv-turn\" data-turn>(.*?)</div>", html)
    assert "Intervals that saw a preemption <b>&lt; 33.3 %</b> (now 92 %) → KV cache saturation" in line
    assert '<tr data-turn="preemptions_per_minute">' in html
    assert "The pool is full because work is computed again." in html
    assert "Preemptions per minute: 126 /min (limit &gt; 5 /min)" in html
    assert "More requests wait for a seat" in html
    assert "Within 2 min: preemptions per minute" in html
    assert "Give the target its gpu_url." in html


def fleet(exporter, count, **odd):
    """So many replicas of one model, of which the last has these numbers beside those of all."""
    told = document()
    row = told["targets"][1]
    told["targets"] = [{**row, "name": f"vllm-{i}"} for i in range(count)]
    exporter.answers["/triage"] = (200, json.dumps(told).encode())
    usual = [replica(f"vllm-{i}", 0.5, 0.7, numbers={"gpu_clock_ratio": 1.0 - i / 1000}) for i in range(count - 1)]
    ill = replica(f"vllm-{count - 1}", 0.5, 0.7, numbers={"gpu_clock_ratio": 1.0} | odd)
    exporter.answers["/replicas"] = (200, json.dumps(replicas() | {"replicas": [*usual, ill]}).encode())
    return sources(exporter.url)


def test_of_many_replicas_the_one_with_the_slow_card_is_named_with_its_peers_number(page, exporter):
    _, html = page(fleet(exporter, 8, gpu_clock_ratio=0.4))
    (odd,) = re.findall(r'data-outlier="([^"]+)"', html)
    assert odd == "vllm-7"
    assert "source=s0&amp;instance=vllm-7&amp;model=llama-3-8b" in html
    assert "40 %" in html
    assert "median of 7" in html


def test_where_replicas_are_alike_that_is_said_and_few_are_not_compared(page, exporter):
    _, html = page(fleet(exporter, 8))
    assert "No replica of llama-3-8b differs" in html
    _, html = page(fleet(exporter, 3))
    assert "who is different" not in html


def test_of_replicas_that_could_not_be_read_nobody_says_that_they_are_alike(page, exporter):
    path = fleet(exporter, 8)
    told = json.loads(exporter.answers["/replicas"][1])
    told |= {"replicas": told["replicas"][:3], "notes": ["judged are 3 of its 8 targets"]}
    exporter.answers["/replicas"] = (200, json.dumps(told).encode())
    _, html = page(path)
    assert "differs from the others" not in html
    assert "Too few replicas of llama-3-8b could be read." in html
    assert "s0: judged are 3 of its 8 targets" in html


def compared(app, choice):
    """The page with a moment chosen to compare with."""
    (control,) = [one for one in app.get("button_group") if one.label == "Compare with"]
    control.set_value(choice).run()
    assert not app.exception
    return "\n".join(block.proto.body for block in app.get("html"))


def test_now_is_held_against_before(page, exporter):
    end = time.time()
    lines = history(end)
    times = [end - 10.0 * i for i in range(60)][::-1]
    values = [20.0 if t > end - 40 else 1.0 + (i % 3) / 10 for i, t in enumerate(times)]
    lines["signals"] = {"requests_waiting": {"times": times, "values": values, "bound": None}}
    exporter.answers["/history"] = lines
    app, html = page(sources(exporter.url))
    assert "data-moved" not in html, "nothing is asked for before somebody asks"
    html = compared(app, "5 min")
    (row,) = re.findall(r'<tr data-moved="requests_waiting">(.*?)</tr>', html)
    assert "<b>20</b>" in row
    assert "↑" in row
    assert re.search(r"Verdict</b></td><td[^>]*>Healthy</td><td[^>]*>Preemption thrash</td>", html)
    assert ("/history", ["*"]) in [(path, query.get("signal")) for path, query in exporter.asked]


def test_now_is_held_against_before_it_began(page, exporter):
    end = time.time()
    lines = history(end)
    times = [end - 10.0 * i for i in range(60)][::-1]
    values = [20.0 if t > end - 100 else 1.0 for t in times]
    lines["signals"] = {"requests_waiting": {"times": times, "values": values, "bound": None}}
    lines["course"]["states"]["preemption-thrash"] = [[end - 600.0, "clear"], [end - 100.0, "firing"]]
    exporter.answers["/history"] = lines
    app, _ = page(sources(exporter.url))
    (control,) = [one for one in app.get("button_group") if one.label == "Compare with"]
    assert "before it began" in control.options
    html = compared(app, "onset")
    (row,) = re.findall(r'<tr data-moved="requests_waiting">(.*?)</tr>', html)
    assert "<b>20</b>" in row
    lines["course"]["states"]["preemption-thrash"] = [[end - 600.0, "firing"]]
    app, _ = page(sources(exporter.url))
    (control,) = [one for one in app.get("button_group") if one.label == "Compare with"]
    assert control.options
    assert "before it began" not in control.options


def test_data_of_the_future_are_no_news(page, exporter):
    exporter.answers["/triage"] = document(now=time.time() + 3600.0)
    _, html = page(sources(exporter.url))
    assert "1 h ahead" not in html
    assert "60 min ahead of this machine&#x27;s clock: one of the two is wrong" in html


def test_a_past_that_the_source_does_not_have_is_said(page, exporter):
    app, _ = page(sources(exporter.url))
    assert "remembers only the last 1 min" in compared(app, "1 h")


def test_a_moment_of_ones_own_is_typed_in(page, exporter):
    app, _ = page(sources(exporter.url))
    compared(app, "custom")
    (field,) = [one for one in app.text_input if one.label == "Moment (UTC)"]
    field.set_value("yesterday").run()
    assert "is not a moment" in "\n".join(block.proto.body for block in app.get("html"))
    (later,) = [one for one in app.text_input if one.label == "Moment (UTC)"]
    later.set_value("2100-01-01").run()
    assert "not before the one that is shown" in "\n".join(block.proto.body for block in app.get("html"))


def test_notes_of_a_source_are_shown(page, exporter, monkeypatch):
    told = Answer(decode(document()["targets"][0]["detail"], place="x"), (), time.time(), ("made here",))
    monkeypatch.setattr(asking, "ask", lambda *_: told)
    _, html = page(sources(exporter.url))
    assert "s0: made here" in html
