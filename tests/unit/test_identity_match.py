"""Which GPUs are an engine's: the strongest way that has an answer, why stronger ones had none, and never a guess."""

from __future__ import annotations

import pytest

from llmvitals.series import Snapshot, series
from llmvitals.telemetry.identity.match import match, match_page
from llmvitals.telemetry.identity.model import Found, Held, Join, Match, Processes
from support.machines import GIB, card, container, engine, gpus, machine, pod, process

A, B = "aa" * 32, "bb" * 32
POD = pod("vllm-0", container(A, "engine", 8000), ip="10.1.0.5")
ENGINE, SIDE = ("chat", "vllm-0", "engine"), ("chat", "vllm-0", "sidecar")
STRANGER = ("chat", "other-0", "engine")
TABLE = machine(process(10), process(11, 10), process(30), process(31, 30))
FOUND = Found(api=(10,), engine=(11,), pod=POD, container=POD.containers[0], how="pod")
BARE = Found(api=(10,), engine=(11,), how="port")
NO_PODS = (
    series("llm_family_gap", family="llm_gpu_pod", gap="unsupported", reason="no series carries a pod label"),
    1.0,
)


def held(*devices: str, name: str = "vllm-0", inside: str = "engine", resource: str = "nvidia.com/gpu") -> Held:
    return Held("chat", name, inside, resource, devices)


# -- configured -------------------------------------------------------------------------------------------------------
TWO = gpus(*card("GPU-a", 0), *card("GPU-b", 1))
SLICED = gpus(*card("GPU-a/1", 0, uuid="MIG-one"), *card("GPU-a/2", 0, uuid="MIG-two"), *card("GPU-a", 0))


@pytest.mark.parametrize(
    ("named", "snapshot", "expected"),
    [
        (("GPU-b",), TWO, ("GPU-b",)),
        (("1",), TWO, ("GPU-b",)),
        (("1", "GPU-a"), TWO, ("GPU-a", "GPU-b")),
        (("GPU-a/2",), SLICED, ("GPU-a/2",)),
        (("0/2",), SLICED, ("GPU-a/2",)),
        (("MIG-two",), SLICED, ("GPU-a/2",)),
    ],
)
def test_the_settings_name_gpus_by_uuid_index_or_slice(
    named: tuple[str, ...], snapshot: Snapshot, expected: tuple[str, ...]
) -> None:
    assert match(engine(gpus=named), Found(), snapshot) == Match(expected, Join.CONFIGURED)


def test_a_name_that_no_gpu_has_is_told_beside_those_that_are_found() -> None:
    found = match(engine(gpus=("GPU-a", "GPU-z")), Found(), TWO)
    assert found == Match(("GPU-a",), Join.CONFIGURED, "GPU GPU-z is not on the GPU page")


@pytest.mark.parametrize("named", ["GPU-a", "0"])
def test_a_card_in_slices_must_be_named_by_its_slice(named: str) -> None:
    found = match(engine(gpus=(named,)), Found(), SLICED)
    assert found.gpus == ("GPU-a",)
    assert "GPU-a/1, GPU-a/2" in found.why


def test_the_settings_beat_what_runs_and_the_contradiction_is_told() -> None:
    seen = gpus(*card("GPU-a", 0), *card("GPU-b", 1, pids={10: GIB}))
    found = match(engine(gpus=("GPU-a",)), BARE, seen, (), TABLE)
    assert (found.gpus, found.join) == (("GPU-a",), Join.CONFIGURED)
    assert "process ids" in found.why
    assert "GPU-b" in found.why


def test_names_that_are_all_wrong_leave_it_to_the_next_way() -> None:
    seen = gpus(*card("GPU-b", 1, pids={10: GIB}))
    found = match(engine(gpus=("GPU-z",)), BARE, seen, (), TABLE)
    assert found == Match(("GPU-b",), Join.PROCESS_IDS, "GPU GPU-z is not on the GPU page")


