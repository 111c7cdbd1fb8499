"""Who holds which GPU, from a kubelet's socket: a real gRPC server on a Unix socket."""

from __future__ import annotations

import socket as sockets
import subprocess
import sys
import time

import grpc
import pytest

from llmvitals.errors import MissingExtraError, UnreachableError
from llmvitals.telemetry.identity.model import Held
from llmvitals.telemetry.kube import resources
from llmvitals.telemetry.kube.resources import PodResources
from support.kubelet import Kubelet, claimed, devices, field, pod

UUID = "GPU-5fd4a1ee-0d5e-7b0c-9b5a-6d0a0f0e0b7c"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kubelet.sock"


@pytest.fixture
def kubelet(path):
    with Kubelet(path) as running:
        yield running


def _held(path, **more) -> tuple[Held, ...]:
    return PodResources(str(path), **more).held()


def test_whose_gpu_is_whose(kubelet, path):
    kubelet.answer = (
        pod("serving", "chat-1", engine=devices("nvidia.com/gpu", ["GPU-b"]) + devices("nvidia.com/gpu", ["GPU-a"]))
        + pod("serving", "chat-0", proxy=b"", engine=devices("nvidia.com/gpu", [UUID]))
        + pod("net", "rdma", pod=devices("rdma/hca", ["mlx5_0"]) + devices("amd.com/gpu", ["0000:03:00.0"]))
    )
    assert _held(path) == (
        Held("serving", "chat-0", "engine", "nvidia.com/gpu", (UUID,)),
        Held("serving", "chat-1", "engine", "nvidia.com/gpu", ("GPU-a", "GPU-b")),
    )
    assert kubelet.asked == [b""]


def test_slices_and_shared_cards_keep_their_names(kubelet, path):
    kubelet.answer = pod(
        "serving",
        "mix",
        a=devices("nvidia.com/mig-1g.10gb", ["MIG-1", "MIG-0"]),
        b=devices("nvidia.com/gpu.shared", [f"{UUID}::3"]),
        c=devices("nvidia.com/gpu", []),
    )
    assert _held(path) == (
        Held("serving", "mix", "a", "nvidia.com/mig-1g.10gb", ("MIG-0", "MIG-1")),
        Held("serving", "mix", "b", "nvidia.com/gpu.shared", (f"{UUID}::3",)),
    )


def test_a_claimed_gpu_keeps_the_name_that_its_driver_gives_it(kubelet, path):
    kubelet.answer = pod(
        "serving", "chat", engine=claimed("gpu.nvidia.com", "gpu-1", "gpu-0") + claimed("net.dra", "n0")
    )
    (held,) = _held(path)
    assert held == Held("serving", "chat", "engine", "gpu.nvidia.com", ("gpu-0", "gpu-1"))


def test_pods_come_and_go(kubelet, path):
    reader = PodResources(str(path))
    kubelet.answer = pod("serving", "a", e=devices("nvidia.com/gpu", ["GPU-a"]))
    assert [one.pod for one in reader.held()] == ["a"]
    kubelet.answer = pod("serving", "b", e=devices("nvidia.com/gpu", ["GPU-a"]))
    assert [one.pod for one in reader.held()] == ["b"]
    kubelet.answer = b""
    assert reader.held() == ()


def test_a_kubelet_that_restarts_is_asked_again_at_once(path):
    reader = PodResources(str(path))
    for name in ("a", "b"):
        with Kubelet(path) as running:
            running.answer = pod("serving", name, e=devices("nvidia.com/gpu", ["GPU-a"]))
            assert [one.pod for one in reader.held()] == [name]
        path.unlink(missing_ok=True)
        with pytest.raises(UnreachableError, match="no socket of a kubelet"):
            reader.held()


def test_a_full_node_comes_whole_and_a_flood_is_refused(kubelet, path):
    many = [f"GPU-{i:036}" for i in range(512)]
    one = pod("serving", "p", e=devices("nvidia.com/gpu", many)) * 300  # 7 MiB: over the usual limit of 4
    kubelet.answer = one
    assert _held(path, timeout_s=10) == (Held("serving", "p", "e", "nvidia.com/gpu", tuple(many)),)
    kubelet.answer = one * 3
    with pytest.raises(UnreachableError, match=r"rate or the size.*interval_seconds"):
        _held(path, timeout_s=10)


def test_a_kubelet_that_hangs_is_given_up_in_time(kubelet, path):
    kubelet.hang = 20.0
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=r"no answer within 0\.2 s"):
        _held(path, timeout_s=0.2)
    assert time.monotonic() - began < 1.5


def test_a_kubelet_with_the_first_draft_alone_is_too_old(path):
    with Kubelet(path, service="v1alpha1.PodResourcesLister"), pytest.raises(UnreachableError, match=r"1\.20 or newer"):
        _held(path)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, r"may not be asked \(the test said so\)\. Run as root"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, r"the test said so.*interval_seconds"),
        (grpc.StatusCode.INTERNAL, r"failed with INTERNAL \(the test said so\)"),
    ],
)
def test_a_refusal_names_its_remedy(kubelet, path, code, says):
    kubelet.fail = (code, "the test\nsaid so")
    with pytest.raises(UnreachableError, match=says) as caught:
        _held(path)
    assert caught.value.place == str(path)


@pytest.mark.parametrize("body", [b"\xff\xff\xff", field(1, b"\x0a\xff"), b"\x0a\x05ab"])
def test_bytes_that_are_no_message_are_told(kubelet, path, body):
    kubelet.answer = body
    with pytest.raises(UnreachableError, match="failed with INTERNAL"):
        _held(path)


def test_a_socket_that_nobody_serves(path):
    with sockets.socket(sockets.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(UnreachableError, match=r"nobody answers|no answer within"):
        _held(path, timeout_s=0.5)


def test_no_socket_or_another_kind_of_file(tmp_path):
    with pytest.raises(UnreachableError, match=r"no socket.*pod-resources.*daemonset\.yaml"):
        _held(tmp_path / "none.sock")
    with pytest.raises(UnreachableError, match="no socket"):
        _held(tmp_path)


def test_permission_is_said_with_the_user_to_run_as(kubelet, path, monkeypatch):
    monkeypatch.setattr(resources.os, "access", lambda *_: False)
    with pytest.raises(UnreachableError, match=r"may not open it\. Run as root \(runAsUser: 0"):
        _held(path)


def test_without_the_extra_it_says_what_to_install(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'llmvitals\[kubernetes\]'"):
        _held(path)


def test_nothing_loads_grpc_until_a_kubelet_is_asked():
    code = (
        "import sys, llmvitals.telemetry.kube.resources, llmvitals.telemetry.kube.api\n"
        "print([m for m in ('grpc', 'google.protobuf') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
