"""The host reader on a /proc written to disk: who runs, who listens, what the processes of an engine use."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from llmvitals.gaps import GapKind
from llmvitals.telemetry.host import HostReader
from llmvitals.telemetry.identity.model import Container, Found, Listener, Pod
from support.procfs import BOOT, HOST_NET, Tree, files

POD_NET = "net:[4026532999]"
POD_GROUP = (
    "0::/kubepods.slice/kubepods-burstable.slice/"
    "kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice/cri-containerd-" + "a" * 64 + ".scope\n"
)


class Clocks:
    """The reader's clocks, which stand until they are moved."""

    def __init__(self) -> None:
        self.now = BOOT + 100_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "proc")


@pytest.fixture
def reader(tree: Tree, clocks: Clocks, tmp_path: Path) -> HostReader:
    return HostReader(tree.root, tmp_path / "cgroup", clock=clocks, steady=clocks)


def shown(samples, name: str, **labels: str) -> float | None:
    """The only sample of a family with these labels; None when there is none."""
    found = [v for k, v in samples.items() if k.name == name and all(k.label(x) == y for x, y in labels.items())]
    assert len(found) < 2, f"{name} {labels} stands for {len(found)} samples"
    return found[0] if found else None


def gap(samples, family: str) -> tuple[str, str]:
    """Kind and reason of the only gap of a family."""
    [key] = [k for k in samples if k.name == "llm_family_gap" and k.label("family") == family]
    return key.label("gap"), key.label("reason")


# -- the process table ------------------------------------------------------------------------------------------------


def test_a_process_with_its_container_and_pod(tree, reader):
    tree.process(9, "python3", parent=5, command=("python3", "-m", "vllm"), start=12_345, cgroup=POD_GROUP)
    told = reader.processes(frozenset()).table[9]
    assert (told.parent, told.name, told.command) == (5, "python3", ("python3", "-m", "vllm"))
    assert told.started == pytest.approx(BOOT + 123.45)
    assert (told.container, told.pod) == ("a" * 64, "11111111-2222-3333-4444-555555555555")


def test_the_kernel_the_dead_and_the_exporter_are_no_engines(tree, reader):
    tree.kernel_thread(2)
    tree.process(9, "python3", state="Z")
    tree.process(10, "python3")
    assert set(reader.processes(frozenset()).table) == {10}


def test_a_number_that_goes_to_another_process_is_another_process(tree, reader):
    tree.process(9, "bash", start=1000)
    assert reader.processes(frozenset()).table[9].name == "bash"
    tree.process(9, "python3", start=2000)
    assert reader.processes(frozenset()).table[9].name == "python3"
    tree.end(9)
    assert 9 not in reader.processes(frozenset()).table


def test_a_script_that_becomes_an_engine_is_seen_within_two_minutes(tree, reader, clocks):
    tree.process(9, "bash", command=("entrypoint.sh",))
    reader.processes(frozenset())
    (tree.root / "9/cmdline").write_bytes(b"vllm\0serve\0")
    tree.times(9, "vllm")
    clocks.now += 120
    told = reader.processes(frozenset()).table[9]
    assert (told.name, told.command) == ("vllm", ("vllm", "serve"))


def test_a_listener_is_read_again_each_time(tree, reader):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
    tree.process(9, "python3", command=("a",), fds=["socket:[5000]"])
    reader.processes(frozenset({8000}))
    (tree.root / "9/cmdline").write_bytes(b"b\0")
    assert reader.processes(frozenset({8000})).table[9].command == ("b",)


def test_a_young_process_is_read_again_each_time(tree, reader, clocks):
    clocks.now = BOOT + 30.0
    tree.process(9, "runc", command=("runc", "init"), start=1000)
    reader.processes(frozenset())
    (tree.root / "9/cmdline").write_bytes(b"vllm\0serve\0")
    (tree.root / "9/cgroup").write_text(POD_GROUP)
    clocks.now += 5
    told = reader.processes(frozenset()).table[9]
    assert told.command == ("vllm", "serve")
    assert told.container == "a" * 64


