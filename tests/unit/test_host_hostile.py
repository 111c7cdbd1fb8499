"""No text makes a parser fail, and no folder makes the reader fail in another way than by saying so."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmvitals.errors import LlmvitalsError
from llmvitals.telemetry.host import HostReader, cgroup_texts, proc
from llmvitals.telemetry.host.forwards import local_addresses
from llmvitals.telemetry.host.sockets import listening, port_range, sockets
from llmvitals.telemetry.identity.model import Found
from support.procfs import HOST_NET, Tree, limits, stat_line, tcp

REAL = [
    stat_line(7, "python3", cpu=(5, 6), start=77),
    limits(1024),
    tcp([("listen", "0.0.0.0", 8000), ("time_wait", "10.0.0.1", 40000)]),
    "Cpus_allowed_list:\t0-3,8\nbtime 1700000000\ncpu0 1 2\n",
    "12:cpu,cpuacct:/docker/ab\n0::/kubepods\n",
    "nr_throttled 5\nthrottled_usec 9\noom_kill 1\n150000 100000\nmax\n",
    "     |-- 172.17.0.2\n        /32 host LOCAL\n",
]


@st.composite
def texts(draw):
    """A real text with a piece cut out, doubled, or replaced by anything."""
    text = draw(st.sampled_from(REAL))
    first, last = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    middle = draw(
        st.sampled_from(["", text[first:last] * 2, "-", "9" * 5000, "9" * 4000, "²", "\0"]) | st.text(max_size=20)
    )
    return text[:first] + middle + text[last:]


@given(texts() | st.text())
@settings(max_examples=300, deadline=None)
def test_no_text_makes_a_parser_fail(text):
    raw = text.encode("utf-8", "surrogatepass")
    for parse in (proc.stat, proc.cpu_ticks, proc.command, sockets, listening):
        parse(raw)
    for parse in (proc.max_files, proc.allowed_cpus, proc.boot_time, proc.online_cpus, local_addresses, port_range):
        parse(text)
    for parse in (cgroup_texts.paths, cgroup_texts.count, cgroup_texts.entries, cgroup_texts.quota):
        parse(text)
    port_range("1 9", text)
    cgroup_texts.cores(text, text)


@given(
    st.binary(max_size=200) | texts().map(str.encode),
    st.sampled_from(["stat", "statm", "status", "limits", "cmdline", "cgroup", "task/9/stat", "net/tcp", "net/tcp6"]),
)
@settings(max_examples=60, deadline=None)
def test_no_file_of_a_process_makes_the_reader_fail(content, name):
    with TemporaryDirectory() as folder:
        tree = Tree(Path(folder) / "proc")
        tree.net(HOST_NET, [("listen", "0.0.0.0", 8000)])
        tree.process(9, "python3", fds=["socket:[5000]"])
        (tree.root / "9" / name).write_bytes(content)
        reader = HostReader(tree.root, Path(folder) / "cgroup")
        for t in (1.0, 2.0):
            reader.processes(frozenset({8000}))
            samples = reader.samples(Found(api=(9,), engine=(10,)), t, engine="a")
            assert all(value == value and value >= 0.0 for value in samples.values())


@given(
    st.dictionaries(st.sampled_from(["stat", "self", "1", "2/stat", "3/fd", "4/ns"]), st.text(max_size=30), max_size=4)
)
@settings(max_examples=60, deadline=None)
def test_a_folder_that_is_no_proc_is_refused(content):
    with TemporaryDirectory() as folder:
        for name, text in content.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        with pytest.raises(LlmvitalsError, match="mount the host's /proc") as caught:
            HostReader(folder, folder).processes(frozenset({1}))
        assert caught.value.place == folder
