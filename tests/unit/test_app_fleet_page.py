"""The fleet's page in Streamlit's own test harness: a thousand replicas from an exporter, the filter, the pages, what is amiss."""

import json
import re
import sys
import time

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from llmvitals.app.services import PAGE
from llmvitals.data import folder
from llmvitals.triage.replica import encode
from support.fake_exporter import FakeExporter
from support.fleets import made_fleet

MANY = 1000


@pytest.fixture
def exporter():
    """A loopback exporter with a made fleet."""
    fake = FakeExporter()
    fake.answers["/replicas"] = (200, json.dumps(encode(made_fleet(MANY))).encode())
    yield fake
    fake.close()


@pytest.fixture
def page(tmp_path, monkeypatch, exporter):
    """Run the page; gives the run and all HTML that it wrote."""
    monkeypatch.syspath_prepend(str(folder("app")))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # Streamlit puts the page in its place
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({"sources": [{"name": "east", "url": exporter.url}]}))
    monkeypatch.setenv("LLMVITALS_SETTINGS", str(path))
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py"])

    def run(**query):
        app = AppTest.from_file(str(folder("app") / "fleet_page.py"), default_timeout=30)
        for key, value in query.items():
            app.query_params[key] = value
        app.run()
        assert not app.exception
        return app, html(app)

    yield run
    for name in ("parts", "picked", "fleet_answer", "fleet_parts", "triage_parts", "words"):
        sys.modules.pop(name, None)


def html(app):
    """All that the page wrote."""
    return "\n".join(block.proto.body for block in app.get("html"))


def rows(text):
    """The replicas of the table, in order."""
    return re.findall(r'data-replica="([^"]*)"', text)


def test_a_thousand_replicas_are_shown_worst_first_and_no_more_rows_than_a_page_has(page):
    _, text = page()
    shown = rows(text)
    assert len(shown) == PAGE
    assert shown[:10] == [f"vllm-{n:04}" for n in range(7, MANY, 100)]
    assert shown[10] == "vllm-0998"  # gone: nobody knows how it is
    assert re.findall(r'data-count="([^"]*)"><b>(\d+)', text) == [
        ("Cause found", "10"),
        ("Gone", "1"),
        ("Old", "1"),
        ("Healthy", "988"),
        ("hurt", "10"),
    ]
    assert re.findall(r'data-points="(\d+)"', text) == [str(MANY - 1)]
    assert text.count("data-bar=") == 12
    assert len(re.findall("data-service=", text)) == 4
    assert len(text) < 300_000


def test_rerun_costs_little(page):
    app, _ = page()
    start = time.perf_counter()
    app.run()
    assert time.perf_counter() - start < 2.0


def test_the_filter_and_the_page_stand_in_the_address(page):
    app, text = page(find="preemption model-3")
    assert rows(text) == [f"vllm-{n:04}" for n in range(7, MANY, 100)]
    app, text = page(page="20")
    assert rows(text)[-1] == "vllm-0999"
    assert "last heard of at" in text
    (chooser,) = [box for box in app.selectbox if box.label == "Show"]
    assert chooser.options[-1] == "951 to 1000 of 1000"
    chooser.select_index(1).run()
    assert app.query_params["page"] in ("2", ["2"])
    (field,) = [one for one in app.text_input if one.label == "Find"]
    field.input("vllm-0007").run()
    assert rows(html(app)) == ["vllm-0007"]
    _, text = page(find="nobody")
    assert "No service or replica here holds &#x27;nobody&#x27;" in text


def test_a_name_leads_to_its_triage(page):
    _, text = page()
    assert 'href="./?source=east&amp;instance=vllm-0007&amp;model=model-3"' in text


def test_words_from_outside_are_never_markup(page, exporter):
    made = json.dumps(encode(made_fleet(20))).replace("vllm-0003", "<img src=x onerror=alert(1)>")
    exporter.answers["/replicas"] = (200, made.encode())
    _, text = page()
    assert "<img src=x" not in text
    assert "&lt;img src=x" in text


def test_a_source_that_does_not_answer_is_one_line(page, exporter):
    exporter.answers["/replicas"] = (503, b"")
    _, text = page()
    assert "Source unreachable" in text
    assert not rows(text)
