"""A kubelet's pod-resources socket: a real gRPC server on a Unix socket that writes the bytes of its answers itself.

The field numbers are written out here anew, from the service's own definition, so that the reader's table is held to it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import grpc


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: bytes | str) -> bytes:
    """A field of wire type 2: text, bytes, or a message."""
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def devices(resource: str, ids: Iterable[str]) -> bytes:
    """A container's field 2: devices of a plugin, with the topology (3) that newer kubelets add."""
    numa = field(3, field(1, bytes((0x08, 1))))
    return field(2, field(1, resource) + b"".join(field(2, one) for one in ids) + numa)


def claimed(driver: str, *names: str) -> bytes:
    """A container's field 5: what a resource claim gave it, with the CDI names (1) that nobody here reads."""
    cdi = field(1, field(1, "k8s.gpu.nvidia.com/claim=abc"))
    each = b"".join(field(4, cdi + field(2, driver) + field(3, "n1") + field(4, name)) for name in names)
    return field(5, field(2, "a-claim") + field(3, "serving") + each)


def pod(namespace: str, name: str, **containers: bytes) -> bytes:
    """A pod with what each of its containers holds; exclusive CPUs (3, packed) and memory (4) stand beside."""
    other = field(3, bytes((4, 5, 6))) + field(4, field(1, "memory") + bytes((0x10, 0x80, 0x01)))
    parts = (field(3, field(1, one) + other + held) for one, held in containers.items())
    return field(1, field(1, name) + field(2, namespace) + b"".join(parts))


class Kubelet:
    """Serves ``answer`` (pods in a row) at ``service``; ``fail`` answers with a status, ``hang`` waits before anything."""

    def __init__(self, socket: Path, *, service: str = "v1.PodResourcesLister") -> None:
        self.answer = b""
        self.fail: tuple[grpc.StatusCode, str] | None = None
        self.hang = 0.0
        self.asked: list[bytes] = []
        self.over = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(2), options=(("grpc.max_send_message_length", 64 * 1024 * 1024),))
        handler = grpc.unary_unary_rpc_method_handler(self._list)  # without serializers: bytes as they are
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"List": handler}),))
        self._server.add_insecure_port(f"unix:{socket}")

    def _list(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.asked.append(request)
        if self.hang:
            self.over.wait(self.hang)
        if self.fail:
            context.abort(*self.fail)
        return self.answer

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.stop(0).wait(2)
