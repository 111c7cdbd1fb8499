"""The host reader on real processes: what they are told to do is what it shows."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmvitals.telemetry.host import HostReader
from llmvitals.telemetry.identity.model import Found

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs a Linux with /proc")

CHILD = """
import json, os, queue, socket, sys, threading, time
held = []
def burn(seconds):
    began = time.thread_time()
    while (used := time.thread_time() - began) < seconds: pass
    burned.put(used); stay.wait()
burned, stay = queue.Queue(), threading.Event()
for line in sys.stdin:
    order, value = json.loads(line)
    if order == "listen":
        held.append(socket.create_server(("127.0.0.1", value))); answer = held[-1].getsockname()[1]
    elif order == "open":
        held += [open("/dev/null") for _ in range(value)]; answer = len(os.listdir("/proc/self/fd")) - 1
    elif order == "burn":
        burning = threading.Thread(target=burn, args=[value], daemon=True); burning.start()
        answer = burned.get(), burning.native_id
    elif order == "memory":
        held.append(bytearray(os.urandom(1)) * value); answer = value
    elif order == "fork":
        answer = os.fork()
        if not answer:
            sys.stdin.close(); time.sleep(30); os._exit(0)
    print(json.dumps(answer), flush=True)
"""


class Child:
    """A process that does what it is told, one order at a time."""

    def __init__(self, *before: str) -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid

    def do(self, order: str, value: float = 0) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([order, value]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    children: list[Child] = []

    def started(*before: str) -> Child:
        children.append(Child(*before))
        return children[-1]

    yield started
    for child in children:
        child.end()


def shown(samples, name: str, **labels: str) -> float | None:
    found = [v for k, v in samples.items() if k.name == name and all(k.label(x) == y for x, y in labels.items())]
    assert len(found) < 2
    return found[0] if found else None


def test_a_process_that_listens_burns_a_core_and_opens_files(start):
    child, reader = start(), HostReader()
    port = child.do("listen")
    seen = reader.processes(frozenset({port}))
    assert [(one.port, one.pid, one.address) for one in seen.listeners] == [(port, child.pid, "127.0.0.1")]
    told = seen.table[child.pid]
    assert told.parent == os.getpid()
    assert told.command[:2] == (sys.executable, "-c")
    assert os.getpid() not in seen.table

    found = Found(api=(child.pid,), how="port")
    before = reader.samples(found, 100.0)
    (used, tid), files, memory = child.do("burn", 0.2), child.do("open", 20), child.do("memory", 50_000_000)
    after = reader.samples(found, 101.0)  # as if a second had passed: what it used is known exactly
    assert shown(after, "llm_host_busiest_thread_cores", process="api") == pytest.approx(used, abs=0.04)
    busiest = max((v, k.label("thread")) for k, v in after.items() if k.name == "llm_host_thread_cores")
    assert busiest[1].endswith(f"/{tid}")
    assert used - 0.04 <= shown(after, "llm_host_cpu_cores", process="api") <= used + 0.3
    assert shown(after, "llm_host_open_fds", process="api") == files
    assert shown(after, "llm_host_open_fds") - shown(before, "llm_host_open_fds") == 20
    grown = shown(after, "llm_host_resident_bytes") - shown(before, "llm_host_resident_bytes")
    assert grown == pytest.approx(memory, rel=0.1)
    started = shown(after, "llm_host_process_start_time_seconds", process="api")
    assert started == shown(before, "llm_host_process_start_time_seconds", process="api") == told.started
    assert shown(after, "llm_host_cpu_limit_cores", process="api") <= len(os.sched_getaffinity(child.pid))
    assert shown(after, "llm_host_sockets", state="listen") >= 1
    child.end()
    assert reader.processes(frozenset({port})).listeners == ()
    assert shown(reader.samples(found, 102.0), "llm_host_resident_bytes") is None


def test_the_limits_that_a_process_runs_under(start):
    cpu = min(os.sched_getaffinity(0))
    child = start("taskset", "-c", str(cpu), "prlimit", "--nofile=123:456") if shutil.which("prlimit") else None
    if child is None:
        pytest.skip("prlimit and taskset are not here")
    child.do("open", 1)
    samples = HostReader().samples(Found(engine=(child.pid,)), 0.0)
    assert shown(samples, "llm_host_max_fds", process="engine") == 123
    assert shown(samples, "llm_host_cpu_limit_cores", process="engine") <= 1.0


def test_workers_that_inherit_the_socket_listen_too(start):
    child = start()
    port, worker = child.do("listen"), child.do("fork")
    seen = HostReader().processes(frozenset({port}))
    assert {one.pid for one in seen.listeners} == {child.pid, worker}
    assert seen.table[worker].parent == child.pid
    os.kill(worker, 9)


def test_a_process_in_a_network_namespace_of_its_own(start):
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "--net", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to make a network namespace")
    child, reader = start(unshare, "--net"), HostReader()
    port = child.do("listen", 41_234)
    [listener] = reader.processes(frozenset({port})).listeners
    assert (listener.pid, listener.near) == (child.pid, False)
    samples = reader.samples(Found(api=(child.pid,), how="port"), 0.0)
    sockets = {k.label("state"): v for k, v in samples.items() if k.name == "llm_host_sockets"}
    assert sockets.pop("listen") == 1.0  # alone in its namespace
    assert set(sockets.values()) == {0.0}
    assert shown(samples, "llm_host_ephemeral_ports") is None


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give it up")
def test_without_the_right_to_look_the_reader_says_what_would_give_it(start):
    child = start()
    port = child.do("listen")
    out, into = os.pipe()
    reader = os.fork()
    if not reader:
        with contextlib.suppress(BaseException):
            # a process that gave up its user is no longer "dumpable": its own /proc would be closed to it
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
            host = HostReader()
            seen = host.processes(frozenset({port}))
            samples = host.samples(Found(api=(child.pid,)), 0.0)
            told = {k.label("family"): k.label("reason") for k in samples if k.name == "llm_family_gap"}
            rss = shown(samples, "llm_host_resident_bytes")
            os.write(into, json.dumps([seen.why, len(seen.listeners), child.pid in seen.table, told, rss]).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as answer:
        why, listeners, there, gaps, rss = json.loads(answer.read())
    os.waitpid(reader, 0)
    assert "or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH" in why
    assert (listeners, there) == (0, True)
    for family in ("llm_host_open_fds", "llm_host_ephemeral_ports"):
        assert "CAP_SYS_PTRACE" in gaps[family]
    assert rss > 0
