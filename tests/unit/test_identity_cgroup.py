"""A process's container and pod from its cgroup, in the forms that runtimes write."""

from __future__ import annotations

import pytest

from llmvitals.telemetry.identity.cgroup import FORMS, owners

ID = "7c1d" * 16
OTHER = "e02b" * 16
UID = "0d3f5a6e-1b2c-4d5e-8f90-a1b2c3d4e5f6"
SLICE = UID.replace("-", "_")
STATIC = "ab12" * 8

V1 = f"""12:pids:/kubepods/burstable/pod{UID}/{ID}
11:cpu,cpuacct:/kubepods/burstable/pod{UID}/{ID}
5:devices:/
1:name=systemd:/kubepods/burstable/pod{UID}/{ID}
"""

FOUND: tuple[tuple[str, str, tuple[str, str]], ...] = (
    ("v1, cgroupfs", V1, (ID, UID)),
    ("v1, guaranteed", f"4:memory:/kubepods/pod{UID}/{ID}", (ID, UID)),
    ("v1, best effort", f"4:memory:/kubepods/besteffort/pod{UID}/{ID}", (ID, UID)),
    ("v1, only one controller tells", f"7:freezer:/\n6:cpuset:/kubepods/pod{UID}/{ID}\n5:pids:/\n", (ID, UID)),
    (
        "v2, systemd, burstable",
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice/cri-containerd-{ID}.scope",
        (ID, UID),
    ),
    ("v2, systemd, guaranteed", f"0::/kubepods.slice/kubepods-pod{SLICE}.slice/crio-{ID}.scope", (ID, UID)),
    (
        "crun's own part below",
        f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE}.slice/crio-{ID}.scope/container",
        (ID, UID),
    ),
    (
        "a pod through cri-dockerd",
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice/docker-{ID}.scope",
        (ID, UID),
    ),
    (
        "containerd's names with colons",
        f"9:memory:/system.slice/containerd.service/kubepods-burstable-pod{SLICE}.slice:cri-containerd:{ID}",
        (ID, UID),
    ),
    (
        "v2 with colons",
        f"0::/kubepods-burstable-pod{SLICE}.slice:cri-containerd:{ID}",
        (ID, UID),
    ),
    ("hybrid", f"1:name=systemd:/kubepods/pod{UID}/{ID}\n0::/\n", (ID, UID)),
    (
        "hybrid, the unified side says more",
        f"3:cpu:/system.slice\n0::/kubepods.slice/kubepods-pod{SLICE}.slice/cri-containerd-{ID}.scope",
        (ID, UID),
    ),
    ("static pod", f"0::/kubepods.slice/kubepods-pod{STATIC}.slice/cri-containerd-{ID}.scope", (ID, STATIC)),
    (
        "a node that is a container",
        f"0::/docker/{OTHER}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
        f"kubelet-kubepods-burstable-pod{SLICE}.slice/cri-containerd-{ID}.scope",
        (ID, UID),
    ),
    ("systemd inside the container", f"0::/kubepods/pod{UID}/{ID}/system.slice/ssh.service", (ID, UID)),
    ("Docker inside the container", f"0::/kubepods/pod{UID}/{ID}/docker/{OTHER}", (ID, UID)),
    ("seen from another cgroup namespace", f"0::/../../kubepods-pod{SLICE}.slice/cri-containerd-{ID}.scope", (ID, UID)),
    ("seen from the same pod", f"0::/../cri-containerd-{ID}.scope", (ID, "")),
    ("the pod's own cgroup", f"0::/kubepods.slice/kubepods-pod{SLICE}.slice", ("", UID)),
    ("Docker, cgroupfs", f"8:cpu:/docker/{ID}\n0::/system.slice/containerd.service\n", (ID, "")),
    ("Docker, systemd", f"0::/system.slice/docker-{ID}.scope", (ID, "")),
    ("Docker with systemd in it", f"0::/system.slice/docker-{ID}.scope/init.scope", (ID, "")),
    ("Docker in Docker", f"0::/docker/{OTHER}/docker/{ID}", (ID, "")),
    ("Podman", f"0::/machine.slice/libpod-{ID}.scope/container", (ID, "")),
    (
        "Podman without root",
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
        (ID, ""),
    ),
    ("Podman, split cgroups", f"0::/system.slice/vllm.service/libpod-payload-{ID}", (ID, "")),
    ("nerdctl", f"0::/system.slice/nerdctl-{ID}.scope", (ID, "")),
    ("containerd alone", f"0::/default/{ID}", (ID, "")),
    ("ECS", f"9:perf_event:/ecs/{STATIC}/{ID}", (ID, "")),
    ("ECS on Fargate", f"9:perf_event:/ecs/{STATIC}/{STATIC}-1357924680", (f"{STATIC}-1357924680", "")),
    ("Garden", f"5:cpu:/system.slice/garden.service/garden/good/{UID}", (UID, "")),
    ("LXC", "4:memory:/lxc/gpu-box/system.slice/vllm.service", ("gpu-box", "")),
    ("LXC of today", "0::/lxc.payload.gpu-box/system.slice/vllm.service", ("gpu-box", "")),
)

NOTHING: tuple[tuple[str, str], ...] = (
    ("the root", "0::/\n"),
    ("a namespace of its own", "12:pids:/\n11:cpu:/\n0::/\n"),
    ("a service of the host", "0::/system.slice/vllm.service"),
    ("a user's shell", "0::/user.slice/user-1000.slice/session-3.scope"),
    ("who watches a container of CRI-O", f"0::/system.slice/crio-conmon-{ID}.scope"),
    ("who watches a container of Podman", f"0::/machine.slice/libpod-conmon-{ID}.scope"),
    ("a digest in a service's name", f"0::/system.slice/build-{ID}.service"),
    ("nothing at all", ""),
    ("no cgroup line", "garbage\nmore: garbage\n"),
)


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND])
def test_a_container_and_its_pod_are_told_in_every_form(text: str, expected: tuple[str, str]) -> None:
    assert owners(text) == expected


@pytest.mark.parametrize("text", [row[1] for row in NOTHING], ids=[row[0] for row in NOTHING])
def test_what_is_in_no_container_is_said_to_be_in_none(text: str) -> None:
    assert owners(text) == ("", "")


def test_every_form_of_the_table_is_needed() -> None:
    """Each row is the first to answer for some path above; a row that never is would be dead."""
    paths = [text for _, text, _ in FOUND]
    parts = {part for text in paths for part in text.replace(":", "/").replace("\n", "/").split("/") if part}
    for form in FORMS:
        assert any(form.part.fullmatch(part) for part in parts), form.runtime
