"""What one engine takes of its machine: beside other engines of its pod, and while the driver does not answer."""

from __future__ import annotations

from llmvitals.series import Snapshot, series
from llmvitals.settings import Target
from llmvitals.sources.beside import beside
from llmvitals.sources.node import Seen
from llmvitals.telemetry.identity.model import Found, Held
from support.machines import card, container, gpus, pod

UP = Snapshot(9.0, {series("llm_target_up", instance="vllm-0"): 1.0})
TARGET = Target(url="http://10.1.0.5:8000", name="vllm-0")
POD = pod("vllm-0", container("aa" * 32, "engine", 8000), ip="10.1.0.5")
HIDDEN = Found(pod=POD, container=POD.containers[0], how="pod", why="no process is seen")
HELD = (Held("chat", "vllm-0", "engine", "nvidia.com/gpu", ("GPU-a", "GPU-b")),)
XID = "llm_gpu_xid_events_total"


def test_an_engine_beside_another_one_in_its_pod_does_not_get_all_of_the_pods_gpus() -> None:
    driver = gpus(*card("GPU-a", 0), *card("GPU-b", 1))
    seen = Seen(9.0, "gpu-7", gpus=driver, held=HELD, found={"vllm-0": HIDDEN})
    assert beside(UP, TARGET, seen, None).gpus == ("GPU-a", "GPU-b")
    assert beside(UP, TARGET, seen, None, others=[HIDDEN]).gpus == ()


def test_what_the_driver_counts_does_not_come_from_the_page_while_it_is_late() -> None:
    page = gpus(*card("GPU-a", 0), (series(XID, gpu="GPU-a", index="0", xid="79"), 4.0))
    found = {"vllm-0": HIDDEN}
    held = (Held("chat", "vllm-0", "engine", "nvidia.com/gpu", ("GPU-a",)),)
    late = beside(UP, TARGET, Seen(9.0, "gpu-7", held=held, found=found, gpus_why="is still busy"), page)
    assert late.gpus == ("GPU-a",)
    assert not any(key.name == XID for key in late.snapshot.samples)
    absent = beside(UP, TARGET, Seen(9.0, "gpu-7", held=held, found=found), page)
    assert [v for k, v in absent.snapshot.samples.items() if k.name == XID] == [4.0]
