"""Where an engine is on this machine: from its address to its processes, its container and its pod.

An address of this machine leads to the process that listens on the port; a pod's address, or its configured name, to the
pod's containers and by their ids to processes. An address of neither is another machine's: then nothing is said at all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from llmvitals.telemetry.addresses import address, is_loopback
from llmvitals.telemetry.identity.model import Container, Found, Listener, Pod, Process, Processes, Wanted
from llmvitals.telemetry.identity.trees import Trees

NO_HOST_PIDS = "run the exporter with the host's process ids (hostPID: true, --pid=host)"

UNREAD = "nobody reads the processes of this machine (node.processes, node.procfs)"


def find(
    wanted: Wanted,
    processes: Processes,
    pods: Sequence[Pod] | None = (),
    here: Collection[str] = frozenset(),
    *,
    trees: Trees | None = None,
) -> Found:
    """Where the engine is. ``here``: this machine's own addresses and names, beside loopback. ``trees``: of ``processes``,
    from whoever looks for several engines among them. ``pods`` None: nobody lists them, so that none is missing.

    ``how`` '' with a ``why``: it should be on this machine and was not found. ``how`` '' and ``why`` '': its address is not of
    this machine, or nobody reads the processes of it.
    """
    trees = trees or Trees.of(processes)
    listed, pods = pods is not None, pods or ()
    if wanted.pod is not None:
        named = [pod for pod in pods if (pod.namespace, pod.name) == wanted.pod]
        if not named and listed:
            why = f"there is no pod {'/'.join(wanted.pod)} among the pods of this node: run the exporter on its node"
            return Found(why=f"{why}, or correct the target's pod")
        if named:
            return _in_pod(wanted, _newest(named), trees, processes)
    addressed = [pod for pod in pods if _is_at(pod, wanted.host)]
    if addressed:
        return _in_pod(wanted, _newest(addressed), trees, processes)
    sharing = [pod for pod in pods if pod.host_network and not pod.ended]
    if _is_loopback(wanted.host) or wanted.host in here or any(_same(pod.ip, wanted.host) for pod in sharing):
        return _listening(wanted, trees, processes, pods)
    return Found()


# -- by port ----------------------------------------------------------------------------------------------------------
def _listening(wanted: Wanted, trees: Trees, processes: Processes, pods: Sequence[Pod]) -> Found:
    """Loopback is the network that the exporter is in; another address of this machine is the host's network."""
    known = [one for one in processes.listeners if one.port == wanted.port and one.pid in trees.table]
    ours = [one for one in known if _of_host(trees.table[one.pid], pods)]
    api = _reached(wanted.host, [one for one in known if one.near])
    if len({trees.table[pid].container for pid in api}) > 1:  # of networks that nobody tells apart: the host's own
        api = _reached(wanted.host, [one for one in ours if one.near])
    if not api and not _is_loopback(wanted.host):
        api = _reached(wanted.host, ours)
    if api:
        return _made(api, trees, pods, how="port")
    found = _by_declared_port(wanted, trees, processes, pods)
    if known and not found.how:
        return Found(
            why=f"only on other addresses, or inside containers, does anything listen on port {wanted.port}: {_NAME_IT}"
        )
    return found


_NAME_IT = "correct the target's address, or name its pod"


def _reached(host: str, listeners: Sequence[Listener]) -> frozenset[int]:
    """The listeners that an address reaches: those bound to it, else those bound to every address."""
    bound = [one for one in listeners if not _is_any(one.address)]
    exact = [one for one in bound if _same(one.address, host)]
    if not exact and _is_loopback(host):
        exact = [one for one in bound if _is_loopback(one.address)]
    elif not exact and not _is_address(host):  # this machine by name: any address of it but loopback
        exact = [one for one in bound if not _is_loopback(one.address)]
    return frozenset(one.pid for one in exact or [one for one in listeners if _is_any(one.address)])


def _of_host(process: Process, pods: Sequence[Pod]) -> bool:
    """Whether a process uses the host's network, as far as is known: it is in no container, or its pod shares it."""
    pod = _pod_of(process, pods)
    return not process.container or (pod is not None and pod.host_network)


def _by_declared_port(wanted: Wanted, trees: Trees, processes: Processes, pods: Sequence[Pod]) -> Found:
    """Nothing is seen to listen: a pod of the host's network that declares the port, else why there is none."""
    declared = [
        pod
        for pod in pods
        if pod.host_network
        and not pod.ended
        and any(number == wanted.port for one in pod.containers for _, number in one.ports)
    ]
    if len(declared) == 1:
        return _in_pod(wanted, declared[0], trees, processes)
    if not trees.table:
        return Found(why=processes.why or (UNREAD if wanted.gpus else ""))  # named GPUs are of the machine it is on
    nothing = f"no process that the exporter sees listens on port {wanted.port}"
    check = "check that it runs" if processes.host else f"check that it runs, or {NO_HOST_PIDS}"
    return Found(why=f"{nothing}: {processes.why or check}")