# -- pod labels -------------------------------------------------------------------------------------------------------
def test_pod_labels_name_the_gpus_of_the_engines_container() -> None:
    seen = gpus(
        *card("GPU-a", 0, pods=[ENGINE]),
        *card("GPU-b", 1, pods=[SIDE]),
        *card("GPU-c", 2, pods=[STRANGER]),
        *card("GPU-d", 3),
    )
    assert match(engine(), FOUND, seen) == Match(("GPU-a",), Join.POD_LABELS)


def test_labels_without_a_container_hold_for_the_pod() -> None:
    seen = gpus(*card("GPU-a", 0, pods=[("chat", "vllm-0", "")]), *card("GPU-b/3", 1, pods=[ENGINE]))
    assert match(engine(), FOUND, seen).gpus == ("GPU-a", "GPU-b/3")
    assert match(engine(pod=("chat", "vllm-0")), Found(), seen).gpus == ("GPU-a", "GPU-b/3")


def test_another_namespaces_pod_of_the_same_name_is_another() -> None:
    seen = gpus(*card("GPU-a", 0, pods=[("test", "vllm-0", "engine")]))
    found = match(engine(), FOUND, seen, (), TABLE)
    assert not found.gpus
    assert "chat/vllm-0" in found.why


# -- pod-resources ----------------------------------------------------------------------------------------------------
UUID = "GPU-5d4c3b2a-0000-4000-8000-00000000000a"
KUBELET = gpus(*card(UUID, 0), *card("GPU-b", 1), *card("GPU-c/7", 2, uuid="MIG-seven"), *card("GPU-c/9", 2))


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (UUID, UUID),
        (f"{UUID}::3", UUID),
        (f"{UUID}-2", UUID),
        ("1", "GPU-b"),
        ("1::0", "GPU-b"),
        ("nvidia1", "GPU-b"),
        ("nvidia1/vgpu4", "GPU-b"),
        ("nvidia2/gi7", "GPU-c/7"),
        ("MIG-seven", "GPU-c/7"),
        ("MIG-seven::1", "GPU-c/7"),
        ("MIG-GPU-c/9/0", "GPU-c/9"),
        ("GPU-c/9", "GPU-c/9"),
    ],
)
def test_the_kubelets_devices_are_gpus_however_a_plugin_names_them(device: str, expected: str) -> None:
    assert match(engine(), FOUND, KUBELET, [held(device)]) == Match((expected,), Join.POD_RESOURCES)


def test_only_the_own_containers_gpus_count() -> None:
    given = [
        held("GPU-b"),
        held("GPU-c/9", inside="sidecar"),
        held(UUID, name="other-0"),
        held("1", resource="rdma/hca"),
        held("0", resource="vendor.com/nic"),
    ]
    assert match(engine(), FOUND, KUBELET, given) == Match(("GPU-b",), Join.POD_RESOURCES)


def test_a_device_that_no_gpu_is_called_is_told() -> None:
    found = match(engine(), FOUND, KUBELET, [held("GPU-b", "MIG-unknown")])
    assert found.gpus == ("GPU-b",)
    assert "MIG-unknown" in found.why


# -- process ids ------------------------------------------------------------------------------------------------------
def test_process_ids_join_where_pod_labels_are_missing_and_it_is_said() -> None:
    seen = gpus(NO_PODS, *card("GPU-a", 0, pids={11: GIB}), *card("GPU-b", 1, pids={31: GIB}))
    found = match(engine(), FOUND, seen, (), TABLE)
    assert (found.gpus, found.join) == (("GPU-a",), Join.PROCESS_IDS)
    assert "no series carries a pod label" in found.why


def test_on_a_host_without_pods_nothing_is_missing() -> None:
    seen = gpus(*card("GPU-a", 0, pids={10: GIB}), *card("GPU-b", 1, pids={11: GIB, 31: GIB}))
    assert match(engine(), BARE, seen, (), TABLE) == Match(("GPU-a", "GPU-b"), Join.PROCESS_IDS)


