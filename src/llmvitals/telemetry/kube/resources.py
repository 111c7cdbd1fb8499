"""Which GPUs the kubelet gave to which container, asked over its socket on the node."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llmvitals.errors import LlmvitalsError, MissingExtraError, UnreachableError, install
from llmvitals.telemetry.identity.model import Held
from llmvitals.telemetry.kube import messages

RESOURCES = "nvidia.com/"
"""Device plugins' resources of GPUs begin so: ``nvidia.com/gpu``, ``gpu.shared``, ``mig-1g.10gb``."""

CLAIMED = "gpu.nvidia.com"
"""The driver of GPUs that a pod got by a resource claim. It calls them ``gpu-0``, which is no UUID."""

MAX_BYTES = 16 * 1024 * 1024
"""The largest answer; the kubelet's own limit."""

MANIFEST = "exporters/kubernetes/base/daemonset.yaml"
_AS_ROOT = f"Run as root (runAsUser: 0, as in {MANIFEST}): the socket is the kubelet's, which is root."


@dataclass(frozen=True, slots=True)
class _Refusal:
    thing: str
    remedy: str


_STATUS: Mapping[str, _Refusal] = {
    "DEADLINE_EXCEEDED": _Refusal(
        "gave no answer within {timeout:g} s", "Look at the kubelet: it may be busy or stuck."
    ),
    "UNAVAILABLE": _Refusal(
        "nobody answers ({said})", "Look at the kubelet: it may be starting, or the socket left behind."
    ),
    "UNIMPLEMENTED": _Refusal(
        "the kubelet does not know version 1 of the list",
        "It needs Kubernetes 1.20 or newer; without it GPUs are joined by pod labels or process ids.",
    ),
    "PERMISSION_DENIED": _Refusal("may not be asked ({said})", _AS_ROOT),
    "RESOURCE_EXHAUSTED": _Refusal(
        "the kubelet refuses for the rate or the size ({said})", "Raise node.kubernetes.interval_seconds."
    ),
}
_OTHER = _Refusal("failed with {code} ({said})", "Look at the kubelet's log.")


class PodResources:
    """Asks one kubelet. Each call opens the socket anew: it is another one after the kubelet restarted."""

    def __init__(self, socket: str, *, timeout_s: float = 3.0) -> None:
        self._socket = socket
        self._timeout = timeout_s

    def held(self) -> tuple[Held, ...]:
        """The GPUs that containers of this node hold now, by namespace, pod and container.

        GPUs of a resource claim come with the resource ``gpu.nvidia.com`` and the driver's names, which are no UUIDs.
        Raises :class:`LlmvitalsError` with the remedy, after ``timeout_s`` at most.
        """
        grpc, parse = _library(self._socket)
        self._usable()
        try:
            answer = self._ask(grpc, parse)
        except grpc.RpcError as failure:
            raise self._refused(failure.code().name, failure.details() or "no details") from None
        return held_of(answer)

    def _usable(self) -> None:
        """Whether there is a socket that this user may open: gRPC would only say that nobody answers."""
        path = Path(self._socket)
        try:
            is_socket = stat.S_ISSOCK(path.stat().st_mode)
        except PermissionError:
            raise UnreachableError("this user may not look there", place=self._socket, remedy=_AS_ROOT) from None
        except OSError:
            is_socket = False
        if not is_socket:
            raise UnreachableError(
                "there is no socket of a kubelet",
                place=self._socket,
                remedy=f"Mount the host's /var/lib/kubelet/pod-resources there ({MANIFEST}), or set "
                'node.kubernetes.pod_resources: "" to do without.',
            )
        if not os.access(path, os.R_OK | os.W_OK):
            raise UnreachableError("this user may not open it", place=self._socket, remedy=_AS_ROOT)

    def _ask(self, grpc: Any, parse: Callable[[bytes], Any]) -> Any:  # noqa: ANN401 - gRPC is an extra
        options = (
            ("grpc.max_receive_message_length", MAX_BYTES),
            ("grpc.enable_http_proxy", 0),
            ("grpc.default_authority", "localhost"),
            ("grpc.use_local_subchannel_pool", 1),  # else a new channel waits out the old one's back-off
        )
        with grpc.insecure_channel(f"unix:{self._socket}", options=options) as channel:
            call = channel.unary_unary(messages.LIST, request_serializer=bytes, response_deserializer=parse)
            return call(b"", timeout=self._timeout)

    def _refused(self, code: str, said: str) -> LlmvitalsError:
        refusal = _STATUS.get(code, _OTHER)
        told = " ".join(said.split())[:160]
        thing = refusal.thing.format(timeout=self._timeout, code=code, said=told)
        return UnreachableError(thing, place=self._socket, remedy=refusal.remedy)


def held_of(answer: Any) -> tuple[Held, ...]:  # noqa: ANN401 - its type is made at run time
    """The GPUs in a ``ListPodResourcesResponse``; several entries of one resource become one."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for pod in answer.pod_resources:
        for container in pod.containers:
            whose = (pod.namespace, pod.name, container.name)
            for one in container.devices:
                if one.resource_name.startswith(RESOURCES):
                    found.setdefault((*whose, one.resource_name), []).extend(one.device_ids)
            for claim in container.dynamic_resources:
                for one in claim.claim_resources:
                    if one.driver_name == CLAIMED:
                        found.setdefault((*whose, CLAIMED), []).append(one.device_name)
    return tuple(Held(*key, tuple(sorted(set(names)))) for key, names in sorted(found.items()) if names)


@cache
def _parser() -> Callable[[bytes], Any]:
    return messages.parser()


def _library(place: str) -> tuple[Any, Callable[[bytes], Any]]:
    """gRPC and the parser of answers; an extra, and slow to load, so that only who asks a kubelet loads it."""
    try:
        import grpc  # noqa: PLC0415 - an extra

        return grpc, _parser()
    except ImportError:
        raise MissingExtraError(
            "the kubelet's socket needs gRPC, which is not installed",
            place=place,
            remedy=install("kubernetes"),
        ) from None
