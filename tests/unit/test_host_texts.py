"""The kernel's texts about processes, sockets and control groups, as written by hand from their manual pages."""

import pytest

from llmvitals.telemetry.host import cgroup_texts as groups
from llmvitals.telemetry.host import proc
from llmvitals.telemetry.host.forwards import Behind, behind, local_addresses
from llmvitals.telemetry.host.sockets import STATES, listening, port_range, sockets
from llmvitals.telemetry.identity.model import Process
from support.procfs import hex4, limits, stat_line, tcp

REAL_STAT = (
    b"5628 (VLLM::EngineCor) R 5620 5620 1790 0 -1 4194304 98 0 0 0 1234 66 0 0 20 0 178 0 3545405 3133440 373 "
    b"18446744073709551615 94692893122560 94692893142441 140732356039872 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0\n"
)


def test_the_stat_of_a_process():
    told = proc.stat(REAL_STAT)
    assert told == proc.Stat("VLLM::EngineCor", "R", parent=5620, start=3545405, cpu=1300)
    assert proc.cpu_ticks(REAL_STAT) == 1300
    assert told.alive


@pytest.mark.parametrize("name", ["a b", "x) R 1 (y", "((", ")", "", "café", "two\nlines"])
def test_a_name_may_hold_what_ends_it_elsewhere(name):
    told = proc.stat(stat_line(7, name, parent=3, cpu=(4, 5), start=99).encode())
    assert (told.parent, told.cpu, told.start) == (3, 9, 99)
    assert told.name == name.replace("\n", "?")


@pytest.mark.parametrize(
    ("state", "alive"), [("R", True), ("S", True), ("D", True), ("T", True), ("Z", False), ("X", False)]
)
def test_a_process_that_waits_to_be_buried_is_not_alive(state, alive):
    assert proc.stat(stat_line(7, "x", state=state).encode()).alive is alive


def test_threads_of_the_kernel_are_told_by_their_flag():
    assert proc.stat(stat_line(2, "kthreadd", flags=0x208040).encode()).kernel
    assert not proc.stat(stat_line(2, "x", flags=0x400140).encode()).kernel


@pytest.mark.parametrize("raw", [b"", b"7", b"7 (x", b"7 (x) S 1", b") (", b"7 (x) S " + b"one " * 50])
def test_what_is_no_stat_is_none(raw):
    assert proc.stat(raw) is None
    assert proc.cpu_ticks(raw) is None


def test_a_command_line_is_split_where_its_arguments_end():
    assert proc.command(b"vllm\0serve\0--host\0\0--port\08000\0") == ("vllm", "serve", "--host", "", "--port", "8000")
    assert proc.command(b"nginx: worker process\0\0\0") == ("nginx: worker process",)
    assert proc.command(b"") == proc.command(b"\0") == ()


def test_the_limit_on_open_files():
    assert proc.max_files(limits(65536)) == 65536.0
    assert proc.max_files(limits("unlimited")) is None
    assert proc.max_files("") is None
    assert proc.max_files("Max open files") is None


def test_the_cpus_that_a_process_may_run_on():
    assert proc.allowed_cpus("Cpus_allowed:\tff\nCpus_allowed_list:\t0-2,7\n") == {0, 1, 2, 7}
    assert proc.allowed_cpus("Name:\tx\n") == frozenset()
    assert proc.numbers("3-1,x,9-,-4,5", most=100) == {5}
    assert proc.numbers("0-4294967296,99999999999", most=100) == frozenset()


def test_boot_and_cpus_of_the_machine():
    text = "cpu  1 2 3\ncpu0 1 2\ncpu3 1 2\nintr 5\nbtime 1700000000\n"
    assert proc.boot_time(text) == 1.7e9
    assert proc.online_cpus(text) == {0, 3}
    assert proc.boot_time("btime x\n") is proc.boot_time("") is None


def test_sockets_by_state_and_the_ports_in_use():
    rows = [
        ("listen", "0.0.0.0", 8000),
        ("established", "10.0.0.1", 8000),  # a connection that the listener took
        ("established", "10.0.0.1", 40000),
        ("time_wait", "10.0.0.1", 40000),  # the same port to another peer
        ("time_wait", "10.0.0.1", 40001),
        ("close_wait", "10.0.0.1", 8000),
    ]
    table = tcp(rows).encode()
    found = sockets(table)
    expected = {"listen": 1, "established": 2, "time_wait": 2, "close_wait": 1}
    assert found.states == {state: expected.get(state, 0) for state in STATES}
    assert found.ports == {40000, 40001}