def test_a_process_whose_memory_is_not_told_is_on_the_gpu_all_the_same() -> None:
    told = series(
        "llm_family_gap", family="llm_gpu_process_memory_bytes", gap="unsupported", reason="x", gpu="GPU-a", pid="11"
    )
    seen = gpus((told, 1.0), *card("GPU-a", 0), *card("GPU-b", 1))
    assert match(engine(), BARE, seen, (), TABLE) == Match(("GPU-a",), Join.PROCESS_IDS)


def test_ids_of_another_namespace_join_nothing() -> None:
    """In a container of its own, numbers 10 and 11 are other processes than the driver's 10, 11 and 4711."""
    own = Processes(TABLE.table, host=False)
    seen = gpus(*card("GPU-a", 0, pids={10: GIB}), *card("GPU-b", 1, pids={4711: GIB}))
    found = match(engine(), BARE, seen, (), own)
    assert not found.gpus
    assert "hostPID" in found.why
    alike = gpus(*card("GPU-a", 0, pids={10: GIB}), *card("GPU-b", 1, pids={31: GIB}))
    assert match(engine(), BARE, alike, (), own).gpus == ("GPU-a",)  # every process on the GPUs is one that is seen


@pytest.mark.parametrize("pid", [0, -1])
def test_a_process_that_the_driver_may_not_name_is_nobodys(pid: int) -> None:
    found = match(engine(), Found(api=(0,), how="port"), gpus(*card("GPU-a", 0, pids={pid: GIB})), (), TABLE)
    assert not found.gpus
    assert found.why


def test_what_hides_the_processes_is_the_reason() -> None:
    hidden = Found(pod=POD, container=POD.containers[0], how="pod", why="no process is seen: hostPID")
    assert "hostPID" in match(engine(), hidden, gpus(*card("GPU-a", 0, pids={10: GIB})), (), TABLE).why
    blind = (series("llm_family_gap", family="llm_gpu_process_memory_bytes", gap="unsupported", reason="no field"), 1.0)
    assert "node.nvml" in match(engine(), BARE, gpus(*card("GPU-a", 0), blind), (), TABLE).why
    looked_for = match(engine(), BARE, TWO, (), TABLE).why
    assert looked_for.startswith("no process is on a GPU that is shown")
    assert "node.nvml" not in looked_for
    refused = match(
        engine(),
        Found((10,), (11,), POD, POD.containers[0], "pod"),
        gpus(*card("GPU-a", 0)),
        (),
        TABLE,
        held_why="cannot be asked",
    ).why
    assert "by pod-resources: cannot be asked" in refused


# -- engines beside each other ----------------------------------------------------------------------------------------
def test_a_page_of_one_engine_means_all_its_gpus() -> None:
    assert match_page(TWO, ()) == Match(("GPU-a", "GPU-b"), Join.CONFIGURED)


def test_a_wrong_name_does_not_mean_the_whole_page() -> None:
    found = match_page(TWO, ("7",))
    assert not found.gpus
    assert found.why == "GPU 7 is not on the GPU page; there are 0, 1"
    refused = match(engine(gpus=("7",)), Found(why="no process is seen"), TWO)
    assert refused.why == found.why  # nothing else is to be mended


def test_without_a_join_the_settings_are_named_as_the_way_that_always_goes() -> None:
    field = series("llm_family_gap", family="llm_gpu_process_memory_bytes", gap="unsupported", reason="no field")
    found = match(engine(), BARE, gpus(*card("GPU-a", 0), (field, 1.0)), (), TABLE)
    assert not found.gpus
    assert found.why.endswith("name its GPUs in gpus (of a pod: llmvitals.io/gpus)")
    shared = match(engine(), BARE, gpus(*card("GPU-a", 0), (field, 1.0)), (), TABLE, own_page=True, others=(Found(),))
    assert "other engines have the same GPU page" in shared.why


def test_a_page_of_several_engines_is_nobodys() -> None:
    found = match_page(TWO, (), shared=True)
    assert not found.gpus
    assert "gpus" in found.why
    assert match_page(TWO, ("1",), shared=True).gpus == ("GPU-b",)
    labelled = gpus(*card("GPU-a", 0, pods=[ENGINE]), *card("GPU-b", 1, pods=[STRANGER]))
    assert match_page(labelled, (), pod=("chat", "vllm-0"), shared=True) == Match(("GPU-a",), Join.POD_LABELS)