# -- by pod -----------------------------------------------------------------------------------------------------------
def _in_pod(wanted: Wanted, pod: Pod, trees: Trees, processes: Processes) -> Found:
    members = {one.name: _members(pod, one, trees) for one in pod.containers}
    ports = frozenset(one.pid for one in processes.listeners if one.port == wanted.port)
    container, why = _container(wanted, pod, {name: bool(pids & ports) for name, pids in members.items()})
    if container is None:
        return Found(pod=pod, how="pod", why=why)
    own = members[container.name]
    if not own:
        return Found(pod=pod, container=container, how="pod", why=_unseen(pod, container, processes))
    api = own & ports
    if api:
        return Found(*_split(api, trees, within=own), pod=pod, container=container, how="pod")
    top = trees.top_of(own)
    api = frozenset() if top is None else frozenset({top})
    return Found(tuple(sorted(api)), tuple(sorted(own - api)), pod=pod, container=container, how="pod")


def _members(pod: Pod, container: Container, trees: Trees) -> frozenset[int]:
    """The processes of a container; in a pod of one, also those whose cgroup tells the pod alone."""
    own = _bare(container.id)
    alone = len(pod.containers) == 1
    return frozenset(
        pid
        for pid, one in trees.table.items()
        if (own and one.container == own) or (alone and one.pod == pod.uid and not one.container)
    )


def _container(wanted: Wanted, pod: Pod, listens: dict[str, bool]) -> tuple[Container | None, str]:
    """The engine's container: the one that is named, that listens on the port, that declares it, or the only one."""
    name = f"{pod.namespace}/{pod.name}"
    if wanted.container:
        named = next((one for one in pod.containers if one.name == wanted.container), None)
        return named, "" if named else f"pod {name} has no container {wanted.container}: correct the target's container"
    for chosen in (
        [one for one in pod.containers if listens[one.name]],
        [one for one in pod.containers if any(number == wanted.port for _, number in one.ports)],
        list(pod.containers),
    ):
        if len(chosen) == 1:
            return chosen[0], ""
    if not pod.containers:
        return None, f"pod {name} has no container yet"
    return (
        None,
        f"pod {name} has several containers, and none is known to serve port {wanted.port}: declare the port in its spec",
    )


def _unseen(pod: Pod, container: Container, processes: Processes) -> str:
    if not container.id or container.started is None:
        return f"container {container.name} of pod {pod.namespace}/{pod.name} does not run"
    hidden = f"no process of container {container.name} of pod {pod.namespace}/{pod.name} is seen"
    return f"{hidden}: {processes.why or NO_HOST_PIDS}" if processes.table or processes.why else ""


def _made(api: frozenset[int], trees: Trees, pods: Sequence[Pod], *, how: str) -> Found:
    first = trees.table[min(api)]
    pod = _pod_of(first, pods)
    own = [one for one in (pod.containers if pod else ()) if first.container and _bare(one.id) == first.container]
    return Found(*_split(api, trees), pod=pod, container=own[0] if own else None, how=how)


def _split(
    api: frozenset[int], trees: Trees, within: frozenset[int] | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    whole = trees.engine(api)
    rest = (whole if within is None else whole & within) - api
    return tuple(sorted(api)), tuple(sorted(rest))


def _pod_of(process: Process, pods: Sequence[Pod]) -> Pod | None:
    for pod in pods:
        ids = {_bare(one.id) for one in pod.containers} - {""}
        if (process.container and process.container in ids) or (process.pod and process.pod == pod.uid):
            return pod
    return None


def _newest(pods: Sequence[Pod]) -> Pod:
    """Of pods that share a name or an address for a moment the one that stays."""
    return min(pods, key=lambda pod: (pod.leaving, pod.phase != "Running", -(pod.ready_since or 0.0), pod.uid))


def _is_at(pod: Pod, host: str) -> bool:
    """Whether a host is this pod alone: its own address, or its name under a headless service, NAME.SERVICE.NAMESPACE.svc."""
    if pod.ended:
        return False
    if _is_address(host):
        return not pod.host_network and _same(pod.ip, host)
    parts = host.split(".")
    return len(parts) > 3 and parts[3] == "svc" and (parts[0], parts[2]) == (pod.name, pod.namespace)


def _bare(container_id: str) -> str:
    return container_id.rpartition("://")[2]


# -- addresses --------------------------------------------------------------------------------------------------------
def _is_address(text: str) -> bool:
    return address(text) is not None


def _is_any(text: str) -> bool:
    found = address(text)
    return text in {"", "*"} or (found is not None and found.is_unspecified)


def _is_loopback(text: str) -> bool:
    """Loopback, or 0.0.0.0, which leads to the same place when it is connected to."""
    found = address(text)
    return is_loopback(text) or (found is not None and found.is_unspecified)


def _same(one: str, other: str) -> bool:
    a = address(one)
    return a is not None and a == address(other)
