"""``capacity --live`` on an exporter, and its JSON as the page of documentation has it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmvitals import cli
from llmvitals.errors import LlmvitalsError
from support import model_configs as known
from support.fake_exporter import FakeExporter

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOW = {"kv_capacity_tokens": 64_000.0, "full_context_tokens": 1600.0, "completion_rate": 3.0, "arrival_rate": 4.0}
LENGTHS = {"prompt_mean_tokens": 1200.0, "generation_mean_tokens": 400.0}


@pytest.fixture
def exporter():
    """An exporter of one engine."""
    fake, end = FakeExporter(), time.time()
    fake.answers["/metrics"] = (200, b'llm_triage_verdict{instance="vllm-0",verdict="healthy"} 1\n')
    lines = {name: {"times": [end], "values": [value], "bound": None} for name, value in (NOW | LENGTHS).items()}
    fake.answers["/history"] = {"signals": lines}
    yield fake
    fake.close()


@pytest.fixture
def config(tmp_path):
    """Llama 3.1 8B."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(known.LLAMA_8B))
    return file


def run(*words):
    """The command's result."""
    return CliRunner().invoke(cli.group, ["capacity", *map(str, words)])


def test_an_exporter_tells_pool_contexts_and_rates(exporter):
    found = json.loads(run("--live", exporter.url, "--acceptable-wait", 5, "--json").output)
    assert (found["kv_budget_tokens"], found["context"], found["seats"], found["queue_ceiling"]) == (
        64_000,
        1600,
        40,
        15,
    )


def test_words_win_over_what_runs(exporter, config):
    words = ("--live", exporter.url, "--model-config", config, "--gpu", "H100-80GB", "--context", 3200, "--json")
    found = json.loads(run(*words).output)
    assert (found["kv_budget_source"], found["context"], found["seats"]) == ("measured", 3200, 20)


def test_replicas_share_the_pool_of_their_scope(exporter, config):
    words = ("--live", exporter.url, "--model-config", config, "--gpu", "H100-80GB", "--replicas", 2, "--json")
    assert json.loads(run(*words).output)["kv_budget_tokens"] == 32_000


def test_a_measured_pool_that_cannot_be_this_models_is_said(exporter, config):
    told = run("--live", exporter.url, "--model-config", config, "--gpu", "H100-80GB").output
    assert "times the estimate: check the model, the GPU and the data types" in told


def test_an_instance_that_it_does_not_know_is_named(exporter):
    exporter.answers["/history"] = (404, b"{}")
    ran = run("--live", exporter.url, "--instance", "vllm-7")
    assert isinstance(ran.exception, LlmvitalsError)
    assert "tells nothing of 'vllm-7'" in str(ran.exception)


def test_an_engine_without_numbers_says_which_are_missing(exporter):
    exporter.answers["/history"] = {"signals": {}}
    assert "does not tell the size of its KV pool" in run("--live", exporter.url).output


def keys(found):
    """Every key of a document, however deep."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield key
            yield from keys(value) if key != "changes" else ()
    elif isinstance(found, list):
        for one in found:
            yield from keys(one)


def test_every_key_is_on_the_page(exporter, config):
    words = (
        "--live",
        exporter.url,
        "--model-config",
        config,
        "--gpu",
        "H100-80GB",
        "--acceptable-wait",
        5,
        "--users",
        100,
    )
    found = json.loads(run(*words, "--what-if", "kv_dtype=fp8", "--json").output)
    assert found["what_if"]["after"]["pool_tokens"] == pytest.approx(
        2 * found["what_if"]["before"]["pool_tokens"], abs=2
    )
    part = (DOCS / "capacity.md").read_text().partition("## JSON")[2]
    assert set(keys(found)) <= set(re.findall(r"`(\w+)`", part))
