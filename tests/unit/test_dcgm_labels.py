"""Pods, cards and slices that the labels of a dcgm-exporter page tell, in the spellings of its releases."""

from __future__ import annotations

import pytest

from llmvitals.series import Snapshot
from llmvitals.telemetry.ingest import Ingest
from support.page_text import gap, read, values

CARD = 'gpu="0",UUID="GPU-a",device="nvidia0",modelName="Made GPU"'
OTHER = 'gpu="1",UUID="GPU-b",device="nvidia1",modelName="Made GPU"'


def pods(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """GPU, index, namespace, pod and container of every holder."""
    names = ("gpu", "index", "namespace", "pod", "container")
    return sorted(tuple(s.label(n) for n in names) for s in snapshot.samples if s.name == "llm_gpu_pod")


def temp(*labels: str) -> str:
    return "".join(f"DCGM_FI_DEV_GPU_TEMP{{{each}}} {40 + n}\n" for n, each in enumerate(labels))


@pytest.mark.parametrize(
    "spelled",
    [
        'container="serve",namespace="chat",pod="chat-0"',
        'container_name="serve",pod_namespace="chat",pod_name="chat-0"',
        'exported_container="serve",exported_namespace="chat",exported_pod="chat-0",pod="dcgm-exporter-x",namespace="gpu"',
        'exported_container="serve",exported_namespace="chat",exported_pod="chat-0",pod="metrics-9",namespace="gpu"',
    ],
)
def test_a_pod_in_each_spelling(spelled: str) -> None:
    assert pods(read(temp(f"{CARD},{spelled}"))) == [("GPU-a", "0", "chat", "chat-0", "serve")]


def test_a_shared_card_has_each_of_its_pods_once() -> None:
    one, two = (f'{CARD},container="c",namespace="n",pod="{name}",vgpu="{n}"' for n, name in enumerate(("p", "q")))
    page = temp(one, two) + f"DCGM_FI_DEV_SM_CLOCK{{{one}}} 900\nDCGM_FI_DEV_SM_CLOCK{{{two}}} 900\n"
    assert pods(read(page)) == [("GPU-a", "0", "n", "p", "c"), ("GPU-a", "0", "n", "q", "c")]


def test_a_pod_holds_a_slice_and_not_its_card() -> None:
    piece = f'{CARD},GPU_I_PROFILE="3g.40gb",GPU_I_ID="2",namespace="n",pod="p",container="c"'
    snapshot = read(temp(CARD, piece))
    assert pods(snapshot) == [("GPU-a/2", "0", "n", "p", "c")]
    assert values(snapshot, "llm_gpu_info", gpu="GPU-a/2", mig_profile="3g.40gb", product="Made GPU") == [1.0]
    assert values(snapshot, "llm_gpu_info", gpu="GPU-a", mig_profile="", product="Made GPU") == [1.0]


def test_the_exporter_itself_holds_nothing() -> None:
    own = 'container="nvidia-dcgm-exporter",namespace="gpu",pod="nvidia-dcgm-exporter-x1"'
    assert pods(read(temp(f"{CARD},{own}"))) == []
    assert values(read(temp(f"{CARD},{own}")), "llm_gpu_temperature_celsius") == [40.0]


def test_after_a_prometheus_the_plain_labels_are_the_exporters_own_whatever_it_is_called() -> None:
    own = 'container="metrics",namespace="gpu",pod="metrics-9"'
    held = f'{OTHER},{own},exported_container="c",exported_namespace="n",exported_pod="p"'
    snapshot = read(temp(f"{CARD},{own}", held))
    assert pods(snapshot) == [("GPU-b", "1", "n", "p", "c")]
    assert gap(snapshot, "llm_gpu_pod")[0] == "unsupported"


@pytest.mark.parametrize(
    "empty", ['container="",namespace="",pod=""', 'container_name="",pod_namespace="",pod_name=""']
)
def test_empty_labels_are_no_pod_and_say_so_of_the_card(empty: str) -> None:
    held = f'{OTHER},container="c",namespace="n",pod="p"'
    snapshot = read(temp(f"{CARD},{empty}", held))
    assert pods(snapshot) == [("GPU-b", "1", "n", "p", "c")]
    kind, reason = gap(snapshot, "llm_gpu_pod")
    assert kind == "unsupported", "no verdict waits for it"
    assert "no pod was given it" in reason
    assert values(snapshot, "llm_family_gap", family="llm_gpu_pod", gpu="GPU-a") == [1.0]


def test_a_page_without_any_pod_label_says_what_switches_them_on() -> None:
    snapshot = read(temp(CARD, OTHER))
    assert pods(snapshot) == []
    kind, reason = gap(snapshot, "llm_gpu_pod")
    assert kind == "unsupported"
    assert "DCGM_EXPORTER_KUBERNETES" in reason


def test_pods_come_and_go_with_the_page() -> None:
    ingest = Ingest(instance="i")
    first = read(temp(f'{CARD},namespace="n",pod="old",container="c"'), ingest)
    second = read(temp(f'{CARD},namespace="n",pod="new",container="c"'), ingest)
    assert [pod for *_, pod, _ in pods(first)] == ["old"]
    assert [pod for *_, pod, _ in pods(second)] == ["new"]


@pytest.mark.parametrize("label", ["DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"])
def test_the_driver_by_either_name(label: str) -> None:
    snapshot = read(temp(f'{CARD},{label}="600.10"'))
    assert values(snapshot, "llm_gpu_info", product="Made GPU", driver="600.10", gpu="GPU-a", index="0") == [1.0]


def test_a_card_that_no_label_names_is_a_gap() -> None:
    snapshot = read('DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 40\n')
    assert values(snapshot, "llm_gpu_info") == []
    assert gap(snapshot, "llm_gpu_info")[0] == "unsupported"


@pytest.mark.parametrize(
    ("page", "version"),
    [
        (temp(f'{CARD},Hostname="n1"'), "2.x-4.8.2"),
        (temp(f'{CARD},hostname="n1"'), "4.8.3+"),
        (temp(CARD), "2.x-4.9"),
        (f'DCGM_FI_DEV_FB_USED_BYTES{{{CARD},hostname="n1"}} 5\n', "4.9+"),
    ],
)
def test_releases_are_told_apart_by_names_and_labels(page: str, version: str) -> None:
    assert values(read(page), "llm_target_info", engine="dcgm", version=version) == [1.0]
