"""Commands inside this process: what they print and write, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from llmvitals import cli
from llmvitals.cli import app, generate
from llmvitals.cli.options import moment
from llmvitals.errors import MissingExtraError, SettingsError
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.live import Live
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload
from llmvitals.sources.record import write_capture
from llmvitals.telemetry.ingest import RawPage

LLAMA = {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


def run(*words: object) -> Result:
    return CliRunner().invoke(cli.group, [str(word) for word in words])


@pytest.fixture
def llama(tmp_path) -> Path:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    return file


def test_capacity_gives_the_figures_of_two_h100(llama):
    ran = run(
        "capacity", "--model-config", llama, "--gpu", "H100-80GB", "--gpus", 2, "--weight-dtype", "fp8",
        "--kv-dtype", "fp16", "--context", 4000, "--service-rate", 8, "--acceptable-wait", "5", "--json",
    )  # fmt: skip
    found = json.loads(ran.output)
    assert found["kv_bytes_per_token"] == 327_680
    assert found["kv_budget_tokens"] == pytest.approx(200_000, rel=0.01)
    assert (found["seats"], found["queue_ceiling"]) == (50, 40)
    assert found["assumptions"]["overhead_gb"] == 8


def test_capacity_for_people_shows_the_assumption_as_one(llama):
    ran = run("capacity", "--model-config", llama, "--gpu", "H100-80GB", "--gpus", 2, "--weight-dtype", "fp8")
    assert ran.exit_code == 0
    assert "327,680 bytes" in ran.output
    assert "assumption" in ran.output
    assert "queue ceiling" not in ran.output


def test_capacity_says_when_the_model_does_not_fit(llama):
    assert "does not fit" in run("capacity", "--model-config", llama, "--gpu", "L4-24GB").output


@pytest.mark.parametrize(
    "words",
    [(), ("--gpu", "L4-24GB", "--gpu-memory-gb", 24), ("--gpu", "L4-24GB", "--service-rate", 8), ("--gpu", "Abacus")],
)
def test_capacity_refuses_half_a_question(llama, words):
    assert run("capacity", "--model-config", llama, *words).exit_code == 2  # click's own code; main() makes it 3


def test_capacity_plans_for_users_and_tries_a_change(llama):
    words = ("capacity", "--model-config", llama, "--gpu", "H100-80GB", "--gpus", 2, "--weight-dtype", "fp8")
    more = ("--users", 500, "--prompt-tokens", 1500, "--output-tokens", 400, "--rate", 4.5, "--what-if", "replicas=+1")
    found = json.loads(run(*words, *more, "--json").output)
    assert found["plan"]["gpus"] == 2 * found["plan"]["replicas"]
    assert found["plan"]["estimate"] is True
    before, after = found["what_if"]["before"], found["what_if"]["after"]
    assert found["what_if"]["simulated"] is True
    assert before["queue_grows"] > after["queue_grows"]
    assert before["preemptions_per_minute"] > after["preemptions_per_minute"]
    told = run(*words, *more).output
    for word in ("simulated", "an estimate", "preemptions/min", "binds"):
        assert word in told


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("max_num_seqs", "is no change"),
        ("colour=red", "'colour' cannot be changed"),
        ("max_num_seqs=many", "'many' is no whole number"),
        ("max_num_seqs=-1324", "would be -300"),
        ("kv_dtype=fp3", "'fp3' is not known"),
        ("utilization=0.1", "does not hold two requests"),
    ],
)
def test_capacity_refuses_a_change_that_is_none(llama, change, says):
    words = ("--gpu", "H100-80GB", "--gpus", 2, "--weight-dtype", "fp8", "--rate", 1, "--what-if", change)
    ran = run("capacity", "--model-config", llama, *words)
    assert ran.exit_code != 0
    assert says in ran.output + str(ran.exception)


def test_capacity_takes_a_running_engines_pool_and_contexts(tmp_path):
    """A recording of a simulated engine whose pool and lengths are known."""
    folder = tmp_path / "recording"
    stream, began = Stream(rate=4.0, prompt=Lengths(600), output=Lengths(100)), 1_800_000_000.0
    live = Live(Setup(engine=EngineConfig(blocks=4000), workload=Workload((stream,))), origin=began - 30)
    pages = [RawPage(began + t, 0.01, 200, live.page_at(began + t)) for t in range(0, 63, 3)]
    write_capture(folder, [("sim", "vllm", pages)])
    found = json.loads(run("capacity", "--live", folder, "--acceptable-wait", 5, "--json").output)
    assert found["kv_budget_tokens"] == 64_000
    assert found["kv_budget_source"] == "measured"
    assert found["context"] == pytest.approx(700, rel=0.35)  # from buckets
    assert found["seats"] == pytest.approx(64_000 / found["context"], abs=1)
    assert found["queue_ceiling"] == pytest.approx(4 * 5, rel=0.3)
    assert found["live"]["arrival_rate"] == pytest.approx(4, rel=0.3)


def test_the_matrix_in_all_forms_names_the_same_families():
    text, markdown, document = (run("engines", "--format", f).output for f in ("text", "markdown", "json"))
    assert "vLLM" in text
    engines = json.loads(document)
    assert {"vllm", "dcgm"} <= {engine["kind"] for engine in engines}
    for engine in engines:
        for family in engine["families"]:
            assert f"| `{family['family']}` |" in markdown
            assert family["how"] in {"mapped", "derived", "unsupported"}
            assert family["how"] != "unsupported" or family["note"], family


def test_generate_writes_and_check_finds_every_difference(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"# x\n{generate.begin('support matrix')}\nold\n{generate.END}\nafter\n")
    design = tmp_path / "docs" / "design.md"
    design.parent.mkdir()
    design.write_text(f"# y\n{generate.begin('signals')}\nold\n{generate.END}\n")
    first = run("generate", "-o", tmp_path)
    assert first.exit_code == 0
    text = readme.read_text()
    assert text.startswith("# x\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| vLLM |" in text
    again = run("generate", "-o", tmp_path, "--check")
    assert (again.exit_code, again.output) == (0, "Everything is up to date.\n")
    written = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert {path.parent.name for path in written} >= {"alerts", "dashboards", "docs"}
    for path in written:
        kept = path.read_text()
        inside = {readme: ("| vLLM |", "| VLLM |"), design: ("`seats`", "`seat`")}.get(path)
        path.write_text(kept.replace(*inside) if inside else kept + "\n")
        ran = run("generate", "-o", tmp_path, "--check")
        assert ran.exit_code == 1
        assert f"differs: {path.relative_to(tmp_path)}" in ran.output
        path.write_text(kept)


def test_check_writes_nothing(tmp_path):
    assert run("generate", "-o", tmp_path, "--check").exit_code == 1
    assert not list(tmp_path.iterdir())


def test_a_readme_without_marks_is_named():
    with pytest.raises(SettingsError, match="lacks the marks"):
        generate.between("# x\n", "support matrix", "table", place="README.md")


def test_the_app_without_streamlit_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(app, "find_spec", lambda name: None)
    ran = run("app")
    assert isinstance(ran.exception, MissingExtraError)
    assert "pip install 'llmvitals[app]'" in str(ran.exception)


def test_the_app_starts_on_loopback_with_the_settings_given(monkeypatch, tmp_path):
    settings = tmp_path / "s.yaml"
    settings.write_text("{}")
    started: list[list[str]] = []
    monkeypatch.setattr(app.os, "execv", lambda program, words: started.append(words))
    assert run("app", "--settings", settings, "--port", 9999).exit_code == 0
    (words,) = started
    assert {"--server.address=127.0.0.1", "--server.port=9999"} <= set(words)
    assert words[-3:] == ["--", "--settings", str(settings)]
    assert Path(words[words.index("run") + 1]).name == "streamlit_app.py"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1700000000.5", 1_700_000_000.5),
        ("2023-11-14T22:13:20Z", 1_700_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000),
    ],
)
def test_moments(text, seconds):
    assert moment(text) == seconds


@pytest.mark.parametrize("text", ["yesterday", "nan", "inf", "1e300"])
def test_what_is_no_moment_is_told_with_the_way_to_write_it(text):
    with pytest.raises(click.BadParameter, match="is no moment; write"):
        moment(text)


def test_help_lists_every_command_without_loading_one():
    ran = run("--help")
    assert ran.exit_code == 0
    for name, line in cli.COMMANDS.items():
        assert name in ran.output
        assert line.split()[0] in ran.output
