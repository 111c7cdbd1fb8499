"""Bad input is one line on stderr that names thing, place and remedy; exit 3, nothing on stdout, no traceback."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.answers import Answer, Answers
from support.command import argv, llmvitals, one_clear_line

CAPTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures"
NOT_PAGES = {
    "/html": Answer(b"<!doctype html><html><body>Welcome</body></html>", headers={"content-type": "text/html"}),
    "/json": Answer(b'{"object": "list", "data": []}', headers={"content-type": "application/json"}),
    "/empty": Answer(b""),
    "/401": Answer(b'{"error": "Unauthorized"}', 401, {"www-authenticate": "Bearer"}),
    "/500": Answer(b"boom", 500),
    "/other": Answer(b"# TYPE node_load1 gauge\nnode_load1 0.5\n"),
    "/prose": Answer(b"this is no metrics page at all\n"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Answers]:
    with Answers(NOT_PAGES) as answers:
        yield answers


@pytest.mark.parametrize("command", ["triage", "capture"])
@pytest.mark.parametrize(
    ("path", "thing"),
    [
        ("/html", "HTML"),
        ("/json", "JSON"),
        ("/empty", "empty"),
        ("/401", "credentials"),
        ("/missing", "404"),
        ("/500", "500"),
        ("/other", "node exporter"),
        ("/prose", "no metric"),
    ],
)
def test_a_url_that_answers_with_something_else(server, command, path, thing, tmp_path):
    more = ["-o", tmp_path / "c"] if command == "capture" else []
    line = one_clear_line(llmvitals(command, server.url + path, *more))
    assert server.url + path in line
    assert thing in line
    assert line.count(". ") >= 1  # a remedy follows
    assert not (tmp_path / "c").exists()


def test_a_url_where_nothing_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        line = one_clear_line(llmvitals("triage", url))
    assert f"{url}/metrics: refused the connection" in line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["triage", "http://"], "is not a URL"),
        (["triage", "http://[::1"], "is not a URL"),
        (["triage", "a" * 5000], "no such target"),
        (["triage", "nosuch"], "no such target"),
        (["triage", "no/such/folder"], "no such file or folder"),
        (["triage"], "Give a TARGET"),
        (["triage", "--frobnicate"], "No such option"),
        (["triage", "--for", "soon", "h:1"], "'soon' is not a duration"),
        (["triage", "--for", "0s", "h:1"], "no time at all"),
        (["triage", "--for", "9" * 400, "h:1"], "too long"),
        (["triage", "--at", "nan", "--prometheus", "http://h:1"], "'nan' is no moment"),
        (["triage", "--at", "yesterday", "--prometheus", "http://h:1"], "'yesterday' is no moment"),
        (["triage", "--selector", "{a='b'}", "h:1"], "need --prometheus"),
        (["triage", "h:1", "--prometheus", "http://h:2"], "not both"),
        (["triage", "--settings", "nowhere.yaml", "h:1"], "cannot be read"),
        (["capture", "h:1"], "--output"),
        (["capture", "-o", "x"], "Give a TARGET"),
        (["serve"], "Give a TARGET"),
        (["engines", "--format", "xml"], "xml"),
        (["capacity"], "--model-config"),
        (["frobnicate"], "No such command"),
        (["--frobnicate"], "No such option"),
        (["app", "--port", "0"], "0"),
    ],
)
def test_wrong_words(words, says):
    assert says in one_clear_line(llmvitals(*words))


def recording(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CAPTURES / "healthy", tmp_path / "c", copy_function=shutil.copyfile))


def test_a_recording_with_a_missing_page(tmp_path):
    folder = recording(tmp_path)
    gone = sorted(folder.glob("*.prom.gz"))[2]
    gone.unlink()
    assert f"{gone}: is missing" in one_clear_line(llmvitals("triage", folder))


def test_a_recording_with_a_damaged_page(tmp_path):
    folder = recording(tmp_path)
    page = sorted(folder.glob("*.prom.gz"))[2]
    page.write_bytes(page.read_bytes()[:100])
    assert f"{page}: is damaged gzip data" in one_clear_line(llmvitals("triage", folder))


def test_a_recording_whose_index_is_damaged_or_of_another_format(tmp_path):
    folder = recording(tmp_path)
    index = folder / "capture.json"
    good = json.loads(index.read_text())
    index.write_text(json.dumps(good | {"format": 2}))
    assert f"{index}: has format 2" in one_clear_line(llmvitals("triage", folder))
    index.write_text("{")
    assert f"{index}: is not a capture index" in one_clear_line(llmvitals("triage", folder))
    index.unlink()
    assert f"{folder}: has no capture.json" in one_clear_line(llmvitals("triage", folder))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("slo: {ttft_second: 1}", "unknown key 'ttft_second' in slo. Did you mean 'ttft_seconds'?"),
        ("target: []", "unknown key 'target' in the top level. Did you mean 'targets'?"),
        ("slo: {ttft_seconds: fast}", "slo.ttft_seconds"),
        ("slo: {ttft_seconds: -1}", "slo.ttft_seconds: expected a number > 0.0"),
        ("slo: {objective: 1}", "slo.objective: expected a number < 1.0"),
        ("exporter: {interval_seconds: 0}", "exporter.interval_seconds: expected a number"),
        ("targets: [{url: 'h:1', labels: {a b: c}}]", "'a b' is no label name"),
        ("targets: [{url: 'h:1', labels: {model: c}}]", "the label 'model' has a meaning of its own"),
        ("slo: [", "is not valid YAML"),
        ("slo: 2020-13-45", "is not valid YAML"),
    ],
)
@pytest.mark.parametrize("command", ["triage", "serve", "app"])
def test_settings_that_are_wrong(tmp_path, command, text, says):
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    line = one_clear_line(llmvitals(command, "--settings", file))
    assert str(file) in line
    assert says in line


def test_a_prometheus_that_is_none(server):
    line = one_clear_line(llmvitals("triage", "--prometheus", server.url))
    assert line.startswith(f"{server.url}: has no PromQL API there (404)")


def test_an_exporter_that_is_not_ready():
    page = Answer(b'llm_triage_verdict{verdict="healthy"} 1\n')
    with Answers({"/metrics": page, "/triage": Answer(b"", 503)}) as exporter:
        assert "has no verdict yet" in one_clear_line(llmvitals("triage", exporter.url))


@pytest.mark.parametrize("targets", ["null", "5", "[3]"])
def test_an_exporter_that_answers_with_something_like_a_verdict(targets):
    page = Answer(b'llm_triage_verdict{verdict="healthy"} 1\n')
    odd = Answer(b'{"verdict": 3, "targets": %s}' % targets.encode())
    with Answers({"/metrics": page, "/triage": odd}) as exporter:
        assert "cannot be read" in one_clear_line(llmvitals("triage", exporter.url))


def test_a_closed_stdout_and_one_of_a_narrow_encoding_change_no_exit_code():
    command = shlex.join(argv("triage", CAPTURES / "kv-preemption"))
    closed = subprocess.run(["sh", "-c", f"{command} >&-"], capture_output=True, text=True, timeout=60, check=False)
    assert (closed.returncode, closed.stderr) == (1, "")
    latin = subprocess.run(
        ["sh", "-c", f"PYTHONIOENCODING=latin-1 {command}"], capture_output=True, timeout=60, check=False
    )
    assert (latin.returncode, latin.stderr) == (1, b"")
    assert b"? CAUSE  preemption-thrash" in latin.stdout


def test_gpus_without_an_engine(tmp_path):
    page = tmp_path / "gpu.prom"
    page.write_text('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 50\n')
    assert "gpu.prom: shows GPUs, but no engine" in one_clear_line(llmvitals("triage", page))


def test_a_recording_is_not_overwritten(server, tmp_path):
    folder = recording(tmp_path)
    line = one_clear_line(llmvitals("capture", "http://127.0.0.1:1", "-o", folder))
    assert f"{folder}: already holds a recording" in line


def test_a_model_config_that_is_none(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"kv_lora_rank": 512}')
    line = one_clear_line(llmvitals("capacity", "--model-config", file, "--gpu", "H100-80GB"))
    assert str(file) in line
    assert "'num_hidden_layers' is missing" in line


def test_what_nobody_expected_is_one_line_too_and_debug_shows_the_rest(tmp_path):
    page = tmp_path / "page.prom"
    page.write_bytes(b"vllm:num_requests_running 1\n")
    code = (
        "import sys, llmvitals.cli.triage as t, llmvitals.cli as c\n"
        "def boom(path, limits): raise RuntimeError('cogs\\nare loose')\n"
        "t.read_page_file = boom\n"
        "c.main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code]
    short = subprocess.run([*command, "triage", page], capture_output=True, text=True, timeout=60, check=False)
    assert short.returncode == 3
    (line,) = short.stderr.splitlines()
    assert "RuntimeError: cogs are loose" in line
    assert "--debug" in line
    long = subprocess.run(
        [*command, "--debug", "triage", page], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" in long.stderr
