"""The API server's list of the pods on the simulated node: the engine's one, as its container comes and goes.

Fields and values: Kubernetes' API reference (core/v1 Pod). How a container ends is written as kubelet and containerd do: whoever is
killed for want of memory of the machine is ``OOMKilled``; whose allocation on the GPU fails ends itself with code 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from llmvitals.simulator import node
from llmvitals.simulator.world import World

READY_SECONDS = 1.0
"""A readiness probe every second: how long after the start of a server that answers its pod is ready."""

ENDINGS: Mapping[str, tuple[int, str]] = {
    "oom": (137, "OOMKilled"),
    "gpu-oom": (1, "Error"),
    "error": (1, "Error"),
    "probe": (137, "Error"),
}
"""Exit code and reason by what ended a container. A rollout ends the pod with it and leaves neither."""


def pods(world: World, origin: float) -> bytes:
    """The answer to ``GET /api/v1/pods`` with this node selected; ``origin``: unix time of simulated time 0."""
    listed = {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "1"},
        "items": [_pod(world, origin)],
    }
    return msgspec.json.encode(listed)


def _pod(world: World, origin: float) -> dict[str, Any]:
    where, engine = node.place(world), world.setup.engine
    ready = _ready_since(world)
    command = list(node.command(world))
    return {
        "metadata": {
            "name": where.pod,
            "namespace": node.NAMESPACE,
            "uid": where.uid,
            "labels": {"app": engine.model, "pod-template-hash": where.pod.split("-")[-2]},
            "creationTimestamp": _time(origin + where.pod_started),
            "ownerReferences": [{"kind": "ReplicaSet", "name": where.pod.rpartition("-")[0], "controller": True}],
        },
        "spec": {
            "nodeName": node.NAME,
            "hostNetwork": True,
            "containers": [
                {
                    "name": node.CONTAINER,
                    "command": command,
                    "ports": [{"name": "http", "containerPort": node.PORT, "protocol": "TCP"}],
                    "resources": {"limits": {"nvidia.com/gpu": str(engine.machine.gpus)}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": node.ADDRESS,
            "hostIP": node.ADDRESS,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False" if ready is None else "True",
                    "lastTransitionTime": _time(origin + (_unready_since(world, where) if ready is None else ready)),
                }
            ],
            "containerStatuses": [_status(world, origin, where, ready is not None)],
        },
    }


def _status(world: World, origin: float, where: node.Place, ready: bool) -> dict[str, Any]:
    """The container: runs since its last start, unless its process has died for good."""
    here = [restart for restart in world.restarts if restart.reason != "rollout" and restart.down > where.pod_started]
    last = here[-1] if here else None
    before = [where.pod_started, *(restart.down for restart in here)][-2] if last else 0.0
    state: dict[str, Any] = {"running": {"startedAt": _time(origin + world.started)}}
    if last is not None and world.started < last.down:  # it is not up yet: the container runs, its server loads
        state = {"running": {"startedAt": _time(origin + last.down)}}
    if not node.alive(world):
        state = {"terminated": _ended("error", origin, world.started, world.setup.faults.dies_at)}
    return {
        "name": node.CONTAINER,
        "ready": ready,
        "restartCount": len(here),
        "containerID": f"containerd://{where.container}",
        "state": state,
        "lastState": {} if last is None else {"terminated": _ended(last.reason, origin, before, last.down)},
    }


def _ended(reason: str, origin: float, started: float, finished: float) -> dict[str, Any]:
    code, word = ENDINGS.get(reason, ENDINGS["error"])
    return {
        "exitCode": code,
        "reason": word,
        "startedAt": _time(origin + started),
        "finishedAt": _time(origin + finished),
    }


def _ready_since(world: World) -> float | None:
    """Simulated moment since which the pod is ready; None while it is not."""
    if not world.up:
        return None
    started = world.restarts[-1].up if world.restarts else world.started + READY_SECONDS
    since = max([started, *(end for _, end in world.setup.faults.unready if end <= world.now)])
    return None if since > world.now or not world.front.ready else since


def _unready_since(world: World, where: node.Place) -> float:
    """Simulated moment since which it is not, while it is not."""
    faults = world.setup.faults
    if not node.alive(world):
        return faults.dies_at
    kept_out = (start for start, end in faults.unready if start <= world.now < end)
    return max([where.pod_started, *(restart.down for restart in world.restarts), *kept_out])


def _time(t: float) -> str:
    """A moment as Kubernetes writes it: to the second."""
    return datetime.fromtimestamp(math.floor(t), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
