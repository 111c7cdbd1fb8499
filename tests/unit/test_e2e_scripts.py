"""The scripts that record a real vLLM: what a load means, what its requests are, and how recordings are judged."""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llmvitals.lab import stored
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.verdict import Outcome

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "e2e"
CAPTURES = ROOT / "tests" / "fixtures" / "captures"
LOADS = sorted((SCRIPTS / "loads").glob("*.json"))


@pytest.fixture
def script(monkeypatch):
    """Import a script by its name, as it is imported beside its neighbours."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield importlib.import_module
    for name in ("spec", "load", "judge"):
        sys.modules.pop(name, None)


@pytest.fixture
def spec(script):
    return script("spec")


@pytest.mark.parametrize("path", LOADS, ids=lambda path: path.stem)
def test_every_load_is_valid_and_expects_what_a_triage_can_say(spec, path):
    load = spec.read(path)
    assert load.expected.verdict in {outcome.value for outcome in Outcome}
    causes = {check.cause for check in CHECKS}
    assert {*load.expected.also, *filter(None, [load.expected.leading])} <= causes
    assert (load.expected.leading is not None) == (load.expected.verdict == "cause")
    assert len({stream.name for stream in load.streams}) == len(load.streams)
    assert load.seconds >= 60


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        ('{"name": "a"}', "exactly one of rate, concurrency and bursts"),
        ('{"name": "a", "rate": 1, "concurrency": 2}', "exactly one of"),
        ('{"name": "a", "rate": 1, "max_token": 4}', "max_token"),
        ('{"rate": 1}', "name"),
    ],
)
def test_a_load_that_means_nothing_is_refused(spec, tmp_path, stream, said):
    file = tmp_path / "load.json"
    file.write_text(f'{{"load": "x", "expected": {{"verdict": "healthy"}}, "streams": [{stream}]}}')
    with pytest.raises(ValueError, match=said) as caught:
        spec.read(file)
    assert str(file) in str(caught.value)


def moments(spec, seconds: float, **stream) -> list[float]:
    return list(spec.starts(spec.Stream(name="s", **stream), seconds, random.Random(1)))


def test_when_requests_start(spec):
    assert moments(spec, 2.0, rate=2, poisson=False) == [0.0, 0.5, 1.0, 1.5]
    assert moments(spec, 9.0, rate=1, poisson=False, start_s=3.0, stop_s=6.0) == [3.0, 4.0, 5.0]
    assert moments(spec, 9.0, bursts=(1.0, 4.0, 20.0), burst=2) == [1.0, 1.0, 4.0, 4.0]
    assert moments(spec, 9.0, concurrency=4) == []


def test_random_arrivals_have_their_rate(spec):
    at = moments(spec, 1000.0, rate=3)
    # A Poisson count of 3000 has a standard deviation of 55; five of them are no chance.
    assert abs(len(at) - 3000) < 5 * 55
    assert at == sorted(at)
    assert at[-1] < 1000.0


def made(spec, count: int = 2, **stream) -> list[tuple[str, dict]]:
    requests = spec.Requests(spec.Stream(name="s", rate=1, **stream), "tiny", random.Random(1))
    return [requests.next() for _ in range(count)]


def test_prompts_of_ids_differ_and_have_their_length(spec):
    (path, one), (_, two) = made(spec, prompt_tokens=200, max_tokens=7)
    assert (path, one["model"], one["max_tokens"], one["ignore_eos"]) == ("/v1/completions", "tiny", 7, True)
    assert len(one["prompt"]) == len(two["prompt"]) == 200
    assert one["prompt"] != two["prompt"]
    lengths = {len(body["prompt"]) for _, body in made(spec, 200, prompt_tokens=(10, 20))}
    assert (min(lengths), max(lengths)) == (10, 20)


def test_a_pattern_repeats_itself(spec):
    ((_, body),) = made(spec, 1, prompt_tokens=50, pattern=16)
    assert len(body["prompt"]) == 50
    assert body["prompt"][:16] == body["prompt"][16:32] == body["prompt"][32:48]
    assert "max_tokens" not in body


def test_a_shared_prefix_is_the_same_text_and_an_id_in_front_of_it_is_not(spec):
    shared = [body["messages"] for _, body in made(spec, 3, prefix_words=50, words=5)]
    assert len({messages[0]["content"] for messages in shared}) == 1
    assert len({messages[1]["content"] for messages in shared}) == 3
    spoilt = [body["messages"][0]["content"] for _, body in made(spec, 3, prefix_words=50, words=5, id_first=True)]
    assert len({text[:22] for text in spoilt}) == 3
    two = [body["messages"][0]["content"] for _, body in made(spec, 4, prefix_words=50, prefixes=2)]
    assert two[0] == two[2] != two[1] == two[3]


def test_what_counts_as_a_token_and_how_requests_end(script):
    load = script("load")
    assert load.tokens_in({"choices": [{"text": ""}]})
    assert load.tokens_in({"choices": [{"delta": {"content": "x"}}]})
    assert not load.tokens_in({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
    assert not load.tokens_in({"choices": [], "usage": {"completion_tokens": 3}})
    rows = [{"stream": "a", "status": 200}, {"stream": "a", "status": 200, "client_aborted": True}, {"stream": "b"}]
    assert load.counts(rows) == {"a:200": 1, "a:200/client_aborted": 1, "b:none": 1}


@pytest.mark.parametrize("name", ["load.py", "judge.py", "make_model.py"])
def test_help_needs_none_of_the_servers_libraries(name):
    done = subprocess.run(
        [sys.executable, "-B", SCRIPTS / name, "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["serve.sh", "record.sh"])
def test_shell_scripts_parse_and_say_how_they_are_used(name):
    path = SCRIPTS / name
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", path], check=True, timeout=60)
    done = subprocess.run([path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert f"usage: {name}" in done.stderr


def test_a_finished_run_is_a_recording_that_can_be_judged(script, spec, tmp_path):
    load = script("load")
    plan = spec.read(SCRIPTS / "loads" / "two-seats.json")
    drive = load.Drive(plan, "http://nowhere", "tiny", tmp_path)
    drive.scrapes = [{"t": 1.0, "took": 0.1, "file": None, "status": None, "error": "gone"}]
    drive.rows = [{"stream": "over", "t": 0.0, "status": 200}]
    drive.write()
    about = (tmp_path / "about.json").read_text()
    assert json.loads((tmp_path / "capture.json").read_text())["targets"][0]["scrapes"] == drive.scrapes
    (judged,) = stored.recordings([tmp_path])
    assert judged.truth == stored.Truth(causes=("batch-too-small",), onset=json.loads(about)["start_unix"])
    judge = script("judge")
    assert judge.recordings(tmp_path) == [tmp_path]
    assert judge.labelled(tmp_path) == {
        "verdict": "cause",
        "leading": "batch-too-small",
        "also": ["unbounded-queue"],
    }


@pytest.mark.parametrize(
    ("expected", "found", "also", "right"),
    [
        ({"verdict": "healthy"}, None, (), True),
        ({"verdict": "healthy", "leading": None}, "ghost-compute", (), False),
        ({"verdict": "cause", "leading": "ghost-compute"}, "ghost-compute", (), True),
        ({"verdict": "cause", "leading": "ghost-compute"}, None, ("ghost-compute",), False),
        ({"verdict": "cause", "leading": "a", "also": ["b"]}, "a", ("b", "c"), True),
        ({"verdict": "cause", "leading": "a", "also": ["b"]}, "a", ("c",), False),
        ({}, "ghost-compute", (), True),
    ],
)
def test_expected_and_found(script, expected, found, also, right):
    document = {
        "verdict": "cause" if found else "healthy",
        "leading": {"cause": found} if found else None,
        "contributing": [{"cause": cause} for cause in also],
    }
    assert script("judge").compare("x", expected, document).right is right


def test_the_truth_of_a_load_names_its_cause_and_when_it_begins(script, spec):
    truth = script("load").truth
    assert truth(spec.read(SCRIPTS / "loads" / "healthy.json"), 100.0) == {"causes": []}
    assert truth(spec.read(SCRIPTS / "loads" / "refused.json"), 100.0)["causes"] == ["overloaded-and-shedding"]
    late = spec.read(SCRIPTS / "loads" / "long-among-short.json")
    assert truth(late, 100.0) == {"causes": ["prefill-decode-interference"], "onset": 130.0}
    assert min(s.start_s for s in late.streams if s.start_s) == late.onset_s


def made_by(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What ``make e2e-vllm`` would do."""
    environ = {**os.environ, **environment}
    return subprocess.run(
        ["make", "-n", "e2e-vllm", *words],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_make_takes_the_folder_and_the_environment_from_its_words_only():
    assert "DIR=folder" in made_by().stderr
    plain = made_by(
        "DIR=there", "LOADS=a.json b.json", VENV="/from/elsewhere", URL="http://elsewhere"
    ).stdout.splitlines()
    assert plain[-2:] == [
        "VENV='' URL='' MODEL='' e2e/record.sh 'there' a.json b.json",
        ".venv-run/bin/llmvitals score 'there/recordings' ",
    ]
    told = made_by("DIR=there", "VENV=/opt/vllm", "URL=http://gpu:8000", "MODEL=m").stdout
    assert "VENV='/opt/vllm' URL='http://gpu:8000' MODEL='m' e2e/record.sh 'there' " in told


@pytest.mark.parametrize(
    ("environment", "said"),
    [({"VENV": "/nowhere"}, "there is no vLLM in /nowhere"), ({"URL": "http://127.0.0.1:9"}, "nothing answers at")],
)
def test_a_recording_does_not_start_without_what_it_was_told_to_use(tmp_path, environment, said):
    load = SCRIPTS / "loads" / "healthy.json"
    environ = {**os.environ, "PORT": "9", **environment}
    done = subprocess.run(
        [SCRIPTS / "record.sh", tmp_path, load], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    log = tmp_path / "logs" / "healthy.log"
    assert said in done.stderr + (log.read_text() if log.exists() else "")
    assert list((tmp_path / "recordings").iterdir()) == []


def test_the_judge_over_real_recordings(tmp_path, ran_recording):
    for name in ("healthy", "kv-preemption"):
        ran_recording(CAPTURES / name)
        shutil.copytree(CAPTURES / name, tmp_path / name)

    def judged() -> tuple[int, list[str]]:
        command = [sys.executable, "-B", SCRIPTS / "judge.py", tmp_path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout.splitlines()

    code, lines = judged()
    assert (code, lines[-1]) == (0, "2 of 2 as expected")
    about = tmp_path / "healthy" / "about.json"
    about.write_text(json.dumps({"expected": {"verdict": "cause", "leading": "cold-start"}}))
    code, lines = judged()
    assert (code, lines[-1]) == (1, "1 of 2 as expected")
    assert lines[0].split() == ["NOT", "healthy", "expected", "cold-start", "found", "healthy"]


def test_the_page_names_every_script():
    text = (SCRIPTS / "README.md").read_text()
    for path in SCRIPTS.iterdir():
        if path.suffix in {".py", ".sh"}:
            assert f"`{path.name}" in text, path.name
