"""The audit's page in Streamlit's own harness: what is pasted, what a source tells, what is wrong with either."""

import json
import sys

import pytest
import yaml

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from llmvitals.data import folder
from support.answers import Answer, Answers
from support.setups import LLAMA_8B, MADE, SANE


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The page, run once; gives a function that pastes a text and a few more fields, and tells all HTML and lines."""
    monkeypatch.syspath_prepend(str(folder("app")))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])

    def run(text="", *, settings=None, query=None, **fields):
        path = tmp_path / "settings.yaml"
        path.write_text(yaml.safe_dump(settings or {}))
        monkeypatch.setenv("LLMVITALS_SETTINGS", str(path))
        monkeypatch.setattr(sys, "argv", ["streamlit_app.py"])
        app = AppTest.from_file(str(folder("app") / "audit_page.py"), default_timeout=30)
        for key, value in (query or {}).items():
            app.query_params[key] = value
        app.run()
        if text:
            app.text_area(key="given").set_value(text)
            widgets = [w for kind in (app.text_input, app.text_area, app.selectbox) for w in kind]
            for key, value in fields.items():
                next(w for w in widgets if w.key == key).set_value(value)
            app.run()
        assert not app.exception
        return app, "\n".join(block.proto.body for block in app.get("html")), [block.value for block in app.get("code")]

    yield run
    for name in ("parts", "picked", "audit_parts", "words"):
        sys.modules.pop(name, None)


def test_the_page_opens_empty_and_says_nothing_wrong(page):
    _, html, lines = page()
    assert "data-rule" not in html
    assert lines == []


def test_findings_are_cards_with_lines_to_copy(page):
    _, html, lines = page(MADE["share-high"].text, version="0.11.0")
    assert 'data-rule="share-high" data-severity="warning"' in html
    assert "--gpu-memory-utilization 0.95" in lines
    assert "vLLM 0.11.0" in html
    assert 'href="runbooks?page=vram-headroom"' in html


def test_a_good_set_up_has_no_error_and_no_warning(page):
    _, html, _ = page(SANE["a careful deployment"].text)
    assert "No error and no warning" in html
    assert 'data-severity="warning"' not in html


def test_a_release_that_was_not_told_is_said_to_be_assumed(page):
    _, html, _ = page("vllm serve m/x")
    assert "no release was told" in html


def test_a_model_and_a_gpu_give_an_estimate(page):
    _, html, _ = page("vllm serve m/x", version="0.11.0", gpu="A100-40GB", config=json.dumps(LLAMA_8B))
    assert 'data-rule="context-over-pool"' in html
    assert "an estimate" in html


@pytest.mark.parametrize(
    ("text", "fields", "said"),
    [
        ("ls -la", {}, "starts no engine that is known"),
        ("vllm serve m/x", {"version": "soon"}, "is no release that is known"),
        ("vllm serve m/x", {"config": "[]"}, "is not a JSON object"),
        ("vllm serve m/x", {"config": "[" * 100_000}, "is not JSON"),
        ("vllm serve m/x --blok<script>=1", {}, "has no --blok&lt;script&gt;"),
    ],
)
def test_what_is_wrong_is_one_line_and_escaped(page, text, fields, said):
    _, html, _ = page(text, **fields)
    assert said in html
    assert "<script>" not in html


def test_the_engines_of_the_source_are_audited(page):
    told = b'llm_prefix_caching_enabled{instance="a:8000",model="m",engine="vllm"} 0\n'
    with Answers({"/metrics": Answer(told)}) as exporter:
        settings = {"sources": [{"name": "prod", "url": exporter.url}]}
        _, html, _ = page(settings=settings, query={"from": "source"})
    assert 'data-setup="a:8000 m"' in html
    assert 'data-rule="prefix-caching-off"' in html


def test_a_source_that_does_not_answer_is_one_line(page):
    settings = {"sources": [{"name": "prod", "url": "http://127.0.0.1:9"}]}
    _, html, _ = page(settings=settings, query={"from": "source"})
    assert "Not valid" in html or "unreachable" in html.lower()
    assert "data-rule" not in html