def test_who_listens_and_where():
    tcp6 = (
        "  sl  local_address                         remote_address                        st tx_queue rx_queue\n"
        "   0: 00000000000000000000000000000000:1F41 00000000000000000000000000000000:0000 0A 00000000:00000000"
        " 00:00000000 00000000  1000        0 771 1 0000000000000000 100 0 0 10 0\n"
        "   1: 0000000000000000FFFF00000100007F:1F42 00000000000000000000000000000000:0000 0A 00000000:00000000"
        " 00:00000000 00000000     0        0 772 1 0000000000000000 100 0 0 10 0\n"
        "   2: 00000000000000000000000001000000:1F43 00000000000000000000000000000000:0000 0A 00000000:00000000"
        " 00:00000000 00000000     0        0 773 1 0000000000000000 100 0 0 10 0\n"
    )
    table = tcp([("listen", "127.0.0.1", 8000), ("established", "127.0.0.1", 8000), ("listen", "0.0.0.0", 9)])
    found = [(s.port, s.address, s.inode) for s in listening(table.encode(), tcp6.encode())]
    assert found == [
        (8000, "127.0.0.1", 5000),
        (9, "", 5002),
        (8001, "", 771),
        (8002, "127.0.0.1", 772),
        (8003, "::1", 773),
    ]


def test_an_address_is_written_as_the_kernel_writes_it():
    assert hex4("127.0.0.1", 8000) == "0100007F:1F40"  # proc_pid_net(5)


@pytest.mark.parametrize(
    ("text", "reserved", "there"),
    [
        ("32768\t60999\n", "", range(32768, 61000)),
        ("100 109", "8,100-101,109", range(102, 109)),
        ("60000 99999", "", range(60000, 65536)),
        ("", "", range(0)),
        ("1", "", range(0)),
        ("a b", "", range(0)),
        ("200 100", "", range(0)),
    ],
)
def test_the_range_of_ephemeral_ports(text, reserved, there):
    found = port_range(text, reserved)
    assert len(found) == len(there)
    assert [port for port in range(70_000) if found.used((port,))] == list(there)


def test_the_groups_of_a_process():
    both = groups.paths("12:cpu,cpuacct:/docker/ab\n3:memory:/m\n1:name=systemd:/s\n0::/u\n")
    assert both.unified == "/u"
    assert both.v1 == {
        "cpu": ("cpu,cpuacct", "/docker/ab"),
        "cpuacct": ("cpu,cpuacct", "/docker/ab"),
        "memory": ("memory", "/m"),
    }
    assert groups.paths("0::/a:b\n").unified == "/a:b"
    assert groups.paths("garbage\n:::\n") == groups.Paths()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42\n", 42.0),
        ("0", 0.0),
        ("max\n", None),
        ("-1\n", None),
        ("9223372036854771712\n", None),
        ("", None),
        ("1.5", None),
    ],
)
def test_a_file_of_one_number(text, value):
    assert groups.count(text) == value


def test_quotas():
    assert groups.quota("150000 100000\n") == 1.5
    assert groups.quota("max 100000\n") is None
    assert groups.quota("") is None
    assert groups.cores("50000\n", "100000\n") == 0.5
    assert groups.cores("-1\n", "100000\n") is None
    assert groups.cores("5", "0") is None


def test_lines_of_a_key_and_a_number():
    text = "usage_usec 10\nthrottled_usec 2500000\nodd\nhierarchical_memory_limit 9223372036854771712\n"
    assert groups.entries(text) == {"usage_usec": 10.0, "throttled_usec": 2.5e6}


def test_a_forwarder_says_where_to():
    command = ("/usr/bin/docker-proxy", "-proto", "tcp", "-host-ip", "0.0.0.0", "-host-port", "80")
    to = ("-container-ip", "172.17.0.2", "-container-port", "8000")
    assert behind(Process(1, 0, 0.0, "docker-proxy", (*command, *to))) == Behind("172.17.0.2", 8000)
    assert behind(Process(1, 0, 0.0, "docker-proxy", command)) == Behind()
    assert behind(Process(1, 0, 0.0, "rootlessport")) == Behind()
    assert behind(Process(1, 0, 0.0, "python3", to)) is None


def test_the_addresses_of_a_namespace():
    text = (
        "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n"
        "     |-- 172.17.0.0\n        /16 link UNICAST\n     |-- 172.17.0.2\n        /32 host LOCAL\n"
        "     |-- 172.17.255.255\n        /32 link BROADCAST\n"
    )
    assert local_addresses(text) == {"172.17.0.2"}
