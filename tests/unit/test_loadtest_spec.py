"""A load like the live one: drawn lengths keep the engine's own buckets and mean, and each tool's files say what was measured."""

import json
import random
import shlex
import subprocess
from bisect import bisect_left
from statistics import fmean

import pytest
from click.testing import CliRunner

from llmvitals import cli
from llmvitals.loadtest import texts
from llmvitals.loadtest.goodput import Promises
from llmvitals.loadtest.lengths import Lengths
from llmvitals.loadtest.model import LoadTestError
from llmvitals.loadtest.spec import load_spec
from llmvitals.loadtest.tools import REQUESTS, TOOLS, Where, files
from llmvitals.settings import Settings
from llmvitals.signals.measure import Hist
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.live import Live
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Lengths as Drawn
from llmvitals.simulator.workload import Stream, Workload
from llmvitals.sources.record import write_capture
from llmvitals.telemetry.ingest import RawPage
from support.simulated import simulate

EDGES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
WHERE, PROMISES = Where("http://test:8000", "sim-8b"), Promises(2.0, 0.05)
CHAT = Stream("chat", rate=6.0, prompt=Drawn(600, 0.8), output=Drawn(60, 0.5))


def counted(values, edges=EDGES):
    """The histogram of some lengths."""
    below = tuple(float(sum(v <= edge for v in values)) for edge in edges)
    return Lengths.of(Hist(edges, below, float(len(values)), float(sum(values))))


def shares(values):
    found = [0] * (len(EDGES) + 1)
    for value in values:
        found[bisect_left(EDGES, value)] += 1
    return [count / len(values) for count in found]


@pytest.mark.parametrize(("middle", "wide"), [(30, 0.3), (400, 0.8), (1500, 1.2)])
def test_draws_keep_the_buckets_and_the_mean(middle, wide):
    rng = random.Random(2)
    true = [max(1, min(5000, round(rng.lognormvariate(0, wide) * middle))) for _ in range(3000)]
    drawn = counted(true).draw(1000, random.Random(1))
    assert len(drawn) == 1000
    assert shares(drawn) == pytest.approx(shares(true), abs=0.0015)
    assert fmean(drawn) == pytest.approx(fmean(true), rel=0.02)


def test_what_lies_beyond_the_last_edge_is_told_and_carries_the_rest_of_the_mean():
    true = [100] * 900 + [9000] * 100
    lengths = counted(true)
    assert lengths.beyond == pytest.approx(0.1)
    drawn = lengths.draw(1000, random.Random(1))
    assert sum(value > 5000 for value in drawn) == 100
    assert fmean(drawn) == pytest.approx(fmean(true), rel=0.05)


def test_nothing_counted_gives_no_lengths():
    assert Lengths.of(Hist(EDGES, (0.0,) * len(EDGES), 0.0, 0.0)) is None


@pytest.fixture(scope="module")
def spec():
    window = simulate(EngineConfig(), Workload((CHAT,)), seconds=120.0)
    return load_spec("sim", "sim-8b", window, Settings())


def test_a_live_window_gives_rate_lengths_and_what_is_not_known(spec):
    assert spec.rate == pytest.approx(6.0, rel=0.15)
    assert spec.prompts.mean == pytest.approx(600, rel=0.15)
    assert spec.outputs.mean == pytest.approx(60, rel=0.15)
    assert {texts.LENGTHS, texts.PREFIX, texts.PAIRS} <= {note.text for note in spec.notes}
    assert spec.levels[0] < spec.running < spec.levels[-1]


def test_a_shared_beginning_is_found_and_written():
    shared = Stream("chat", rate=6.0, prompt=Drawn(640), output=Drawn(40), prefix_tokens=480)
    found = load_spec("sim", "", simulate(EngineConfig(), Workload((shared,))), Settings())
    assert found.prefix_tokens == pytest.approx(480, rel=0.1)
    first, second, *_ = [
        json.loads(row)["prompt"].split() for row in files("vllm", found, WHERE, PROMISES)["lengths.jsonl"].splitlines()
    ]
    assert first[: found.prefix_tokens] == second[: found.prefix_tokens]
    assert first[found.prefix_tokens :] != second[found.prefix_tokens :]


def test_a_window_without_traffic_is_one_line():
    idle = simulate(EngineConfig(), Workload())
    with pytest.raises(LoadTestError, match="finished no request meanwhile"):
        load_spec("sim", "", idle, Settings())


def test_the_dataset_has_the_lengths_and_no_word_of_a_user(spec):
    rows = [json.loads(line) for line in files("vllm", spec, WHERE, PROMISES)["lengths.jsonl"].splitlines()]
    assert len(rows) == REQUESTS
    prompts = [len(row["prompt"].split()) for row in rows]
    assert fmean(prompts) == pytest.approx(spec.prompts.mean, rel=0.03)
    assert fmean(row["output_tokens"] for row in rows) == pytest.approx(spec.outputs.mean, rel=0.03)
    assert files("vllm", spec, WHERE, PROMISES) == files("vllm", spec, WHERE, PROMISES)  # the same load each time


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_the_script_is_one_that_a_shell_reads(tool, spec, tmp_path):
    hostile = Where("http://test:8000/$(touch gone)", "a --model; rm -rf x")
    script = files(tool, spec, hostile, PROMISES)["run.sh"]
    (tmp_path / "run.sh").write_text(script)
    program = {"vllm": "vllm", "guidellm": "guidellm", "aiperf": "aiperf"}[tool]
    fake = tmp_path / program
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$#" >> calls\n')
    fake.chmod(0o755)
    subprocess.run(["sh", "run.sh"], cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    assert len((tmp_path / "calls").read_text().split()) == (2 if tool == "guidellm" else 1 + len(spec.levels))
    assert not (tmp_path / "gone").exists()
    assert shlex.quote("a --model; rm -rf x") in script


def test_a_recording_becomes_a_folder_with_a_script(tmp_path):
    live = Live(Setup(EngineConfig(), Workload((CHAT,)), uptime=600.0), origin=1_800_000_000.0)
    pages = [RawPage(1_800_000_000.0 + t, 0.02, 200, live.page_at(1_800_000_000.0 + t)) for t in range(10, 71, 5)]
    write_capture(tmp_path / "recording", [("sim", "vllm", pages)])
    out = tmp_path / "load"
    ran = CliRunner().invoke(
        cli.group, ["loadtest", "spec", str(tmp_path / "recording"), "--tool", "aiperf", "-o", str(out)]
    )
    assert ran.exit_code == 0, ran.output
    assert sorted(path.name for path in out.iterdir()) == ["load.json", "run.sh"]
    told = json.loads((out / "load.json").read_text())
    assert sum(told["prompt_tokens"]["counts"]) > 100
    assert "--isl" in (out / "run.sh").read_text()


def test_words_that_do_not_fit_are_refused(tmp_path):
    for words in (["spec"], ["spec", "x", "--prometheus", "http://h"], ["spec", "http://h", "--selector", "{}"]):
        ran = CliRunner().invoke(cli.group, ["loadtest", *words])
        assert ran.exit_code != 0
        assert "Give either" in ran.output or "need --prometheus" in ran.output
