"""Where an engine is: by its address to its listener, its tree and its pod; and what is said where it is not found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmvitals.telemetry.identity.find import find
from llmvitals.telemetry.identity.model import Found, Listener, Processes
from support.machines import container, engine, machine, pod, process

VLLM = "/usr/bin/python3 /usr/local/bin/vllm serve m --port {}"
A, B, C = "aa" * 32, "bb" * 32, "cc" * 32

ONE = machine(
    process(100, 1, "-bash", name="bash"),
    process(200, 100, VLLM.format(8000)),
    process(201, 200, "VLLM::EngineCore"),
    process(202, 201, "VLLM::Worker_TP0"),
    process(203, 201, "VLLM::Worker_TP1"),
    process(300, 100, "/usr/bin/python3 train.py"),
    listen=[Listener(8000, 200)],
)


def where(found: Found) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    assert not found.why, found.why
    return found.api, found.engine, found.how


# -- by port ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.53", "0.0.0.0", "::ffff:127.0.0.1"])
def test_a_listener_and_its_workers_are_the_engine_and_the_shells_other_children_are_not(host: str) -> None:
    assert where(find(engine(8000, host), ONE)) == ((200,), (201, 202, 203), "port")


def test_this_machines_own_name_and_addresses_lead_to_its_listeners() -> None:
    here = {"gpu-7", "10.0.0.7"}
    assert find(engine(8000, "gpu-7"), ONE, here=here).api == (200,)
    assert find(engine(8000, "10.0.0.7"), ONE, here=here).api == (200,)


def test_an_engine_on_another_machine_is_no_gap() -> None:
    for host in ("10.0.0.8", "vllm.example.org", "gpu-8"):
        found = find(engine(8000, host), ONE, here={"gpu-7"})
        assert found == Found()
        assert found.elsewhere


def test_several_api_servers_are_one_engine_with_the_parent_that_supervises_them() -> None:
    servers = machine(
        process(200, 1, VLLM.format(8000)),
        process(210, 200, "VLLM::ApiServer_0"),
        process(211, 200, "VLLM::ApiServer_1"),
        process(212, 200, "VLLM::EngineCore_DP0"),
        process(213, 200, "VLLM::EngineCore_DP1"),
        listen=[Listener(8000, 210), Listener(8000, 211)],
    )
    assert where(find(engine(), servers)) == ((210, 211), (200, 212, 213), "port")


def test_a_launcher_whose_router_listens_brings_its_shards() -> None:
    tgi = machine(
        process(50, 1, "text-generation-launcher --port 8000 --num-shard 2"),
        process(51, 50, "text-generation-server serve m --shard 0"),
        process(52, 50, "text-generation-server serve m --shard 1"),
        process(53, 50, "text-generation-router --port 8000"),
        listen=[Listener(8000, 53)],
    )
    assert where(find(engine(), tgi)) == ((53,), (50, 51, 52), "port")


def test_the_ranks_of_one_mpi_job_are_one_engine() -> None:
    same = "trtllm-serve m --tp_size 2 --port 8000"
    job = machine(
        process(60, 1, "mpirun -n 2 trtllm-serve"),
        process(61, 60, same),
        process(62, 60, same),
        listen=[Listener(8000, 61)],
    )
    assert where(find(engine(), job)) == ((61,), (60, 62), "port")


def two_engines(*, both_known: bool) -> tuple[Found, Found]:
    listen = [Listener(8000, 500), *([Listener(8001, 600)] if both_known else [])]
    host = machine(
        process(400, 1, "python3 launch_all.py"),
        process(500, 400, VLLM.format(8000)),
        process(501, 500, "VLLM::EngineCore"),
        process(600, 400, VLLM.format(8001)),
        process(601, 600, "VLLM::EngineCore"),
        listen=listen,
    )
    return find(engine(8000), host), find(engine(8001), host)


def test_engines_of_one_script_do_not_swallow_each_other() -> None:
    first, second = two_engines(both_known=True)
    assert where(first) == ((500,), (501,), "port")
    assert where(second) == ((600,), (601,), "port")


def test_nor_does_one_swallow_an_engine_that_nobody_watches() -> None:
    first, second = two_engines(both_known=False)
    assert where(first) == ((500,), (501,), "port")
    assert not second.how


def test_a_script_that_starts_an_engine_and_something_else_is_not_the_engine() -> None:
    host = machine(
        process(10, 1, "/usr/bin/python3 orchestrate.py"),
        process(20, 10, VLLM.format(8000)),
        process(21, 20, "VLLM::EngineCore"),
        process(30, 10, "/usr/bin/python3 train.py"),
        listen=[Listener(8000, 20)],
    )
    assert where(find(engine(), host)) == ((20,), (21,), "port")


def test_children_that_python_spawns_belong_to_who_spawned_them() -> None:
    def spawned(handle: int) -> tuple[str, ...]:
        code = f"from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle={handle})"
        return "/usr/bin/python3", "-c", code, "--multiprocessing-fork"

    host = machine(
        process(10, 1, VLLM.format(8000)),
        process(11, 10, spawned(7)),
        process(12, 10, spawned(9)),
        listen=[Listener(8000, 11)],
    )
    assert where(find(engine(), host)) == ((11,), (10, 12), "port")


def test_a_script_of_the_engines_own_name_that_starts_two_of_it_is_neither() -> None:
    host = machine(
        process(10, 1, "/usr/bin/python3 start_vllm.py"),
        process(20, 10, VLLM.format(8000)),
        process(30, 10, VLLM.format(8001)),
        listen=[Listener(8000, 20)],  # nobody watches the other
    )
    assert where(find(engine(), host)) == ((20,), (), "port")


def test_a_forked_server_belongs_to_who_forked_it() -> None:
    host = machine(
        process(10, 1, "python3 serve.py"),
        process(11, 10, "python3 serve.py"),
        process(12, 10, "python3 serve.py"),
        listen=[Listener(8000, 11)],
    )
    assert where(find(engine(), host)) == ((11,), (10, 12), "port")


def test_an_engine_that_another_one_started_is_not_part_of_it() -> None:
    """A router that starts its servers: each has its own tree, and the router keeps what is no server's."""
    host = machine(
        process(10, 1, "python3 -m sglang_router.launch_server --port 30000"),
        process(20, 10, "python3 -m sglang.launch_server --port 31000"),
        process(21, 20, "sglang::scheduler"),
        process(30, 10, "python3 -c resource_tracker"),
        listen=[Listener(30000, 10), Listener(31000, 20)],
    )
    assert where(find(engine(30000), host)) == ((10,), (30,), "port")
    assert where(find(engine(31000), host)) == ((20,), (21,), "port")