def test_what_is_known_better_than_the_whole_page_counts() -> None:
    seen = gpus(*card("GPU-a", 0, pids={10: GIB}), *card("GPU-b", 1, pids={31: GIB}))
    assert match(engine(), BARE, seen, (), TABLE, own_page=True) == Match(("GPU-a",), Join.PROCESS_IDS)


def test_gpus_of_this_machine_are_not_given_to_an_engine_elsewhere() -> None:
    seen = gpus(*card("GPU-a", 0, pids={10: GIB}))
    assert match(engine(host="10.0.0.9"), Found(), seen, (), TABLE) == Match()
    assert match(engine(host="10.0.0.9"), Found(), gpus(), (), TABLE) == Match()


def test_a_page_without_gpus_is_told_in_its_own_words() -> None:
    down = Snapshot(1.0, {}, "refused the connection")
    assert match_page(down, ("GPU-a",)) == Match(why="refused the connection")
    assert match(engine(), BARE, gpus(), (), TABLE).why


OTHER = Found(api=(30,), engine=(31,), pod=POD, container=POD.containers[0], how="pod")
BOTH = (*card("GPU-a", 0, pods=[ENGINE], pids={11: GIB}), *card("GPU-b", 1, pods=[ENGINE], pids={31: GIB}))


def test_two_engines_of_one_pod_have_what_their_processes_are_on() -> None:
    first = match(engine(), FOUND, gpus(*BOTH), (), TABLE, others=[OTHER])
    second = match(engine(8001), OTHER, gpus(*BOTH), (), TABLE, others=[FOUND])
    assert (first.gpus, first.join) == (("GPU-a",), Join.PROCESS_IDS)
    assert (second.gpus, second.join) == (("GPU-b",), Join.PROCESS_IDS)
    alone = match(engine(), FOUND, gpus(*BOTH), (), TABLE)  # the other is no target
    assert (alone.gpus, alone.join) == (("GPU-a",), Join.PROCESS_IDS)


def test_two_engines_of_one_pod_that_nothing_tells_apart_get_no_gpu() -> None:
    blind = Found(pod=POD, container=POD.containers[0], how="pod", why="no process is seen: hostPID")
    seen = gpus(*card("GPU-a", 0, pods=[ENGINE]), *card("GPU-b", 1, pods=[ENGINE]))
    found = match(engine(), blind, seen, [held("GPU-a", "GPU-b")], others=[blind])
    assert not found.gpus
    assert "same pod" in found.why
    shared = gpus(*card("GPU-a", 0, pods=[ENGINE]))
    assert match(engine(), blind, shared, others=[blind]).gpus == ("GPU-a",)  # one GPU: both are on it


def test_a_gpu_that_its_pod_holds_and_nobody_uses_stays_its_own() -> None:
    seen = gpus(*card("GPU-a", 0, pods=[ENGINE], pids={11: GIB}), *card("GPU-b", 1, pods=[ENGINE]))
    assert match(engine(), FOUND, seen, (), TABLE) == Match(("GPU-a", "GPU-b"), Join.POD_LABELS)


def test_a_gpu_that_pods_share_is_each_ones() -> None:
    seen = gpus(*card("GPU-a", 0, pods=[ENGINE, STRANGER]))
    other = pod("other-0", container(B, "engine"))
    strange = Found(pod=other, container=other.containers[0], how="pod")
    assert match(engine(), FOUND, seen, others=[strange]).gpus == ("GPU-a",)
    assert match(engine(8001), strange, seen, others=[FOUND]).gpus == ("GPU-a",)


def test_a_contradiction_between_labels_and_processes_is_told_and_the_labels_win() -> None:
    seen = gpus(*card("GPU-a", 0, pods=[ENGINE]), *card("GPU-b", 1, pods=[STRANGER], pids={11: GIB}))
    found = match(engine(), FOUND, seen, (), TABLE)
    assert (found.gpus, found.join) == (("GPU-a",), Join.POD_LABELS)
    assert "GPU-b" in found.why
