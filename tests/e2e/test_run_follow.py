"""``llmvitals run`` to its end: the demo falls ill before one's eyes, everything says the same, nothing is left behind."""

import os
import pty
import select
import signal
import socket
import subprocess
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import requests

from llmvitals.cli.follow import is_news, line
from llmvitals.triage.verdict import Action, Finding, Outcome, Verdict
from support.command import argv
from support.waiting import free_port, wait_for

HEALTHY, ILL = "HEALTHY  simulated-vllm (sim-8b)", "CAUSE preemption-thrash  simulated-vllm (sim-8b)"


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as listed:  # noqa: PTH123
        return [int(word) for word in listed.read().split()]


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).ok
    except requests.RequestException:
        return False


@pytest.fixture
def running(tmp_path):
    """Start ``run`` with these words; it is ended with the test whatever happens."""
    started = []

    def start(*words: object, **environment: str):
        log = tmp_path / f"{len(started)}.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                argv("run", *words), stdout=sink, stderr=subprocess.STDOUT, env=os.environ | environment
            )
        started.append(process)
        return SimpleNamespace(process=process, said=lambda: log.read_text(encoding="utf-8"))

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.skipif(find_spec("streamlit") is None, reason="the app needs streamlit")
def test_the_demo_falls_ill_and_terminal_exporter_and_app_agree(running):
    port, app_port = free_port(), free_port()
    run = running("--port", port, "--app-port", app_port)
    pid = run.process.pid
    wait_for(lambda: HEALTHY in run.said(), "the healthy verdict", 15)
    wait_for(lambda: answers(f"http://127.0.0.1:{app_port}/_stcore/health"), "the app")
    (app,) = children(pid)
    said = wait_for(lambda: ILL in (text := run.said()) and text, "the fall into preemption", 40)
    assert "simulated vLLM, not your server" in said.splitlines()[0]
    assert f"app       http://127.0.0.1:{app_port}" in said
    assert said.index(HEALTHY) < said.index(ILL)

    told = requests.get(f"http://127.0.0.1:{port}/triage", timeout=5).json()
    assert told["leading"]["cause"] == "preemption-thrash"
    assert told["leading"]["action"]["setting"] == "--max-num-seqs"
    assert told["targets"][0]["name"] == "simulated-vllm"
    page = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text
    assert 'llm_triage_leading{cause="preemption-thrash"' in page
    assert "llm_gpu_dram_active_ratio{" in page

    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(20) == 0
    assert run.said().splitlines()[-1] == "ended"
    assert "Traceback" not in run.said()
    assert not os.path.exists(f"/proc/{app}")  # noqa: PTH110
    for gone in (port, app_port):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", gone))


def test_without_the_app_there_is_no_child_and_sigterm_ends_it(running):
    port = free_port()
    run = running("--no-app", "--port", port)
    wait_for(lambda: HEALTHY in run.said(), "the healthy verdict", 15)
    assert children(run.process.pid) == []
    assert "app  " not in run.said()
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(15) == 0
    assert not answers(f"http://127.0.0.1:{port}/healthz")


def test_an_app_that_dies_is_said_and_the_rest_goes_on(running):
    if find_spec("streamlit") is None:
        pytest.skip("the app needs streamlit")
    run = running("--port", free_port(), "--app-port", free_port())
    (app,) = wait_for(lambda: children(run.process.pid), "the app's process", 15)
    os.kill(app, signal.SIGKILL)
    wait_for(lambda: "app       ended: " in run.said(), "the notice", 15)
    wait_for(lambda: HEALTHY in run.said(), "the healthy verdict", 15)
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(15) == 0


def test_ctrl_c_on_a_terminal_ends_it_cleanly():
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", COLUMNS="100", LINES="40")
        command = argv("run", "--no-app", "--port", str(free_port()))
        os.execv(command[0], command)
    shown = b""

    def read() -> bool:
        nonlocal shown
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError:  # the other side has closed
                return False
        return True

    def drawn() -> bool:
        return read() and b"HEALTHY" in shown

    wait_for(drawn, "the screen", 20)
    assert b"simulated vLLM, not your server" in shown
    os.write(terminal, b"\x03")
    status = wait_for(lambda: (read() and False) or ((w := os.waitpid(pid, os.WNOHANG))[0] and w), "its end", 20)[1]
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"Traceback" not in shown


def verdict(outcome=Outcome.CAUSE, cause="preemption-thrash", value=30.0):
    leading = Finding(cause, 0.9, (), Action("Do it.", "--max-num-seqs", value), "") if cause else None
    scope = {"instance": "a", "model": "m"}
    return Verdict(outcome, f"It is {cause}.", leading, (), (), (), scope=scope)


def test_a_line_is_written_when_the_verdict_changes_and_not_for_a_wavering_number():
    calm = verdict(Outcome.HEALTHY, None)
    assert line(calm) == "HEALTHY  a (m): It is None."
    assert line(verdict()) == "CAUSE preemption-thrash  a (m): It is preemption-thrash."
    assert not is_news(calm, calm)
    assert is_news(calm, verdict())
    assert is_news(verdict(), calm)
    assert is_news(verdict(), verdict(cause="unbounded-queue"))
    assert not is_news(verdict(), verdict(value=32.0))
    assert is_news(verdict(), verdict(value=13.0))
    assert is_news(verdict(), verdict(value=None))
    assert is_news(calm, replace(calm, outcome=Outcome.UNDETERMINED))