def test_a_start_stays_when_the_clock_of_the_host_is_set(tree, reader, clocks):
    tree.process(9, "python3", start=500)
    before = reader.processes(frozenset()).table[9].started
    tree.host(boot=BOOT + 7)
    clocks.now += 120
    assert reader.processes(frozenset()).table[9].started == before


# -- listeners --------------------------------------------------------------------------------------------------------


def test_who_listens_in_each_network_namespace_the_readers_own_first(tree, reader):
    tree.net(HOST_NET, [("listen", "127.0.0.1", 8000), ("listen", "0.0.0.0", 22)])
    tree.net(POD_NET, [("listen", "0.0.0.0", 8000), ("established", "10.1.0.2", 8000)], first_inode=9000)
    tree.process(9, "python3", net=POD_NET, fds=["/dev/null", "socket:[9000]", "socket:[9001]"])
    tree.process(30, "python3", fds=["socket:[5000]"])
    tree.process(31, "sshd", fds=["socket:[5001]"])
    told = reader.processes(frozenset({8000, 8001}))
    assert told.listeners == (Listener(8000, 30, "127.0.0.1", near=True), Listener(8000, 9, near=False))


def test_workers_that_share_a_socket_all_listen(tree, reader):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
    for pid in (9, 10):
        tree.process(pid, "python3", fds=["socket:[5000]"])
    assert [one.pid for one in reader.processes(frozenset({8000})).listeners] == [9, 10]


def test_a_listener_that_closes_or_dies_is_gone_at_once_and_its_successor_is_found(tree, reader):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
    tree.process(9, "python3", fds=["socket:[5000]"])
    assert [one.pid for one in reader.processes(frozenset({8000})).listeners] == [9]
    tree.net(HOST_NET, [], first_inode=5000)
    (tree.root / "9/fd/0").unlink()
    assert reader.processes(frozenset({8000})).listeners == ()
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)], first_inode=6000)
    tree.process(11, "python3", fds=["socket:[6000]"])
    assert [one.pid for one in reader.processes(frozenset({8000})).listeners] == [11]


def test_a_worker_that_joins_is_found_within_a_minute_and_no_descriptors_are_read_before(tree, reader, clocks):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
    tree.process(9, "python3", fds=["socket:[5000]"])
    reader.processes(frozenset({8000}))
    tree.process(10, "python3", parent=9, fds=["/dev/null"])
    tree.process(11, "python3", parent=10, fds=["socket:[5000]"])
    clocks.now += 30
    assert [one.pid for one in reader.processes(frozenset({8000})).listeners] == [9]
    clocks.now += 30
    assert [one.pid for one in reader.processes(frozenset({8000})).listeners] == [9, 11]


def test_a_server_that_shares_the_port_by_a_socket_of_its_own_is_found_too(tree, reader, clocks):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
    tree.process(9, "python3", parent=50, fds=["socket:[5000]"])
    reader.processes(frozenset({8000}))
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000), ("listen", "0.0.0.0", 8000)])
    tree.process(10, "python3", parent=60, fds=["socket:[5001]"])
    clocks.now += 60
    assert [one.pid for one in reader.processes(frozenset({8000})).listeners] == [9, 10]


def test_the_exporter_itself_listens_for_nobody(tree, reader):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
    tree.process(tree.own, "llmvitals", fds=["socket:[5000]"])
    assert reader.processes(frozenset({8000})).listeners == ()


def test_behind_the_proxy_of_docker_the_engine_is_found(tree, reader, clocks):
    inner = "net:[4026533001]"
    other = "net:[4026533002]"
    fib = "     |-- {}\n        /32 host LOCAL\n"
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8001)])
    tree.net(inner, [("listen", "0.0.0.0", 8000)], first_inode=7000, fib=fib.format("172.17.0.2"))
    tree.net(other, [("listen", "0.0.0.0", 8000)], first_inode=8000, fib=fib.format("172.17.0.3"))
    to = ("-host-port", "8001", "-container-ip", "172.17.0.2", "-container-port", "8000")
    tree.process(20, "docker-proxy", command=("docker-proxy", *to), fds=["socket:[5000]"])
    tree.process(9, "python3", net=inner, fds=["socket:[7000]"])
    tree.process(10, "python3", net=other, fds=["socket:[8000]"])
    told = reader.processes(frozenset({8001}))
    assert told.listeners == (Listener(8001, 9, near=True),)  # that is where its address leads
    assert told.why == ""
    clocks.now += 60
    assert reader.processes(frozenset({8001})).listeners == told.listeners
    tree.process(9, "python3", net=inner, start=9999, fds=["socket:[7000]"])  # it starts anew behind the same proxy
    assert reader.processes(frozenset({8001})).listeners == told.listeners


