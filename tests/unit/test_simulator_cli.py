"""``llmvitals simulate``: recordings that the rest reads like real ones."""

import json

import pytest
from click.testing import CliRunner

from llmvitals.cli.score import command as score
from llmvitals.cli.simulate import command
from llmvitals.cli.triage import command as triage
from llmvitals.errors import CaptureError, SettingsError
from llmvitals.lab import stored
from llmvitals.lab.play import Job, showing
from llmvitals.lab.result import LEVELS, heard
from llmvitals.lab.scenarios import BY_NAME
from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.simulator.scenarios import SCENARIOS
from llmvitals.sources.capture import read_capture
from llmvitals.triage.walk import diagnose


def simulate(*words: object):
    return CliRunner().invoke(command, list(map(str, words)), catch_exceptions=False)


def verdict(folder):
    (engine,) = read_capture(folder)  # the GPU's pages are joined to their engine
    assert any(key.name == "llm_gpu_dram_active_ratio" for key in engine.snapshots[-1].samples)
    return diagnose(Window.of(engine.snapshots), Settings())


@pytest.mark.parametrize(
    ("name", "outcome", "cause"),
    [
        ("idle", "no-traffic", None),
        ("healthy", "healthy", None),
        ("queue", "cause", "batch-too-small"),
        ("kv-full", "cause", "kv-cache-saturation"),
        ("preemption", "cause", "preemption-thrash"),
    ],
)
def test_a_recorded_scenario_gets_the_verdict_of_its_name(tmp_path, name, outcome, cause):
    done = simulate(name, "--for", "60s", "--interval", "3s", "-o", tmp_path / "demo")
    assert done.exit_code == 0
    assert "42 pages of 60 simulated seconds" in done.output
    found = verdict(tmp_path / "demo")
    assert found.outcome == outcome
    assert (found.leading.cause if found.leading else None) == cause


def test_the_same_command_writes_the_same_bytes_and_another_seed_does_not(tmp_path):
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        simulate("healthy", "--for", "9s", "-o", tmp_path / folder, "--seed", seed)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(files) == 1 + 2 * 4
    same = [(tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files]
    other = [(tmp_path / "a" / name).read_bytes() == (tmp_path / "c" / name).read_bytes() for name in files]
    assert all(same)
    assert not all(other)


def test_a_recording_is_never_written_over(tmp_path):
    simulate("idle", "--for", "3s", "-o", tmp_path / "demo")
    with pytest.raises(CaptureError, match="already holds a recording"):
        simulate("idle", "--for", "3s", "-o", tmp_path / "demo")


@pytest.mark.parametrize("dialect", ["vllm", "vllm-v0", "sglang"])
def test_a_scenario_speaks_each_dialect_and_keeps_its_verdict(tmp_path, dialect):
    assert simulate("queue", "--dialect", dialect, "-o", tmp_path / "demo").exit_code == 0
    (engine,) = read_capture(tmp_path / "demo")
    assert engine.kind == dialect.removesuffix("-v0")
    found = verdict(tmp_path / "demo")
    assert found.leading is not None
    assert found.leading.cause == "batch-too-small"


INCIDENTS = (
    ("batch-too-small", "mild"),
    ("noisy-tenant", "severe"),  # the gateway shows it
    ("vram-headroom", "clear"),  # the host and what dcgm-exporter leaves out
    ("hardware-throttled", "clear"),  # the GPUs
    ("engine-died", "clear"),  # scrapes without an answer
    ("two-behind-one-address", "clear"),  # pages that were tampered with
    ("shedding", "severe"),
    ("out-of-memory", "clear"),
    ("chat", "clear"),
)


@pytest.mark.parametrize(("name", "severity"), INCIDENTS)
def test_an_incident_of_the_lab_is_recorded_with_its_truth_and_gets_the_verdict_of_the_lab(tmp_path, name, severity):
    done = simulate("--lab", name, "--severity", severity, "--seed", 3, "-o", tmp_path / "demo")
    assert done.exit_code == 0, done.output
    run, why = showing(Job(name, 3, 0, severity))
    assert ("does not count" in done.output) == bool(why)
    (recording,) = stored.recordings([tmp_path / "demo"])
    row = BY_NAME[name]
    told = recording.truth
    assert (told.causes, told.mimics, told.kind, set(told.shown_by)) == (row.causes, row.mimics, row.kind, row.shown_by)
    expected = heard(diagnose(run.window(run.last, LEVELS[-1]), Settings()))
    found = stored.play(recording)
    assert found.verdicts == ((LEVELS[-1], expected),)


def test_an_incident_is_triaged_and_scored_by_the_commands(tmp_path):
    folder = tmp_path / "demo"
    done = simulate("--lab", "batch-too-small", "--seed", 3, "-o", folder)
    assert f"llmvitals triage {folder}, llmvitals score {folder}" in done.output
    told = json.loads(CliRunner().invoke(triage, ["--json", str(folder)]).stdout)
    assert told["leading"]["cause"] == "batch-too-small"
    scored = json.loads(CliRunner().invoke(score, ["--json", "--jobs", "1", str(folder)]).stdout)
    assert (scored["top1"], scored["counts"]["by_cause"]) == (1.0, {"batch-too-small": 1})


def test_the_list_names_every_scenario_and_every_incident():
    lines = [line.split() for line in simulate("--list").output.splitlines()]
    assert [line[0] for line in lines if line[0] != "--lab"] == [row.name for row in SCENARIOS]
    assert [line[1] for line in lines if line[0] == "--lab"] == list(BY_NAME)


def test_wrong_words_are_refused():
    with pytest.raises(SettingsError, match=r"there is no scenario 'preemtion'.*Did you mean 'preemption'"):
        simulate("preemtion")
    with pytest.raises(SettingsError, match=r"there is no scenario 'noisy-tenent'.*Did you mean 'noisy-tenant'"):
        simulate("--lab", "noisy-tenent")
    assert "--severity belongs to --lab" in simulate("idle", "--severity", "mild").output
    assert "leave out SCENARIO" in simulate("idle", "--lab", "chat").output
    assert "leave out SCENARIO" in simulate("--dialect", "sglang", "--lab", "chat").output
    assert "Name a scenario" in simulate().output
    assert "not HOST:PORT" in simulate("idle", "--serve", "8000").output
    assert "--spans belongs to --serve" in simulate("idle", "--spans", "http://127.0.0.1:4318").output
    with pytest.raises(SettingsError, match="ftp://x: is no address of a receiver"):
        simulate("idle", "--serve", "127.0.0.1:0", "--spans", "ftp://x")
    with pytest.raises(SettingsError, match="'sglang' sends no spans"):
        simulate("idle", "--dialect", "sglang", "--serve", "127.0.0.1:0", "--spans", "http://127.0.0.1:4318")