def test_a_second_port_of_the_same_process_is_no_other_engine() -> None:
    host = machine(
        process(10, 1, "python3 start.py"),
        process(20, 10, "tritonserver --model-repository /m"),
        process(21, 20, "triton_python_backend_stub"),
        listen=[Listener(8000, 20), Listener(8002, 20)],
    )
    assert find(engine(8000), host) == find(engine(8002), host)
    assert where(find(engine(8002), host)) == ((20,), (21,), "port")


def test_what_an_address_does_not_reach_is_not_the_engine() -> None:
    host = machine(
        process(10, 1, VLLM.format(8000)),
        process(20, 1, "nginx: master"),
        listen=[Listener(8000, 10, "10.0.0.7"), Listener(8000, 20, "127.0.0.1")],
    )
    assert find(engine(8000, "127.0.0.1"), host).api == (20,)
    assert find(engine(8000, "10.0.0.7"), host, here={"10.0.0.7"}).api == (10,)
    assert find(engine(8000, "gpu-7"), host, here={"gpu-7"}).api == (10,)  # a name does not lead to loopback


@pytest.mark.parametrize("address", ["", "0.0.0.0", "::", "*", "[::]"])
def test_a_listener_on_every_address_is_reached_by_each(address: str) -> None:
    host = machine(process(10, 1, VLLM.format(8000)), listen=[Listener(8000, 10, address)])
    assert find(engine(8000, "127.0.0.1"), host).api == (10,)


def test_the_same_port_inside_a_container_is_another_network() -> None:
    inside = process(10, 1, VLLM.format(8000), container=A)
    outside = process(20, 1, VLLM.format(8000))
    far = Listener(8000, 10, "127.0.0.1", near=False)
    both = machine(inside, outside, listen=[far, Listener(8000, 20)])
    assert find(engine(), both).api == (20,)
    alone = find(engine(), machine(inside, listen=[far]))
    assert not alone.pids
    assert "inside containers" in alone.why


def test_a_published_port_leads_into_its_container() -> None:
    """The reader has resolved the forwarder: a near listener, inside a container, beside another container's own port 8000."""
    host = machine(
        process(10, 9, VLLM.format(8000), container=A),
        process(11, 9, "ray::worker", container=A),
        process(20, 8, VLLM.format(8000), container=B),
        listen=[Listener(8000, 10), Listener(8000, 20, near=False)],
    )
    assert where(find(engine(), host)) == ((10,), (11,), "port")


