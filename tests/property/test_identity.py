"""Random hosts of engines, pods and GPUs: no engine gets a GPU that is not its own, whatever telemetry there is of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from llmvitals.series import Series, Snapshot, series
from llmvitals.telemetry.gpu.join import join_gpus
from llmvitals.telemetry.identity.find import find
from llmvitals.telemetry.identity.match import match
from llmvitals.telemetry.identity.model import Found, Held, Join, Listener, Match, Pod, Process, Processes, Wanted
from support.machines import GIB, card, container, machine, pod, process

NODE = "10.0.0.7"
SHAPES = ("alone", "workers", "several api servers", "launcher")
SOME = settings(max_examples=60, deadline=None)
PLACES = ("host", "container", "pod", "node's network")


@dataclass(frozen=True)
class Truth:
    """One engine as it really is."""

    wanted: Wanted
    api: tuple[int, ...]
    others: tuple[int, ...]
    gpus: frozenset[str]
    place: str
    pod: Pod | None = None


@dataclass
class Host:
    """A node as its readers would see it, and the truth behind."""

    engines: list[Truth] = field(default_factory=list)
    table: list[Process] = field(default_factory=list)
    listeners: list[Listener] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    rows: list[tuple[Series, float]] = field(default_factory=list)

    @property
    def processes(self) -> Processes:
        return machine(*self.table, listen=self.listeners)

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(1.0, dict(self.rows))

    def found(self, *, processes: Processes | None = None, pods: Iterable[Pod] | None = None) -> list[Found]:
        table = self.processes if processes is None else processes
        seen = tuple(self.pods if pods is None else pods)
        return [find(one.wanted, table, seen, {NODE}) for one in self.engines]

    def matches(
        self, found: list[Found], *, processes: Processes | None = None, held: Iterable[Held] | None = None
    ) -> list[Match]:
        table = self.processes if processes is None else processes
        given = tuple(self.held if held is None else held)
        return [
            match(one.wanted, mine, self.snapshot, given, table, others=[o for o in found if o is not mine])
            for one, mine in zip(self.engines, found, strict=True)
        ]


def _processes(
    shape: str, first: int, parent: int, port: int, inside: str, uid: str
) -> tuple[list[Process], list[int], list[int]]:
    """The processes of an engine in a shape: all of them, those that listen, and the ones that use GPUs."""
    serve = f"/usr/bin/python3 /usr/local/bin/vllm serve m --port {port}"
    own = {"container": inside, "pod": uid}
    main = process(first, parent, serve, **own)
    if shape == "alone":
        return [main], [first], [first]
    workers = [process(first + n, first, f"VLLM::Worker_{n}", **own) for n in (1, 2)]
    if shape == "workers":
        return [main, *workers], [first], [first + 1, first + 2]
    if shape == "several api servers":
        servers = [process(first + n, first, f"VLLM::ApiServer_{n}", **own) for n in (3, 4)]
        return [main, *workers, *servers], [first + 3, first + 4], [first + 1, first + 2]
    launcher = process(first, parent, f"text-generation-launcher --port {port}", **own)
    router = process(first + 5, first, f"text-generation-router --port {port}", **own)
    shards = [process(first + n, first, f"text-generation-server serve m --shard {n}", **own) for n in (1, 2)]
    return [launcher, router, *shards], [first + 5], [first + 1, first + 2]


@st.composite
def hosts(draw: st.DrawFn) -> Host:
    """Engines of every shape and place, each on GPUs of its own or (rarely) on a shared one, beside training jobs."""
    host = Host()
    total = draw(st.integers(1, 6))
    uuids = [f"GPU-{n:08x}-0000-4000-8000-000000000000" for n in range(total)]
    names = [f"{uuid}/{n + 1}" if draw(st.booleans()) and n % 3 == 2 else uuid for n, uuid in enumerate(uuids)]
    free = list(names)
    pids: dict[str, dict[int, float]] = {name: {} for name in names}
    labels: dict[str, list[tuple[str, str, str]]] = {name: [] for name in names}
    host.table.append(process(40, 1, "-bash", name="bash"))
    host.table.append(process(41, 1, "/usr/bin/containerd-shim-runc-v2"))
    host.table.append(process(42, 40, "python3 launch_all.py"))
    for number in range(draw(st.integers(1, 4))):
        place, shape = draw(st.sampled_from(PLACES)), draw(st.sampled_from(SHAPES))
        shared = draw(st.integers(0, 9)) == 0
        pool = names if shared else free
        if not pool:
            break
        taken = pool[: draw(st.integers(1, max(1, len(pool) // 2)))]
        free = [name for name in free if name not in taken]
        port = 8000 + (0 if place == "pod" else number)
        inside = "" if place == "host" else f"{number:064x}"
        uid = f"uid-vllm-{number}" if place in {"pod", "node's network"} else ""
        parent = draw(st.sampled_from([1, 40, 42])) if place == "host" else 41
        table, api, users = _processes(shape, 1000 * (number + 1), parent, port, inside, uid)
        host.table += table
        host.listeners += [Listener(port, pid, near=place != "pod") for pid in api]
        for at, name in enumerate(taken):
            pids[name][users[at % len(users)]] = 8 * GIB
        of_pod = None
        if uid:
            ip = f"10.1.0.{number + 1}" if place == "pod" else NODE
            of_pod = pod(f"vllm-{number}", container(inside, "engine", port), ip=ip, host_network=place != "pod")
            host.pods.append(of_pod)
            host.held.append(
                Held("chat", of_pod.name, "engine", "nvidia.com/gpu", tuple(_device(name) for name in taken))
            )
            for name in taken:
                labels[name].append(("chat", of_pod.name, "engine"))
        address = of_pod.ip if of_pod else draw(st.sampled_from(["127.0.0.1", "localhost", NODE]))
        wanted = Wanted(f"vllm-{number}", address, port)
        rest = tuple(sorted(one.pid for one in table if one.pid not in api))
        host.engines.append(Truth(wanted, tuple(sorted(api)), rest, frozenset(taken), place, of_pod))
    for number in range(draw(st.integers(0, 3))):
        pid = 9000 + number
        host.table.append(process(pid, draw(st.sampled_from([1, 40])), "/usr/bin/python3 train.py"))
        pids[draw(st.sampled_from(names))][pid] = 2 * GIB
    for index, name in enumerate(names):
        uuid = f"MIG-{index}" if "/" in name else ""
        host.rows += card(name, index, pids=pids[name], pods=labels[name], uuid=uuid)
    return host


def _device(name: str) -> str:
    """How the kubelet calls a GPU or a slice."""
    uuid, slash, _ = name.partition("/")
    return f"MIG-{int(uuid[4:12], 16)}" if slash else uuid


def _without(host: Host, *families: str) -> Host:
    return replace(host, rows=[row for row in host.rows if row[0].name not in families])


LABELS, PIDS = "llm_gpu_pod", "llm_gpu_process_memory_bytes"


@SOME
@given(hosts())
def test_every_engine_has_its_own_processes_and_no_others(host: Host) -> None:
    for truth, found in zip(host.engines, host.found(), strict=True):
        assert not found.why
        assert (found.api, found.engine) == (truth.api, truth.others), (truth, found)
        assert (found.pod.name if found.pod else "") == (truth.pod.name if truth.pod else "")


@SOME
@given(hosts())
def test_process_ids_alone_give_each_engine_its_gpus(host: Host) -> None:
    """The fault of a GPU exporter that loses its pod labels, on a host without the kubelet's socket."""
    bare = _without(host, LABELS)
    for truth, found in zip(bare.engines, bare.matches(bare.found(), held=()), strict=True):
        assert (frozenset(found.gpus), found.join) == (truth.gpus, Join.PROCESS_IDS)


