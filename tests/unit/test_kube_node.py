"""Pods and their GPUs as the machine's readers bring them: from a real API server and a real kubelet's socket to one engine."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from llmvitals.series import Snapshot, series
from llmvitals.settings import Kubernetes, Node, Target
from llmvitals.sources.discover import discover
from llmvitals.sources.node import Machine, wanted_of
from llmvitals.telemetry.gpu.join import join_gpus
from llmvitals.telemetry.identity.model import Container, Found, Held, Join, Match
from support import api_server, kubelet

ASKS = {"llmvitals.io/scrape": "true"}


@pytest.fixture
def cluster():
    with api_server.ApiServer() as running:
        yield running


def _machine(cluster, socket, **more) -> Machine:
    kubernetes = Kubernetes(enabled="on", api_url=cluster.url, pod_resources=str(socket), interval_seconds=0.1, **more)
    return Machine(Node(name="n1", nvml="off", processes="off", kubernetes=kubernetes))


def _turn(machine: Machine, targets=()):
    time.sleep(0.11)  # the pause between two lists
    machine.begin([wanted_of(target) for target in targets], 100.0)
    return machine.end(time.monotonic() + 5)


def test_an_engine_is_followed_from_its_pod_through_a_restart_to_its_end(cluster, tmp_path):
    with kubelet.Kubelet(tmp_path / "s") as beside:
        machine = _machine(cluster, tmp_path / "s")
        beside.answer = kubelet.pod("serving", "chat-0", engine=kubelet.devices("nvidia.com/gpu", ["GPU-a"]))
        cluster.pods = [api_server.pod(annotations=ASKS)]
        assert _turn(machine).held == (Held("serving", "chat-0", "engine", "nvidia.com/gpu", ("GPU-a",)),)
        (target,) = targets = discover(machine.pods, node=machine.name).targets
        _turn(machine, targets)
        seen = _turn(machine, targets)
        assert seen.found[target.name].container.name == "engine"
        assert seen.host[target.name][series("llm_host_ready")] == 1.0
        assert seen.host[target.name][series("llm_host_restarts_total", reason="oom")] == 0.0
        killed = api_server.status(restarts=1, lastState=api_server.ended("OOMKilled", 137))
        cluster.pods = [api_server.pod(annotations=ASKS, statuses=(killed,), ready=False)]
        _turn(machine, targets)
        seen = _turn(machine, targets)
        assert seen.host[target.name][series("llm_host_ready")] == 0.0
        assert seen.host[target.name][series("llm_host_restarts_total", reason="oom")] == 1.0
        assert all(outcome.ok for outcome in seen.outcomes)
        cluster.pods = [api_server.pod("other")]
        beside.answer = b""
        seen = _turn(machine, targets)
        assert (discover(machine.pods).targets, seen.held) == ((), ())


def test_an_api_server_that_fails_ends_no_pod_and_is_named(cluster, tmp_path):
    machine = _machine(cluster, "")
    cluster.pods = [api_server.pod(annotations=ASKS)]
    _turn(machine)
    cluster.refuse = [(503, {})]
    seen = _turn(machine)
    assert [pod.name for pod in seen.pods] == ["chat-0"]
    (outcome,) = seen.outcomes
    assert (outcome.name, outcome.ok) == ("pods", False)
    assert "503" in outcome.why


def test_a_socket_that_is_asked_for_and_not_there_is_said(cluster, tmp_path):
    cluster.pods = [api_server.pod()]
    whys = {one.name: one.why for one in _turn(_machine(cluster, tmp_path / "none")).outcomes}
    assert "no socket of a kubelet" in whys["pod-resources"]
    assert "pod-resources" not in {one.name for one in _turn(_machine(cluster, "")).outcomes}


def test_in_a_cluster_auto_says_what_the_api_server_refuses_and_asks_again_soon(cluster, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    own = Kubernetes(api_url=cluster.url, interval_seconds=0.001, pod_resources="")
    machine = Machine(Node(name="n1", nvml="off", processes="off", kubernetes=own))
    cluster.refuse = [(403, {})]
    (outcome,) = _turn(machine).outcomes
    assert (outcome.name, outcome.ok) == ("pods", False)
    assert "list" in outcome.why
    cluster.pods = [api_server.pod()]
    assert [pod.name for pod in _turn(machine).pods] == ["chat-0"]


def test_a_reader_is_told_of_between_two_readings_too(cluster):
    own = Kubernetes(enabled="on", api_url=cluster.url, interval_seconds=60.0, pod_resources="")
    machine = Machine(Node(name="n1", nvml="off", processes="off", kubernetes=own))
    cluster.pods = [api_server.pod()]
    told = [[(one.name, one.ok) for one in _turn(machine).outcomes] for _ in range(3)]
    assert told == [[("pods", True)]] * 3
    assert len(cluster.asked) == 1


def test_a_target_in_a_pod_is_looked_for_by_its_address_where_nobody_lists_pods():
    machine = Machine(Node(name="n1", nvml="off", kubernetes=Kubernetes(enabled="off")))
    remote = Target(url="http://192.0.2.7:8000", name="far", pod="serving/chat-0")
    assert _turn(machine, [remote]).found["far"].elsewhere


def test_a_folder_that_nobody_may_look_into_is_no_crash(monkeypatch):
    def forbidden(*_: object, **__: object):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.stat", forbidden)
    Machine(Node(name="n1", nvml="off", processes="off", kubernetes=Kubernetes(enabled="auto")))


def test_the_engines_container_is_looked_for_by_its_name():
    assert wanted_of(Target(url="http://10.0.0.7:8000", pod="a/b", container="engine")).container == "engine"


def test_a_containers_environment_tells_its_parallel_size():
    engine = Container("engine", command=("text-generation-launcher",), environ=(("NUM_SHARD", "4"),))
    found = Found(container=engine, how="pod")
    gpus = Snapshot(1.0, {series("llm_gpu_memory_used_bytes", gpu="GPU-a", index="0"): 1.0})
    match = Match(("GPU-a",), Join.POD_RESOURCES)
    for container, told in ((engine, 4.0), (replace(engine, command=("x", "--num-shard", "2")), 2.0)):
        joined = join_gpus(
            Snapshot(1.0, {}), gpus, match, instance="i", model="", found=replace(found, container=container)
        )
        assert joined.samples[series("llm_tensor_parallel_size", instance="i", source="arguments")] == told
