"""The messages of the kubelet's pod-resources service, version 1, as far as GPUs are concerned.

A table in place of generated code: protobuf skips the fields that are not in it, so newer kubelets change nothing.
Source: ``k8s.io/kubelet/pkg/apis/podresources/v1/api.proto``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LIST = "/v1.PodResourcesLister/List"
"""The method; it takes an empty message."""

_PACKAGE = "v1"
_TEXT = ""

# message -> field, its number, and what it holds: text, or another message; all but the first column may repeat
_MESSAGES: tuple[tuple[str, tuple[tuple[str, int, str, bool], ...]], ...] = (
    ("ListPodResourcesResponse", (("pod_resources", 1, "PodResources", True),)),
    (
        "PodResources",
        (
            ("name", 1, _TEXT, False),
            ("namespace", 2, _TEXT, False),
            ("containers", 3, "ContainerResources", True),
        ),
    ),
    (
        "ContainerResources",
        (
            ("name", 1, _TEXT, False),
            ("devices", 2, "ContainerDevices", True),
            ("dynamic_resources", 5, "DynamicResource", True),
        ),
    ),
    ("ContainerDevices", (("resource_name", 1, _TEXT, False), ("device_ids", 2, _TEXT, True))),
    (
        "DynamicResource",
        (
            ("claim_name", 2, _TEXT, False),
            ("claim_namespace", 3, _TEXT, False),
            ("claim_resources", 4, "ClaimResource", True),
        ),
    ),
    (
        "ClaimResource",
        (("driver_name", 2, _TEXT, False), ("pool_name", 3, _TEXT, False), ("device_name", 4, _TEXT, False)),
    ),
)


def parser() -> Callable[[bytes], Any]:
    """What turns the bytes of an answer into a ``ListPodResourcesResponse``. Raises ``ImportError`` without protobuf."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415  # an extra

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="podresources.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES:
        message = file.message_type.add(name=name)
        for field, number, of, repeated in fields:
            message.field.add(
                name=field,
                number=number,
                label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
                type=kinds.TYPE_MESSAGE if of else kinds.TYPE_STRING,
                type_name=f".{_PACKAGE}.{of}" if of else None,
            )
    pool = descriptor_pool.DescriptorPool()  # its own: another library may know the same names
    pool.AddSerializedFile(file.SerializeToString())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{_MESSAGES[0][0]}"))
    return kind.FromString  # type: ignore[no-any-return]  # made at run time