def test_a_proxy_whose_engine_is_not_up_yet_is_no_engine(tree, reader):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8001)])
    to = ("-container-ip", "172.17.0.2", "-container-port", "8000")
    tree.process(20, "docker-proxy", command=("docker-proxy", *to), fds=["socket:[5000]"])
    told = reader.processes(frozenset({8001}))
    assert told.listeners == ()
    assert "port 8001 is held by docker-proxy" in told.why


def test_a_listener_that_cannot_be_seen_is_said_with_what_would_show_it(tree, reader):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
    tree.process(9, "python3", fds=["socket:[5000]"])
    shutil.rmtree(tree.root / "9/fd")  # as to a reader that has no right to it
    told = reader.processes(frozenset({8000}))
    assert told.listeners == ()
    assert told.why.startswith("who listens on port 8000 cannot be seen: run the exporter as root of the machine, or ")
    assert told.why.endswith("with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH")


def test_a_listener_born_while_the_processes_were_listed_is_found_in_the_next_turn(tree, reader):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])  # its socket is there, and the list was made before it was
    tree.process(10, "sh")
    assert reader.processes(frozenset({8000})).why.startswith("who listens on port 8000 cannot be seen")
    tree.process(9, "python3", fds=["socket:[5000]"])
    told = reader.processes(frozenset({8000}))
    assert told.listeners == (Listener(8000, 9, near=True),)
    assert told.why == ""


def test_who_cannot_be_seen_twice_is_not_looked_for_in_every_turn(tree, reader, clocks):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
    tree.process(10, "sh")
    for _ in range(2):
        assert reader.processes(frozenset({8000})).listeners == ()
    tree.process(9, "python3", fds=["socket:[5000]"])
    assert reader.processes(frozenset({8000})).listeners == ()
    clocks.now += 60
    assert reader.processes(frozenset({8000})).listeners == (Listener(8000, 9, near=True),)


def test_a_port_that_is_asked_for_again_is_looked_for_again(tree, reader):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
    tree.process(10, "sh")
    for _ in range(2):
        assert reader.processes(frozenset({8000})).listeners == ()
    reader.processes(frozenset())
    tree.process(9, "python3", fds=["socket:[5000]"])
    assert reader.processes(frozenset({8000})).listeners == (Listener(8000, 9, near=True),)


def test_namespaces_that_cannot_be_seen_are_said_for_a_port_without_a_listener_alone(tree, reader):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
    tree.kernel_thread()
    tree.process(9, "python3", fds=["socket:[5000]"])
    tree.process(10, "python3")
    (tree.root / "10/ns/net").unlink()
    assert reader.processes(frozenset({8000})).why == ""
    assert reader.processes(frozenset({8000, 8001})).why.startswith("1 processes do not let their sockets be seen")


def test_a_view_of_one_container_alone_is_said_for_a_port_without_a_listener(tree, reader):
    told = reader.processes(frozenset({8000}))
    assert not told.host
    assert "hostPID: true" in told.why
    tree.kernel_thread()
    told = reader.processes(frozenset({8000}))
    assert told.host
    assert told.why == ""


def test_workers_that_outlive_their_api_process_by_a_moment_are_no_restart(tree, reader):
    tree.process(9, "python3", start=1000)
    tree.process(10, "worker", start=1001)
    found = Found(api=(9,), engine=(10,), how="port")
    assert shown(reader.samples(found, 0.0, engine="a"), "llm_host_restarts_total", reason="unknown") == 0.0
    tree.end(9)  # after it was found, before it is read
    assert shown(reader.samples(found, 1.0, engine="a"), "llm_host_restarts_total", reason="unknown") == 0.0
    tree.process(20, "python3", start=5000)
    told = reader.samples(Found(api=(20,), how="port"), 2.0, engine="a")
    assert shown(told, "llm_host_restarts_total", reason="unknown") == 1.0


