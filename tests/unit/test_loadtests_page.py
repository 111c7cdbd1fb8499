"""The page of load tests in Streamlit's own test harness: files, promises, the suggestion, and a load from a live source."""

import json
import sys

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from llmvitals.data import folder
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.workload import Lengths, Stream, Workload
from support.bench import bench
from support.simulated import simulate

LEVELS = (16, 64, 192)


@pytest.fixture(scope="module")
def tested():
    """Result files of a simulated server whose pace breaks between the last two levels."""
    runs = [bench(level, 30, EngineConfig(max_num_seqs=256)) for level in LEVELS]
    return {f"c{run.level}.json": json.dumps(run.document()).encode() for run in runs}


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Run the page on settings; gives the run."""
    monkeypatch.syspath_prepend(str(folder("app")))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])

    def run(settings, **query):
        path = tmp_path / "settings.yaml"
        path.write_text(yaml.safe_dump(settings))
        monkeypatch.setenv("LLMVITALS_SETTINGS", str(path))
        monkeypatch.setattr(sys, "argv", ["streamlit_app.py"])
        app = AppTest.from_file(str(folder("app") / "loadtests_page.py"), default_timeout=30)
        for key, value in query.items():
            app.query_params[key] = value
        app.run()
        assert not app.exception
        return app

    yield run
    for name in ("parts", "picked", "loadtests_parts"):
        sys.modules.pop(name, None)


def html(app):
    return "\n".join(block.proto.body for block in app.get("html"))


def test_without_files_and_sources_it_says_what_to_do(page):
    app = page({})
    assert "No source configured" in html(app)
    assert len(app.get("file_uploader")) == 1


def upload(app, files):
    app.file_uploader[0].set_value([(name, content, "application/json") for name, content in files.items()])
    app.run()
    assert not app.exception
    return html(app)


def test_the_peak_is_marked_and_its_setting_named(page, tested):
    app = page({"slo": {"ttft_seconds": 2.0, "tpot_seconds": 0.04}})
    text = upload(app, tested)
    assert "What it suggests" in text
    assert "<code>max_num_seqs: 64</code>" in text
    assert text.count('<tr class="p">') == 1
    assert len(app.get("vega_lite_chart")) == 1


def test_promises_come_from_the_settings_and_can_be_changed(page, tested):
    app = page({"slo": {"tpot_seconds": 0.04}})
    upload(app, tested)
    assert app.number_input[1].value == pytest.approx(40.0)
    app.number_input[1].set_value(500.0)
    app.run()
    text = html(app)
    assert "No setting is suggested" in text
    assert "may be the peak or below it: test more" in text


def test_a_file_that_is_none_is_one_line_and_the_page_lives(page, tested):
    text = upload(page({}), {**tested, "<b>notes.json": b'{"hello": 1}'})
    assert "no result of a load test that is known here" in text
    assert "<b>notes" not in text
    assert 'class="lv-load"' not in text


def test_a_load_is_made_from_the_chosen_source(page, monkeypatch):
    window = simulate(
        EngineConfig(), Workload((Stream("chat", rate=4.0, prompt=Lengths(300, 0.5), output=Lengths(60)),))
    )
    asked = []

    def windows(source, at, seconds, settings):
        asked.append((source.name, at))
        return {("sim", "sim-8b"): window}

    monkeypatch.setattr("llmvitals.loadtest.live.windows", windows)
    app = page({"sources": [{"name": "prod", "url": "http://127.0.0.1:9"}]})
    assert asked == []  # nothing is read before somebody asks
    app.button[0].click()
    app.run()
    assert not app.exception
    assert asked == [("prod", None)]
    assert "vllm bench serve" in app.code[0].value
    (download,) = app.get("download_button")
    assert "lengths.jsonl" in download.proto.label


def test_what_is_said_of_a_test_is_said_in_turkish_too(page, tested):
    text = upload(page({"slo": {"tpot_seconds": 0.04}}, lang="tr"), tested)
    assert "<code>max_num_seqs: 64</code>" in text
    assert "Denenen düzeyler arasında goodput" in text
    assert "Of the levels tested" not in text
