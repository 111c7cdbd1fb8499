"""``llmvitals simulate``: recordings that the rest reads like real ones."""

import pytest
from click.testing import CliRunner

from llmvitals.cli.simulate import command
from llmvitals.errors import CaptureError, SettingsError
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


def test_the_list_names_every_scenario():
    lines = simulate("--list").output.splitlines()
    assert [line.split()[0] for line in lines] == [row.name for row in SCENARIOS]


def test_wrong_words_are_refused():
    with pytest.raises(SettingsError, match=r"there is no scenario 'preemtion'.*Did you mean 'preemption'"):
        simulate("preemtion")
    assert "Name a scenario" in simulate().output
    assert "not HOST:PORT" in simulate("idle", "--serve", "8000").output