# -- CPU, memory, descriptors -----------------------------------------------------------------------------------------


def test_cpu_over_the_interval_by_thread(tree, reader):
    threads = {9: ("python3", 1000), 12: ("asyncio_0", 50)}
    tree.process(9, "python3", cpu=(700, 350), threads=threads)
    found = Found(api=(9,), how="port")
    first = reader.samples(found, 100.0)
    assert shown(first, "llm_host_cpu_cores") is None
    assert gap(first, "llm_host_cpu_cores")[0] == GapKind.TOO_SHORT
    # in 10 s one thread used 8 s, one 1 s, and one was born and used 0.5 s
    tree.times(9, "python3", cpu=(1400, 600), threads={9: ("python3", 1800), 12: ("asyncio_0", 150), 13: ("new", 50)})
    then = reader.samples(found, 110.0)
    assert shown(then, "llm_host_cpu_cores", process="api") == pytest.approx(0.95)
    assert shown(then, "llm_host_busiest_thread_cores", process="api") == pytest.approx(0.8)
    assert shown(then, "llm_host_thread_cores", thread="python3/9") == pytest.approx(0.8)
    assert shown(then, "llm_host_thread_cores", thread="asyncio_0/12") == pytest.approx(0.1)
    assert shown(then, "llm_host_thread_cores", thread="new/13") == pytest.approx(0.05)


def test_five_threads_are_shown_and_none_has_more_than_one_core(tree, reader):
    found = Found(api=(9,), how="port")
    tree.process(9, "x", threads={9 + i: (f"t{i}", 0) for i in range(8)})
    reader.samples(found, 0.0)
    tree.times(9, "x", cpu=(9999, 0), threads={9 + i: (f"t{i}", 110 - 10 * i) for i in range(8)})
    samples = reader.samples(found, 1.0)
    rows = {k.label("thread"): v for k, v in samples.items() if k.name == "llm_host_thread_cores"}
    assert rows == pytest.approx({"t0/9": 1.0, "t1/10": 1.0, "t2/11": 0.9, "t3/12": 0.8, "t4/13": 0.7})


def test_two_questions_about_one_moment_have_one_answer(tree, reader):
    tree.process(9, "x", cpu=(0, 0))
    both = Found(api=(9,)), Found(engine=(9,))
    for found in both:
        reader.samples(found, 0.0)
    tree.times(9, "x", cpu=(50, 0))
    told = [shown(reader.samples(found, 1.0), "llm_host_cpu_cores") for found in both]
    assert told == pytest.approx([0.5, 0.5])


def test_a_process_is_no_other_because_it_has_its_number(tree, reader):
    tree.process(9, "x", start=100, cpu=(500, 0))
    reader.samples(Found(api=(9,)), 0.0)
    tree.process(9, "x", start=900, cpu=(600, 0))
    assert shown(reader.samples(Found(api=(9,)), 1.0), "llm_host_cpu_cores") is None


def test_processes_of_one_kind_stand_together(tree, reader):
    tree.process(9, "x", start=3000, pages=10, fds=["/dev/null"] * 5, files=100)
    tree.process(10, "x", start=2000, pages=20, fds=["/dev/null"] * 4, files=10)
    samples = reader.samples(Found(engine=(9, 10)), 0.0)
    assert shown(samples, "llm_host_resident_bytes", process="engine") == 30 * 4096
    assert shown(samples, "llm_host_open_fds", process="engine") == 4.0
    assert shown(samples, "llm_host_max_fds", process="engine") == 10.0
    assert shown(samples, "llm_host_process_start_time_seconds", process="engine") == BOOT + 20.0


def test_descriptors_that_may_not_be_seen_are_a_gap_with_its_remedy(tree, reader):
    tree.process(9, "x", files=100)
    shutil.rmtree(tree.root / "9/fd")
    samples = reader.samples(Found(api=(9,)), 0.0)
    assert shown(samples, "llm_host_open_fds") is None
    kind, reason = gap(samples, "llm_host_open_fds")
    assert kind == GapKind.UNSUPPORTED
    assert "CAP_SYS_PTRACE" in reason
    assert shown(samples, "llm_host_resident_bytes", process="api") is not None