def test_listeners_of_several_containers_are_not_guessed_at() -> None:
    host = machine(
        process(10, 9, VLLM.format(8000), container=A),
        process(20, 8, VLLM.format(8000), container=B),
        listen=[Listener(8000, 10), Listener(8000, 20)],
    )
    found = find(engine(), host)
    assert not found.pids
    assert found.why


# -- containers -------------------------------------------------------------------------------------------------------
def test_the_rest_of_a_container_belongs_to_its_only_engine() -> None:
    """Ray's workers hang from raylet, not from the API server."""
    host = machine(
        process(9, 1, "containerd-shim-runc-v2"),
        process(10, 9, "bash start.sh", container=A),
        process(11, 10, VLLM.format(8000), container=A),
        process(12, 10, "raylet", container=A),
        process(13, 12, "ray::RayWorkerWrapper", container=A),
        process(20, 9, "node_exporter"),
        listen=[Listener(8000, 11)],
    )
    assert where(find(engine(), host)) == ((11,), (10, 12, 13), "port")


def test_two_engines_in_one_container_are_told_apart() -> None:
    host = machine(
        process(10, 9, "bash start.sh", container=A),
        process(11, 10, VLLM.format(8000), container=A),
        process(12, 11, "VLLM::EngineCore", container=A),
        process(13, 10, VLLM.format(8001), container=A),
        process(14, 13, "VLLM::EngineCore", container=A),
        listen=[Listener(8000, 11), Listener(8001, 13)],
    )
    assert where(find(engine(8000), host)) == ((11,), (12,), "port")
    assert where(find(engine(8001), host)) == ((13,), (14,), "port")
    unwatched = machine(*list(host.table.values())[1:], listen=[Listener(8000, 11)])
    assert where(find(engine(8000), unwatched)) == ((11,), (12,), "port")


def test_whoever_else_serves_in_a_container_is_not_the_engine() -> None:
    host = machine(
        process(10, 9, "bash start.sh", container=A),
        process(11, 10, VLLM.format(8000), container=A),
        process(12, 10, "python3 gateway.py", container=A),
        process(13, 12, "python3 gateway-worker.py", container=A),
        listen=[Listener(8000, 11), Listener(9000, 12)],
    )
    assert where(find(engine(), host)) == ((11,), (), "port")


def test_what_started_a_container_from_outside_is_not_in_it() -> None:
    host = machine(
        process(9, 1, "/usr/bin/vllm-agent"),
        process(10, 9, VLLM.format(8000), container=A),
        process(20, 9, "/usr/bin/vllm-agent-helper"),
        listen=[Listener(8000, 10)],
    )
    assert where(find(engine(), host)) == ((10,), (), "port")


def test_a_container_that_is_used_like_a_machine_is_no_engine() -> None:
    host = machine(
        process(10, 1, "/sbin/init", name="systemd", container="gpu-box"),
        process(11, 10, VLLM.format(8000), container="gpu-box"),
        process(12, 10, "python3 train.py", container="gpu-box"),
        listen=[Listener(8000, 11)],
    )
    assert where(find(engine(), host)) == ((11,), (), "port")


# -- by pod -----------------------------------------------------------------------------------------------------------
POD = pod("vllm-0", container(A, "engine", 8000), container(B, "sidecar", 9000), ip="10.1.0.5")
INSIDE = machine(
    process(10, 9, VLLM.format(8000), container=A),
    process(11, 10, "VLLM::EngineCore", container=A),
    process(20, 9, "envoy", container=B),
    process(30, 9, VLLM.format(8000), container=C),
    listen=[Listener(8000, 10, near=False), Listener(8000, 30, near=False)],
)


def test_a_pods_address_leads_to_the_container_that_listens_there() -> None:
    found = find(engine(8000, "10.1.0.5"), INSIDE, [POD])
    assert where(found) == ((10,), (11,), "pod")
    assert (found.pod, found.container) == (POD, POD.containers[0])


def test_a_pods_name_leads_there_as_well() -> None:
    by_name = find(engine(8000, "vllm.chat.svc", pod=("chat", "vllm-0")), INSIDE, [POD])
    headless = find(engine(8000, "vllm-0.vllm.chat.svc.cluster.local"), INSIDE, [POD])
    assert where(by_name) == where(headless) == ((10,), (11,), "pod")
    assert find(engine(8000, "vllm.chat.svc.cluster.local"), INSIDE, [POD]).elsewhere  # of many pods, perhaps


def test_an_id_with_its_runtime_in_front_is_the_same() -> None:
    told = pod("vllm-0", container(f"containerd://{A}", "engine", 8000), ip="10.1.0.5")
    assert find(engine(8000, "10.1.0.5"), INSIDE, [told]).api == (10,)


