"""The capacity page in Streamlit's own harness: what is asked, what comes of it, and what is refused in one line."""

from __future__ import annotations

import json
import sys
import time

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from llmvitals.app import capacity
from llmvitals.data import folder
from llmvitals.sources.now import SIGNALS, newest, now_of
from support import model_configs as known
from support.fake_exporter import FakeExporter

KNOWN = {"known": "Llama-3.3-70B", "gpus": "2", "weights": "fp8", "context": "4000"}


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Run the page with an address; gives the run."""
    monkeypatch.syspath_prepend(str(folder("app")))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # Streamlit puts the page in its place
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py"])

    def run(settings=None, **query):
        path = tmp_path / "settings.yaml"
        path.write_text(yaml.safe_dump(settings or {}))
        monkeypatch.setenv("LLMVITALS_SETTINGS", str(path))
        app = AppTest.from_file(str(folder("app") / "capacity_page.py"), default_timeout=60)
        for key, value in query.items():
            app.query_params[key] = value
        return again(app.run())

    yield run
    for name in ("parts", "charts", "picked", "capacity_charts", "capacity_parts", "capacity_tries", "words"):
        sys.modules.pop(name, None)


def again(app):
    """The run, which must have ended well."""
    assert not app.exception
    return app


def html(app) -> str:
    """All HTML that the page wrote."""
    return "\n".join(block.proto.body for block in app.get("html"))


def press(app, label):
    """Press a button."""
    return again(next(b for b in app.button if b.label == label).click().run())


def field(listed, key):
    """A widget by its key."""
    return next(one for one in listed if one.key == key)


def told(app, name):
    """A parameter of the address as a plain text."""
    value = app.query_params[name]
    return value[0] if isinstance(value, list) else value


def test_without_a_model_it_says_what_to_give(page):
    shown = html(page())
    assert "Paste a model&#x27;s config.json" in shown
    assert "data-capacity" not in shown


def test_a_link_shows_the_documents_figures(page):
    shown = html(page(**KNOWN))
    assert 'data-capacity="50"' in shown
    for text in ("327,680 bytes", "40 requests", "an assumption", "estimate, one replica"):
        assert text in shown


def test_a_pasted_config_is_read_and_does_not_go_into_the_address(page):
    app = page(gpus="2", weights="fp8", context="4000")
    app = again(app.text_area[0].set_value(json.dumps(known.LLAMA_70B)).run())
    assert 'data-capacity="50"' in html(app)
    assert "hidden_size" not in str(dict(app.query_params))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("<html>", "is a web page, not JSON"),
        ("[1]", "is not a JSON object"),
        ("{}", "&#x27;num_hidden_layers&#x27; is missing"),
        (json.dumps(known.LLAMA_70B | {"hidden_size": -1}), "not a positive whole number"),
        (json.dumps(known.LLAMA_70B | {"vocab_size": 10**12}), "more than any model has"),
        ('{"model_type": "<img src=x onerror=alert(1)>", "is_encoder_decoder": true}', "an encoder and a decoder"),
    ],
)
def test_a_config_that_is_none_is_one_line_and_never_markup(page, text, says):
    app = page()
    shown = html(again(app.text_area[0].set_value(text).run()))
    assert says in shown
    assert "<img" not in shown
    assert "data-capacity" not in shown


def test_what_an_address_cannot_mean_is_said_and_left_out(page):
    app = page(known="Llama-3.3-70B", gpus="two", kv="fp3", context="-4")
    shown = html(app)
    for name in ("gpus", "kv", "context"):
        assert f"&#x27;{name}&#x27; in the address cannot mean that" in shown
    assert field(app.number_input, "gpus").value == 1


def test_what_is_chosen_stands_in_the_address(page):
    app = page(**KNOWN)
    app = again(field(app.selectbox, "gpu").select("H200-141GB").run())
    app = again(field(app.number_input, "context").set_value(8000).run())
    assert told(app, "gpu") == "H200-141GB"
    assert told(app, "context") == "8000"


def test_gpus_that_do_not_split_the_heads_are_one_line(page):
    shown = html(page(**KNOWN | {"gpus": "3"}))
    assert "64 attention heads do not split over 3 GPUs" in shown
    assert "data-capacity" not in shown


def test_a_model_that_does_not_fit_is_said(page):
    shown = html(page(known="Llama-3.3-70B", gpu="L4-24GB"))
    assert "The model does not fit" in shown
    assert 'data-capacity="0"' in shown


def test_a_plan_is_worked_out_when_asked(page):
    app = page(**KNOWN)
    assert "data-plan" not in html(app)
    shown = html(press(app, "Work out the plan"))
    assert "data-plan" in shown
    assert "What binds" in shown


def test_a_change_is_simulated_when_asked_and_is_said_to_be_simulated(page):
    app = page(**KNOWN)
    assert "data-whatif" not in html(app)
    assert field(app.number_input, "now-seats--H100-80GB").value == 1024  # what vLLM takes there by itself
    field(app.text_input, "if-replicas").set_value("+1")
    shown = html(press(app, "Simulate both"))
    assert 'data-whatif="replicas +1"' in shown
    assert "Simulated:" in shown


@pytest.mark.parametrize(
    ("value", "says"), [("", "nothing is changed"), ("many", "is no whole number"), ("-4", "would be -3")]
)
def test_a_change_that_is_none_is_one_line(page, value, says):
    app = page(**KNOWN)
    field(app.text_input, "if-replicas").set_value(value)
    shown = html(press(app, "Simulate both"))
    assert says in shown
    assert "data-whatif" not in shown


NOW = {
    "kv_capacity_tokens": 64_000.0,
    "full_context_tokens": 1600.0,
    "mean_context_tokens": 900.0,
    "completion_rate": 3.5,
    "arrival_rate": 4.0,
    "prompt_mean_tokens": 700.0,
    "generation_mean_tokens": 300.0,
    "prefix_hit_ratio": 0.25,
}


@pytest.fixture
def exporter():
    """An exporter whose engine holds 64,000 tokens."""
    fake = FakeExporter()
    end = time.time()
    lines = {name: {"times": [end - 5, end], "values": [None, value], "bound": None} for name, value in NOW.items()}
    fake.answers["/history"] = {"signals": lines}
    yield fake
    fake.close()


def test_what_runs_fills_the_form(page, exporter):
    settings = {"sources": [{"name": "prod", "url": exporter.url}]}
    app = page(settings, live="1", **{k: v for k, v in KNOWN.items() if k != "context"})
    shown = html(app)
    assert field(app.number_input, "context").value == 1600
    assert field(app.number_input, "rate").value == 3.5
    assert "measured by vllm-0" in shown
    assert 'data-capacity="40"' in shown  # 64,000 / 1,600
    assert field(app.number_input, "now-rate-vllm-0").value == 4.0
    assert set(next(q for path, q in exporter.asked if path == "/history")["signal"]) == set(SIGNALS)
    field(app.text_input, "if-replicas").set_value("+1")
    assert "Measured now" in html(press(app, "Simulate both"))


def test_what_runs_has_seats_without_a_model(page, exporter):
    shown = html(page({"sources": [{"name": "prod", "url": exporter.url}]}, live="1"))
    assert 'data-capacity="40"' in shown  # 64,000 / 1,600
    assert "config.json" in shown


def test_a_source_that_does_not_answer_leaves_the_page_to_the_config(page, exporter):
    exporter.close()
    shown = html(page({"sources": [{"name": "prod", "url": exporter.url}]}, live="1", **KNOWN))
    assert "Source unreachable" in shown
    assert 'data-capacity="50"' in shown


def test_settings_that_are_not_valid_are_one_line_and_the_page_works(page):
    shown = html(page({"sourcs": []}, **KNOWN))
    assert "unknown key &#x27;sourcs&#x27;" in shown
    assert 'data-capacity="50"' in shown


def test_a_form_that_says_what_is_usual_leaves_the_address_empty():
    form, wrong = capacity.read({})
    assert wrong == ()
    assert capacity.address(form) == {}
    again_form, _ = capacity.read(capacity.address(form | {"gpus": 4.0, "kv": "fp8"}))
    assert (again_form["gpus"], again_form["kv"]) == (4.0, "fp8")


def test_numbers_that_run_are_cut_to_what_the_form_takes():
    form, _ = capacity.read({}, {"context": 0.2, "rate": 1e12})
    assert (form["context"], form["rate"]) == (1.0, 1_000_000.0)


def test_the_newest_value_counts_while_it_is_new():
    lines = {"a": ((0.0, 1.0), (100.0, None)), "b": ((99.0, 2.0), (100.0, None)), "c": ()}
    assert newest(lines) == {"a": None, "b": 2.0, "c": None}
    now = now_of({"kv_capacity_tokens": 0.0, "mean_context_tokens": 900.0, "completion_rate": float("nan")})
    assert (now.kv_capacity, now.context, now.at_full_length, now.rate) == (None, 900.0, False, None)
