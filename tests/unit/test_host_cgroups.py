"""What control groups allow and did, v1 and v2, seen from the host and from inside a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmvitals.gaps import GapKind
from llmvitals.telemetry.host import HostReader
from llmvitals.telemetry.identity.model import Found
from support.procfs import Tree, files

API = Found(api=(9,), how="port")
CONTAINER = "c" * 64
NO_LIMIT_V1 = "9223372036854771712\n"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "proc")


def read(tmp_path: Path, found: Found = API):
    samples = HostReader(tmp_path / "proc", tmp_path / "cgroup").samples(found, 0.0)
    told = {k.name: v for k, v in samples.items() if k.name.startswith("llm_host_")}
    gaps = {k.label("family"): (k.label("gap"), k.label("reason")) for k in samples if k.name == "llm_family_gap"}
    return told, gaps


def test_v2_the_tightest_limit_up_the_tree_counts(tree, tmp_path):
    group = f"kubepods.slice/pod1.slice/cri-containerd-{CONTAINER}.scope"
    files(
        tmp_path / "cgroup",
        {
            "cgroup.controllers": "cpu memory\n",
            "kubepods.slice/cpu.max": "max 100000\n",
            "kubepods.slice/memory.max": "64000\n",
            "kubepods.slice/pod1.slice/cpu.max": "150000 100000\n",
            "kubepods.slice/pod1.slice/cpu.stat": "usage_usec 9\nthrottled_usec 500000\n",
            "kubepods.slice/pod1.slice/memory.max": "8000\n",
            f"{group}/cpu.max": "400000 100000\n",
            f"{group}/cpu.stat": "usage_usec 9\nnr_throttled 3\nthrottled_usec 2000000\n",
            f"{group}/memory.max": "max\n",
            f"{group}/memory.current": "7000\n",
            f"{group}/memory.stat": "anon 1\ninactive_file 3000\nactive_file 500\n",
        },
    )
    tree.process(9, "x", cgroup=f"0::/{group}\n")
    told, _ = read(tmp_path)
    assert told["llm_host_cpu_limit_cores"] == 1.5
    assert told["llm_host_cpu_throttled_seconds_total"] == pytest.approx(2.5)
    assert told["llm_host_memory_bytes"] == 4000.0
    assert told["llm_host_memory_limit_bytes"] == 8000.0


@pytest.mark.parametrize("mounted", ["cpu,cpuacct", "cpu"])
def test_v1_has_a_tree_per_controller(tree, tmp_path, mounted):
    files(
        tmp_path / "cgroup",
        {
            f"{mounted}/docker/{CONTAINER}/cpu.cfs_quota_us": "50000\n",
            f"{mounted}/docker/{CONTAINER}/cpu.cfs_period_us": "100000\n",
            f"{mounted}/docker/{CONTAINER}/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_time 3000000000\n",
            f"{mounted}/docker/cpu.cfs_quota_us": "-1\n",
            f"{mounted}/docker/cpu.cfs_period_us": "100000\n",
            f"memory/docker/{CONTAINER}/memory.usage_in_bytes": "9000\n",
            f"memory/docker/{CONTAINER}/memory.limit_in_bytes": "10000\n",
            f"memory/docker/{CONTAINER}/memory.stat": "inactive_file 1\ntotal_inactive_file 2000\n",
            "memory/docker/memory.limit_in_bytes": NO_LIMIT_V1,
            "memory/memory.limit_in_bytes": NO_LIMIT_V1,
        },
    )
    tree.process(9, "x", cgroup=f"4:memory:/docker/{CONTAINER}\n3:cpu,cpuacct:/docker/{CONTAINER}\n1:name=systemd:/x\n")
    told, _ = read(tmp_path)
    assert told["llm_host_cpu_limit_cores"] == 0.5
    assert told["llm_host_cpu_throttled_seconds_total"] == pytest.approx(3.0)
    assert told["llm_host_memory_bytes"] == 7000.0
    assert told["llm_host_memory_limit_bytes"] == 10_000.0


def test_both_at_once_v1_has_the_controllers(tree, tmp_path):
    files(
        tmp_path / "cgroup",
        {
            "memory/docker/memory.usage_in_bytes": "9000\n",
            "unified/cgroup.controllers": "cpu\n",
            "unified/docker/cpu.max": "200000 100000\n",
        },
    )
    tree.process(9, "x", cgroup="4:memory:/docker\n0::/docker\n")
    told, _ = read(tmp_path)
    assert told["llm_host_memory_bytes"] == 9000.0
    assert told["llm_host_cpu_limit_cores"] == 2.0


def test_without_a_quota_the_cpus_that_are_there_and_allowed_count(tree, tmp_path):
    files(tmp_path / "cgroup", {"cgroup.controllers": "cpu\n", "s/cpu.max": "max 100000\n"})
    tree.host(cpus=4)
    tree.process(9, "x", cgroup="0::/s\n", cpus="0-255")  # as a kernel for more CPUs says it
    assert read(tmp_path)[0]["llm_host_cpu_limit_cores"] == 4.0
    tree.process(9, "x", cgroup="0::/s\n", cpus="1,3")
    assert read(tmp_path)[0]["llm_host_cpu_limit_cores"] == 2.0


def test_processes_that_are_bound_to_one_cpu_each_may_use_them_all(tree, tmp_path):
    for pid, cpus in ((9, "0"), (10, "1")):
        tree.process(pid, "x", cpus=cpus)
    assert read(tmp_path, Found(api=(9, 10)))[0]["llm_host_cpu_limit_cores"] == 2.0


def test_without_a_quota_nothing_was_held_back(tree, tmp_path):
    files(tmp_path / "cgroup", {"cgroup.controllers": "cpu\n", "s/cpu.stat": "usage_usec 9\n"})
    tree.process(9, "x", cgroup="0::/s\n")
    assert read(tmp_path)[0]["llm_host_cpu_throttled_seconds_total"] == 0.0


def test_a_container_without_a_limit_is_a_gap_that_says_so(tree, tmp_path):
    content = {"cgroup.controllers": "memory\n", "s/memory.current": "5\n", "s/memory.max": "max\n"}
    files(tmp_path / "cgroup", content)
    tree.process(9, "x", cgroup="0::/s\n")
    told, gaps = read(tmp_path)
    assert told["llm_host_memory_bytes"] == 5.0
    assert "llm_host_memory_limit_bytes" not in told
    assert gaps["llm_host_memory_limit_bytes"] == (
        GapKind.UNSUPPORTED,
        "no limit is set: it may take what the host has",
    )


def test_processes_in_no_group_of_their_own_have_no_memory_of_a_container(tree, tmp_path):
    files(tmp_path / "cgroup", {"memory/memory.usage_in_bytes": "5\n", "memory/memory.limit_in_bytes": NO_LIMIT_V1})
    tree.process(9, "x", cgroup="4:memory:/\n")
    told, gaps = read(tmp_path)
    assert "llm_host_memory_bytes" not in told
    assert gaps["llm_host_memory_bytes"][1] == "its processes are in no control group of their own"


def test_a_tree_that_is_not_mounted_is_a_gap_with_its_remedy(tree, tmp_path):
    tree.process(9, "x", cgroup=f"0::/docker/{CONTAINER}\n")
    told, gaps = read(tmp_path)
    for family in ("llm_host_memory_bytes", "llm_host_memory_limit_bytes", "llm_host_cpu_throttled_seconds_total"):
        assert family not in told
        assert gaps[family][0] == GapKind.UNSUPPORTED
        assert "node.cgroups" in gaps[family][1]


def test_in_the_container_itself_its_group_is_the_root(tree, tmp_path):
    """v2 with a namespace of its own, and the engine beside the exporter in one container."""
    files(tmp_path / "cgroup", {"cgroup.controllers": "x\n", "memory.current": "7\n", "memory.max": "70\n"})
    tree.process(tree.own, "llmvitals", cgroup="0::/\n")
    tree.process(9, "x", cgroup="0::/\n")
    told, _ = read(tmp_path)
    assert (told["llm_host_memory_bytes"], told["llm_host_memory_limit_bytes"]) == (7.0, 70.0)


def test_v1_in_the_container_itself_its_group_is_mounted_at_the_root(tree, tmp_path):
    files(tmp_path / "cgroup", {"memory/memory.usage_in_bytes": "7\n", "memory/memory.limit_in_bytes": "70\n"})
    own = f"4:memory:/docker/{CONTAINER}\n"
    tree.process(tree.own, "llmvitals", cgroup=own)
    tree.process(9, "x", cgroup=own)
    assert read(tmp_path)[0]["llm_host_memory_limit_bytes"] == 70.0
    tree.process(9, "x", cgroup="4:memory:/docker/another\n")
    assert "llm_host_memory_limit_bytes" not in read(tmp_path)[0]


@pytest.mark.parametrize("told_as", ["/../../kubepods/burstable/pod1/{}", "/../{}"])
def test_from_a_namespace_of_its_own_a_group_is_found_in_the_hosts_tree(tree, tmp_path, told_as):
    files(
        tmp_path / "cgroup",
        {
            "cgroup.controllers": "memory\n",
            f"kubepods/burstable/pod1/{CONTAINER}/memory.current": "7\n",
            "kubepods/burstable/pod1/memory.max": "70\n",
        },
    )
    tree.process(9, "x", cgroup=f"0::{told_as.format(CONTAINER)}\n")
    told, _ = read(tmp_path)
    assert (told["llm_host_memory_bytes"], told["llm_host_memory_limit_bytes"]) == (7.0, 70.0)
    tree.process(9, "x", cgroup=f"0::{told_as.format('d' * 64)}\n")
    assert "llm_host_memory_bytes" not in read(tmp_path)[0]