def test_what_ended_before_it_was_read_is_left_out_and_said(tree, reader):
    tree.process(9, "x")
    reader.processes(frozenset())
    tree.end(9)
    assert gap(reader.samples(Found(api=(9,)), 0.0), "llm_host_*") == (
        "missing",
        "its processes ended before they were read",
    )
    tree.process(9, "another", start=7777)  # its number went on before the next look at the table
    assert shown(reader.samples(Found(api=(9,)), 1.0), "llm_host_resident_bytes") is None


def test_nothing_is_said_of_an_engine_that_was_not_found(reader):
    assert reader.samples(Found(why="no such pod"), 0.0) == {}


# -- network ----------------------------------------------------------------------------------------------------------


def test_sockets_and_ephemeral_ports_of_the_hosts_namespace(tree, reader):
    rows = [("listen", "0.0.0.0", 8000), ("established", "10.0.0.1", 8000), ("close_wait", "10.0.0.1", 8000)]
    rows += [("time_wait", "10.0.0.1", 40_000 + i) for i in range(7)]
    rows += [("established", "10.0.0.1", 40_006), ("established", "10.0.0.1", 50_000)]
    tree.net(HOST_NET, rows)
    tree.ports(40_000, 40_999, reserved="40000-40001,8080")
    tree.process(9, "x")
    samples = reader.samples(Found(api=(9,)), 0.0)
    for state, number in (("established", 3), ("time_wait", 7), ("close_wait", 1), ("listen", 1), ("syn_sent", 0)):
        assert shown(samples, "llm_host_sockets", state=state) == number
    assert shown(samples, "llm_host_ephemeral_ports") == 998
    assert shown(samples, "llm_host_ephemeral_ports_used") == 5  # 40002 to 40006


def test_ports_of_another_namespace_are_a_gap_and_its_sockets_are_its_own(tree, reader):
    tree.net(HOST_NET, [("time_wait", "10.0.0.1", 40_000)])
    tree.net(POD_NET, [("established", "10.1.0.2", 8000)])
    tree.process(9, "x", net=POD_NET)
    samples = reader.samples(Found(api=(9,)), 0.0)
    assert shown(samples, "llm_host_sockets", state="established") == 1.0
    assert shown(samples, "llm_host_sockets", state="time_wait") == 0.0
    for family in ("llm_host_ephemeral_ports", "llm_host_ephemeral_ports_used"):
        assert shown(samples, family) is None
        assert "hostNetwork: true" in gap(samples, family)[1]


def test_a_namespace_that_cannot_be_told_gives_no_ports(tree, reader):
    tree.process(9, "x")
    (tree.root / "9/ns/net").unlink()
    samples = reader.samples(Found(api=(9,)), 0.0)
    assert shown(samples, "llm_host_sockets", state="established") == 0.0
    assert "CAP_SYS_PTRACE" in gap(samples, "llm_host_ephemeral_ports")[1]


def test_sockets_of_each_cycle_are_its_own(tree, reader):
    tree.process(9, "x")
    told = []
    for t, rows in ((0.0, []), (5.0, [("established", "10.0.0.1", 8000)])):
        tree.net(HOST_NET, rows)
        told.append(shown(reader.samples(Found(api=(9,)), t), "llm_host_sockets", state="established"))
    assert told == [0.0, 1.0]


# -- restarts ---------------------------------------------------------------------------------------------------------

ENGINE = Found(api=(9,), engine=(10,), how="port")


def restarts(samples) -> dict[str, float]:
    return {k.label("reason"): v for k, v in samples.items() if k.name == "llm_host_restarts_total"}