@SOME
@given(hosts(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_whatever_is_missing_no_engine_gets_a_gpu_that_is_not_its_own(
    host: Host, labels: bool, resources: bool, pids: bool, sockets: bool
) -> None:
    seen = _without(host, *([] if labels else [LABELS]), *([] if pids else [PIDS]))
    table = seen.processes if sockets else Processes(seen.processes.table, (), "run as root", True)
    found = seen.found(processes=table)
    held = seen.held if resources else []
    matches = seen.matches(found, processes=table, held=held)
    for truth, mine in zip(seen.engines, matches, strict=True):
        assert frozenset(mine.gpus) <= truth.gpus
        assert mine.gpus or mine.why
        if truth.pod and (labels or resources):
            assert frozenset(mine.gpus) == truth.gpus
            assert mine.join is (Join.POD_LABELS if labels else Join.POD_RESOURCES)
    for one, mine in zip(seen.engines, matches, strict=True):
        for other, theirs in zip(seen.engines, matches, strict=True):
            assert set(mine.gpus) & set(theirs.gpus) <= one.gpus & other.gpus


@SOME
@given(hosts(), st.randoms(use_true_random=False))
def test_numbers_of_another_namespace_never_join(host: Host, rng: random.Random) -> None:
    """The exporter sees the same processes under numbers of its own, some of which the driver uses for others."""
    bare = _without(host, LABELS)
    driver = sorted({int(key.label("pid")) for key, _ in bare.rows if key.name == PIDS})
    numbers = {one.pid: 2 + at for at, one in enumerate(bare.table)} | {1: 1}
    for pid in rng.sample(
        driver, k=min(len(driver) - 1, 2)
    ):  # numbers that collide; one of the driver's is none of ours
        numbers[rng.choice(bare.table).pid] = pid
    if len(set(numbers.values())) < len(numbers) or set(driver) <= set(numbers.values()):
        return
    table = [replace(one, pid=numbers[one.pid], parent=numbers[one.parent]) for one in bare.table]
    own = machine(*table, listen=[replace(one, pid=numbers[one.pid]) for one in bare.listeners], host=False)
    for mine in bare.matches(bare.found(processes=own), processes=own, held=()):
        assert not mine.gpus
        assert "hostPID" in mine.why


@SOME
@given(hosts(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(host: Host, rng: random.Random) -> None:
    def shuffled(rows: Iterable[object]) -> list:
        out = list(rows)
        rng.shuffle(out)
        return out

    other = Host(
        host.engines,
        *(shuffled(rows) for rows in (host.table, host.listeners, host.pods, host.held, host.rows)),
    )
    assert other.found() == host.found()
    assert other.matches(other.found()) == host.matches(host.found())


@SOME
@given(hosts(), st.data())
def test_a_pod_that_goes_takes_its_gpus_along_and_nobody_elses(host: Host, data: st.DataObject) -> None:
    leaving = data.draw(st.sampled_from(host.engines))
    if leaving.pod is None:
        return
    dead = {*leaving.api, *leaving.others}
    name = leaving.pod.name
    after = Host(
        host.engines,
        [one for one in host.table if one.pid not in dead],
        [one for one in host.listeners if one.pid not in dead],
        [one for one in host.pods if one.name != name],
        [one for one in host.held if one.pod != name],
        [
            (key, value)
            for key, value in host.rows
            if key.label("pod") != name and int(key.label("pid") or 0) not in dead
        ],
    )
    before, now = host.matches(host.found()), after.matches(after.found())
    for truth, was, is_ in zip(host.engines, before, now, strict=True):
        if truth is leaving:
            engine = Snapshot(1.0, {series("llm_target_up", instance="x"): 0.0})
            shown = join_gpus(engine, after.snapshot, is_, instance="x", model="m", processes=after.processes)
            assert not any(key.name.startswith("llm_gpu_") for key in shown.samples)
        else:
            assert is_.gpus == was.gpus


@SOME
@given(hosts())
def test_what_others_hold_of_a_gpu_is_what_others_hold(host: Host) -> None:
    found = host.found()
    for truth, mine, told in zip(host.engines, found, host.matches(found), strict=True):
        own = {*truth.api, *truth.others}
        shown = join_gpus(
            Snapshot(1.0, {}), host.snapshot, told, instance="x", model="m", found=mine, processes=host.processes
        )
        for gpu in told.gpus:
            rows = [(int(k.label("pid")), v) for k, v in host.rows if k.name == PIDS and k.label("gpu") == gpu]
            expected = sum(value for pid, value in rows if pid not in own)
            (held,) = (
                v for k, v in shown.samples.items() if k.name == "llm_gpu_memory_other_bytes" and k.label("gpu") == gpu
            )
            assert held == expected
