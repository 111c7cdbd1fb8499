"""The page's script in Streamlit's own test harness: every state, without a browser."""

import json
import sys

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from llmvitals.data import folder
from support.fake_exporter import SENTENCES, FakeExporter, document


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