def test_processes_that_were_replaced_are_a_restart(tree, reader):
    tree.process(9, "x", start=1000)
    tree.process(10, "x", start=1100)
    assert restarts(reader.samples(ENGINE, 0.0, engine="a")) == {"oom": 0.0, "unknown": 0.0}
    tree.process(10, "x", start=1500)  # a worker alone is none
    assert restarts(reader.samples(ENGINE, 5.0, engine="a")) == {"oom": 0.0, "unknown": 0.0}
    assert restarts(reader.samples(Found(), 10.0, engine="a")) == {"oom": 0.0, "unknown": 0.0}
    tree.process(9, "x", start=2000)
    assert restarts(reader.samples(ENGINE, 15.0, engine="a")) == {"oom": 0.0, "unknown": 1.0}
    assert restarts(reader.samples(ENGINE, 20.0, engine="a")) == {"oom": 0.0, "unknown": 1.0}


def test_restarts_are_left_out_for_whoever_has_better_counts(tree, reader):
    tree.process(9, "x")
    assert restarts(reader.samples(ENGINE, 0.0, engine="a", restarts=False)) == {}


def test_an_engine_without_a_name_is_known_by_its_port_or_its_container(tree, reader):
    tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
    for start in (1000, 2000):
        tree.process(9, "x", start=start, fds=["socket:[5000]"])
        reader.processes(frozenset({8000}))
        told = restarts(reader.samples(ENGINE, start / 10, engine=""))
    assert told == {"oom": 0.0, "unknown": 1.0}
    for start in (1000, 2000):
        tree.process(10, "x", start=start)
        pod = Found(engine=(10,), pod=Pod("ml", "chat-0", "uid-1"), container=Container("engine"), how="pod")
        told = restarts(reader.samples(pod, 500.0 + start))
    assert told == {"oom": 0.0, "unknown": 1.0}
    assert restarts(reader.samples(Found(api=(10,)), 9999.0)) == {}  # nothing tells whose it is


def oom(tmp_path: Path, folder: str, kills: int) -> None:
    files(tmp_path / "cgroup" / folder, {"memory.events": f"low 0\noom 2\noom_kill {kills}\n", "memory.current": "1\n"})


def test_a_restart_after_a_kill_in_its_group_is_one_for_want_of_memory(tree, reader, tmp_path):
    files(tmp_path / "cgroup", {"cgroup.controllers": "memory\n"})
    oom(tmp_path, "vllm.service", 3)
    for t, start, kills, expected in ((0, 1000, 3, 0), (5, 2000, 4, 1), (100, 2000, 5, 1), (200, 2000, 5, 1)):
        oom(tmp_path, "vllm.service", kills)
        tree.process(9, "x", start=start, cgroup="0::/vllm.service\n")
        assert restarts(reader.samples(ENGINE, float(t), engine="a"))["oom"] == expected
    # the kill of t=100 did not end it: what does so minutes later is something else
    tree.process(9, "x", start=3000, cgroup="0::/vllm.service\n")
    assert restarts(reader.samples(ENGINE, 300.0, engine="a")) == {"oom": 1.0, "unknown": 1.0}


def test_an_engine_may_outlive_the_kill_of_its_worker_for_a_while(tree, reader, tmp_path):
    files(tmp_path / "cgroup", {"cgroup.controllers": "memory\n"})
    for t, start, kills in ((0, 1000, 0), (70, 1000, 0), (75, 1000, 1), (130, 1000, 1), (135, 2000, 1)):
        oom(tmp_path, "vllm.service", kills)
        tree.process(9, "x", start=start, cgroup="0::/vllm.service\n")
        told = restarts(reader.samples(ENGINE, float(t), engine="a"))
    assert told == {"oom": 1.0, "unknown": 0.0}


def test_a_pod_remembers_the_kill_in_a_container_that_is_gone(tree, reader, tmp_path):
    files(tmp_path / "cgroup", {"cgroup.controllers": "memory\n"})
    pod = POD_GROUP.strip().removeprefix("0::/").rpartition("/")[0]
    for t, container, kills in ((0, "a", 0), (5, "b", 1)):
        group = f"{pod}/cri-containerd-{container * 64}.scope"
        shutil.rmtree(tmp_path / "cgroup" / pod, ignore_errors=True)
        oom(tmp_path, group, 0)
        oom(tmp_path, pod, kills)
        tree.process(9, "x", start=1000 + t, cgroup=f"0::/{group}\n")
        told = restarts(reader.samples(ENGINE, float(t), engine="a"))
    assert told == {"oom": 1.0, "unknown": 0.0}