def test_a_loopback_target_is_told_its_pod() -> None:
    sharing = pod("vllm-0", container(A, "engine", 8000), ip="10.0.0.7", host_network=True)
    host = machine(process(10, 9, VLLM.format(8000), container=A), listen=[Listener(8000, 10)])
    found = find(engine(), host, [sharing])
    assert where(found) == ((10,), (), "port")
    assert (found.pod, found.container) == (sharing, sharing.containers[0])


def test_pods_on_the_nodes_network_are_told_apart_by_their_ports() -> None:
    one = pod("vllm-0", container(A, "engine", 8000), ip="10.0.0.7", host_network=True)
    other = pod("vllm-1", container(C, "engine", 8001), ip="10.0.0.7", host_network=True)
    host = machine(
        process(10, 9, VLLM.format(8000), container=A),
        process(30, 9, VLLM.format(8001), container=C),
        listen=[Listener(8000, 10, near=False), Listener(8001, 30, near=False)],
    )
    assert [find(engine(p, "10.0.0.7"), host, [one, other]).pod for p in (8000, 8001)] == [one, other]
    blind = find(engine(8001, "10.0.0.7"), machine(), [one, other])  # what their specs declare is left
    assert (blind.pod, blind.pids) == (other, frozenset())


def test_a_pod_that_does_not_listen_yet_has_its_first_process() -> None:
    starting = machine(
        process(10, 9, "tini -- vllm", container=A),
        process(11, 10, VLLM.format(8000), container=A),
        process(12, 11, "VLLM::EngineCore", container=A),
    )
    found = find(engine(8000, "10.1.0.5"), starting, [POD])
    assert where(found) == ((11,), (10, 12), "pod")


def test_a_pod_whose_processes_are_out_of_sight_is_still_known() -> None:
    own = machine(process(7, 1, "llmvitals run"), host=False)
    found = find(engine(8000, "10.1.0.5"), own, [POD])
    assert (found.pod, found.container, found.how, found.pids) == (POD, POD.containers[0], "pod", frozenset())
    assert "hostPID" in found.why
    assert "chat/vllm-0" in found.why


def test_of_several_containers_none_is_guessed() -> None:
    several = pod("vllm-0", container(A, "a"), container(B, "b"), ip="10.1.0.5")
    silent = machine(process(10, 9, "x", container=A), process(20, 9, "y", container=B))
    found = find(engine(8000, "10.1.0.5"), silent, [several])
    assert (found.pod, found.container, found.pids) == (several, None, frozenset())
    assert "several containers" in found.why
    assert find(engine(8000, "10.1.0.5", container="b"), silent, [several]).api == (20,)
    assert "no container c" in find(engine(8000, "10.1.0.5", container="c"), silent, [several]).why


def test_an_address_goes_from_a_pod_that_ended_to_its_successor() -> None:
    gone = pod("vllm-0", container(C, "engine", 8000), ip="10.1.0.5")
    ended = type(gone)(**{f: getattr(gone, f) for f in gone.__slots__} | {"phase": "Succeeded"})
    assert find(engine(8000, "10.1.0.5"), INSIDE, [ended, POD]).pod == POD
    assert find(engine(8000, "10.1.0.5"), INSIDE, [ended]).elsewhere


# -- not found --------------------------------------------------------------------------------------------------------
def test_what_should_be_here_and_is_not_is_said_with_its_remedy() -> None:
    silent = find(engine(9999), ONE)
    assert not silent.elsewhere
    assert "port 9999" in silent.why
    assert "hostPID" not in silent.why  # the whole host is seen
    assert "hostPID" in find(engine(9999), replace(ONE, host=False)).why
    told = find(engine(9999), machine(why="run as root"))
    assert told.why.endswith("run as root")
    absent = find(engine(8000, pod=("chat", "vllm-9")), ONE, [POD])
    assert "chat/vllm-9" in absent.why
    stopped = pod("vllm-0", container("", "engine", 8000), ip="10.1.0.5")
    assert "does not run" in find(engine(8000, "10.1.0.5"), ONE, [stopped]).why


def test_whom_nobody_reads_processes_for_is_told_no_more_than_that() -> None:
    assert find(engine(), Processes()).elsewhere
    named = find(
        replace(engine(), gpus=("0",)), Processes()
    )  # but named GPUs are wanted, and those of this machine meant
    assert not named.elsewhere
    assert "node.processes" in named.why
    assert find(engine(), Processes(why="processes are not read")).why == "processes are not read"
    found = find(engine(8000, "10.1.0.5"), Processes(), [POD])
    assert (found.pod, found.how, found.why) == (POD, "pod", "")
